/* What `before` found is written into packets, an item a packet: an address, and a port or identifier. Checksums are updated by RFC 1624,
 * never computed over the payload. An ICMP error has the packet that it quotes rewritten too (RFC 5508, 4). The tag says what to do. */

FUNCTION int is_source(u32 action)
{
    return action == ACTION_SOURCE || action == ACTION_SOURCE_ADDRESS || action == ACTION_ERROR_OUT;
}

/* Words of an address. */
FUNCTION u32 address_words(u32 version) { return version == 4 ? 1 : 4; }

FUNCTION u32 halves(u32 word) { return (word >> 16) + (word & 0xffff); }

/* A change is a sum: added to a checksum's complement it updates that. */
FUNCTION u32 changed(u32 checksum, u32 change) { return ~fold_sum((~checksum & 0xffff) + change) & 0xffff; }

FUNCTION u32 change_of(u32 old, u32 new_word) { return (~old & 0xffff) + new_word; }

/* Writes an IPv6 address; gives the change. */
FUNCTION u32 write_v6(GLOBAL u8 *at, Address to)
{
    u32 gone = 0, come = 0;
    for (u32 i = 0; i < 4; i++) {
        gone += halves(get_be32(at + 4 * i));
        come += halves(to.words[i]);
        put_be32(at + 4 * i, to.words[i]);
    }
    return (~fold_sum(gone) & 0xffff) + fold_sum(come);
}

/* Writes the packet's own address; gives the change. */
FUNCTION u32 write_address(Fields f, u32 version, int source, Address to)
{
    if (version == 6) return write_v6(source ? src_addr_v6(f) : dst_addr_v6(f), to);
    u32 old = source ? src_addr_v4(f) : dst_addr_v4(f);
    if (source) set_src_addr_v4(f, to.words[3]);
    else set_dst_addr_v4(f, to.words[3]);
    u32 change = halves(~old) + halves(to.words[3]);
    set_ip_checksum(f, changed(ip_checksum(f), change));
    return change;
}

/* What a UDP header carries after its checksum went from `old` to `updated` (RFC 768): "an all zero transmitted checksum value means that
 * the transmitter generated no checksum". */
FUNCTION u32 udp_sum(u32 old, u32 updated) { return old == 0 ? 0 : updated == 0 ? 0xffff : updated; }

/* Whether an echo is nothing but zeros, the one case in which an update gives the wrong zero. */
FUNCTION int is_all_zero(Fields f, u32 len)
{
    if (icmp_type(f) || icmp_code(f) || icmp_ident(f) || icmp_seq(f)) return 0;
    const GLOBAL u8 *bytes = payload(f);
    for (u32 i = 0; i < len; i++) {
        if (bytes[i]) return 0;
    }
    return 1;
}

FUNCTION void write_icmp(Fields f, u32 version, u32 port, u32 change)
{
    u32 sum = version == 6 ? changed(l4_checksum_icmp(f), change) : l4_checksum_icmp(f);
    sum = update_sum(sum, icmp_ident(f), port);
    set_icmp_ident(f, port);
    u32 len = ip_end(f.packet) - payload_offset(f.packet);
    if (version == 4 && sum == 0 && is_all_zero(f, len)) sum = 0xffff;
    set_l4_checksum_icmp(f, sum);
}

FUNCTION void write_tcp(Fields f, int source, u32 port, u32 change)
{
    u32 old = source ? src_port_tcp(f) : dst_port_tcp(f);
    if (source) set_src_port_tcp(f, port);
    else set_dst_port_tcp(f, port);
    set_l4_checksum_tcp(f, update_sum(changed(l4_checksum_tcp(f), change), old, port));
}

FUNCTION void write_udp(Fields f, int source, u32 port, u32 change)
{
    u32 old = source ? src_port_udp(f) : dst_port_udp(f), sum = l4_checksum_udp(f);
    if (source) set_src_port_udp(f, port);
    else set_dst_port_udp(f, port);
    set_l4_checksum_udp(f, udp_sum(sum, update_sum(changed(sum, change), old, port)));
}

/* A quoted packet: of which version, where its transport header starts, and what that is. */
typedef struct {
    GLOBAL u8 *bytes;
    u32 len, version, l4, protocol;
} Quote;

FUNCTION int is_echo(u32 version, u32 kind)
{
    return version == 4 ? kind == ECHO_REQUEST || kind == ECHO_REPLY : kind == ECHO_REQUEST_V6 || kind == ECHO_REPLY_V6;
}

/* Whether the quote shows its ports, so that it can be rewritten. */
FUNCTION int read_quote(Quote *q)
{
    u32 header_len = q->version == 4 ? HEADER_LEN_V4 : HEADER_LEN_V6;
    if (q->len < header_len || q->bytes[0] >> 4 != q->version) return 0;
    if (q->version == 4) {
        header_len = (q->bytes[0] & 15) * 4;
        if (header_len < HEADER_LEN_V4 || ip_fragment_at(q->bytes) & OFFSET_MASK) return 0;
    }
    q->l4 = header_len;
    q->protocol = q->version == 4 ? ip_protocol_v4_at(q->bytes) : ip_protocol_v6_at(q->bytes);
    if (q->protocol == IP_PROTOCOL_TCP || q->protocol == IP_PROTOCOL_UDP) return q->len >= q->l4 + PORTS_END;
    if (q->protocol != (q->version == 4 ? IP_PROTOCOL_ICMP : IP_PROTOCOL_ICMPV6)) return 0;
    return q->len >= q->l4 + IDENT_END && is_echo(q->version, icmp_type_at(q->bytes + q->l4));
}

/* Rewrites the transport header of a quote, of whose pseudo-header `change` is the change; gives the error's checksum. */
FUNCTION u32 rewrite_quoted_transport(const Quote *q, int source, u32 port, u32 change, u32 outer)
{
    GLOBAL u8 *header = q->bytes + q->l4;
    u32 old, sum, updated;
    if (q->protocol == IP_PROTOCOL_TCP) {
        old = source ? src_port_tcp_at(header) : dst_port_tcp_at(header);
        if (source) set_src_port_tcp_at(header, port);
        else set_dst_port_tcp_at(header, port);
        outer = update_sum(outer, old, port);
        if (q->len < q->l4 + CHECKSUM_END_OF_TCP) return outer;
        sum = l4_checksum_tcp_at(header);
        updated = changed(sum, change + change_of(old, port));
        set_l4_checksum_tcp_at(header, updated);
    } else if (q->protocol == IP_PROTOCOL_UDP) {
        old = source ? src_port_udp_at(header) : dst_port_udp_at(header);
        if (source) set_src_port_udp_at(header, port);
        else set_dst_port_udp_at(header, port);
        outer = update_sum(outer, old, port);
        if (q->len < q->l4 + CHECKSUM_END_OF_UDP) return outer;
        sum = l4_checksum_udp_at(header);
        updated = udp_sum(sum, changed(sum, change + change_of(old, port)));
        set_l4_checksum_udp_at(header, updated);
    } else {
        old = icmp_ident_at(header);
        set_icmp_ident_at(header, port);
        outer = update_sum(outer, old, port);
        sum = l4_checksum_icmp_at(header);
        /* ICMPv4 has no pseudo-header. */
        updated = changed(sum, (q->version == 4 ? 0 : change) + change_of(old, port));
        set_l4_checksum_icmp_at(header, updated);
    }
    return update_sum(outer, sum, updated);
}

/* Rewrites one end of the quoted packet; gives the checksum of the error after that. */
FUNCTION u32 rewrite_quote(Quote *q, int source, Address to, u32 port, u32 outer)
{
    if (!read_quote(q)) return outer;
    GLOBAL u8 *at = q->version == 6 ? (source ? src_addr_v6_at(q->bytes) : dst_addr_v6_at(q->bytes)) : q->bytes;
    u32 words = address_words(q->version), change = 0;
    for (u32 i = 0; i < words; i++) {
        u32 old, word = to.words[4 - words + i];
        if (q->version == 6) {
            old = get_be32(at + 4 * i);
            put_be32(at + 4 * i, word);
        } else if (source) {
            old = src_addr_v4_at(at);
            set_src_addr_v4_at(at, word);
        } else {
            old = dst_addr_v4_at(at);
            set_dst_addr_v4_at(at, word);
        }
        outer = update_sum(update_sum(outer, old >> 16, word >> 16), old & 0xffff, word & 0xffff);
        change += halves(~old) + halves(word);
    }
    if (q->version == 4) {
        u32 sum = ip_checksum_at(q->bytes), updated = changed(sum, change);
        set_ip_checksum_at(q->bytes, updated);
        outer = update_sum(outer, sum, updated);
    }
    return rewrite_quoted_transport(q, source, port, change, outer);
}

/* An error's checksum follows every word that changes. Of the quote the other end is rewritten. */
FUNCTION void write_error(Fields f, u32 version, int source, Address to, u32 port, u32 change)
{
    Quote q;
    q.bytes = payload(f);
    q.len = ip_end(f.packet) - payload_offset(f.packet);
    q.version = version;
    u32 sum = version == 6 ? changed(l4_checksum_icmp(f), change) : l4_checksum_icmp(f);
    set_l4_checksum_icmp(f, rewrite_quote(&q, !source, to, port, sum));
}

/* Whether the headers that are rewritten lie in the frame: what ingress found is believed within the frame only. */
FUNCTION int is_within(Packet p, u32 version, int has_transport)
{
    u32 end = ip_end(p), start = payload_offset(p);
    if (end > frame_len(p) || l3_offset(p) + (version == 4 ? HEADER_LEN_V4 : HEADER_LEN_V6) > end) return 0;
    u32 header_len = ip_protocol(p) == IP_PROTOCOL_TCP ? HEADER_LEN_TCP : HEADER_LEN_UDP;
    return !has_transport || (start <= end && l4_offset(p) + header_len <= end);
}

PACKET_KERNEL(translate)
{
    ITEMS {
        if (index() >= count) continue;
        Packet p = packet_at(arena, packets, index());
        if (!is_ours(p)) continue;
        u32 action = tag_of(p), port = port_of(p), version = ip_version(p);
        if (action == 0 || action > ACTIONS || (version != 4 && version != 6)) continue;
        if (!is_within(p, version, action != ACTION_SOURCE_ADDRESS)) { leave(p, place); continue; }
        Fields f = fields_of(p);
        int source = is_source(action);
        Address to = address_of(p);
        u32 change = write_address(f, version, source, to), protocol = ip_protocol(p);
        if (action == ACTION_SOURCE_ADDRESS) continue;
        if (action == ACTION_ERROR_OUT || action == ACTION_ERROR_IN) write_error(f, version, source, to, port, change);
        else if (protocol == IP_PROTOCOL_TCP) write_tcp(f, source, port, change);
        else if (protocol == IP_PROTOCOL_UDP) write_udp(f, source, port, change);
        else write_icmp(f, version, port, change);
    }
}
