/* IP in IP, an item a packet: the packet goes to its backend in another one. The tag is the outer
 * version of IP. */

/* A packet that is carried: its version, where its IP header lies in the frame, and its bytes as
 * that says. */
typedef struct {
    u32 version, l3, len;
} Inner;

FUNCTION Inner inner_of(Packet p)
{
    Inner inner;
    Fields f = fields_of(p);
    inner.version = ip_version(p);
    inner.l3 = l3_offset(p);
    u32 said = inner.version == 4 ? ip_len_v4(f) : ip_len_v6(f);
    /* 0 says nothing: the CPU finds the length. */
    inner.len = said == 0 ? 0 : inner.version == 4 ? said : HEADER_LEN_V6 + said;
    return inner;
}

/* The length that the frame had, whatever was captured. */
FUNCTION u32 whole_len(Packet p) { return wire_len(p) > frame_len(p) ? wire_len(p) : frame_len(p); }

/* Whether the packet's IP header lies in the frame: what ingress found is believed within the frame
 * only. */
FUNCTION int has_header(Packet p)
{
    u32 version = ip_version(p), end = ip_end(p);
    return (version == 4 || version == 6) && end <= frame_len(p)
        && l3_offset(p) + ip_header_len(version) <= end;
}

/* Whether the packet is what a tunnel of IP `version` can carry, so that no header comes out that
 * lies. */
FUNCTION int is_carried(Packet p, Inner inner, u32 version)
{
    u32 other = version == 4 ? LINKTYPE_IPV6 : LINKTYPE_IPV4;
    u32 said = version == 4 ? inner.len + HEADER_LEN_V4 : inner.len;
    return link_of(p) != other && inner.len >= ip_header_len(inner.version) && said <= 65535
        && inner.l3 + inner.len <= whole_len(p);
}

/* RFC 2003, 3.1. DSCP and ECN are the inner packet's (RFC 6040, 4.1), and so is whether it may be
 * fragmented on its way. */
FUNCTION void write_outer_v4(Packet p, GLOBAL u8 *out, const GLOBAL u8 *ip, Inner inner)
{
    put_be32(out, 0x45000000);
    set_traffic_class_v4_at(out, class_of(ip, inner.version));
    set_ip_len_v4_at(out, inner.len + HEADER_LEN_V4);
    set_ip_ident_at(
        out, inner.version == 4 ? ip_ident_at(ip) + (ip_fragment_at(ip) & FRAGMENT_OFFSET) : 0);
    set_ip_fragment_at(out, inner.version == 4 ? ip_fragment_at(ip) & DONT_FRAGMENT : 0);
    set_ttl_v4_at(out, HOPS);
    set_ip_protocol_v4_at(out, inner.version == 4 ? IP_PROTOCOL_IPV4 : IP_PROTOCOL_IPV6);
    set_ip_checksum_at(out, 0);
    set_src_addr_v4_at(out, (u32)SRC_V4 | (flow_hash(p) & (u32)SRC_V4_OF_HASH));
    set_dst_addr_v4_at(out, address_of(p).words[3]);
    set_ip_checksum_at(out, ~fold_sum(sum_bytes(out, HEADER_LEN_V4)));
}

/* RFC 2473, 3. The flow label is part of the flow's hash (RFC 6438). */
FUNCTION void write_outer_v6(Packet p, GLOBAL u8 *out, const GLOBAL u8 *ip, Inner inner)
{
    u32 hash = flow_hash(p);
    Address to = address_of(p);
    const u32 src[4] = { (u32)SRC_V6_0, (u32)SRC_V6_1, (u32)SRC_V6_2,
        (u32)SRC_V6_3 | (hash & (u32)SRC_V6_OF_HASH) };
    set_traffic_class_v6_at(out, 6u << 28 | class_of(ip, inner.version) << 20 | (hash & 0xfffff));
    set_ip_len_v6_at(out, inner.len);
    set_ip_protocol_v6_at(out, inner.version == 4 ? IP_PROTOCOL_IPV4 : IP_PROTOCOL_IPV6);
    set_ttl_v6_at(out, HOPS);
    for (u32 i = 0; i < 4; i++) {
        put_be32(src_addr_v6_to_write_at(out) + 4 * i, src[i]);
        put_be32(dst_addr_v6_to_write_at(out) + 4 * i, to.words[i]);
    }
}

/* Tells how long the frame is, and what the headers are that were written. */
FUNCTION void set_carried_headers(Packet p, Inner inner, u32 version)
{
    u32 outer_len = ip_header_len(version), len = frame_len(p) + outer_len,
        whole = whole_len(p) + outer_len;
    u32 body = inner.l3 + outer_len, end = body + inner.len;
    u32 flags = (header_flags(p) & (FLAG_VLAN | FLAGS_KEPT)) | FLAG_WRAPPED;
    if (whole > len) flags |= FLAG_SNAPPED;
    CELL(u16, p, COLUMN_START) = (u16)(CELL(u16, p, COLUMN_START) - outer_len);
    CELL(u32, p, COLUMN_FRAME_LEN) = len;
    CELL(u32, p, COLUMN_WIRE_LEN) = whole;
    HEADERS_CELL(u32, p, HEADERS_END) = end < len ? end : len;
    HEADERS_CELL(u16, p, HEADERS_L4) = HEADERS_CELL(u16, p, HEADERS_PAYLOAD) = (u16)body;
    HEADERS_CELL(u16, p, HEADERS_FLAGS) = (u16)flags;
    HEADERS_CELL(u8, p, HEADERS_VERSION) = (u8)version;
    HEADERS_CELL(u8, p, HEADERS_PROTOCOL) =
        (u8)(inner.version == 4 ? IP_PROTOCOL_IPV4 : IP_PROTOCOL_IPV6);
}

/* Moves the link header to the front and puts a header of IP `version` after it. */
FUNCTION void carry(Packet p, Inner inner, u32 version)
{
    u32 outer_len = ip_header_len(version);
    GLOBAL u8 *frame = frame_of(p) - outer_len, *out = frame + inner.l3;
    move_down(frame, frame + outer_len, inner.l3);
    if (version == 4) write_outer_v4(p, out, out + outer_len, inner);
    else write_outer_v6(p, out, out + outer_len, inner);
    if (version != inner.version) set_kind(frame, link_of(p), inner.l3, version);
    set_carried_headers(p, inner, version);
}

PACKET_KERNEL(tunnel)
{
    ITEMS {
        if (index() >= count) continue;
        Packet p = packet_at(arena, packets, packet_rows, index());
        if (!is_ours(p)) continue;
        u32 version = tag_of(p);
        if (version != 4 && version != 6) continue;
        if (!has_header(p)) { leave(p, place); continue; }
        Inner inner = inner_of(p);
        if (!is_carried(p, inner, version)) leave(p, place);
        else if (ip_header_len(version) > CELL(u16, p, COLUMN_START))
            drop(p, REASON_TOO_LONG, place);
        else carry(p, inner, version);
    }
}
