/* Which literals of its group are in each packet's payload: by one automaton of the literals of all
 * groups, an item a packet. */

/* Adds what ends in an accepting state, before `behind`. */
FUNCTION void report_state(
    const Literals *literals, const Automaton *all, u32 state, const GLOBAL u8 *behind, Hits *hits)
{
    u32 output = state - ACCEPTING;
    while (output != NONE) {
        const GLOBAL u32 *own = all->outputs + OUTPUT_WORDS * output;
        report_entries(literals, own[0], own[1], behind, hits);
        output = own[2];
    }
}

FUNCTION void find_literals(
    const Literals *literals, const Automaton *all, const GLOBAL u8 *text, u32 len, Hits *hits)
{
    u32 state = 0;
    hits->len = 0;
    for (u32 at = 0; at < len && hits->len <= KEPT_MAX; at++) {
        state = next_state(all, state, text[at]);
        if (state >= ACCEPTING) report_state(literals, all, state, text + at + 1, hits);
    }
}

/* WORD says where the ids of what was found are kept. */
PACKET_KERNEL(scan_payloads)
{
    ITEMS {
        if (index() >= count) continue;
        Packet p = packet_at(arena, packets, packet_rows, index());
        if (!is_ours(p)) continue;
        if (!has_text(p)) { set_scratch(p, WORD, 0); continue; }
        if (lacks_ports(p)) { leave(p, place); continue; }
        Fields f = fields_of(p);
        u32 number = number_of(f, port_classes, numbers);
        if (number == NONE) { set_scratch(p, WORD, 0); continue; }
        Literals literals;
        literals.exact = exact; literals.entries = entries; literals.ids = ids + number * ENTRIES;
        Automaton all;
        all.byte_classes = byte_classes; all.cells = cells; all.outputs = outputs;
        Hits hits;
        find_literals(&literals, &all, payload(f), ip_end(p) - payload_offset(p), &hits);
        u32 word = hits.len > KEPT_MAX ? NO_ROOM : begin_list(findings, findings_room, hits.len);
        set_scratch(p, WORD, word);
        for (u32 i = 0; i < hits.len && word != NO_ROOM; i++)
            put_finding(findings, word, i, hits.ids[i]);
    }
}
