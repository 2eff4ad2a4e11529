/* ESP (RFC 4303) on a device: `ipsec_seal` wraps and seals packets; `ipsec_open_counter` opens and
 * strips those of counter modes, and `ipsec_open` all others. An item a packet. They give what the
 * CPU's `run` gives, byte for byte, or leave a packet to it as it came: those of unusable rows,
 * with IPv6 extension headers or IPv4 options where headers have to be found anew, and those that
 * would come out malformed. */

#if SEALS
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

#endif

#if OPENS
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
    if (at + HEADER_LEN_ESP > end || (in_udp && esp_spi_at(f.link_at + at) == 0)) return esp;
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

/* Where the ESP of task `t` lies, if it authenticates; no bytes where nothing more is to be
 * done. */
FUNCTION Stretch find_authentic(Task t, u32 place, Opening by)
{
    Stretch esp = {0, 0};
    if (!is_usual_shape(t)) {
        leave(t.packet, place);
        return esp;
    }
    esp = find_esp(t);
    if (esp.len && is_right_len(t.sa, esp.len) && is_authentic(esp_of(t, esp), by)) return esp;
    flag_closed(t, place);
    esp.len = 0;
    return esp;
}

/* The result for a packet that authenticated. Its text is in the clear then, unless the packet is
 * left to the CPU. */
FUNCTION Plain open_packet(Task t, Stretch stretch, Opening by)
{
    Esp e = esp_of(t, stretch);
    Peek peek = peek_at(e, by);
    Plain plain = plain_of(t, e, &peek);
    if (plain.outcome == OUTCOME_NOT_HERE) return plain;
    open_text(e, by);
    if (has_padding(e, &peek) && !is_padding_right(e, peek.pad_len))
        plain.outcome = OUTCOME_BAD_PADDING;
    return plain;
}

/* Strips an opened packet, whose ESP lies `esp_at` bytes after its first, and says what came of
 * it. */
FUNCTION void close_packet(Task t, u32 place, u32 esp_at, Plain plain)
{
    Packet p = t.packet;
    if (plain.outcome == OUTCOME_NOT_HERE) {
        leave(p, place);
        return;
    }
    if (plain.outcome == OUTCOME_PLAIN)
        plain.outcome = strip(t, esp_at + HEADER_LEN_ESP + t.sa[SA_IV_LEN], &plain);
    set_outcome(p, plain.outcome);
    if (t.sa[SA_CHECKED] && plain.outcome == OUTCOME_PLAIN) flag(p, place);
}

/* The kernels that open have three blocks for the work on a packet, each of which finds the packet
 * again: what would be kept of it takes registers that ciphers and hashes have not got. Both say
 * for themselves which packets are theirs: where a function of its own does, PoCL 3.1 gives wrong
 * results. */
PACKET_KERNEL(ipsec_open)
{
    SHARED_BIG(u32, decrypting, AES_TABLE);
    SHARED(u8, box, AES_BOX);
    SHARED(Stretch, authentic, GROUP);
    SHARED(Plain, opened, GROUP);
    ITEMS { aes_begin_inverse(decrypting, box); }
    ITEMS { aes_fill(decrypting); }
    ITEMS {
        Task t;
        Opening by = {0, 0, decrypting, box};
        authentic[item()].len = 0;
        if (index() >= count) continue;
        Packet p = packet_at(arena, packets, packet_rows, index());
        if (!is_ours(p) || !has_task(p, sas, WORK_OPEN, place, &t) || is_counter_mode(t.sa))
            continue;
        authentic[item()] = find_authentic(t, place, by);
    }
    ITEMS {
        Opening by = {0, 0, decrypting, box};
        if (authentic[item()].len == 0) continue;
        Task t = task_of(packet_at(arena, packets, packet_rows, index()), sas);
        opened[item()] = open_packet(t, authentic[item()], by);
    }
    ITEMS {
        if (authentic[item()].len == 0) continue;
        Task t = task_of(packet_at(arena, packets, packet_rows, index()), sas);
        close_packet(t, place, authentic[item()].at, opened[item()]);
    }
}

PACKET_KERNEL(ipsec_open_counter)
{
    SHARED_BIG(u32, encrypting, AES_TABLE);
    SHARED(Stretch, authentic, GROUP);
    SHARED(Plain, opened, GROUP);
    ITEMS { aes_begin(encrypting); }
    ITEMS { aes_fill(encrypting); }
    ITEMS {
        Task t;
        Opening by = {1, encrypting, 0, 0};
        authentic[item()].len = 0;
        if (index() >= count) continue;
        Packet p = packet_at(arena, packets, packet_rows, index());
        if (!is_ours(p) || !has_task(p, sas, WORK_OPEN, place, &t) || !is_counter_mode(t.sa))
            continue;
        authentic[item()] = find_authentic(t, place, by);
    }
    ITEMS {
        Opening by = {1, encrypting, 0, 0};
        if (authentic[item()].len == 0) continue;
        Task t = task_of(packet_at(arena, packets, packet_rows, index()), sas);
        opened[item()] = open_packet(t, authentic[item()], by);
    }
    ITEMS {
        if (authentic[item()].len == 0) continue;
        Task t = task_of(packet_at(arena, packets, packet_rows, index()), sas);
        close_packet(t, place, authentic[item()].at, opened[item()]);
    }
}
#endif
