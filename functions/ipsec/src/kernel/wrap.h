/* Puts ESP around a packet (RFC 4303, 3.3): everything but the cipher's work. */

/* Congestion is reported in the lower two bits of the traffic class (RFC 3168, 5). */
#define ECN 3

/* Writes the header of a tunnel packet of `len` bytes (RFC 4301, 5.1.2; RFC 6040, 4.1). */
FUNCTION void write_outer(Task t, GLOBAL u8 *out, u32 inner_class, int inner_dont_fragment, u32 len)
{
    const GLOBAL u8 *sa = t.sa;
    for (u32 i = 0; i < sa[SA_OUTER_LEN]; i++) out[i] = sa[SA_OUTER_HEADER + i];
    u32 traffic = sa[SA_DSCP] == DSCP_COPY ? inner_class & ~ECN : sa[SA_DSCP];
    if (sa[SA_ECN]) traffic |= inner_class & ECN;
    if (sa[SA_OUTER_VERSION] == 6) {
        set_traffic_class_v6_at(out, 6u << 28 | traffic << 20);
        set_ip_len_v6_at(out, len - 40);
        return;
    }
    u32 how = sa[SA_DONT_FRAGMENT];
    int dont_fragment = how == DONT_FRAGMENT_COPY ? inner_dont_fragment : how == DONT_FRAGMENT_SET;
    set_traffic_class_v4_at(out, traffic);
    set_ip_len_v4_at(out, len);
    /* The header in the row is that of packet 0. */
    u32 first = (u32)sa[SA_OUTER_HEADER + 4] << 8 | sa[SA_OUTER_HEADER + 5];
    set_ip_ident_at(out, dont_fragment ? 0 : t.low ^ first);
    set_ip_fragment_at(out, dont_fragment ? IPV4_DONT_FRAGMENT : 0);
    set_ip_checksum_at(out, 0);
    set_ip_checksum_at(out, ~fold_sum(sum_bytes(out, 20)));
}

/* Writes the length of a packet that states none, as one that was captured before segmentation. */
FUNCTION void state_len(GLOBAL u8 *ip, u32 version, u32 len)
{
    u32 fixed = version == 4 ? 0 : 40;
    u32 stated = version == 4 ? ip_len_v4_at(ip) : ip_len_v6_at(ip);
    if (stated != 0 || len <= fixed || len - fixed > 0xffff) return;
    if (version == 4) {
        set_ip_len_v4_at(ip, len);
        set_ip_checksum_at(ip, update_sum(ip_checksum_at(ip), 0, len));
    } else {
        set_ip_len_v6_at(ip, len - fixed);
    }
}

/* RFC 4303, 2.4: padding is 1, 2, 3 and so on. */
FUNCTION void write_trailer(GLOBAL u8 *pad, u32 pad_len, u32 protocol)
{
    for (u32 i = 0; i < pad_len; i++) pad[i] = (u8)(i + 1);
    pad[pad_len] = (u8)pad_len;
    pad[pad_len + 1] = (u8)protocol;
}

/* Tells what the headers are that were written. */
FUNCTION void set_sealed_headers(Task t, u32 len, u32 l4)
{
    Packet p = t.packet;
    u32 is_tunnel = t.sa[SA_OUTER_LEN] != 0;
    u32 flags = (header_flags(p) & ~(u32)FLAG_OPENED) | FLAG_TRANSPORT;
    if (is_tunnel) {
        flags &= ~(FLAG_FRAGMENT | FLAG_LATER_FRAGMENT | FLAG_IP_OPTIONS);
        flags |= FLAG_WRAPPED;
        HEADERS_CELL(u8, p, HEADERS_VERSION) = t.sa[SA_OUTER_VERSION];
    }
    HEADERS_CELL(u32, p, HEADERS_END) = len;
    HEADERS_CELL(u16, p, HEADERS_L4) = (u16)l4;
    /* UDP and ESP have headers of the same length. */
    HEADERS_CELL(u16, p, HEADERS_PAYLOAD) = (u16)(l4 + HEADER_LEN_ESP);
    HEADERS_CELL(u16, p, HEADERS_FLAGS) = (u16)flags;
    HEADERS_CELL(u8, p, HEADERS_PROTOCOL) =
        (u8)(t.sa[SA_UDP_LEN] ? IP_PROTOCOL_UDP : IP_PROTOCOL_ESP);
}

/* Grows the packet by what its SA takes, moves its headers to the front, writes those of the
 * tunnel, of UDP and of ESP, padding and trailer. Says where ESP lies; no bytes, and nothing is
 * done, where there is no room or it is left to the CPU. */
FUNCTION Stretch wrap(Task t, u32 place)
{
    Packet p = t.packet;
    const GLOBAL u8 *sa = t.sa;
    Stretch esp = {0, 0};
    GLOBAL u8 *frame = frame_of(p);
    u32 version = ip_version(p), l3 = l3_offset(p), end = ip_end(p),
        start = CELL(u16, p, COLUMN_START);
    u32 outer_len = sa[SA_OUTER_LEN], is_tunnel = outer_len != 0;
    if (!is_usual_shape(t)
        || (!is_tunnel && version == 6 && is_extension(next_of(frame + l3, version)))) {
        leave(p, place);
        return esp;
    }
    u32 body = is_tunnel ? l3 : l4_offset(p), carried = end - body;
    u32 protocol = !is_tunnel ? next_of(frame + l3, version)
        : version == 4        ? IP_PROTOCOL_IPV4
                              : IP_PROTOCOL_IPV6;
    u32 block = sa[SA_BLOCK_LEN], text_len = (carried + 2 + block - 1) / block * block;
    u32 front = outer_len + sa[SA_UDP_LEN] + HEADER_LEN_ESP + sa[SA_IV_LEN];
    u32 len = front + end - carried + text_len + sa[SA_ICV_LEN];
    if (front > start || start - front + len > CELL(u32, p, COLUMN_ROOM_LEN)) {
        flag(p, place);
        drop(p, REASON_TOO_BIG, place);
        return esp;
    }
    u32 inner_class = class_of(frame + l3, version);
    int dont_fragment = version == 6 || (ip_fragment_at(frame + l3) & IPV4_DONT_FRAGMENT) != 0;
    if (is_tunnel) state_len(frame + l3, version, carried);
    write_trailer(frame + end, text_len - carried - 2, protocol);
    frame -= front;
    move_down(frame, frame + front, body);
    u32 l4 = body + outer_len;
    if (is_tunnel) {
        write_outer(t, frame + l3, inner_class, dont_fragment, len - l3);
        if (sa[SA_OUTER_VERSION] != version) set_kind(frame, link_of(p), l3, sa[SA_OUTER_VERSION]);
    } else {
        mend_ip_header(
            frame + l3, version, len - l3, sa[SA_UDP_LEN] ? IP_PROTOCOL_UDP : IP_PROTOCOL_ESP);
    }
    for (u32 i = 0; i < sa[SA_UDP_LEN]; i++) frame[l4 + i] = sa[SA_UDP_HEADER + i];
    if (sa[SA_UDP_LEN]) set_udp_len_at(frame + l4, len - l4);
    esp.at = l4 + sa[SA_UDP_LEN];
    esp.len = len - esp.at;
    set_esp_spi_at(frame + esp.at, get_be32(sa + SA_SPI));
    set_esp_seq_at(frame + esp.at, t.low);
    CELL(u16, p, COLUMN_START) = (u16)(start - front);
    CELL(u32, p, COLUMN_FRAME_LEN) = CELL(u32, p, COLUMN_WIRE_LEN) = len;
    set_sealed_headers(t, len, l4);
    return esp;
}

/* Writes the checksum of UDP over IPv6, which covers the encrypted text. */
FUNCTION void finish(Task t)
{
    Packet p = t.packet;
    if (!t.sa[SA_UDP_LEN] || ip_version(p) != 6) return;
    GLOBAL u8 *frame = frame_of(p);
    u32 l4 = l4_offset(p);
    fill_udp_sum(frame + l3_offset(p), 6, frame + l4, ip_end(p) - l4);
}
