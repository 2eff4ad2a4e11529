"""The two gateways: the Linux kernel in a network namespace, and Warpline with the same rules.

Both have the ports `lan` and `wan`. `exchange` takes packets in order, each with the port it comes
in at, and gives those that leave. The caller has a namespace of its own, with the far ends of the
kernel's interfaces.
"""

import ctypes
import os
import select
import socket
import struct
import subprocess
import time

from packets import UDP, Seen, ipv4, udp

OUTSIDE, LAN_ADDRESS = "203.0.113.1", "10.1.255.254"
GATEWAY_MAC, LAN_MAC, WAN_MAC = "02:00:00:00:00:fe", "02:00:00:00:00:0a", "02:00:00:00:00:0b"
NEXT_HOPS = {"lan": ("10.1.255.253", LAN_MAC), "wan": ("203.0.113.2", WAN_MAC)}
HERE = os.path.dirname(os.path.abspath(__file__))
RULES = os.path.join(HERE, "rules.v4")
MAGIC_NANOS, FRAME_LEN_MAX = 0xA1B23C4D, 262_144
IP = b"\x08\x00"
MARKER_SECONDS_MAX = 5
PACKET_OUTGOING, PACKET_IGNORE_OUTGOING, SOL_PACKET = 4, 23, 263

SYSCTLS = {
    "net/ipv4/ip_forward": 1,
    "net/ipv4/conf/all/rp_filter": 0,
    "net/ipv4/conf/default/rp_filter": 0,
    "net/ipv4/conf/all/send_redirects": 0,
    "net/ipv4/conf/default/send_redirects": 0,
    # No limit on any kind of error.
    "net/ipv4/icmp_ratemask": 0,
    # As the firewall's default: no connection starts in its middle.
    "net/netfilter/nf_conntrack_tcp_loose": 0,
    "net/ipv6/conf/all/disable_ipv6": 1,
    "net/ipv6/conf/default/disable_ipv6": 1,
}
ROUTES = """\
10.1.0.0/16 via 10.1.255.253 dev lan
default via 203.0.113.2 dev wan
unreachable 192.0.2.0/28
prohibit 192.0.2.16/28
blackhole 192.0.2.32/28
"""
CHAIN = f"""\
[chain]
functions = ["nat", "firewall", "router", "nat"]
input = "-"
output = "-"

[nat]
rules = "rules.v4"
outside = ["{OUTSIDE}"]

[firewall]
rules = "rules.v4"
established = true

[router]
routes = "routes.txt"
neighbours = "neighbours.txt"
mac = "{GATEWAY_MAC}"
icmp = "on"
icmp_src_v4 = "{LAN_ADDRESS}"
icmp_rate_pps = 1000000
"""


def raw_mac(text):
    return bytes.fromhex(text.replace(":", ""))


PORTS = {raw_mac(mac): port for port, (_, mac) in NEXT_HOPS.items()}


def frame_of(port, packet):
    return raw_mac(GATEWAY_MAC) + raw_mac(NEXT_HOPS[port][1]) + IP + packet


def marker(number, ident):
    """A packet that passes both gateways, to see that all before it did."""
    ports, data = (1_000, 53), b"round %d" % number
    src, dst = "10.1.250.1", "198.51.100.253"
    return ipv4(src, dst, UDP, udp(src, dst, ports, data), ident)


def is_marker(packet, number):
    return packet.endswith(b"round %d" % number) and Seen(packet).dst == "198.51.100.253"


def new_network():
    """Moves this process into a network namespace of its own."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(0x40000000):
        raise OSError(ctypes.get_errno(), "a network namespace needs root")


class Kernel:
    """A namespace with two interfaces, forwarding and iptables. It ends with this process."""

    name = "linux"

    def __init__(self):
        self.keeper = subprocess.Popen(["unshare", "--net", "cat"], stdin=subprocess.PIPE)
        own = os.readlink("/proc/self/ns/net")
        while os.readlink(f"/proc/{self.keeper.pid}/ns/net") == own:
            time.sleep(0.01)
        self.sockets = {}
        for path, value in SYSCTLS.items():
            self.run(f"echo {value} >/proc/sys/{path}")
        for port, address in (("lan", f"{LAN_ADDRESS}/16"), ("wan", f"{OUTSIDE}/24")):
            self.add_port(port, address)
        self.routes()
        self.run(f"iptables-restore {RULES}")

    def run(self, command):
        inside = ["nsenter", "-t", str(self.keeper.pid), "-n", "sh", "-c", command]
        subprocess.run(inside, check=True, capture_output=True, text=True)

    def add_port(self, port, address):
        hop, mac = NEXT_HOPS[port]
        pair = f"ip link add far-{port} type veth peer name {port} netns {self.keeper.pid}"
        subprocess.run(f"{pair} address {GATEWAY_MAC}".split(), check=True)
        subprocess.run(
            ["sysctl", "-q", "-w", f"net.ipv6.conf.far-{port}.disable_ipv6=1"], check=False
        )
        subprocess.run(f"ip link set far-{port} address {mac} up".split(), check=True)
        self.run(f"ip addr add {address} dev {port} && ip link set {port} up")
        self.run(f"ip neigh replace {hop} lladdr {mac} dev {port} nud permanent")
        opened = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
        opened.setsockopt(socket.SOL_SOCKET, 33, 64 << 20)
        opened.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
        opened.bind((f"far-{port}", 0))
        opened.setblocking(False)
        self.sockets[port] = opened

    def routes(self):
        self.run("ip route del 10.1.0.0/16 dev lan")
        self.run(f"ip route add {NEXT_HOPS['lan'][0]}/32 dev lan")
        for line in ROUTES.splitlines():
            self.run(f"ip route add {line}")

    def exchange(self, number, packets):
        left = []
        for port, packet in packets:
            self.sockets[port].send(frame_of(port, packet))
        ends = time.monotonic() + MARKER_SECONDS_MAX
        has_marker = False
        while not has_marker:
            has_marker = self.take("wan", number, left)
            if time.monotonic() > ends:
                raise TimeoutError(f"linux: round {number} did not come through")
        self.take("lan", number, left)
        return left

    def take(self, port, number, left):
        has_marker = False
        while True:
            try:
                frame = self.sockets[port].recv(65_600)
            except BlockingIOError:
                return has_marker
            if frame[12:14] != IP:
                continue
            has_marker = has_marker or is_marker(frame[14:], number)
            left.append((port, frame))

    def close(self):
        self.keeper.stdin.close()
        self.keeper.wait()


class Warpline:
    """The program, with a pcap stream on both sides."""

    name = "warpline"

    def __init__(self, program, folder, lanes):
        files = {
            "chain.toml": CHAIN,
            "routes.txt": ROUTES
            + "".join(f"{hop}/32 direct dev {port}\n" for port, (hop, _) in NEXT_HOPS.items()),
            "neighbours.txt": "".join(f"{hop} {mac}\n" for hop, mac in NEXT_HOPS.values()),
            "rules.v4": open(RULES).read(),
        }
        for name, text in files.items():
            with open(f"{folder}/{name}", "w") as file:
                file.write(text)
        command = [
            program,
            "run",
            f"{folder}/chain.toml",
            "--lanes",
            str(lanes),
            "--stats",
            f"{folder}/stats.json",
        ]
        self.errors = open(f"{folder}/stderr.txt", "w+")
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, bufsize=0
        )
        os.set_blocking(self.process.stdin.fileno(), False)
        os.set_blocking(self.process.stdout.fileno(), False)
        self.got, self.at_ns, self.has_header = bytearray(), 1_767_603_600 * 10**9, False
        self.waiting = bytearray(struct.pack("<IHHiIII", MAGIC_NANOS, 2, 4, 0, 0, FRAME_LEN_MAX, 1))

    def exchange(self, number, packets):
        """Packets are 20 microseconds apart, and rounds 100 milliseconds."""
        for at, (port, packet) in enumerate(packets):
            self.waiting += record(frame_of(port, packet), self.at_ns + at * 20_000)
        self.at_ns += 100_000_000
        left, has_marker = [], False
        ends = time.monotonic() + MARKER_SECONDS_MAX
        while not has_marker:
            self.feed()
            for port, frame in self.read():
                has_marker = has_marker or is_marker(frame[14:], number)
                left.append((port, frame))
            if self.process.poll() is not None or time.monotonic() > ends:
                raise RuntimeError(
                    f"warpline: round {number} did not come through: {self.messages()}"
                )
        return left

    def feed(self):
        """Waits until there is output, and writes as much as the program takes."""
        stdin, stdout = self.process.stdin, self.process.stdout
        readable, writable, _ = select.select([stdout], [stdin] if self.waiting else [], [], 1)
        if writable:
            del self.waiting[: stdin.write(self.waiting[:65_536]) or 0]

    def read(self):
        """The packets that are here. Their Ethernet destination tells the port they leave by."""
        try:
            self.got += self.process.stdout.read(1 << 20) or b""
        except BlockingIOError:
            return
        if not self.has_header and len(self.got) >= 24:
            if self.got[:4] != struct.pack("<I", MAGIC_NANOS):
                raise RuntimeError("warpline: the output is no capture with nanoseconds")
            self.has_header = True
            del self.got[:24]
        while self.has_header and len(self.got) >= 16:
            (length,) = struct.unpack_from("<I", self.got, 8)
            if len(self.got) < 16 + length:
                return
            frame = bytes(self.got[16 : 16 + length])
            del self.got[: 16 + length]
            yield PORTS[frame[:6]], frame

    def messages(self):
        self.errors.seek(0)
        return self.errors.read()

    def close(self):
        self.process.stdin.close()
        os.set_blocking(self.process.stdout.fileno(), True)
        rest = self.process.stdout.read()
        if self.process.wait():
            raise RuntimeError(f"warpline: {self.messages()}")
        return rest


def record(frame, at_ns):
    seconds, nanos = divmod(at_ns, 10**9)
    return struct.pack("<IIII", seconds, nanos, len(frame), len(frame)) + frame
