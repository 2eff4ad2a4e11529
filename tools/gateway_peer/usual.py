"""Conversations as hosts have them, each a generator of packets in rounds."""

import struct

from packets import ACK, FIN, PSH, RST, SYN
from talks import INSIDE_ROUTER, MSS, NEVER_CHOSEN, ROUTERS


def web(t):
    """TCP with answers and data, that ends in one of the usual ways."""
    rng, port = t.rng, t.rng.choice((80, 443))
    c, s = rng.getrandbits(31), rng.getrandbits(31)
    syn = t.tcp_out("tcp syn", port, (c, 0), SYN, options=MSS)
    yield [syn]
    if rng.random() < 0.1:
        yield [syn]
    if rng.random() < 0.1:
        yield [t.tcp_back("tcp refused", port, (0, c + 1), RST | ACK)]
        return
    yield [t.tcp_back("tcp syn-ack", port, (s, c + 1), SYN | ACK, options=MSS)]
    c, s = c + 1, s + 1
    yield [t.tcp_out("tcp ack", port, (c, s), ACK)]
    for _ in range(rng.randint(0, 4)):
        asked, messages = t.data(), t.data(1, 1400)
        question = t.tcp_out("tcp data out", port, (c, s), PSH | ACK, asked)
        yield [question, question] if rng.random() < 0.05 else [question]
        c += len(asked)
        yield [t.tcp_back("tcp data in", port, (s, c), PSH | ACK, messages)]
        s += len(messages)
        yield [t.tcp_out("tcp ack", port, (c, s), ACK)]
    yield from rng.choice((fin, fin_back, reset, reset_back, silence))(t, port, c, s)


def fin(t, port, c, s):
    yield [t.tcp_out("tcp fin out", port, (c, s), FIN | ACK)]
    yield [t.tcp_back("tcp fin in", port, (s, c + 1), FIN | ACK)]
    yield [t.tcp_out("tcp last ack out", port, (c + 1, s + 1), ACK)]


def fin_back(t, port, c, s):
    yield [t.tcp_back("tcp fin in", port, (s, c), FIN | ACK)]
    yield [t.tcp_out("tcp ack", port, (c, s + 1), ACK)]
    yield [t.tcp_out("tcp fin out", port, (c, s + 1), FIN | ACK)]
    yield [t.tcp_back("tcp last ack in", port, (s + 1, c + 1), ACK)]


def reset(t, port, c, s):
    yield [t.tcp_out("tcp rst out", port, (c, s), RST | ACK)]
    if t.rng.random() < 0.3:
        yield [t.tcp_back("tcp data after rst", port, (s, c), PSH | ACK, b"late")]


def reset_back(t, port, c, s):
    yield [t.tcp_back("tcp rst in", port, (s, c), RST | ACK)]
    if t.rng.random() < 0.3:
        yield [t.tcp_out("tcp data after rst", port, (c, s), PSH | ACK, b"late")]


def silence(t, port, c, s):
    if t.rng.random() < 0.3:
        yield [t.tcp_back("tcp outside the window", port, (s + 2**30, c), PSH | ACK, b"far")]


def again(t):
    """A second connection from the port of the first, which was reset or closed."""
    for ends in (t.rng.choice((reset_at_once, fin)), reset_at_once):
        c, s = t.rng.getrandbits(31), t.rng.getrandbits(31)
        yield [t.tcp_out("tcp syn", 80, (c, 0), SYN, options=MSS)]
        yield [t.tcp_back("tcp syn-ack", 80, (s, c + 1), SYN | ACK, options=MSS)]
        yield [t.tcp_out("tcp ack", 80, (c + 1, s + 1), ACK)]
        yield from ends(t, 80, c + 1, s + 1)


def reset_at_once(t, port, c, s):
    yield [t.tcp_out("tcp rst out", port, (c, s), RST | ACK)]


def clash(t):
    """Two hosts with the same port and the same server."""
    other = f"10.1.9.{t.rng.randrange(1, 250)}"
    yield [
        t.udp_out("udp question", 123, t.data()),
        t.udp_out("udp question", 123, t.data(), 1, src=other),
    ]
    yield [t.udp_back("udp answer", 123, t.data(), flow) for flow in (1, 0)]
    yield [
        t.echo_out("echo request", 1, t.data(8, 60), 2),
        t.echo_out("echo request", 1, t.data(8, 60), 3, src=other),
    ]
    yield [t.echo_back("echo reply", 1, t.data(8, 60), flow) for flow in (3, 2)]


def web_errors(t):
    """TCP that a router outside complains about, or whose answer does not fit inside."""
    c, s = t.rng.getrandbits(31), t.rng.getrandbits(31)
    yield [t.tcp_out("tcp syn", 443, (c, 0), SYN, options=MSS)]
    length = t.rng.choice((28, 60, 548))
    if t.rng.random() < 0.4:
        code = t.rng.choice((0, 1, 13))
        yield [t.error_back("error in: tcp unreachable", 3, code, length=length)]
        return
    yield [t.tcp_back("tcp syn-ack", 443, (s, c + 1), SYN | ACK, options=MSS)]
    yield [t.tcp_out("tcp ack", 443, (c + 1, s + 1), ACK)]
    yield [t.tcp_out("tcp data out", 443, (c + 1, s + 1), PSH | ACK, t.data(1400, 1400))]
    mtu = struct.pack("!HH", 0, 1280)
    yield [t.error_back("error in: fragmentation needed", 3, 4, rest=mtu, length=length)]
    yield [t.tcp_back("tcp data in", 443, (s + 1, c + 1), PSH | ACK, t.data(1300, 1400))]
    yield [
        t.error_out(
            "error out: fragmentation needed", 3, 4, rest=mtu, src=INSIDE_ROUTER, length=length
        )
    ]
    yield [t.error_back("error in: beyond the window", 3, 1, length=28, change=far_sequence)]


def far_sequence(quote):
    head = (quote[0] & 15) * 4
    (number,) = struct.unpack_from("!I", quote, head + 4)
    return quote[: head + 4] + struct.pack("!I", (number + 2**30) % 2**32) + quote[head + 8 :]


def names(t):
    """UDP questions and answers, sometimes with a second server."""
    with_checksum = t.rng.random() < 0.9
    yield [t.udp_out("udp question", 53, t.data(20, 60), with_checksum=with_checksum)]
    if t.rng.random() < 0.1:
        yield [t.udp_back("udp from another host", 53, t.data(), src="198.51.100.250")]
    if t.rng.random() < 0.1:
        yield [t.udp_back("udp from another port", 54, t.data())]
    yield [t.udp_back("udp answer", 53, t.data(40, 1200), with_checksum=with_checksum)]
    if t.rng.random() < 0.3:
        other = "198.51.100.199"
        yield [t.udp_out("udp second server", 53, t.data(20, 60), flow=1, dst=other)]
        yield [t.udp_back("udp answer", 53, t.data(40, 1200), flow=1, src=other)]


def closed(t):
    """UDP that someone outside can't deliver."""
    yield [t.udp_out("udp question", 53, t.data(1, 900))]
    length, (number, code) = t.rng.choice((28, 28, 548)), t.rng.choice(
        ((3, 3), (3, 1), (3, 13), (11, 0), (12, 0))
    )
    router = t.remote if code == 3 else None
    kind = "error in: port unreachable" if code == 3 else "error in: udp, by a router"
    yield [t.error_back(kind, number, code, length=length, router=router)]
    if t.rng.random() < 0.2:
        yield [t.error_back("error in: quote of another port", 3, 3, length=28, change=other_port)]


def other_port(quote):
    head = (quote[0] & 15) * 4
    return quote[:head] + struct.pack("!H", NEVER_CHOSEN) + quote[head + 2 :]


def ping(t):
    for number in range(1, t.rng.randint(2, 4)):
        data = t.data(8, 500)
        yield [t.echo_out("echo request", number, data)]
        yield [t.echo_back("echo reply", number, data)]
    if t.rng.random() < 0.3:
        yield [t.echo_out("echo request", 9, t.data(8, 60))]
        yield [
            t.error_back(
                "error in: echo", *t.rng.choice(((3, 1), (11, 0))), length=t.rng.choice((28, 548))
            )
        ]
    if t.rng.random() < 0.2:
        yield [t.echo_back("echo request from outside", 1, t.data(8, 60), ask=True)]
    if t.rng.random() < 0.2:
        yield [t.echo_out("echo reply without a request", 1, t.data(8, 60), reply=True)]


def trace(t):
    """traceroute from inside with UDP, echoes or SYN: the gateway, hops outside, and the end."""
    form, data = t.rng.randrange(3), t.data(24, 32)
    c = t.rng.getrandbits(31)

    def probe(hop):
        kind = "traceroute, ttl 1" if hop == 1 else "traceroute"
        if form == 0:
            return t.udp_out(kind, 33_434 + hop, data, flow=hop, ttl=hop, fragment=0)
        if form == 1:
            return t.echo_out(kind, hop, data, flow=hop, ttl=hop)
        return t.tcp_out(kind, 443, (c, 0), SYN, ttl=hop)

    yield [probe(1)]
    for hop in (2, 3):
        yield [probe(hop)]
        flow = 0 if form == 2 else hop
        length = t.rng.choice((28, 60, 548))
        yield [
            t.error_back(
                "error in: time exceeded",
                11,
                0,
                flow,
                router=ROUTERS[hop],
                length=length,
                used=hop - 2,
            )
        ]
    yield [probe(4)]
    if form == 0:
        yield [t.error_back("error in: port unreachable", 3, 3, 4, router=t.remote, used=0)]
    elif form == 1:
        yield [t.echo_back("echo reply", 4, data, 4)]
    else:
        yield [t.tcp_back("tcp syn-ack", 443, (5, c + 1), SYN | ACK)]
        yield [t.tcp_out("tcp rst out", 443, (c + 1, 0), RST)]


def trace_back(t):
    """traceroute from outside to a host that has asked: the gateway, a hop inside, and the host."""
    yield [t.udp_out("udp question", 53, t.data(20, 60))]
    yield [t.udp_back("udp answer", 53, t.data(20, 60))]
    yield [t.udp_back("traceroute from outside, ttl 1", 53, t.data(0, 700), ttl=1)]
    yield [t.udp_back("traceroute from outside, ttl 2", 53, t.data(24, 700), ttl=2)]
    length = t.rng.choice((28, 60, 548))
    yield [t.error_out("error out: time exceeded", 11, 0, src=INSIDE_ROUTER, length=length)]
    yield [t.udp_back("traceroute from outside, ttl 3", 53, t.data(24, 700), ttl=3)]
    yield [t.error_out("error out: port unreachable", 3, 3, length=length)]
    if t.rng.random() < 0.3:
        yield [t.error_out("error out: by a router that is not inside", 11, 0, src="172.16.0.1")]


# How often each kind of conversation starts.
USUAL = {
    web: 30,
    names: 14,
    trace: 10,
    ping: 8,
    trace_back: 8,
    closed: 8,
    web_errors: 6,
    again: 3,
    clash: 3,
}
