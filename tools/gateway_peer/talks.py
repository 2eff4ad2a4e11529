"""The ends of conversations through a gateway. `usual` and `odd` have the conversations themselves.

A packet from outside is built once for each gateway, since it goes to the port which that gateway
chose. An error from outside quotes the bytes which that gateway sent. All else is the same.
"""

import struct
from dataclasses import dataclass, field

import packets as p
from packets import ICMP, TCP, UDP

OUTSIDE = "203.0.113.1"
REMOTES = [f"198.51.100.{n}" for n in range(1, 120)]
ROUTERS = [f"198.51.100.{n}" for n in range(200, 220)]
INSIDE_ROUTER = "10.1.255.253"
# The host of the forwarded port.
SERVER = "10.1.0.80"
# A port that gateways don't choose for an inside port of 1024 and above.
NEVER_CHOSEN = 7
MSS = struct.pack("!BBHBBBB", 2, 4, 1460, 1, 3, 3, 7) + b"\x04\x02\x01\x01"


@dataclass
class View:
    """A conversation as one gateway sees it: chosen ports, and the last packets, by flow."""

    port: dict = field(default_factory=dict)
    sent: dict = field(default_factory=dict)
    got: dict = field(default_factory=dict)


@dataclass
class Packet:
    """A packet of a kind that comes in at a port.

    `build` takes a view and an identification. It gives a packet, its fragments, or None where the
    gateway let pass nothing to build it from.
    """

    kind: str
    port: str
    build: object
    talk: object
    flow: int = 0


class Talk:
    """The ends of a conversation, and how each gateway sees it."""

    def __init__(self, rng, names):
        self.rng = rng
        self.host = f"10.1.{rng.randrange(8)}.{rng.randrange(1, 250)}"
        self.remote = rng.choice(REMOTES)
        self.sport = rng.randrange(1024, 65_536)
        self.views = {name: View() for name in names}

    def data(self, low=1, high=400):
        return self.rng.randbytes(self.rng.randint(low, high))

    def out(self, kind, protocol, payload, flow=0, src=None, dst=None, **ip):
        src, dst = src or self.host, dst or self.remote

        def build(_, ident):
            return p.ipv4(src, dst, protocol, payload(src, dst), ident, **ip)

        return Packet(kind, "lan", build, self, flow)

    def back(self, kind, protocol, payload, flow=0, src=None, dst=OUTSIDE, port=None, **ip):
        """A packet from outside; `payload` also gets the port that the gateway chose, or `port`."""
        src, ip = src or self.remote, {"ttl": 52, **ip}

        def build(view, ident):
            to = port or view.port.get(flow)
            return (
                None
                if to is None
                else p.ipv4(src, dst, protocol, payload(src, dst, to), ident, **ip)
            )

        return Packet(kind, "wan", build, self, flow)

    def udp_out(self, kind, dport, data, flow=0, sport=None, with_checksum=True, **ip):
        ports = (sport or self.sport, dport)
        return self.out(
            kind, UDP, lambda src, dst: p.udp(src, dst, ports, data, with_checksum), flow, **ip
        )

    def udp_back(self, kind, sport, data, flow=0, with_checksum=True, **ip):
        return self.back(
            kind,
            UDP,
            lambda src, dst, to: p.udp(src, dst, (sport, to), data, with_checksum),
            flow,
            **ip,
        )

    def tcp_out(self, kind, dport, numbers, flags, data=b"", options=b"", **ip):
        ports = (self.sport, dport)
        return self.out(
            kind,
            TCP,
            lambda src, dst: p.tcp(src, dst, ports, numbers, flags, data, options=options),
            **ip,
        )

    def tcp_back(self, kind, sport, numbers, flags, data=b"", options=b"", **ip):
        def payload(src, dst, to):
            return p.tcp(src, dst, (sport, to), numbers, flags, data, options=options)

        return self.back(kind, TCP, payload, **ip)

    def echo_out(self, kind, number, data, flow=0, reply=False, **ip):
        ask = p.ECHO_REPLY if reply else p.ECHO
        return self.out(kind, ICMP, lambda *_: p.echo(ask, self.sport, number, data), flow, **ip)

    def echo_back(self, kind, number, data, flow=0, ask=False, **ip):
        kind_number = p.ECHO if ask else p.ECHO_REPLY
        return self.back(
            kind, ICMP, lambda _src, _dst, to: p.echo(kind_number, to, number, data), flow, **ip
        )

    def error_back(
        self,
        kind,
        number,
        code,
        flow=0,
        rest=bytes(4),
        router=None,
        length=548,
        used=1,
        change=None,
    ):
        """An error from outside about the last packet that left, after `used` more hops."""
        src = router or self.rng.choice(ROUTERS)

        def build(view, ident):
            sent = view.sent.get(flow)
            if sent is None:
                return None
            quote = travelled(sent, used)[:length]
            quote = change(quote) if change else quote
            return p.ipv4(
                src, OUTSIDE, ICMP, p.icmp(number, code, rest, quote), ident, 52, tos=0xC0
            )

        return Packet(kind, "wan", build, self, flow)

    def error_out(self, kind, number, code, flow=0, rest=bytes(4), src=None, length=548):
        """An error from inside about the last packet that came in."""
        src = src or self.host

        def build(view, ident):
            got = view.got.get(flow)
            if got is None:
                return None
            quote = travelled(got, 0)[:length]
            return p.ipv4(
                src, p.Seen(got).src, ICMP, p.icmp(number, code, rest, quote), ident, tos=0xC0
            )

        return Packet(kind, "lan", build, self, flow)


def travelled(packet, hops):
    """The packet after so many routers."""
    seen = p.Seen(packet)
    head = bytearray(seen.bytes[: seen.header_len])
    head[8], head[10:12] = max(seen.ttl - hops, 0), b"\0\0"
    head[10:12] = struct.pack("!H", p.checksum(head))
    return bytes(head) + seen.payload
