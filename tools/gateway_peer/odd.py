"""Forwarded ports, and what hosts should not send, each a generator of packets in rounds."""

import struct

import packets as p
from packets import ACK, FIN, ICMP, PSH, RST, SYN, TCP, UDP
from talks import INSIDE_ROUTER, NEVER_CHOSEN, OUTSIDE, SERVER, Packet


def forwarded(t):
    """A connection from outside to a forwarded port, and errors about it both ways."""
    c, s = t.rng.getrandbits(31), t.rng.getrandbits(31)
    outside, inside = (t.sport, 8080), (8000, t.sport)

    def come(kind, numbers, flags, data=b"", **how):
        return t.back(
            kind,
            TCP,
            lambda src, dst, _: p.tcp(src, dst, outside, numbers, flags, data),
            port=8080,
            **how,
        )

    def go(kind, numbers, flags, data=b"", **how):
        return t.out(
            kind,
            TCP,
            lambda src, dst: p.tcp(src, dst, inside, numbers, flags, data),
            src=SERVER,
            **how,
        )

    yield [come("forwarded, ttl 1", (c, 0), SYN, ttl=1)]
    yield [come("forwarded syn", (c, 0), SYN)]
    if t.rng.random() < 0.3:
        yield [t.error_out("error out: forwarded, unreachable", 3, 1, src=INSIDE_ROUTER, length=28)]
        return
    yield [go("forwarded syn-ack", (s, c + 1), SYN | ACK)]
    yield [come("forwarded ack", (c + 1, s + 1), ACK)]
    data = t.data()
    yield [come("forwarded data in", (c + 1, s + 1), PSH | ACK, data)]
    c += len(data)
    yield [go("forwarded data out", (s + 1, c + 1), PSH | ACK, t.data(1000, 1400))]
    mtu = struct.pack("!HH", 0, 1280)
    yield [
        t.error_back(
            "error in: forwarded, fragmentation needed",
            3,
            4,
            rest=mtu,
            length=t.rng.choice((28, 548)),
        )
    ]
    yield [go("forwarded rst", (s + 1, c + 1), RST | ACK)]


def hairpin(t):
    """From inside to a forwarded port of the outside address."""
    numbers = (t.rng.getrandbits(31), 0)
    yield [t.tcp_out("hairpin to a forwarded port", 8080, numbers, SYN, dst=OUTSIDE)]
    yield [t.tcp_out("hairpin to a closed port", 81, numbers, SYN, dst=OUTSIDE)]
    yield [t.tcp_back("from outside to a closed port", 81, numbers, SYN, port=81)]


def low_ttl(t):
    yield [
        t.udp_out(
            f"ttl {t.rng.randrange(2)} to the outside", 53, t.data(0, 1400), ttl=t.rng.randrange(2)
        )
    ]
    yield [t.udp_out("ttl 1, refused by a rule", 161, t.data(), ttl=1)]
    yield [t.udp_back("ttl 1, unsolicited", 53, t.data(), port=NEVER_CHOSEN, ttl=1)]


def parts(t):
    """Fragments, both ways."""
    size = t.rng.choice((8, 512, 1480))
    whole = t.udp_out("fragments out", 53, t.data(1500, 3000), fragment=0)
    reply = t.udp_back("fragments in", 53, t.data(1500, 3000), fragment=0)
    if t.rng.random() < 0.3:
        data = t.data(1500, 3000)
        whole = t.echo_out("fragments out", 1, data, fragment=0)
        reply = t.echo_back("fragments in", 1, data, fragment=0)
    order = t.rng.choice(("", "", "", ", last first", ", without the first"))
    yield [cut(whole, size if size > 8 else 512, order)]
    yield [cut(reply, size if size > 8 else 512, order)]
    tiny = t.udp_out("fragments of 8 bytes", 53, t.data(30, 40), flow=1, fragment=0)
    yield [cut(tiny, 8, "")]
    refused = t.udp_out("fragments refused by a rule", 161, t.data(1500, 3000), flow=2, fragment=0)
    yield [cut(refused, 512, order)]


def cut(packet, size, order):
    build = packet.build

    def parts_of(view, ident):
        built = build(view, ident)
        if built is None:
            return None
        all_parts = p.fragments(built, size)
        if order == ", last first":
            all_parts.reverse()
        return all_parts[1:] if order == ", without the first" else all_parts

    return Packet(packet.kind + order, packet.port, parts_of, packet.talk, packet.flow)


def forbidden(t):
    """Packets that the rules refuse."""
    number = (t.rng.getrandbits(31), 0)
    if t.rng.random() < 0.5:
        yield [t.tcp_out("refused by a rule", 25, number, SYN)]
    else:
        yield [t.udp_out("refused by a rule", 161, t.data())]


def backscatter(t):
    """Packets that come unasked from outside, from hosts that no inside host talks to."""
    t.remote = f"198.51.100.{t.rng.randrange(240, 250)}"
    rng, port = t.rng, t.rng.randrange(1024, 65_536)
    number = (rng.getrandbits(31), rng.getrandbits(31))
    flags = rng.choice((SYN, SYN | ACK, RST, RST | ACK, ACK, FIN | ACK))
    yield [t.tcp_back("unsolicited tcp", 80, number, flags, port=port)]
    yield [t.udp_back("unsolicited udp", 53, t.data(), port=port)]
    yield [t.echo_back("unsolicited echo", 1, t.data(8, 60), port=port, ask=rng.random() < 0.5)]
    quote = p.ipv4(OUTSIDE, t.remote, UDP, p.udp(OUTSIDE, t.remote, (port, 53), b"none"), 7)
    yield [t.back("unsolicited error", ICMP, lambda *_: p.icmp(3, 3, bytes(4), quote), port=1)]
    yield [
        t.back("unsolicited timestamp", ICMP, lambda *_: p.icmp(13, 0, bytes(4), bytes(12)), port=1)
    ]


def direct(t):
    """From outside to an inside address, as if there were no translation."""
    yield [t.udp_back("to an inside address", 53, t.data(), dst=t.host, port=53)]
    yield [t.udp_back("to an inside address, ttl 1", 53, t.data(), dst=t.host, port=53, ttl=1)]
    numbers = (t.rng.getrandbits(31), 0)
    yield [t.tcp_back("to an inside address", 80, numbers, SYN, dst=t.host, port=443)]


def strays(t):
    """From inside, what belongs to no connection or may not leave."""
    numbers = (t.rng.getrandbits(31), t.rng.getrandbits(31))
    yield [
        t.tcp_out(
            "tcp without a handshake", 80, numbers, t.rng.choice((ACK, PSH | ACK, FIN | ACK)), b"x"
        )
    ]
    yield [t.tcp_out("tcp rst without a connection", 80, numbers, RST)]
    yield [t.udp_out("from a foreign source", 53, t.data(), src="172.16.0.5")]
    yield [t.udp_out("to the gateway", 53, t.data(), dst=OUTSIDE)]
    yield [t.out("another protocol", 47, lambda *_: bytes(16))]


def unrouted(t):
    for name, dst in (
        ("unreachable", "192.0.2.5"),
        ("prohibited", "192.0.2.20"),
        ("blackholed", "192.0.2.40"),
    ):
        yield [t.udp_out(f"{name} by a route", 53, t.data(0, 900), dst=dst)]


def damaged(t):
    """Wrong checksums and lengths."""

    def with_byte(packet, at, change):
        build = packet.build

        def spoilt(view, ident):
            built = bytearray(build(view, ident))
            built[at] ^= change
            return bytes(built)

        return Packet(packet.kind, packet.port, spoilt, packet.talk, packet.flow)

    yield [with_byte(t.udp_out("wrong ip checksum", 53, t.data()), 10, 0x55)]
    yield [with_byte(t.udp_out("wrong udp checksum", 53, t.data()), 26, 0x55)]
    yield [with_byte(t.udp_out("wrong udp length", 53, t.data()), 24, 0x55)]
    yield [t.out("short tcp header", TCP, lambda *_: bytes(12))]


def options(t):
    """IP options that routers pass on."""
    record = bytes([7, 7, 4, 0, 0, 0, 0, 0])
    yield [t.udp_out("nop options", 53, t.data(), options=bytes([1, 1, 1, 0]))]
    yield [t.udp_out("record route", 53, t.data(), flow=1, options=record)]
    yield [
        t.udp_out(
            "type of service", 53, t.data(), flow=2, tos=t.rng.choice((0x10, 0xB8, 3)), fragment=0
        )
    ]


# How often each kind starts, beside those of `usual`.
ODD = {
    forwarded: 8,
    parts: 6,
    low_ttl: 3,
    backscatter: 3,
    forbidden: 2,
    direct: 2,
    strays: 2,
    unrouted: 2,
    hairpin: 1,
    damaged: 1,
    options: 1,
}
