/* Longest match over IPv4 (DIR-24-8) and IPv6 (Poptrie), and what is done for the next hop: an item
 * a packet. The tables are those that the CPU looks up, as `kernels.rs` lays them out; references
 * in them are right by their making. */

/* The action for packets of a next hop: bytes 0 to 5 are the Ethernet address to write, 6 is
 * the kind, 7 the reason for which they are dropped. */
#define ACTION_WORDS 2
#define KIND_DROP 0
#define KIND_REWRITE 2

/* An entry of either table of DIR-24-8: a next hop or, where its top bit is set, the number of a
 * group of 256 entries. */
#if ENTRY_BITS == 16
typedef u16 Entry;
#else
typedef u32 Entry;
#endif
#define ENTRY_GROUP ((u32)1 << (ENTRY_BITS - 1))

FUNCTION u32 next_hop_v4(const GLOBAL Entry *tbl24, const GLOBAL Entry *tbl8, u32 address)
{
    u32 entry = tbl24[address >> 8];
    return entry & ENTRY_GROUP ? tbl8[(entry - ENTRY_GROUP) * 256 + (address & 255)] : entry;
}

/* References in the Poptrie are numbers of nodes or, with the top bit set, of leaves, which are
 * next hops. */
#define LEAF 0x80000000u
/* Bits of the flat table's index, and bits that a node decides on. */
#define DIRECT_BITS 18
#define STRIDE 6

/* A node is 32 bytes: a vector of its slots that have a child, one of the slots where a run of
 * equal next hops begins, both 64 bits; the first child; the leaf before the first run's. The last
 * eight are zero. */
#define NODE_LEN 32
#define NODE_FIRST_CHILD 16
#define NODE_BEFORE_LEAVES 20

FUNCTION u32 count_ones64(u64 vector)
{
    return count_ones((u32)vector) + count_ones((u32)(vector >> 32));
}

/* The target of a slot of a node. Runs are counted with the slot's own bit, children without. */
FUNCTION u32 step(const GLOBAL u8 *node, u32 slot)
{
    u32x4 vectors = load16(node);
    u64 children = (u64)vectors.y << 32 | vectors.x, runs = (u64)vectors.w << 32 | vectors.z;
    u64 before = ((u64)1 << slot) - 1;
    if (children >> slot & 1)
        return *(const GLOBAL u32 *)(node + NODE_FIRST_CHILD) + count_ones64(children & before);
    return (*(const GLOBAL u32 *)(node + NODE_BEFORE_LEAVES) | LEAF)
        + count_ones64(runs & (before << 1 | 1));
}

FUNCTION u32 next_hop_v6(const GLOBAL u32 *direct, const GLOBAL u8 *nodes, const GLOBAL u16 *leaves,
                         const GLOBAL u8 *address)
{
    u64 high = (u64)get_be32(address) << 32 | get_be32(address + 4);
    u64 low = (u64)get_be32(address + 8) << 32 | get_be32(address + 12);
    u32 reference = direct[(u32)(high >> (64 - DIRECT_BITS))], bits = DIRECT_BITS;
    while (!(reference & LEAF)) {
        /* The bits that were decided on leave at the top; after the last ones come zeros. */
        high = high << bits | low >> (64 - bits);
        low <<= bits;
        bits = STRIDE;
        reference = step(nodes + NODE_LEN * reference, (u32)(high >> (64 - STRIDE)));
    }
    return leaves[reference - LEAF];
}

#if !ONLY_WRAPPED
/* Takes one off the TTL and mends the checksum (RFC 1624), whose word has the TTL as its upper
 * half; says whether there was one to take: "If the TTL is reduced to zero (or less), the packet
 * MUST be discarded" (RFC 1812, 5.3.1). */
FUNCTION int decrement_v4(Fields f)
{
    u32 ttl = ttl_v4(f);
    if (ttl <= 1) return 0;
    set_ttl_v4(f, ttl - 1);
    u32 old = ip_checksum(f);
    /* The carry goes round. */
    set_ip_checksum(f, old + 0x100 + (old >= 0xfeff));
    return 1;
}

FUNCTION int decrement_v6(Fields f)
{
    u32 ttl = ttl_v6(f);
    if (ttl <= 1) return 0;
    set_ttl_v6(f, ttl - 1);
    return 1;
}
#endif

/* ANSWERED has a bit for each reason that ICMP errors tell of. */
FUNCTION void refuse(Packet p, u32 reason, u32 place)
{
#if ANSWERED
    if ((u32)ANSWERED >> reason & 1) flag(p, place);
#endif
    set_next_hop(p, 0);
    drop(p, reason, place);
}

/* Drops a packet that is not IP, or cut before the end of its IP header. */
FUNCTION void refuse_other(Packet p, u32 place)
{
    refuse(p, header_flags(p) & FLAG_IP_CUT ? REASON_SNAPPED : REASON_NON_IP, place);
}

/* CHECKED has a bit for each reason for which packets are dropped whatever their route. */
FUNCTION int is_checked(u32 reason) { return (u32)CHECKED >> reason & 1; }

/* The sum over an IPv4 header without options (RFC 1071): 0xffff where its checksum is right. */
FUNCTION u32 header_sum(Fields f)
{
    u32 src = src_addr_v4(f), dst = dst_addr_v4(f);
    u32 sum =
        0x4500 + traffic_class_v4(f) + ip_len_v4(f) + ip_ident(f) + ip_fragment(f) + ip_checksum(f);
    sum += (ttl_v4(f) << 8 | ip_protocol_v4(f)) + (src >> 16) + (src & 0xffff) + (dst >> 16)
        + (dst & 0xffff);
    sum = (sum >> 16) + (sum & 0xffff);
    return (sum >> 16) + (sum & 0xffff);
}

FUNCTION int is_martian_v4(u32 src)
{
    return src == 0 || src >> 24 == 127 || src >> 28 == 0xe || src == 0xffffffffu;
}

FUNCTION int is_martian_v6(const GLOBAL u8 *src)
{
    u32 first = get_be32(src);
    if (first == 0) return (get_be32(src + 4) | get_be32(src + 8)) == 0 && get_be32(src + 12) <= 1;
    return first >> 24 == 0xff || first >> 22 == 0x3fa;
}

/* Why a packet must not go on, whatever its route; REASONS where nothing is against it. */
FUNCTION u32 objection(Fields f, u32 version)
{
    int is_martian, is_group;
    if (version == 4) {
        u32 dst = dst_addr_v4(f);
        if (is_checked(REASON_BAD_CHECKSUM) && header_sum(f) != 0xffff) return REASON_BAD_CHECKSUM;
        is_martian = is_martian_v4(src_addr_v4(f));
        is_group = dst >> 28 == 0xe || dst == 0xffffffffu;
    } else {
        is_martian = is_martian_v6(src_addr_v6(f));
        is_group = dst_addr_v6(f)[0] == 0xff;
    }
    if (is_martian && is_checked(REASON_MARTIAN_SOURCE)) return REASON_MARTIAN_SOURCE;
    if (!is_checked(REASON_FRAME_TO_MANY) || is_group || !is_ethernet(f.packet)) return REASONS;
    return eth_dst(f)[0] & 1 ? REASON_FRAME_TO_MANY : REASONS;
}

/* Whether more than the fields of headers says whether it may go on: options, and how a cooked
 * frame was sent. */
FUNCTION int is_for_cpu(Packet p)
{
    return header_flags(p) & FLAG_IP_OPTIONS || link_of(p) == LINKTYPE_LINUX_SLL
        || link_of(p) == LINKTYPE_LINUX_SLL2;
}

PACKET_KERNEL(route)
{
    ITEMS {
        if (index() >= count) continue;
        Packet p = packet_at(arena, packets, packet_rows, index());
        if (!is_ours(p)) continue;
#if ONLY_WRAPPED
        if (!(header_flags(p) & FLAG_WRAPPED)) continue;
#endif
        if (reject_malformed(p, place)) continue;
        u32 version = ip_version(p), header_len = version == 4 ? HEADER_LEN_V4 : HEADER_LEN_V6;
        if (version != 4 && version != 6) { refuse_other(p, place); continue; }
        /* Ingress found the whole header; what it found is believed within the frame only. */
        if (l3_offset(p) + header_len > frame_len(p)) { leave(p, place); continue; }
        if (is_for_cpu(p)) { leave(p, place); continue; }
        Fields f = fields_of(p);
        u32 against = objection(f, version);
        if (against != REASONS) { refuse(p, against, place); continue; }
        u32 hop = version == 4 ? next_hop_v4(tbl24, tbl8, dst_addr_v4(f))
                               : next_hop_v6(direct, nodes, leaves, dst_addr_v6(f));
        if (hop >= HOPS) { refuse(p, REASON_NO_ROUTE, place); continue; }
        u32 first = actions[ACTION_WORDS * hop], second = actions[ACTION_WORDS * hop + 1];
        u32 kind = second >> 16 & 255;
        if (kind == KIND_DROP) { refuse(p, second >> 24, place); continue; }
#if !ONLY_WRAPPED
        if (!(version == 4 ? decrement_v4(f) : decrement_v6(f))) {
            refuse(p, REASON_TTL_EXCEEDED, place);
            continue;
        }
#endif
#if HAS_MAC
        if (kind == KIND_REWRITE) write_mac_addresses(f, first, second);
#endif
        set_next_hop(p, FIRST_HOP + hop);
    }
}
