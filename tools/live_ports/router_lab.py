"""A router with three links, each to a host in a network namespace of its own.

    host a (10.0.1.9) --- veth --- a [machine] b --- veth --- host b (10.0.2.9), and c likewise

The machine has .1 of each network, and `2001:db8:N::1`. Hosts answer ARP and neighbour
solicitations and have the machine as their gateway.
"""

import socket
import struct
import threading

from lab import SO_RCVBUFFORCE, Lab, Namespace

HOSTS = {"a": 1, "b": 2, "c": 3}
SOL_PACKET, PACKET_IGNORE_OUTGOING, ETH_P_ALL = 263, 23, 3
PORT = """
[[port]]
name = "{name}"
side = "{side}"
device = "af_packet:{name}"
forward = "route"
"""
PORTS = "".join(
    PORT.format(name=name, side="outside" if name == "c" else "inside") for name in HOSTS
)


def mac_of(name, is_machine=False):
    return f"02:00:00:00:0{int(is_machine)}:0{HOSTS[name]}"


def mac_bytes(text):
    return bytes.fromhex(text.replace(":", ""))


class RouterLab(Lab):
    def __enter__(self):
        for name in ("machine", *HOSTS):
            self.spaces[name] = Namespace()
        for name in HOSTS:
            self.link(name)
        return self

    def link(self, name):
        host, machine, number = self.spaces[name], self.spaces["machine"], HOSTS[name]
        host.run(
            f"ip link add eth0 address {mac_of(name)} type veth peer name {name}"
            f" netns {machine.keeper.pid} address {mac_of(name, True)}"
        )
        for space, interface, last in ((machine, name, 1), (host, "eth0", 9)):
            space.run(
                f"echo 0 >/proc/sys/net/ipv6/conf/{interface}/accept_dad;"
                f" echo 0 >/proc/sys/net/ipv6/conf/{interface}/disable_ipv6;"
                f" ip link set dev {interface} up &&"
                f" ip addr add 10.0.{number}.{last}/24 dev {interface} &&"
                f" ip addr add 2001:db8:{number}::{last}/64 dev {interface} nodad"
            )
            space.no_offloads(interface)
        host.run(
            f"ip route replace default via 10.0.{number}.1;"
            f" ip -6 route replace default via 2001:db8:{number}::1"
        )


class Tap:
    """The IP packets that arrive at a host's interface, and a way to send raw ones."""

    def __init__(self, lab, name):
        self.name = name
        self.socket = lab.spaces[name].socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        self.socket.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 64 << 20)
        self.socket.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
        self.socket.bind(("eth0", ETH_P_ALL))
        self.socket.settimeout(0.1)
        self.frames, self.ends = [], False
        self.thread = threading.Thread(target=self.read, daemon=True)
        self.thread.start()

    def read(self):
        while not self.ends:
            try:
                self.frames.append(self.socket.recv(65536))
            except TimeoutError:
                pass
            except OSError as error:
                # The interface is down.
                if error.errno != 100:
                    raise

    def send(self, packet, to=None):
        """Sends an IP packet to the machine."""
        kind = b"\x08\x00" if packet[0] >> 4 == 4 else b"\x86\xdd"
        to = mac_bytes(to or mac_of(self.name, True))
        self.socket.send(to + mac_bytes(mac_of(self.name)) + kind + packet)

    def close(self):
        self.ends = True
        self.thread.join()
        self.socket.close()


def checksum(data):
    data += b"\0" * (len(data) % 2)
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


MARK = b"warpline-route"


def packet(source, destination, number, size=64, ttl=64):
    """An echo reply, which hosts take silently, with a mark and a number."""
    data = (MARK + struct.pack("!I", number)).ljust(size, b"\xa5")
    if ":" in source:
        ends = socket.inet_pton(socket.AF_INET6, source) + socket.inet_pton(
            socket.AF_INET6, destination
        )
        body = struct.pack("!BBHHH", 129, 0, 0, 7, number & 0xFFFF) + data
        pseudo = ends + struct.pack("!II", len(body), 58)
        body = body[:2] + struct.pack("!H", checksum(pseudo + body)) + body[4:]
        return struct.pack("!IHBB", 6 << 28, len(body), 58, ttl) + ends + body
    body = struct.pack("!BBHHH", 0, 0, 0, 7, number & 0xFFFF) + data
    body = body[:2] + struct.pack("!H", checksum(body)) + body[4:]
    ends = socket.inet_aton(source) + socket.inet_aton(destination)
    head = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(body), number & 0xFFFF, 0, ttl, 1, 0)
    total = checksum(head + ends)
    return head[:10] + struct.pack("!H", total) + ends + body


def marked(frames, own):
    """The marked packets among frames to `own`, without Ethernet header; ICMP errors cut to the
    first 28 or 48 bytes of the packet that they are about."""
    found = []
    for frame in frames:
        kind, data = frame[12:14], frame[14:]
        if kind not in (b"\x08\x00", b"\x86\xdd") or MARK not in data:
            continue
        assert frame[:6] == mac_bytes(own), "a frame to another address"
        is_v4 = kind == b"\x08\x00"
        body = 20 if is_v4 else 40
        if data[9 if is_v4 else 6] in (1, 58) and data[body] in (0, 129):
            found.append(("packet", data))
        else:
            quoted = data[body + 8 :]
            # The quoted packet's checksum and TTL may be from before or after forwarding.
            ends = quoted[12:20] if is_v4 else quoted[8:40]
            found.append(
                ("error", data[12:20] if is_v4 else data[8:40], data[body], data[body + 1], ends)
            )
    return sorted(found)
