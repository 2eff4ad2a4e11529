/* The hash of each packet's flow, an item a packet: of its endpoints and its protocol, the same for
 * both directions. `key` has the low and the high half of what the hash is keyed by. */

/* An address: of IPv4 in the low half. */
typedef struct {
    u64 low, high;
} Address;

/* The flow of a packet. ICMP has no ports: `both` has its message, which is the same in both
 * directions. */
typedef struct {
    Address src, dst;
    u32 src_port, dst_port, both;
} Ends;

FUNCTION u64 wide(u32 high, u32 low) { return (u64)high << 32 | low; }

FUNCTION u64 high_product(u64 a, u64 b)
{
    u64 a_low = (u32)a, a_high = a >> 32, b_low = (u32)b, b_high = b >> 32;
    u64 one = a_high * b_low + (a_low * b_low >> 32), other = a_low * b_high + (u32)one;
    return a_high * b_high + (one >> 32) + (other >> 32);
}

/* Both halves of a product, together. */
FUNCTION u64 mix(u64 a, u64 b) { return a * b ^ high_product(a, b); }

FUNCTION u64 hash_end(u64 own_key, Address address, u32 port)
{
    u64 turned_key = own_key << 32 | own_key >> 32;
    return mix(address.low ^ (u64)port << 48 ^ own_key ^ 0x9e3779b97f4a7c15,
        address.high ^ turned_key ^ 0xbf58476d1ce4e5b9);
}

FUNCTION u32 hash_flow(u64 own_key, Ends ends, u32 protocol, u32 version)
{
    u64 both_ends =
        hash_end(own_key, ends.src, ends.src_port) + hash_end(own_key, ends.dst, ends.dst_port);
    u64 kind = (u64)ends.both << 16 | protocol << 8 | version;
    u64 hash = mix(both_ends ^ kind, own_key ^ 0x94d049bb133111eb);
    return (u32)(hash >> 32) ^ (u32)hash;
}

FUNCTION Address address_v6(const GLOBAL u8 *at)
{
    Address address;
    address.high = wide(get_be32(at), get_be32(at + 4));
    address.low = wide(get_be32(at + 8), get_be32(at + 12));
    return address;
}

FUNCTION Address address_v4(u32 word)
{
    Address address;
    address.high = 0;
    address.low = word;
    return address;
}

/* Identifier, type and code of a message: an echo's type is that of its request, and nothing else
 * has an identifier. */
FUNCTION u32 message_of(Fields f, u32 version)
{
    u32 kind = icmp_type(f), code = icmp_code(f);
    u32 request = version == 4 ? ECHO_REQUEST : ECHO_REQUEST_V6,
        reply = version == 4 ? ECHO_REPLY : ECHO_REPLY_V6;
    if (kind != request && kind != reply) return kind << 8 | code;
    return icmp_ident(f) << 16 | request << 8 | code;
}

FUNCTION Ends ends_of(Fields f, u32 version)
{
    Ends ends;
    u32 protocol = ip_protocol(f.packet);
    ends.src_port = ends.dst_port = ends.both = 0;
    ends.src = version == 4 ? address_v4(src_addr_v4(f)) : address_v6(src_addr_v6(f));
    ends.dst = version == 4 ? address_v4(dst_addr_v4(f)) : address_v6(dst_addr_v6(f));
    if (!(header_flags(f.packet) & FLAG_TRANSPORT)) return ends;
    if (protocol == IP_PROTOCOL_TCP) {
        ends.src_port = src_port_tcp(f);
        ends.dst_port = dst_port_tcp(f);
    } else if (protocol == IP_PROTOCOL_UDP) {
        ends.src_port = src_port_udp(f);
        ends.dst_port = dst_port_udp(f);
    } else if (protocol == (version == 4 ? IP_PROTOCOL_ICMP : IP_PROTOCOL_ICMPV6)) {
        ends.both = message_of(f, version);
    }
    return ends;
}

/* Whether the headers that are read lie in the frame: what ingress found is believed within it
 * only. */
FUNCTION int is_within(Packet p, u32 version)
{
    u32 end = l3_offset(p) + (version == 4 ? HEADER_LEN_V4 : HEADER_LEN_V6);
    u32 seen = header_flags(p) & FLAG_TRANSPORT ? l4_offset(p) + SEEN_OF_TRANSPORT : 0;
    return end <= frame_len(p) && seen <= frame_len(p);
}

PACKET_KERNEL(hash_flows)
{
    ITEMS {
        if (index() >= count) continue;
        Packet p = packet_at(arena, packets, packet_rows, index());
        if (!is_ours(p)) continue;
        u32 version = ip_version(p), hash = 0;
        if (!malformed(p) && (version == 4 || version == 6)) {
            if (!is_within(p, version)) { leave(p, place); continue; }
            hash = hash_flow(
                wide(key[1], key[0]), ends_of(fields_of(p), version), ip_protocol(p), version);
        }
        set_scratch(p, WORD, hash);
    }
}
