/* First match among many rules by aggregated bit vectors, an item a packet. The tables are those
 * that the CPU looks up, as `kernels.rs` lays them out: a search for each IP version, an array of
 * words. References in them are right by their making. */

/* The words that a search begins with. */
#define HEAD_WORDS 0     /* Words of 64 bits in a row; 0 where there is no rule. */
#define HEAD_SUMMARIES 1 /* The same of a summary. */
#define HEAD_ACCEPTS 2   /* Where there is a bit for each rule that accepts. */
#define HEAD_LEN 3
/* Behind them, of each dimension: where its parts begin. Ports and kinds have a map of 16 bits each
 * in the place of the starts. */
#define STARTS 0
#define CLASSES 1
#define INDEX 2
#define SHIFT 3 /* Bits of an address's first word that are not in the index. */
#define ROWS 4
#define SUMMARIES 5
#define DIMENSION_LEN 6

#define SRC 0
#define DST 1
#define SRC_PORT 2
#define DST_PORT 3
#define KIND 4
#define DIMENSIONS 5

#define NO_RULE 0xffffffffu

/* The parts of a packet that rules read: addresses of one or four words, ports and kind. */
typedef struct {
    u32 src[4], dst[4];
    u32 src_port, dst_port, kind;
} Key;

FUNCTION const GLOBAL u32 *dimension(const GLOBAL u32 *search, u32 number)
{
    return search + HEAD_LEN + DIMENSION_LEN * number;
}

FUNCTION int is_before(const u32 *address, const GLOBAL u32 *start, u32 width)
{
    for (u32 i = 0; i < width; i++) {
        if (address[i] != start[i]) return address[i] < start[i];
    }
    return 0;
}

FUNCTION u32 class_of_address(const GLOBAL u32 *search, u32 number, const u32 *address, u32 width)
{
    const GLOBAL u32 *own = dimension(search, number);
    const GLOBAL u32 *found = search + own[INDEX] + (address[0] >> own[SHIFT]);
    u32 low = found[0], len = found[1] - low + 1;
    while (len > 1) {
        u32 half_len = len / 2;
        if (!is_before(address, search + own[STARTS] + width * (low + half_len), width))
            low += half_len;
        len -= half_len;
    }
    return search[own[CLASSES] + low];
}

FUNCTION u32 class_of_number(const GLOBAL u32 *search, u32 number, u32 value)
{
    return search[dimension(search, number)[STARTS] + value / 2] >> 16 * (value % 2) & 0xffff;
}

FUNCTION u32 lowest_bit(u32 bits) { return 31 - leading_zeros(bits & (0 - bits)); }

/* Word `at` of the five rows, or of the five summaries, together. */
FUNCTION u32 all_of(const GLOBAL u32 *search, const u32 *from, u32 at)
{
    u32 all = search[from[SRC] + at];
    for (u32 i = DST; i < DIMENSIONS; i++) all &= search[from[i] + at];
    return all;
}

/* The first rule that fits. Only words are looked at that no summary says are zero. */
FUNCTION u32 first_rule(const GLOBAL u32 *search, const Key *key, u32 width)
{
    u32 words = 2 * search[HEAD_WORDS], summaries = 2 * search[HEAD_SUMMARIES];
    if (words == 0) return NO_RULE;
    u32 rows[DIMENSIONS], sums[DIMENSIONS];
    rows[SRC] = class_of_address(search, SRC, key->src, width);
    rows[DST] = class_of_address(search, DST, key->dst, width);
    rows[SRC_PORT] = class_of_number(search, SRC_PORT, key->src_port);
    rows[DST_PORT] = class_of_number(search, DST_PORT, key->dst_port);
    rows[KIND] = class_of_number(search, KIND, key->kind);
    for (u32 i = 0; i < DIMENSIONS; i++) {
        const GLOBAL u32 *own = dimension(search, i);
        sums[i] = own[SUMMARIES] + rows[i] * summaries;
        rows[i] = own[ROWS] + rows[i] * words;
    }
    for (u32 block = 0; block < summaries; block++) {
        for (u32 left = all_of(search, sums, block); left; left &= left - 1) {
            u32 at = 2 * (32 * block + lowest_bit(left));
            u32 low = all_of(search, rows, at);
            if (low) return 32 * at + lowest_bit(low);
            u32 high = all_of(search, rows, at + 1);
            if (high) return 32 * (at + 1) + lowest_bit(high);
        }
    }
    return NO_RULE;
}

FUNCTION void words_of(const GLOBAL u8 *address, u32 *words)
{
    for (u32 i = 0; i < 4; i++) words[i] = get_be32(address + 4 * i);
}

/* Ports and kind of an IP packet. */
FUNCTION void find_transport(Fields f, Key *key)
{
    u32 protocol = ip_protocol(f.packet), is_seen = header_flags(f.packet) & FLAG_TRANSPORT;
    key->kind = protocol;
    key->src_port = key->dst_port = NO_PORT;
    if (protocol == IP_PROTOCOL_TCP && is_seen) {
        key->src_port = src_port_tcp(f);
        key->dst_port = dst_port_tcp(f);
        key->kind = KIND_TCP + (tcp_flags(f) & 255);
    } else if (protocol == IP_PROTOCOL_UDP && is_seen) {
        key->src_port = src_port_udp(f);
        key->dst_port = dst_port_udp(f);
    } else if (protocol == IP_PROTOCOL_TCP || protocol == IP_PROTOCOL_UDP) {
        key->src_port = key->dst_port = HIDDEN_PORT;
    } else if ((protocol == IP_PROTOCOL_ICMP || protocol == IP_PROTOCOL_ICMPV6) && is_seen) {
        key->kind = KIND_ICMP + (icmp_type(f) << 8 | icmp_code(f));
    }
}

/* Whether the rules accept an IP packet. */
FUNCTION int is_accepted(const GLOBAL u32 *search, const Key *key, u32 width, u32 *reason)
{
    u32 rule = first_rule(search, key, width);
    *reason = rule == NO_RULE ? REASON_DEFAULT : REASON_RULE;
    if (rule == NO_RULE) return ACCEPTS_BY_DEFAULT;
    return search[search[HEAD_ACCEPTS] + rule / 32] >> rule % 32 & 1;
}

FUNCTION int is_extension(u32 protocol)
{
    return protocol == IP_PROTOCOL_HOP_BY_HOP || protocol == IP_PROTOCOL_ROUTING
        || protocol == IP_PROTOCOL_FRAGMENT || protocol == IP_PROTOCOL_AH
        || protocol == IP_PROTOCOL_DESTINATION_OPTIONS;
}

/* Why a packet is dropped whose transport header could not be read, before the rules are asked;
 * REASONS where they are. */
FUNCTION u32 hidden_reason(Fields f)
{
    Packet p = f.packet;
    u32 protocol = ip_protocol(p), is_v6 = ip_version(p) == 6;
    u32 is_hidden = is_v6 && is_extension(protocol);
    if (header_flags(p) & FLAG_LATER_FRAGMENT) {
        if (DROPS_FRAGMENTS || is_hidden) return REASON_FRAGMENT;
        u32 offset = 8 * (ip_fragment(f) & 0x1fff);
        return protocol == IP_PROTOCOL_TCP && offset < HEADER_LEN_TCP ? REASON_FRAGMENT : REASONS;
    }
    if (protocol == IP_PROTOCOL_TCP || protocol == IP_PROTOCOL_UDP || is_hidden)
        return REASON_SNAPPED;
    return protocol == (is_v6 ? IP_PROTOCOL_ICMPV6 : IP_PROTOCOL_ICMP) ? REASON_SNAPPED : REASONS;
}

FUNCTION u32 transport_len(u32 protocol)
{
    if (protocol == IP_PROTOCOL_TCP) return HEADER_LEN_TCP;
    if (protocol == IP_PROTOCOL_UDP) return HEADER_LEN_UDP;
    return protocol == IP_PROTOCOL_ICMP || protocol == IP_PROTOCOL_ICMPV6 ? SEEN_LEN_ICMP : 0;
}

/* Whether the headers that are read lie in the frame: what ingress found is believed within it
 * only. */
FUNCTION int is_within(Packet p, u32 version)
{
    u32 end = l3_offset(p) + (version == 4 ? HEADER_LEN_V4 : HEADER_LEN_V6), l4 = l4_offset(p),
        len = frame_len(p);
    if (end > len) return 0;
    return !(header_flags(p) & FLAG_TRANSPORT) || l4 + transport_len(ip_protocol(p)) <= len;
}

/* Whether an extension header says what becomes of it: where in its datagram a later fragment of
 * TCP lies. */
FUNCTION int needs_extension(Packet p, u32 version)
{
    if (DROPS_FRAGMENTS) return 0;
    return version == 6 && header_flags(p) & FLAG_LATER_FRAGMENT
        && ip_protocol(p) == IP_PROTOCOL_TCP;
}

FUNCTION void judge_other(Packet p, u32 place)
{
    if (header_flags(p) & FLAG_IP_CUT) drop(p, REASON_SNAPPED, place);
    else if (!ACCEPTS_NON_IP) drop(p, REASON_NON_IP, place);
}

/* The result of tracking; WORD is its word. */
#if IS_TRACKED
FUNCTION u32 standing_of(Packet p) { return scratch(p, WORD); }
#else
FUNCTION u32 standing_of(Packet p) { (void)p; return STANDING_NEW; }
#endif

/* Why a packet is dropped that the rules have no say over; REASONS where they have. */
FUNCTION u32 refusal(u32 standing)
{
    if (standing == STANDING_INVALID) return REASON_INVALID;
    if (standing == STANDING_TABLE_FULL) return REASON_TABLE_FULL;
    if (standing == STANDING_PER_SOURCE) return REASON_PER_SOURCE;
    return standing == STANDING_FIRST_REFUSED ? REASON_FRAGMENT : REASONS;
}

#if HAS_WAYS
/* The part of `ways` after the ways out without a route. */
#define SEARCHES_AT (PORTS + 1)

/* Where `ways` has the places of the searches for a packet: of IPv4, then of IPv6. */
FUNCTION u32 way_of(Packet p, const GLOBAL u32 *ways, const GLOBAL u32 *hop_ports)
{
    u32 way_in = interface_of(p) < PORTS ? interface_of(p) : PORTS, way_out = 0;
#if ASKS_WAY_OUT
    u32 hop = next_hop(p);
    way_out = hop < HOPS ? hop_ports[hop] : PORTS;
    if (way_out >= PORTS) way_out = ways[way_in];
#else
    (void)hop_ports;
#endif
    return SEARCHES_AT + 2 * (way_in * WAYS_OUT + way_out);
}
#endif

PACKET_KERNEL(filter)
{
    ITEMS {
        if (index() >= count) continue;
        Packet p = packet_at(arena, packets, packet_rows, index());
        if (!is_ours(p) || reject_malformed(p, place)) continue;
        u32 standing = standing_of(p), reason = refusal(standing), version = ip_version(p);
        if (reason != REASONS) { drop(p, reason, place); continue; }
        if (version != 4 && version != 6) { judge_other(p, place); continue; }
        if (!is_within(p, version) || needs_extension(p, version)) { leave(p, place); continue; }
        Fields f = fields_of(p);
        if (!(header_flags(p) & FLAG_TRANSPORT)) reason = hidden_reason(f);
        if (reason != REASONS) { drop(p, reason, place); continue; }
        u32 is_established = standing == STANDING_ESTABLISHED;
        u32 follows = header_flags(p) & FLAG_LATER_FRAGMENT;
        if (is_established && (ACCEPTS_ESTABLISHED || follows)) continue;
        Key key;
        find_transport(f, &key);
        if (is_established) key.kind += KIND_ESTABLISHED;
        const GLOBAL u32 *in_v4 = search_v4, *in_v6 = search_v6;
#if HAS_WAYS
        u32 way = way_of(p, ways, hop_ports);
        in_v4 += ways[way];
        in_v6 += ways[way + 1];
#endif
        int accepted;
        if (version == 4) {
            key.src[0] = src_addr_v4(f);
            key.dst[0] = dst_addr_v4(f);
            accepted = is_accepted(in_v4, &key, 1, &reason);
        } else {
            words_of(src_addr_v6(f), key.src);
            words_of(dst_addr_v6(f), key.dst);
            accepted = is_accepted(in_v6, &key, 4, &reason);
        }
        if (!accepted) drop(p, reason, place);
    }
}
