/* Places of BYTE in payloads, an item a packet; WORD says where they are kept. */

FUNCTION u32 count_bytes(const GLOBAL u8 *text, u32 len)
{
    u32 count = 0;
    for (u32 i = 0; i < len; i++) count += text[i] == BYTE;
    return count;
}

PACKET_KERNEL(find_bytes)
{
    ITEMS {
        if (index() >= count) continue;
        Packet p = packet_at(arena, packets, packet_rows, index());
        if (!is_ours(p) || reject_malformed(p, place)) continue;
        if (ip_version(p) == 0 || header_flags(p) & FLAG_SNAPPED) continue;
        u32 start = payload_offset(p), end = ip_end(p);
        if (end > frame_len(p) || start > end) continue;
        const GLOBAL u8 *text = payload(fields_of(p));
        u32 len = end - start, found = count_bytes(text, len), next = 0;
        u32 word = begin_list(findings, findings_room, found);
        for (u32 i = 0; i < len && word != 0 && word != NO_ROOM; i++) {
            if (text[i] == BYTE) put_finding(findings, word, next++, i);
        }
        set_scratch(p, WORD, word);
        if (found % 5 == 4) drop(p, 0, place);
    }
}
