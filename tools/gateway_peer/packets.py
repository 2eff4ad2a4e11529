"""IPv4 packets as bytes, built and taken apart by the RFCs, with no library."""

import struct
from ipaddress import IPv4Address

ICMP, TCP, UDP = 1, 6, 17
ECHO_REPLY, UNREACHABLE, ECHO, TIME_EXCEEDED, PARAMETER_PROBLEM = 0, 3, 8, 11, 12
ERRORS = (UNREACHABLE, TIME_EXCEEDED, PARAMETER_PROBLEM)
FIN, SYN, RST, PSH, ACK = 1, 2, 4, 8, 16
DF, MF = 0x4000, 0x2000
# Offsets of the source port or identifier, the destination port, and the checksum.
PLACES = {TCP: (0, 2, 16), UDP: (0, 2, 6), ICMP: (4, 4, 2)}


def packed(address):
    return IPv4Address(address).packed


def ones_sum(data):
    total = sum(struct.unpack(f"!{len(data) // 2}H", data[: len(data) & ~1]))
    if len(data) % 2:
        total += data[-1] << 8
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total


def checksum(data):
    return ones_sum(data) ^ 0xFFFF


def ipv4(src, dst, protocol, payload, ident, ttl=64, fragment=DF, tos=0, options=b""):
    words = 5 + len(options) // 4
    head = (
        struct.pack(
            "!BBHHHBBH4s4s",
            0x40 | words,
            tos,
            words * 4 + len(payload),
            ident,
            fragment,
            ttl,
            protocol,
            0,
            packed(src),
            packed(dst),
        )
        + options
    )
    return head[:10] + struct.pack("!H", checksum(head)) + head[12:] + payload


def pseudo(src, dst, protocol, length):
    return packed(src) + packed(dst) + struct.pack("!BBH", 0, protocol, length)


def tcp(src, dst, ports, numbers, flags, data=b"", window=64240, options=b""):
    words = 5 + len(options) // 4
    head = struct.pack("!HHIIBBHHH", *ports, *numbers, words << 4, flags, window, 0, 0) + options
    total = checksum(pseudo(src, dst, TCP, len(head) + len(data)) + head + data)
    return head[:16] + struct.pack("!H", total) + head[18:] + data


def udp(src, dst, ports, data, with_checksum=True):
    head = struct.pack("!HHHH", *ports, 8 + len(data), 0)
    total = checksum(pseudo(src, dst, UDP, 8 + len(data)) + head + data) or 0xFFFF
    return head[:6] + struct.pack("!H", total if with_checksum else 0) + data


def icmp(kind, code, rest, data):
    head = struct.pack("!BBH4s", kind, code, 0, rest)
    return head[:2] + struct.pack("!H", checksum(head + data)) + rest + data


def echo(kind, ident, number, data):
    return icmp(kind, 0, struct.pack("!HH", ident, number), data)


def fragments(packet, length):
    """The packet in fragments with payloads of `length` bytes, a multiple of 8."""
    seen = Seen(packet)
    parts = []
    for at in range(0, len(seen.payload), length):
        more = MF if at + length < len(seen.payload) else 0
        part = seen.payload[at : at + length]
        parts.append(
            ipv4(
                seen.src,
                seen.dst,
                seen.protocol,
                part,
                seen.ident,
                seen.ttl,
                more | at // 8,
                seen.tos,
            )
        )
    return parts


class Seen:
    """A packet taken apart. Link padding is cut off."""

    def __init__(self, packet):
        self.header_len = (packet[0] & 15) * 4
        self.tos, self.length, self.ident, self.fragment = struct.unpack_from("!xBHHH", packet)
        self.ttl, self.protocol = packet[8], packet[9]
        self.src, self.dst = str(IPv4Address(packet[12:16])), str(IPv4Address(packet[16:20]))
        self.bytes = packet[: self.length]
        self.payload = self.bytes[self.header_len :]
        self.offset = (self.fragment & 0x1FFF) * 8

    def is_icmp_error(self):
        return (
            self.protocol == ICMP
            and self.offset == 0
            and len(self.payload) > 28
            and self.payload[0] in ERRORS
        )

    def quote(self):
        """The packet that an ICMP error quotes, which may be cut."""
        return Seen(self.payload[8:])

    def port(self, which):
        """The source (0) or destination (1) port, or the identifier of an echo; None if absent."""
        at = PLACES[self.protocol][which] if self.protocol in PLACES else 0
        if self.offset or self.protocol not in PLACES or len(self.payload) < at + 2:
            return None
        return struct.unpack_from("!H", self.payload, at)[0]

    def bad_checksums(self):
        """The checksums that are wrong, of a packet that is no fragment."""
        bad = ["ip"] if ones_sum(self.bytes[: self.header_len]) != 0xFFFF else []
        if self.fragment & (MF | 0x1FFF) or self.protocol not in PLACES:
            return bad
        head = (
            b""
            if self.protocol == ICMP
            else pseudo(self.src, self.dst, self.protocol, len(self.payload))
        )
        is_off = self.protocol == UDP and self.payload[6:8] == b"\0\0"
        return bad if is_off or ones_sum(head + self.payload) == 0xFFFF else [*bad, "transport"]


def with_port(packet, which, port):
    """The packet with another port and an updated checksum (RFC 1624), to compare two packets."""
    seen = Seen(packet)
    old = seen.port(which)
    if old is None:
        return packet
    out = bytearray(packet)
    places = PLACES[seen.protocol]
    struct.pack_into("!H", out, seen.header_len + places[which], port)
    at = seen.header_len + places[2]
    if at + 2 <= len(out):
        (total,) = struct.unpack_from("!H", out, at)
        if total or seen.protocol != UDP:
            changed = ones_sum(struct.pack("!HHH", total ^ 0xFFFF, old ^ 0xFFFF, port)) ^ 0xFFFF
            # Of the two zeros, both compare as one.
            struct.pack_into("!H", out, at, changed or 0xFFFF)
    return bytes(out)


def without_port(packet, direction):
    """The packet without the port that the gateway chose, in an error's quote too.

    The port is the source of packets to the outside, and the destination of packets that errors to
    the outside quote.
    """
    seen = Seen(packet)
    if not seen.is_icmp_error():
        return with_port(packet, 0, 0) if direction == "wan" else packet
    if direction != "wan":
        return packet
    head, quote = packet[: seen.header_len + 8], with_port(packet[seen.header_len + 8 :], 1, 0)
    # The outer checksum covers the quote. It is verified elsewhere.
    return head[: seen.header_len + 2] + b"\0\0" + head[seen.header_len + 4 :] + quote
