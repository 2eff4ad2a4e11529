/* ESP (RFC 4303) on a device: `ipsec_seal` wraps and seals packets; `ipsec_open_counter` opens and strips those of counter modes, and
 * `ipsec_open` all others. An item a packet. They give what the CPU's `run` gives, byte for byte, or leave a packet to it as it came:
 * those of unusable rows, with IPv6 extension headers or IPv4 options where headers have to be found anew, and those that would come
 * out malformed. */

FUNCTION void seal_packet(Task t, u32 place, const LOCAL u32 *encrypting)
{
    Stretch stretch = wrap(t, place);
    if (stretch.len == 0) return;
    Esp e = esp_of(t, stretch);
    seal_text(&e, encrypting);
    write_icv(e, encrypting);
    finish(t);
}

PACKET_KERNEL(ipsec_seal)
{
    SHARED_BIG(u32, encrypting, AES_TABLE);
    ITEMS { aes_begin(encrypting); }
    ITEMS { aes_fill(encrypting); }
    ITEMS {
        Task t;
        if (index() >= count) continue;
        Packet p = packet_at(arena, packets, packet_rows, index());
        if (is_ours(p) && has_task(p, sas, WORK_SEAL, place, &t)) seal_packet(t, place, encrypting);
    }
}

/* ESP in the packet of task `t`; no bytes where it has none (RFC 3948, 2). */
FUNCTION Stretch find_esp(Task t)
{
    Packet p = t.packet;
    Fields f = fields_of(p);
    Stretch esp = {0, 0};
    u32 at = l4_offset(p), end = ip_end(p), in_udp = ip_protocol(p) == IP_PROTOCOL_UDP;
    if (in_udp) {
        if (at + 8 > end || dst_port_udp(f) != NAT_T_PORT) return esp;
        u32 own = at + udp_len(f);
        if (own < end) end = own;
        at += 8;
    } else if (ip_protocol(p) != IP_PROTOCOL_ESP) {
        return esp;
    }
    /* Four bytes of zero stand before IKE. */
    if (at + HEADER_LEN_ESP > end || (in_udp && esp_spi_at(f.link + at) == 0)) return esp;
    esp.at = at;
    esp.len = end - at;
    return esp;
}

/* Whether `len` bytes of ESP are what the SA's algorithms make. */
FUNCTION int is_right_len(const GLOBAL u8 *sa, u32 len)
{
    u32 around = HEADER_LEN_ESP + sa[SA_IV_LEN] + sa[SA_ICV_LEN];
    return len >= around && (len - around) % sa[SA_BLOCK_LEN] == 0;
}

/* Flags a packet that did not authenticate, where it may yet as another number. */
FUNCTION void flag_closed(Task t, u32 place)
{
    if (t.sa[SA_ESN]) flag(t.packet, place);
}

FUNCTION void open_packet(Task t, u32 place, Opening by)
{
    Packet p = t.packet;
    if (!is_usual_shape(t)) {
        leave(p, place);
        return;
    }
    Stretch stretch = find_esp(t);
    if (stretch.len == 0 || !is_right_len(t.sa, stretch.len)) {
        flag_closed(t, place);
        return;
    }
    Esp e = esp_of(t, stretch);
    if (!is_authentic(e, by)) {
        flag_closed(t, place);
        return;
    }
    Peek peek = peek_at(e, by);
    Plain plain = plain_of(t, e, &peek);
    if (plain.outcome == OUTCOME_NOT_HERE) {
        leave(p, place);
        return;
    }
    open_text(e, by);
    if (has_padding(e, &peek) && !is_padding_right(e, peek.pad_len)) plain.outcome = OUTCOME_BAD_PADDING;
    if (plain.outcome == OUTCOME_PLAIN) plain.outcome = strip(t, stretch.at + e.text_at, &plain);
    set_outcome(p, plain.outcome);
    if (t.sa[SA_SELECTORS] && plain.outcome == OUTCOME_PLAIN) flag(p, place);
}

/* Both kernels say for themselves which packets are theirs: where a function of its own does, PoCL 3.1 gives wrong results. */
PACKET_KERNEL(ipsec_open)
{
    SHARED_BIG(u32, decrypting, AES_TABLE);
    SHARED(u8, box, AES_BOX);
    ITEMS { aes_begin_inverse(decrypting, box); }
    ITEMS { aes_fill(decrypting); }
    ITEMS {
        Task t;
        Opening by = {0, 0, decrypting, box};
        if (index() >= count) continue;
        Packet p = packet_at(arena, packets, packet_rows, index());
        if (is_ours(p) && has_task(p, sas, WORK_OPEN, place, &t) && !is_counter_mode(t.sa)) open_packet(t, place, by);
    }
}

PACKET_KERNEL(ipsec_open_counter)
{
    SHARED_BIG(u32, encrypting, AES_TABLE);
    ITEMS { aes_begin(encrypting); }
    ITEMS { aes_fill(encrypting); }
    ITEMS {
        Task t;
        Opening by = {1, encrypting, 0, 0};
        if (index() >= count) continue;
        Packet p = packet_at(arena, packets, packet_rows, index());
        if (is_ours(p) && has_task(p, sas, WORK_OPEN, place, &t) && is_counter_mode(t.sa)) open_packet(t, place, by);
    }
}
