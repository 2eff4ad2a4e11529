/* Writes the findings of `before` into packets, an item a packet: an address, and a port or
 * identifier. Checksums are updated by RFC 1624, never computed over the payload. Packets of which
 * more than the headers is needed are left to the CPU. The tag says what to do. */

FUNCTION int is_source(u32 action)
{
    return action == ACTION_SOURCE || action == ACTION_SOURCE_ADDRESS;
}

FUNCTION int is_address_alone(u32 action)
{
    return action == ACTION_SOURCE_ADDRESS || action == ACTION_DESTINATION_ADDRESS;
}

FUNCTION u32 halves(u32 word) { return (word >> 16) + (word & 0xffff); }

/* A change is a sum: added to a checksum's complement it updates that. */
FUNCTION u32 changed(u32 checksum, u32 change)
{
    return ~fold_sum((~checksum & 0xffff) + change) & 0xffff;
}

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
    if (version == 6)
        return write_v6(source ? src_addr_v6_to_write(f) : dst_addr_v6_to_write(f), to);
    u32 old = source ? src_addr_v4(f) : dst_addr_v4(f);
    if (source) set_src_addr_v4(f, to.words[3]);
    else set_dst_addr_v4(f, to.words[3]);
    u32 change = halves(~old) + halves(to.words[3]);
    set_ip_checksum(f, changed(ip_checksum(f), change));
    return change;
}

/* The checksum in a UDP header that went from `old` to `updated` (RFC 768): "an all zero
 * transmitted checksum value means that the transmitter generated no checksum". */
FUNCTION u32 udp_sum(u32 old, u32 updated)
{
    return old == 0 ? 0 : updated == 0 ? 0xffff : updated;
}

#if HAS_ECHOES
/* The checksum of an ICMPv4 message with another identifier. */
FUNCTION u32 icmp_sum_v4(Fields f, u32 port)
{
    return update_sum(l4_checksum_icmp(f), icmp_ident(f), port);
}

FUNCTION void write_icmp(Fields f, u32 version, u32 port, u32 change)
{
    u32 sum = version == 4 ? icmp_sum_v4(f, port)
                           : update_sum(changed(l4_checksum_icmp(f), change), icmp_ident(f), port);
    set_icmp_ident(f, port);
    set_l4_checksum_icmp(f, sum);
}
#endif

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

/* Whether the headers that are rewritten lie in the frame: what ingress found is believed within
 * the frame only. */
FUNCTION int is_within(Packet p, u32 version, int has_transport)
{
    u32 end = ip_end(p), start = payload_offset(p);
    if (end > frame_len(p) || l3_offset(p) + (version == 4 ? HEADER_LEN_V4 : HEADER_LEN_V6) > end)
        return 0;
    u32 header_len = ip_protocol(p) == IP_PROTOCOL_TCP ? HEADER_LEN_TCP : HEADER_LEN_UDP;
    return !has_transport || (start <= end && l4_offset(p) + header_len <= end);
}

/* Whether more than headers is needed: an error has the packet that it quotes rewritten too, and
 * where an echo's checksum becomes zero the whole message says which of the two zeros it is. */
FUNCTION int needs_payload(Fields f, u32 action, u32 version, u32 port)
{
    if (action == ACTION_ERROR_OUT || action == ACTION_ERROR_IN) return 1;
#if HAS_ECHOES
    int is_echo =
        version == 4 && ip_protocol(f.packet) == IP_PROTOCOL_ICMP && !is_address_alone(action);
    return is_echo && icmp_sum_v4(f, port) == 0;
#else
    return ip_protocol(f.packet) != IP_PROTOCOL_TCP && ip_protocol(f.packet) != IP_PROTOCOL_UDP;
#endif
}

#if IS_SECOND
/* Of IPv6 the four words of the source as one. */
FUNCTION u32 source_of(Fields f, u32 version)
{
    if (version == 4) return src_addr_v4(f);
    GLOBAL const u8 *at = src_addr_v6(f);
    return get_be32(at) ^ get_be32(at + 4) ^ get_be32(at + 8) ^ get_be32(at + 12);
}

FUNCTION int shows_ports(Packet p, u32 version)
{
    u32 protocol = ip_protocol(p), icmp = version == 4 ? IP_PROTOCOL_ICMP : IP_PROTOCOL_ICMPV6;
    if (protocol != IP_PROTOCOL_TCP && protocol != IP_PROTOCOL_UDP && protocol != icmp) return 0;
    return (header_flags(p) & (FLAG_TRANSPORT | FLAG_LATER_FRAGMENT)) != 0;
}
#endif

PACKET_KERNEL(translate)
{
    ITEMS {
        if (index() >= count) continue;
        Packet p = packet_at(arena, packets, packet_rows, index());
        if (!is_ours(p)) continue;
        u32 action = tag_of(p), port = port_of(p), version = ip_version(p);
#if IS_SECOND
        if (action == TAG_HAIRPIN) action = ACTION_SOURCE;
#endif
        if (action == 0 || action > ACTIONS || (version != 4 && version != 6)) continue;
        Fields f = fields_of(p);
#if IS_SECOND
        /* Packets that a function changed since are left to the CPU. */
        int shows = action == ACTION_SOURCE_ADDRESS || shows_ports(p, version);
        if (!shows || source_of(f, version) != scratch(p, WORD_SOURCE)) {
            leave(p, place);
            continue;
        }
        if (header_flags(p) & FLAG_LATER_FRAGMENT) action = ACTION_SOURCE_ADDRESS;
#endif
        if (!is_within(p, version, !is_address_alone(action))
            || needs_payload(f, action, version, port)) {
            leave(p, place);
            continue;
        }
        int source = is_source(action);
        Address to = address_of(p);
        u32 change = write_address(f, version, source, to), protocol = ip_protocol(p);
        if (is_address_alone(action)) continue;
        if (protocol == IP_PROTOCOL_TCP) write_tcp(f, source, port, change);
        else if (protocol == IP_PROTOCOL_UDP) write_udp(f, source, port, change);
#if HAS_ECHOES
        else write_icmp(f, version, port, change);
#endif
    }
}
