#!/usr/bin/env python3
"""Makes the demo's capture: 20 seconds of a small site's traffic, the same bytes every time.

usage: /usr/bin/python3 tools/demo_capture.py [--check | --ports WARPLINE]

It writes capture.pcap.zst and capture.txt (the packets of each kind) into the demo's folder, and
needs scapy 2.5 and zstd. --check compares those files instead. The demo's mod.rs lists who talks to
whom.

Answers to inside hosts go to the ports that the NAT assigns, which tools/demo_ports.txt lists.
--ports runs the program WARPLINE over the capture and writes that list anew, until it stays the
same.
"""

import ipaddress
import json
import random
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

from scapy.layers.dns import DNS, DNSQR, DNSRR, DNSRRMX, DNSRROPT
from scapy.layers.inet import ICMP, IP, TCP, UDP
from scapy.layers.inet6 import (ICMPv6EchoReply, ICMPv6EchoRequest, IPv6, IPv6ExtHdrDestOpt,
                                IPv6ExtHdrFragment, IPv6ExtHdrHopByHop, PadN)
from scapy.layers.l2 import ARP, Dot1AD, Dot1Q, Ether
from scapy.packet import Raw
from scapy.utils import RawPcapReader

FILES = Path(__file__).resolve().parent.parent / "crates/warpline/src/demo/files"
LIST = Path(__file__).resolve().parent / "demo_ports.txt"
# By protocol, inside address and port (or echo identifier): the outside port.
PORTS = {tuple(line.split()[:3]): int(line.split()[3]) for line in LIST.read_text().splitlines()}
START_NS = 1_767_603_600 * 10**9  # 2026-01-05T09:00:00Z
LAST_START_US = 18_500_000
OUTSIDE = "203.0.113.1"
GATEWAY, PROVIDER, LEASED_LINE = (f"02:00:00:00:00:{n:02x}" for n in (1, 2, 4))
WEB, NAME_SERVER, TELEPHONY, CLOCK = SERVERS = [f"203.0.113.{n}" for n in range(17, 21)]
INTRANET, FORWARDED_PORT = "10.1.0.5", 8443
FILE_SERVER, VIP, BACKENDS = "203.0.113.21", "203.0.113.24", ["203.0.113.25", "203.0.113.26"]
# The backend that the balancer chooses for each of the shop's clients, in turn, by services.txt.
CHOSEN = [int(n) for n in "011011000001111010001010101001100001"]
SITES = ["www.example.com", "shop.example.net", "static.example.org", "mail.example.net"]
PAGES = ["index.html", "news", "catalogue/page", "search", "style.css", "account/login"]
AGENTS = ["Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0", "curl/8.14.1"]
WORDS = "harbour the a of morning ship cargo tide under slow rope with north light pier for wind"
SCANNED = [
    21, 22, 23, 25, 110, 111, 135, 139, 143, 389, 445, 465, 587, 873, 993, 995, 1433, 1521, 2049,
    2375, 3306, 3389, 5432, 5900, 5985, 6379, 8443, 9200, 11211, 27017,
]
RNG = random.Random(0x77617270)
FRAMES = []  # (time in ns, kind, bytes)

def bits(width=32):
    return RNG.getrandbits(width)

def between(low, high):
    return low + bits(48) % (high - low + 1)

def pick(items):
    return items[between(0, len(items) - 1)]

def some_time():
    return between(5_000, LAST_START_US)

def new_port(ports=[49_152]):
    ports[0] += 1
    return ports[0]

# Payloads are pieces of these, so that the capture compresses well.
NOISE = bits(8 * 4096).to_bytes(4096, "big")
TEXT = " ".join(pick(WORDS.split()) for _ in range(3000)).encode()

def piece(pool, length):
    at = between(0, len(pool) - 1)
    return (pool * (length // len(pool) + 2))[at:at + length]

def inside(host):
    return f"10.1.{host % 4}.{host}"

def inside6(host, subnet=None):
    return f"2001:db8:1:{host % 4 if subnet is None else subnet:x}::{host:x}"

def internet(host):
    return f"{pick(['192.0.2', '198.51.100'])}.{host}"

def internet6(host):
    return f"2001:db8:ffff::{host:x}"

def pair(number, server):
    """In turn: someone outside and `server`, then an inside host and a server outside by each IP
    version.
    """
    host = between(10, 40)
    ends = (
        (internet(host), server),
        (inside(host), internet(150 + host)),
        (inside6(host), internet6(0x53)),
    )
    return ends[number % 3]

def is_at_site(ip):
    return ip.startswith(("10.1.", "203.0.113.", "2001:db8:1:"))

def answer_time(ip):
    return between(200, 900) if is_at_site(ip) else between(6_000, 30_000)

def mac(ip):
    """The Ethernet address from which a host's frames reach the gateway."""
    if not is_at_site(ip):
        return LEASED_LINE if ip.startswith("10.2.") else PROVIDER
    raw = ipaddress.ip_address(ip).packed
    raw = raw if len(raw) == 4 else bytes([10, 1, raw[7], raw[15]])
    return "02:00:" + ":".join(f"{byte:02x}" for byte in raw)

def packet(src, dst, upper, tags=(), via=None, hops=None, **fields):
    frame, hops = Ether(src=via or mac(src), dst=GATEWAY), hops or (64 if is_at_site(src) else 52)
    for tag in tags:
        frame /= tag.copy()
    if ":" in src:
        return frame / IPv6(src=src, dst=dst, hlim=hops, **fields) / upper
    fields = {"id": len(FRAMES) % 65536, "flags": "DF" if TCP in upper else 0, **fields}
    return frame / IP(src=src, dst=dst, ttl=hops, **fields) / upper

def add(kind, at_us, frame, cut=None):
    """Adds a frame, up to a microsecond late so that times have digits there too."""
    raw = bytes(frame).ljust(60, b"\0") if cut is None else bytes(frame)[:cut]
    FRAMES.append((START_NS + at_us * 1000 + len(FRAMES) * 617 % 1000, kind, raw))

def outward(dst, upper):
    """Where a packet to an inside host is sent from outside, and as what; None where the NAT has
    no port.
    """
    field = "id" if ICMP in upper else "dport"
    port = PORTS.get((upper.name.lower(), dst, str(upper.getfieldval(field))))
    if port is None:
        return None
    upper = upper.copy()
    upper.setfieldval(field, port)
    return OUTSIDE, upper

def send(kind, at_us, src, dst, upper, **how):
    if dst.startswith("10.1."):
        outside = outward(dst, upper)
        if outside is None:
            return
        (dst, upper), how["tags"] = outside, ()
    add(kind, at_us, packet(src, dst, upper, **how))

def ask(kind, src, dst, asked, answered, at=None, **how):
    at = some_time() if at is None else at
    send(kind, at, src, dst, asked, **how)
    send(kind, at + answer_time(dst), dst, src, answered, **how)


def talk(
    kind, client, server, port, at, says, end="F", by=0, sport=None, backend=None, gap=130, tags=()
):
    """A TCP conversation in which nothing is lost: `says` lists (side, data), side 0 being the
    client.
    """
    names = [(client, sport or new_port()), backend or (server, port)]
    seq, clock, last = [bits(), bits()], [bits(31), bits(31)], [0, 0]
    mss = 1440 if ":" in client else 1460

    def put(side, flags, data=b"", wait=None):
        nonlocal at
        at += answer_time(names[side][0]) if wait is None else wait
        now = clock[side] + at // 1000
        stamp = ("Timestamp", (now, last[1 - side] if "A" in flags else 0))
        options = [("NOP", None), ("NOP", None), stamp] if "R" not in flags else []
        if "S" in flags:
            options = [("MSS", mss), ("SAckOK", b""), stamp, ("NOP", None), ("WScale", 7)]
        (src, src_port), (dst, dst_port) = names[side], names[0] if side else (server, port)
        ack, window = seq[1 - side] if "A" in flags else 0, 64240 if flags == "S" else 500
        upper = TCP(
            sport=src_port,
            dport=dst_port,
            seq=seq[side],
            ack=ack,
            flags=flags,
            window=window,
            options=options,
        )
        send(kind, at, src, dst, upper / data if data else upper, tags=tags)
        seq[side] = (seq[side] + len(data) + len(set(flags) & {"S", "F"})) % 2**32
        last[side] = now

    put(0, "S", wait=0)
    put(1, "SA")
    put(0, "A")
    size = mss - 12
    for side, data in says:
        for start in range(0, len(data), size):
            is_last = start + size >= len(data)
            put(side, "PA" if is_last else "A", data[start:start + size], gap)
            if is_last or start // size % 2:
                put(1 - side, "A")
        at += between(300, 60_000)
    put(by, "RA" if end == "R" else "FA")
    if end == "F":
        put(1 - by, "FA")
        put(by, "A")


def request(page=None, agent=None):
    head = f"GET /{page or pick(PAGES)}?id={between(1, 999)} HTTP/1.1\r\nHost: {pick(SITES)}\r\n"
    return f"{head}User-Agent: {agent or pick(AGENTS)}\r\nAccept-Language: en\r\n\r\n".encode()

def response(length):
    head = f"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {length}\r\n\r\n"
    return head.encode() + piece(TEXT, length)

def sized(width, data):
    return len(data).to_bytes(width, "big") + data

def record(kind, data):
    return bytes([kind, 3, 3]) + sized(2, data)

def sealed(length):
    return b"".join(
        record(23, piece(NOISE, min(16_000, length - at))) for at in range(0, length, 16_000)
    )

def greeting():
    """The hello messages of TLS 1.3, and after each some bytes that are sealed (RFC 8446)."""
    key = b"\0\x1d" + sized(2, piece(NOISE, 32))
    name = sized(2, b"\0" + sized(2, pick(SITES).encode()))
    offered = [
        (0, name),
        (10, b"\0\2\0\x1d"),
        (13, b"\0\4\4\3\x08\4"),
        (43, b"\2\3\4"),
        (51, sized(2, key)),
    ]
    def hello(number, ciphers, extensions):
        listed = b"".join(struct.pack(">H", kind) + sized(2, data) for kind, data in extensions)
        body = b"\3\3" + piece(NOISE, 32) + sized(1, piece(NOISE, 32)) + ciphers + sized(2, listed)
        return record(22, bytes([number]) + sized(3, body))
    answer = hello(2, b"\x13\1\0", [(43, b"\3\4"), (51, key)]) + record(20, b"\1") + sealed(1_900)
    return [
        (0, hello(1, b"\0\4\x13\1\x13\2\1\0", offered)),
        (1, answer),
        (0, record(20, b"\1") + sealed(53)),
    ]

def session(kind, client, server, number, tags=()):
    """Every second in the clear, every tenth broken off."""
    in_clear = number % 2 == 0
    says = [] if in_clear else greeting()
    for _ in range(between(1, 3)):
        length = between(200, 3_000) * pick([1, 1, 1, 1, 1, 6])
        asked = request() if in_clear else sealed(between(120, 700))
        says += [(0, asked), (1, response(length) if in_clear else sealed(length))]
    talk(kind, client, server, 80 if in_clear else 443, some_time(), says, tags=tags,
         end="R" if number % 10 == 9 else "F", by=int(number % 10 in (5, 6, 7, 8)))

def conversations():
    says = [(0, request(page, AGENTS[1])) for page in ("search", "catalogue/page", "account/login")]
    talk(
        "web",
        internet(60),
        WEB,
        80,
        700_000,
        [say for asked in says for say in (asked, (1, response(900)))],
    )
    for number in range(200):
        session("web", *pair(number, WEB), number)
    for number in range(24):
        guest = between(10, 30)
        ends = [(f"10.1.20.{guest}", internet(155)), (inside6(guest, 20), internet6(0x105))]
        session("vlan", *ends[number % 2], number, [Dot1Q(vlan=20)])
    for client, server, side, length, at in [
        (internet(77), WEB, 1, 200_000, 1_200_000),
        (internet(31), WEB, 0, 150_000, 6_500_000),
        (inside6(12), internet6(0x201), 1, 300_000, 3_000_000),
        (inside(21), internet(210), 0, 250_000, 2_200_000),
    ]:
        talk(
            "bulk",
            client,
            server,
            443,
            at,
            greeting() + [(0, sealed(300)), (side, sealed(length))],
            gap=8_000,
        )
    pages = [response(length) for length in (900, 2_600, 5_200, 11_000)]
    for number, backend in enumerate(CHOSEN):
        client = f"{['192.0.2', '198.51.100'][number % 2]}.{121 + number % 9}"
        says = [say for _ in range(between(1, 3)) for say in ((0, request()), (1, pick(pages)))]
        talk(
            "shop",
            client,
            VIP,
            80,
            some_time(),
            says,
            sport=40_000 + number,
            backend=(BACKENDS[backend], 8080),
        )
    for host, length, at in [
        (11, 180_000, 1_500_000),
        (12, 120_000, 6_000_000),
        (14, 150_000, 11_200_000),
    ]:
        talk(
            "branch",
            f"10.2.0.{host}",
            FILE_SERVER,
            80,
            at,
            [(0, request()), (1, response(length))],
            gap=2_000,
        )

def question(records, kind=None):
    """A DNS query and its answer, "no such name" for no record."""
    name, kind, port, number = (
        pick(SITES),
        kind or pick(["A", "A", "AAAA", "MX"]),
        new_port(),
        bits(16),
    )
    data = {"A": "192.0.2.160", "AAAA": "2001:db8:ffff::103", "TXT": piece(TEXT, 240)}
    one = (
        DNSRRMX(exchange="mail.example.net") if kind == "MX" else DNSRR(type=kind, rdata=data[kind])
    )
    one.rrname, one.ttl, answers = name, between(60, 86_400), None
    for _ in range(records):
        answers = one.copy() if answers is None else answers / one.copy()
    query, opt = DNSQR(qname=name, qtype=kind), DNSRROPT(rclass=4096)
    answer = DNS(id=number, qr=1, aa=1, rcode=0 if records else 3, qd=query, an=answers, ar=opt)
    return (
        UDP(sport=port, dport=53) / DNS(id=number, qd=query, ar=opt),
        UDP(sport=53, dport=port) / answer,
    )

def echo(src, number, data, ident=1):
    if ":" in src:
        return [
            kind(id=ident, seq=number, data=data) for kind in (ICMPv6EchoRequest, ICMPv6EchoReply)
        ]
    return [ICMP(type=kind, id=ident, seq=number) / data for kind in (8, 0)]

def pings(kind, src, dst, **how):
    start, ident = between(0, 16_000_000), bits(16)
    for number in range(1, 6):
        both = echo(src, number, bytes(byte ^ number for byte in range(56)), ident)
        ask(kind, src, dst, *both, at=start + 400_000 * number, **how)

def short_messages():
    for number in range(420):
        ask("dns", *pair(number, NAME_SERVER), *question(between(0, 3)))
    for number in range(36):
        src, dst = pair(number, CLOCK) if number % 3 else (CLOCK, internet(240))
        port = new_port() if number % 3 else 123
        both = [
            UDP(sport=port, dport=123) / (b"\x23" + bytes(47)),
            UDP(sport=123, dport=port) / (b"\x24\2" + bytes(46)),
        ]
        ask("ntp", src, dst, *both)
    for number in range(24):
        pings("echo", *pair(number, pick(SERVERS)))
    for host in range(10, 16):
        pings("qinq", inside6(host, 40), internet6(0x53), tags=[Dot1AD(vlan=100), Dot1Q(vlan=40)])
    for caller, callee, start, count in [  # RTP with G.711 voice.
        ("192.0.2.45", TELEPHONY, 400_000, 500),
        (internet(46), TELEPHONY, 8_000_000, 300),
        (inside6(19), internet6(0x301), 2_500_000, 300),
        (inside(24), internet(220), 6_000_000, 400),
    ]:
        ports = [16_384 + 2 * between(0, 8_000) for _ in range(2)]
        for number in range(count):
            head = struct.pack(">BBHII", 0x80, 0x80 * (not number), number, 160 * number, count)
            voice = [
                UDP(sport=a, dport=b) / (head + piece(NOISE, 160)) for a, b in (ports, ports[::-1])
            ]
            ask("voip", caller, callee, *voice, at=start + number * 20_000 + between(0, 2_000))
    for number in range(35):
        asker, target = (
            (SERVERS[number % 4], "203.0.113.30")
            if number % 6 == 0
            else (inside(10 + number), "10.1.0.1")
        )
        at, own = some_time() if number else 0, mac(asker)
        query = ARP(op=1, hwsrc=own, psrc=asker, hwdst="00:00:00:00:00:00", pdst=target)
        answer = ARP(op=2, hwsrc=GATEWAY, psrc=target, hwdst=own, pdst=asker)
        add("non-ip", at, Ether(src=own, dst="ff:ff:ff:ff:ff:ff") / query)
        add("non-ip", at + 45, Ether(src=GATEWAY, dst=own) / answer)

def bare(sport, dport, flags="S"):
    return TCP(
        sport=sport,
        dport=dport,
        seq=bits(),
        ack=bits() if "A" in flags else 0,
        flags=flags,
        window=1024,
    )

def unwanted():
    at = 1_000_000
    # Ports of UDP are negative.
    for port in SCANNED + [-69, -111, -137, -161, -500, -1900, -5353, -11211]:
        for host in range(17, 31):
            at += between(8_000, 40_000)
            probe = bare(61_000, port) if port > 0 else UDP(sport=61_001, dport=-port)
            send("scan", at, "198.51.100.140", f"203.0.113.{host}", probe)
    for number in range(36):  # To ports below 1024, which a NAT never gives.
        upper = bare(80, 500 + number * 7, "SA" if number % 4 else "RA")
        send("backscatter", some_time(), f"192.0.2.{200 + number}", "203.0.113.1", upper)
    for number in range(80):
        host, upper = between(10, 40), question(0)[0] if number % 4 == 1 else bare(new_port(), 443)
        ends = (
            (inside(host), NAME_SERVER if number % 4 == 1 else WEB)
            if number % 4
            else (inside6(host), inside6(10))
        )
        send("spoofed", some_time(), *ends, upper, via=PROVIDER, hops=49)
    for number in range(80):
        host, port = between(10, 40), new_port()
        upper = bare(port, 443) if number % 3 else UDP(sport=port, dport=40_404) / piece(NOISE, 64)
        ends = (
            (inside(host), f"100.64.1.{number}")
            if number % 4
            else (inside6(host), f"2001:db8:dead::{number:x}")
        )
        send("no-route", some_time(), *ends, upper)
    for number in range(54):  # Six routes are traced, with nine probes each.
        ends = (inside6(30), internet6(0x110)) if number % 3 else (inside(30), internet(160))
        upper = UDP(sport=33_000 + number // 9, dport=33_434 + number % 9) / (b"@" * 32)
        send("traceroute", number * 150_000, *ends, upper, hops=number // 3 % 3 + 1)

def in_pieces(at, src, dst, upper, is_reversed=False):
    """The message in fragments for a link of 1500 bytes."""
    if dst.startswith("10.1."):
        outside = outward(dst, upper)
        if outside is None:
            return
        dst, upper = outside
    whole, is_v6, ident = bytes(packet(src, dst, upper)), ":" in src, bits(16)
    body, size, protocol = (whole[54:], 1448, whole[20]) if is_v6 else (whole[34:], 1480, whole[23])
    starts = list(range(0, len(body), size))
    for late, start in enumerate(reversed(starts) if is_reversed else starts):
        units, more, data = start // 8, int(start != starts[-1]), Raw(body[start:start + size])
        fields = {"id": ident, "frag": units, "flags": more, "proto": protocol}
        if is_v6:
            data = IPv6ExtHdrFragment(nh=protocol, offset=units, m=more, id=ident) / data
            fields = {"nh": 44}
        send("fragment", at + 12 * late, src, dst, data, **fields)

def unusual_headers():
    for number in range(6):
        asked, answer = question(12, "TXT")
        src, at = internet(60 + number), some_time()
        send("dns", at, src, NAME_SERVER, asked)
        in_pieces(at + 700, NAME_SERVER, src, answer)
        for third in range(3):
            src, dst = pair(third, SERVERS[number % 4])
            asked, answer = echo(src, number, piece(NOISE, 3_000))
            at = some_time()
            in_pieces(at, src, dst, asked, is_reversed=number % 2 == 1)
            in_pieces(at + 9_000, dst, src, answer)
    fragment, (hop, dest) = IPv6ExtHdrFragment(id=0xC0FFEE), (
        header(options=PadN(optdata=bytes(4))) for header in (IPv6ExtHdrHopByHop, IPv6ExtHdrDestOpt)
    )
    for headers in [hop, dest, hop / dest, fragment, fragment / dest] * 3:
        ends = inside6(between(10, 40)), internet6(0x53)
        for messages in (echo(ends[0], 1, piece(NOISE, 48)), question(2)):
            ask("extension", *ends, *(headers.copy() / message for message in messages))

def lies():
    """Twelve headers that are cut or lie about lengths, six times each."""
    datagram, tag = UDP(sport=3_001, dport=53) / (b"." * 100), Ether(
        src=PROVIDER, dst=GATEWAY, type=0x8100
    )
    for host in range(2, 8):
        def v4(upper=datagram, dst=NAME_SERVER, **fields):
            return packet(f"198.51.100.{host}", dst, upper, **fields)
        def v6(**fields):
            return packet(internet6(host), inside6(10), datagram, **fields)
        spoilt = [(v4(), 9), (tag / bytes(2), 16), (v6(), 41)]
        spoilt += [
            (frame, None)
            for frame in (v4(version=5), v4(ihl=4), v4(len=900), v4(len=12), v6(plen=800))
        ]
        for words in (15, 3):
            segment = TCP(sport=3_000, dport=80, seq=1, flags=0, dataofs=words) / (b"." * 16)
            spoilt.append((v4(segment, WEB), None))
        for length in (700, 5):
            spoilt.append(
                (v4(UDP(sport=3_001, dport=53, len=length, chksum=1) / (b"." * 100)), None)
            )
        for frame, cut in spoilt:
            add("malformed", some_time(), frame, cut)

def forwarded():
    """Partners at the forwarded port, and someone else who tries it and those beside it."""
    for number in range(10):
        says = greeting() + [(0, sealed(between(120, 500))), (1, sealed(between(300, 2_500)))]
        talk("forward", f"192.0.2.{100 + number}", OUTSIDE, FORWARDED_PORT, some_time(), says,
             end="R" if number == 9 else "F", by=number % 2, backend=(INTRANET, 443))
    at = 9_000_000
    for number in range(12):
        at += between(200_000, 700_000)
        port = FORWARDED_PORT + (0, 0, 1)[number % 3]
        upper = bare(62_000 + number, port, "SAR"[number // 3 % 3])
        send("intruder", at, "198.51.100.141", OUTSIDE, upper)

def make():
    """The bytes of the capture, and its summary."""
    RNG.seed(0x77617270)
    FRAMES.clear()
    new_port.__defaults__[0][0] = 49_152
    for part in (conversations, short_messages, unwanted, unusual_headers, lies, forwarded):
        part()
    pcap, kinds, last = struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 262_144, 1), {}, 0
    for at, kind, raw in sorted(FRAMES, key=lambda frame: frame[0]):
        last = max(at, last + 1)  # No two have the same time.
        pcap += struct.pack("<IIII", last // 10**9, last % 10**9, len(raw), len(raw)) + raw
        kinds[kind] = kinds.get(kind, 0) + 1
    listed = ", ".join(f"{kind} {count}" for kind, count in kinds.items())
    return pcap, f"{len(FRAMES)} packets, {sum(len(raw) for _, _, raw in FRAMES)} bytes: {listed}"

def assigned(warpline, pcap):
    """The outside ports that the NAT of `warpline` assigns to the capture's packets from inside."""
    with tempfile.TemporaryDirectory() as folder:
        before, after, chain = (Path(folder) / name for name in ("in.pcap", "out.pcap", "nat.toml"))
        before.write_bytes(pcap)
        forward = f"tcp {OUTSIDE} {FORWARDED_PORT} to {INTRANET} 443"
        chain.write_text('[chain]\nfunctions = ["nat"]\n[nat]\ninside = ["10.1.0.0/16"]\n'
                         f'outside = ["{OUTSIDE}"]\nforwards = ["{forward}"]\n')
        stats = Path(folder) / "stats.json"
        subprocess.run(
            [warpline, "run", chain, "--input", before, "--output", after, "--stats", stats, "-q"],
            check=True,
        )
        assert json.loads(stats.read_text())["chains"][0]["packets"]["balanced"]
        read = [
            {(meta.sec, meta.usec): raw for raw, meta in RawPcapReader(str(file))}
            for file in (before, after)
        ]
    ports = {}
    for at, raw in read[1].items():
        if ipaddress.ip_address(OUTSIDE).packed not in raw[26:38]:
            continue
        now, old = Ether(raw), Ether(read[0][at])
        if (
            IP in now
            and IP in old
            and now[IP].src == OUTSIDE
            and old[IP].src.startswith("10.1.")
            and not now[IP].frag
        ):
            field = "id" if ICMP in now else "sport"
            old_upper, upper = old[IP].payload, now[IP].payload
            key = (upper.name.lower(), old[IP].src, str(old_upper.getfieldval(field)))
            ports[key] = upper.getfieldval(field)
    return ports

def main():
    pcap, text = make()
    if sys.argv[1:2] == ["--ports"]:
        while (ports := assigned(sys.argv[2], pcap)) != PORTS:
            PORTS.clear()
            PORTS.update(ports)
            pcap, text = make()
        LIST.write_text("".join(f"{' '.join(key)} {port}\n" for key, port in sorted(ports.items())))
    capture, summary = FILES / "capture.pcap.zst", FILES / "capture.txt"
    if sys.argv[1:] == ["--check"]:
        kept = subprocess.run(["zstd", "-dc", capture], check=True, capture_output=True).stdout
        sys.exit(
            0
            if (kept, summary.read_text()) == (pcap, text)
            else f"{capture} is not what this script makes"
        )
    subprocess.run(["zstd", "-19", "-q", "-f", "-o", capture], input=pcap, check=True)
    summary.write_text(text)
    print(text)

main()
