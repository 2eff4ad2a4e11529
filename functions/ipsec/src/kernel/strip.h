/* Takes ESP off a packet that authenticated (RFC 4303, 3.4.4.1; RFC 4301, 5.2). What comes of it is
 * known before a byte is changed: from the text's first blocks and its last, which are deciphered
 * aside. Shapes that only the CPU knows are left to it then, as they came. */

/* Blocks of a text that are deciphered aside: IPv6 and as much of TCP as says how long it is fill
 * less. */
#define PEEKED 4

typedef struct {
    /* The text's first bytes. */
    u32 head[4 * PEEKED];
    u32 pad_len, protocol;
} Peek;

/* A packet without ESP. */
typedef struct {
    /* An `OUTCOME_*`, or `OUTCOME_NOT_HERE` for what the CPU is to do. */
    u32 outcome;
    u32 version, protocol;
    /* Where its headers lie in the new frame, which ends where the packet does. */
    u32 l4, payload, end;
    u32 flags;
} Plain;

#define OUTCOME_NOT_HERE 255

FUNCTION Peek peek_at(Esp e, Opening by)
{
    Peek peek;
    u32 block[4], blocks = blocks_of(e);
    for (u32 i = 0; i <= PEEKED; i++) {
        /* The last block is the last one that is looked at. */
        u32 number = i < PEEKED ? i : blocks - 1;
        for (u32 w = 0; w < 4; w++) block[w] = 0;
        if (number < blocks) plain_block(e, number, by, block);
        for (u32 w = 0; w < 4 && i < PEEKED; w++) peek.head[4 * i + w] = block[w];
    }
    u32 trailer = blocks == 0 ? 0 : block[words_of(e, blocks - 1) - 1];
    peek.pad_len = trailer >> 16 & 255;
    peek.protocol = trailer >> 24;
    return peek;
}

/* Finds the transport header `at` bytes after the text's start, of `len` bytes with what it
 * carries; `plain->l4` is set. */
FUNCTION void find_transport(const Peek *peek, u32 at, u32 len, Plain *plain)
{
    u32 header_len = 8, protocol = plain->protocol;
    plain->payload = plain->l4;
    if (plain->flags & FLAG_LATER_FRAGMENT) return;
    if (protocol == IP_PROTOCOL_TCP) {
        header_len = len < 20 ? 0 : (tcp_flags_in(peek->head, at) >> 12) * 4;
        if (header_len < 20 || header_len > len) plain->outcome = OUTCOME_NOT_HERE;
    } else if (protocol == IP_PROTOCOL_UDP) {
        u32 own = len < 8 ? 0 : udp_len_in(peek->head, at);
        if (own < 8 || (own > len && !(plain->flags & FLAG_FRAGMENT)))
            plain->outcome = OUTCOME_NOT_HERE;
    } else if (protocol == (plain->version == 4 ? IP_PROTOCOL_ICMP : IP_PROTOCOL_ICMPV6)
        || protocol == IP_PROTOCOL_ESP) {
        if (len < 8) plain->outcome = OUTCOME_NOT_HERE;
    } else {
        return;
    }
    plain->payload = plain->l4 + header_len;
    plain->flags |= FLAG_TRANSPORT;
}

/* An IPv4 header without options at the text's start, of a packet of `len` bytes. */
FUNCTION void find_v4(const Peek *peek, u32 l3, u32 len, Plain *plain)
{
    u32 fragment = ip_fragment_in(peek->head, 0), offset = (fragment & 0x1fff) * 8;
    /* Options; a fragment that ends beyond the largest packet. */
    if (byte_in(peek->head, 0) != 0x45 || offset + len > 65535) plain->outcome = OUTCOME_NOT_HERE;
    plain->protocol = ip_protocol_v4_in(peek->head, 0);
    plain->l4 = l3 + 20;
    if (offset > 0 || fragment & 0x2000) plain->flags |= FLAG_FRAGMENT;
    if (offset > 0) plain->flags |= FLAG_LATER_FRAGMENT;
    find_transport(peek, 20, len - 20, plain);
}

/* An IPv6 header there, without extension headers. */
FUNCTION void find_v6(const Peek *peek, u32 l3, u32 len, Plain *plain)
{
    plain->protocol = ip_protocol_v6_in(peek->head, 0);
    plain->l4 = l3 + 40;
    int is_none = plain->protocol == IP_PROTOCOL_NO_NEXT_HEADER;
    if (is_extension(plain->protocol) || (len == 40 && !is_none)) plain->outcome = OUTCOME_NOT_HERE;
    find_transport(peek, 40, len - 40, plain);
}

/* The packet in the first `len` bytes of a tunnel's text. */
FUNCTION void find_tunnelled(Task t, const Peek *peek, u32 len, Plain *plain)
{
    Packet p = t.packet;
    u32 l3 = l3_offset(p), link = link_of(p), own = 0,
        version = len == 0 ? 0 : byte_in(peek->head, 0) >> 4;
    if (peek->protocol == IP_PROTOCOL_IPV4 && version == 4 && len >= 20)
        own = ip_len_v4_in(peek->head, 0);
    if (peek->protocol == IP_PROTOCOL_IPV6 && version == 6 && len >= 40)
        own = 40 + ip_len_v6_in(peek->head, 0);
    if (own < 20 || own > len) {
        plain->outcome = OUTCOME_MALFORMED;
        return;
    }
    if ((link == LINKTYPE_IPV4 && version != 4) || (link == LINKTYPE_IPV6 && version != 6)) {
        plain->outcome = OUTCOME_LINK;
        return;
    }
    plain->version = version;
    plain->end = l3 + own;
    if (version == 4) find_v4(peek, l3, own, plain);
    else find_v6(peek, l3, own, plain);
}

/* Finds the headers in the first `len` bytes of the text, after the IP header before ESP. */
FUNCTION void find_transported(Task t, const Peek *peek, u32 len, Plain *plain)
{
    Packet p = t.packet;
    plain->version = ip_version(p);
    plain->protocol = peek->protocol;
    plain->l4 = l4_offset(p);
    plain->end = plain->l4 + len;
    plain->flags |= header_flags(p) & FLAG_IP_OPTIONS;
    if (plain->version == 6 && (is_extension(peek->protocol) || len == 0))
        plain->outcome = OUTCOME_NOT_HERE;
    find_transport(peek, 0, len, plain);
}

/* Whether the text is as long as its last bytes say: padding, its length, and what is carried. */
FUNCTION int has_padding(Esp e, const Peek *peek)
{
    return e.text_len >= 2 && peek->pad_len + 2 <= e.text_len;
}

/* The result for the packet if its padding is right. */
FUNCTION Plain plain_of(Task t, Esp e, const Peek *peek)
{
    Plain plain;
    plain.version = plain.protocol = plain.l4 = plain.payload = plain.end = 0;
    plain.flags = (header_flags(t.packet) & (FLAG_VLAN | FLAGS_KEPT)) | FLAG_OPENED;
    if (t.sa[SA_OUTER_LEN]) plain.flags &= ~(u32)FLAG_WRAPPED;
    plain.outcome = OUTCOME_PLAIN;
    if (!has_padding(e, peek)) {
        plain.outcome = e.text_len < 2 ? OUTCOME_MALFORMED : OUTCOME_BAD_PADDING;
    } else if (peek->protocol == IP_PROTOCOL_NO_NEXT_HEADER) {
        /* RFC 4303, 2.6: whatever the mode. */
        plain.outcome = OUTCOME_DUMMY;
    } else if (t.sa[SA_OUTER_LEN]) {
        find_tunnelled(t, peek, e.text_len - 2 - peek->pad_len, &plain);
    } else {
        find_transported(t, peek, e.text_len - 2 - peek->pad_len, &plain);
    }
    return plain;
}

/* Whether the padding of the text, which is in the clear, is 1, 2, 3 and so on (RFC 4303, 2.4). */
FUNCTION int is_padding_right(Esp e, u32 pad_len)
{
    const GLOBAL u8 *pad = e.esp + e.text_at + e.text_len - 2 - pad_len;
    u32 wrong = 0;
    for (u32 i = 0; i < pad_len; i++) wrong |= pad[i] ^ (i + 1);
    return wrong == 0;
}

/* The congestion mark of a packet that leaves a tunnel (RFC 6040, 4.2); 4 where it is to be
 * dropped. */
FUNCTION u32 ecn_out(u32 inner, u32 outer)
{
    if (inner == 0) return outer == ECN ? 4 : 0;
    if (outer == ECN) return ECN;
    return inner == 2 && outer == 1 ? 1 : inner;
}

/* Gives the packet whose IP header is at `ip` its mark, and the outcome. */
FUNCTION u32 take_ecn(GLOBAL u8 *ip, u32 version, u32 outer_class)
{
    u32 own_class = class_of(ip, version), ecn = ecn_out(own_class & ECN, outer_class & ECN);
    if (ecn > ECN) return OUTCOME_CONGESTION;
    u32 changed = (own_class & ~ECN) | ecn;
    if (version == 6) {
        set_traffic_class_v6_at(ip, (traffic_class_v6_at(ip) & ~(255u << 20)) | changed << 20);
    } else if (changed != own_class) {
        set_traffic_class_v4_at(ip, changed);
        set_ip_checksum_at(ip, update_sum(ip_checksum_at(ip), own_class, changed));
    }
    return OUTCOME_PLAIN;
}

/* A NAT on the way changed the addresses that the sender summed (RFC 3948, 3.1.2). */
FUNCTION void sum_anew(GLOBAL u8 *frame, u32 l3, const Plain *plain)
{
    u32 l4 = plain->l4, len = plain->end - l4, own = len;
    if (!(plain->flags & FLAG_TRANSPORT)) return;
    if (plain->protocol == IP_PROTOCOL_TCP) {
        fill_tcp_sum(frame + l3, plain->version, frame + l4, len);
    } else if (plain->protocol == IP_PROTOCOL_UDP) {
        /* RFC 768: none was made; the datagram may end before its packet does. */
        if (plain->version == 4 && l4_checksum_udp_at(frame + l4) == 0) return;
        own = udp_len_at(frame + l4);
        fill_udp_sum(frame + l3, plain->version, frame + l4, own < len ? own : len);
    }
}

/* Moves the headers that stay to the text, which is in the clear, ends the packet where `plain`
 * says, and gives the outcome. */
FUNCTION u32 strip(Task t, u32 text_at, const Plain *plain)
{
    Packet p = t.packet;
    GLOBAL u8 *frame = frame_of(p);
    u32 is_tunnel = t.sa[SA_OUTER_LEN] != 0, l3 = l3_offset(p), kept = is_tunnel ? l3 : plain->l4;
    u32 outer_version = ip_version(p), outer_class = class_of(frame + l3, outer_version),
        front = text_at - kept;
    move_up(frame + front, frame, kept);
    frame += front;
    CELL(u16, p, COLUMN_START) = (u16)(CELL(u16, p, COLUMN_START) + front);
    CELL(u32, p, COLUMN_FRAME_LEN) = CELL(u32, p, COLUMN_WIRE_LEN) = plain->end;
    HEADERS_CELL(u32, p, HEADERS_END) = plain->end;
    HEADERS_CELL(u16, p, HEADERS_L4) = (u16)plain->l4;
    HEADERS_CELL(u16, p, HEADERS_PAYLOAD) = (u16)plain->payload;
    HEADERS_CELL(u16, p, HEADERS_FLAGS) = (u16)plain->flags;
    HEADERS_CELL(u8, p, HEADERS_VERSION) = (u8)plain->version;
    HEADERS_CELL(u8, p, HEADERS_PROTOCOL) = (u8)plain->protocol;
    if (is_tunnel) {
        if (outer_version != plain->version) set_kind(frame, link_of(p), l3, plain->version);
        return t.sa[SA_ECN] ? take_ecn(frame + l3, plain->version, outer_class) : OUTCOME_PLAIN;
    }
    mend_ip_header(frame + l3, plain->version, plain->end - l3, plain->protocol);
    if (t.sa[SA_UDP_LEN]) sum_anew(frame, l3, plain);
    return OUTCOME_PLAIN;
}
