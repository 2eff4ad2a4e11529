"""Two hosts and the machine between them, each a network namespace, and Warpline on the machine.

    host lan --- veth --- lan [machine] wan --- veth --- wan host

The namespaces end with their keeper processes, and these with the lab.
"""

import array
import contextlib
import ctypes
import errno
import fcntl
import json
import os
import pathlib
import signal
import socket
import struct
import subprocess
import tempfile
import threading
import time

CLONE_NEWNET = 0x40000000
SOL_PACKET, PACKET_IGNORE_OUTGOING, SO_RCVBUFFORCE, ETH_P_ALL = 263, 23, 33, 3
SIOCETHTOOL = 0x8946
ETHTOOL_STSO, ETHTOOL_SGSO, ETHTOOL_SGRO = 0x1F, 0x24, 0x2C
MACS = {"lan": "02:00:00:00:00:0a", "wan": "02:00:00:00:00:0b", "machine": "02:00:00:00:00:fe"}
LIBC = ctypes.CDLL(None, use_errno=True)


def soon(work, seconds=5.0):
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        if work():
            return True
        time.sleep(0.05)
    return False


class Namespace:
    def __init__(self):
        self.keeper = subprocess.Popen(["unshare", "--net", "cat"], stdin=subprocess.PIPE)
        own = os.readlink("/proc/self/ns/net")
        while os.readlink(f"/proc/{self.keeper.pid}/ns/net") == own:
            time.sleep(0.005)
        for kind in ("all", "default"):
            self.run(f"echo 1 >/proc/sys/net/ipv6/conf/{kind}/disable_ipv6")
        self.run("ip link set lo up")

    def enter(self):
        return ["nsenter", "-t", str(self.keeper.pid), "-n"]

    def run(self, command):
        inside = [*self.enter(), "sh", "-c", command]
        done = subprocess.run(inside, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{command}: {done.stderr}"
        return done.stdout

    @contextlib.contextmanager
    def entered(self):
        """Moves the calling thread into this namespace."""
        with open("/proc/thread-self/ns/net") as own, open(
            f"/proc/{self.keeper.pid}/ns/net"
        ) as there:
            assert LIBC.setns(there.fileno(), CLONE_NEWNET) == 0
            try:
                yield
            finally:
                assert LIBC.setns(own.fileno(), CLONE_NEWNET) == 0

    def socket(self, *kind):
        """A socket of this namespace, for any thread."""
        with self.entered():
            return socket.socket(*kind)

    def no_offloads(self, interface):
        """As `ethtool -K IF tso off gso off gro off`."""
        self.offloads(interface, (ETHTOOL_STSO, ETHTOOL_SGSO, ETHTOOL_SGRO), 0)

    def gro(self, interface):
        """As `ethtool -K IF gro on`."""
        self.offloads(interface, (ETHTOOL_SGRO,), 1)

    def offloads(self, interface, commands, state):
        with self.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
            for command in commands:
                value = array.array("B", struct.pack("II", command, state))
                request = struct.pack("16sP", interface.encode(), value.buffer_info()[0])
                try:
                    fcntl.ioctl(asked, SIOCETHTOOL, request.ljust(40, b"\0"))
                except OSError as why:
                    # The other end of a veth pair has none once an XDP program is attached.
                    if why.errno != errno.EOPNOTSUPP:
                        raise

    def close(self):
        self.keeper.stdin.close()
        self.keeper.wait()


class Sniffer:
    """All frames that arrive at an interface."""

    def __init__(self, namespace, interface):
        self.socket = namespace.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        self.socket.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 64 << 20)
        self.socket.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
        self.socket.bind((interface, ETH_P_ALL))
        self.socket.settimeout(0.1)
        self.frames, self.ends = [], False
        self.thread = threading.Thread(target=self.read)
        self.thread.start()

    def read(self):
        while not self.ends:
            try:
                self.frames.append(self.socket.recv(65536))
            except TimeoutError:
                pass

    def close(self):
        """The frames so far, a while after the last one was sent."""
        time.sleep(0.3)
        self.ends = True
        self.thread.join()
        self.socket.close()
        return self.frames


class Lab:
    def __init__(self, program, kind="af_packet"):
        """Chain files written here have ports of this kind."""
        self.program, self.kind = program, kind
        self.folder = tempfile.TemporaryDirectory()
        self.spaces, self.children = {}, []

    def __enter__(self):
        for name in ("lan", "machine", "wan"):
            self.spaces[name] = Namespace()
        for name in ("lan", "wan"):
            self.link(name)
        return self

    def __exit__(self, *_):
        for child in self.children:
            if child.poll() is None:
                child.kill()
            child.wait()
        for space in self.spaces.values():
            space.close()
        self.folder.cleanup()

    def link(self, name, index=0, queues=1):
        """The cable between a host's interface `eth0` and the machine's `name`, with this number
        if it is given."""
        host, machine = self.spaces[name], self.spaces["machine"]
        number = f"index {index}" if index else ""
        several = f"numrxqueues {queues} numtxqueues {queues}" if queues > 1 else ""
        machine.run(
            f"ip link add {name} {number} address {MACS['machine']} {several}"
            f" type veth peer name eth0 {several}"
            f" netns {host.keeper.pid} address {MACS[name]}"
        )
        machine.run(f"ip link set {name} up")
        host.run("ip link set eth0 up")
        machine.no_offloads(name)
        host.no_offloads("eth0")

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def write(self, name, text):
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(text.replace("af_packet:", f"{self.kind}:"))

    def start(self, *arguments, sockets=2):
        """Starts Warpline, and waits until its sockets are bound."""
        machine = self.spaces["machine"]
        command = [*machine.enter(), self.program, "run", *arguments]
        child = subprocess.Popen(
            command, cwd=self.folder.name, stderr=subprocess.PIPE, text=True
        )
        self.children.append(child)
        ends = time.monotonic() + 20
        while child.poll() is None and time.monotonic() < ends and self.readers() < sockets:
            time.sleep(0.02)
        time.sleep(0.2)
        return child

    def readers(self):
        """Sockets of the machine that receive all protocols, or its XDP programs."""
        machine = self.spaces["machine"]
        if self.kind == "af_xdp":
            return machine.run("ip link").count(" xdp")
        with open(f"/proc/{machine.keeper.pid}/net/packet", encoding="utf-8") as file:
            return sum(line.split()[3] == "0003" for line in list(file)[1:])

    @contextlib.contextmanager
    def paused(self, child):
        """Stops all threads of a process within this block."""
        child.send_signal(signal.SIGSTOP)
        threads = pathlib.Path(f"/proc/{child.pid}/task")
        is_stopped = lambda: all(
            stat.read_text(encoding="utf-8").rsplit(")", 1)[1].split()[0] == "T"
            for stat in threads.glob("*/stat")
        )
        # The signal reaches one thread, which then stops the others.
        assert soon(is_stopped), "threads run"
        yield
        child.send_signal(signal.SIGCONT)

    def stop(self, child, how=signal.SIGTERM):
        """Ends Warpline by a signal. Returns its statistics and messages."""
        child.send_signal(how)
        _, errors = child.communicate(timeout=20)
        assert child.returncode == 128 + how, (child.returncode, errors)
        with open(self.path("stats.json"), encoding="utf-8") as file:
            chain = json.load(file)["chains"][0]
        packets = chain["packets"]
        assert packets["balanced"] and packets["in_flight"] == 0, packets
        assert chain["ended"] == "signal", chain["ended"]
        return chain, errors

    def refused(self, *arguments, prefix=()):
        """The message of a run that must not start."""
        command = [*self.spaces["machine"].enter(), *prefix, self.program, "run", *arguments]
        done = subprocess.run(
            command, cwd=self.folder.name, capture_output=True, text=True, timeout=20, check=False
        )
        assert done.returncode == 2, (done.returncode, done.stderr)
        return done.stderr
