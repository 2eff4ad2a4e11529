#!/usr/bin/python3
"""Carries frames between live interfaces and a program that reads and writes pcap streams.

    bridge.py --interface tapA --interface vethB \\
        --route 10.99.1.0/24=tapA,02:00:00:00:00:0a ... -- warpline run ...

What comes in on any interface goes to the program's standard input as a pcap stream. What the
program writes is sent by the first route whose prefix holds the packet's destination, with that
route's Ethernet destination; frames without a route (multicast, ARP) are left out. It runs in the
network namespace of its interfaces, until it gets SIGTERM; then the program's input ends, its last
packets are sent, and one line of JSON says what was carried. It ends as the program does. SIGHUP is
handed to the program. A first line, `ready`, says that the interfaces are open.
"""

import argparse
import ipaddress
import json
import os
import selectors
import signal
import socket
import struct
import subprocess
import sys
import time

MAGIC_NANOS = 0xA1B23C4D
FRAME_LEN_MAX = 262144
PACKET_OUTGOING = 4
ETH_P_ALL = 3
# Bytes that may wait for the program; frames beyond are lost, as on a wire.
WAITING_MAX = 4 << 20
# Whole packets that have ESP in them, as `protocol` names them.
ESP_KINDS = ("ip50", "udp4500")


class Route:
    """Where packets to a prefix go."""

    def __init__(self, text):
        prefix, rest = text.split("=")
        self.interface, mac = rest.split(",")
        self.network = ipaddress.ip_network(prefix)
        self.mac = bytes.fromhex(mac.replace(":", ""))


def destination(frame):
    """The IP destination of an Ethernet frame, or None."""
    kind = frame[12:14]
    if kind == b"\x08\x00" and len(frame) >= 34:
        return ipaddress.IPv4Address(frame[30:34])
    if kind == b"\x86\xdd" and len(frame) >= 54:
        return ipaddress.IPv6Address(frame[38:54])
    return None


def protocol(frame):
    """The protocol of an Ethernet frame as a key of the counters."""
    if frame[12:14] == b"\x08\x00" and len(frame) >= 34:
        number, ports, is_later = frame[23], frame[34:38], frame[20:22] not in (b"\0\0", b"\x40\0")
        if is_later:
            return f"ip{number}-fragment"
    elif frame[12:14] == b"\x86\xdd" and len(frame) >= 54:
        number, ports = frame[20], frame[54:58]
        if number == 44:
            return f"ip{frame[54]}-fragment"
    else:
        return "other"
    for port in (500, 4500):
        if number == 17 and struct.pack("!H", port) in (ports[:2], ports[2:]):
            return f"udp{port}"
    return f"ip{number}"


class Bridge:
    def __init__(self, interfaces, routes, command, capture, twice=None):
        self.routes, self.twice, self.repeated = routes, twice, 0
        self.sockets = {name: self.open(name) for name in interfaces}
        self.counts = {name: {"in": {}, "out": {}} for name in interfaces}
        self.lost = 0
        self.capture = open(capture, "wb") if capture else None
        header = struct.pack("<IHHiIII", MAGIC_NANOS, 2, 4, 0, 0, FRAME_LEN_MAX, 1)
        if self.capture:
            self.capture.write(header)
        self.program = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
        )
        os.set_blocking(self.program.stdin.fileno(), False)
        os.set_blocking(self.program.stdout.fileno(), False)
        self.waiting = bytearray(header)
        self.got = bytearray()
        self.has_header = False
        self.is_ending = False
        self.selector = selectors.DefaultSelector()

    @staticmethod
    def open(name):
        opened = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 20)
        opened.bind((name, 0))
        opened.setblocking(False)
        return opened

    def run(self):
        for name, opened in self.sockets.items():
            self.selector.register(opened, selectors.EVENT_READ, name)
        self.selector.register(self.program.stdout, selectors.EVENT_READ, "program")
        # A signal only sets a flag; the pipe wakes the selector.
        wake_in, wake_out = os.pipe()
        os.set_blocking(wake_out, False)
        signal.set_wakeup_fd(wake_out)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: setattr(self, "is_ending", True))
        signal.signal(signal.SIGHUP, lambda *_: self.program.send_signal(signal.SIGHUP))
        self.selector.register(wake_in, selectors.EVENT_READ, "signal")
        self.feed()
        while self.step():
            pass
        return self.program.wait()

    def step(self):
        """One round; False once the program's output ended."""
        for key, events in self.selector.select():
            if key.data == "program":
                if not self.take():
                    return False
            elif key.data == "signal":
                os.read(key.fd, 64)
            elif key.data != "feed":
                self.receive(key.data)
        self.feed()
        return True

    def receive(self, name):
        """Takes what an interface has, up to 64 frames."""
        for _ in range(64):
            try:
                frame, address = self.sockets[name].recvfrom(65535 + 14)
            except BlockingIOError:
                return
            except OSError as error:
                sys.exit(f"bridge: {name}: {error}")
            if address[2] == PACKET_OUTGOING or self.is_ending:
                continue
            self.count(name, "in", frame, self.route(frame) is not None)
            if len(self.waiting) > WAITING_MAX:
                self.lost += 1
                continue
            self.waiting += self.record(frame)
            if name == self.twice and protocol(frame) in ESP_KINDS:
                self.waiting += self.record(frame)
                self.repeated += 1

    def feed(self):
        """Hands the program what it takes, and closes its input when all was taken at the end."""
        stdin = self.program.stdin
        if stdin.closed:
            return
        try:
            written = os.write(stdin.fileno(), self.waiting[: 1 << 16]) if self.waiting else 0
            del self.waiting[:written]
        except BlockingIOError:
            pass
        except BrokenPipeError:
            self.waiting.clear()
            self.is_ending = True
        is_watched = stdin in self.selector.get_map()
        if self.waiting and not is_watched:
            self.selector.register(stdin, selectors.EVENT_WRITE, "feed")
        elif not self.waiting and is_watched:
            self.selector.unregister(stdin)
        if self.is_ending and not self.waiting:
            stdin.close()

    def take(self):
        """Reads what the program wrote and sends every whole record; False at its end."""
        try:
            data = os.read(self.program.stdout.fileno(), 1 << 18)
        except BlockingIOError:
            return True
        if not data:
            return False
        self.got += data
        at = 0
        if not self.has_header and len(self.got) >= 24:
            magic, = struct.unpack_from("<I", self.got)
            if magic != MAGIC_NANOS:
                sys.exit(f"bridge: the program's output is no pcap stream: {magic:#x}")
            self.has_header, at = True, 24
        while self.has_header and len(self.got) >= at + 16:
            length, = struct.unpack_from("<I", self.got, at + 8)
            if len(self.got) < at + 16 + length:
                break
            self.send(bytes(self.got[at + 16 : at + 16 + length]))
            at += 16 + length
        del self.got[:at]
        return True

    def route(self, frame):
        to = destination(frame)
        for route in self.routes:
            if to is not None and to.version == route.network.version and to in route.network:
                return route
        return None

    def send(self, frame):
        route = self.route(frame)
        if route is None:
            return
        frame = route.mac + frame[6:]
        self.count(route.interface, "out", frame)
        try:
            self.sockets[route.interface].send(frame)
        except OSError as error:
            self.lost += 1
            print(f"bridge: {route.interface}: {len(frame)} bytes: {error}", file=sys.stderr)

    def count(self, name, way, frame, is_routed=True):
        counts = self.counts[name][way]
        kind = protocol(frame) if is_routed else "unrouted"
        counts[kind] = counts.get(kind, 0) + 1
        if self.capture:
            self.capture.write(self.record(frame))
            self.capture.flush()

    @staticmethod
    def record(frame):
        seconds, nanos = divmod(time.time_ns(), 1_000_000_000)
        return struct.pack("<IIII", seconds, nanos, len(frame), len(frame)) + frame


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--interface", action="append", required=True)
    parser.add_argument(
        "--route", action="append", type=Route, required=True, metavar="PREFIX=INTERFACE,MAC"
    )
    parser.add_argument("--capture", help="a pcap file of all that crossed the interfaces")
    parser.add_argument(
        "--twice",
        metavar="INTERFACE",
        help="the program gets every whole ESP packet from there twice",
    )
    parser.add_argument("command", nargs="+")
    arguments = parser.parse_args()
    bridge = Bridge(
        arguments.interface, arguments.route, arguments.command, arguments.capture, arguments.twice
    )
    print("ready", flush=True)
    status = bridge.run()
    counts = {
        "interfaces": bridge.counts,
        "lost": bridge.lost,
        "repeated": bridge.repeated,
        "status": status,
    }
    print(json.dumps(counts), flush=True)
    sys.exit(status)


if __name__ == "__main__":
    main()
