/* Which literals of its group are in each packet's payload: Aho and Corasick's automaton of the literals of all groups, an item a
 * packet. The tables are as `kernels.rs` lays them out; references in them are right by their making. */

/* No group, no id, no further output; of an entry: case does not count. */
#define NONE 0xffffffffu

/* A cell is the next state. States from ACCEPTING on have outputs. */
#if CELL_BITS == 16
typedef u16 Cell;
#else
typedef u32 Cell;
#endif

/* An output is the first entry of what ends in a state, the one behind the last, and the output of the next shorter suffix. */
#define OUTPUT_WORDS 3
/* An entry is the length of a literal, and where its bytes begin in `exact` if its case counts. */
#define ENTRY_WORDS 2

typedef struct {
    const GLOBAL u8 *byte_classes, *exact;
    const GLOBAL Cell *cells;
    const GLOBAL u32 *outputs, *entries;
    /* The id of each entry in the packet's group. */
    const GLOBAL u32 *ids;
} Automaton;

/* What was found: ids in ascending order, each once; more than KEPT_MAX where there were more. */
typedef struct {
    u32 len;
    u32 ids[KEPT_MAX];
} Hits;

FUNCTION void insert(Hits *hits, u32 id)
{
    u32 at = hits->len;
    while (at > 0 && hits->ids[at - 1] > id) at--;
    if (at > 0 && hits->ids[at - 1] == id) return;
    if (hits->len < KEPT_MAX) {
        for (u32 i = hits->len; i > at; i--) hits->ids[i] = hits->ids[i - 1];
        hits->ids[at] = id;
    }
    hits->len++;
}

FUNCTION int is_same(const GLOBAL u8 *one, const GLOBAL u8 *other, u32 len)
{
    for (u32 i = 0; i < len; i++) {
        if (one[i] != other[i]) return 0;
    }
    return 1;
}

/* Adds what ends in an accepting state, before `end`. */
FUNCTION void report(const Automaton *all, u32 state, const GLOBAL u8 *end, Hits *hits)
{
    u32 output = state - ACCEPTING;
    while (output != NONE) {
        const GLOBAL u32 *own = all->outputs + OUTPUT_WORDS * output;
        for (u32 entry = own[0]; entry < own[1] && hits->len <= KEPT_MAX; entry++) {
            u32 id = all->ids[entry], len = all->entries[ENTRY_WORDS * entry];
            u32 exact = all->entries[ENTRY_WORDS * entry + 1];
            if (id != NONE && (exact == NONE || is_same(all->exact + exact, end - len, len))) insert(hits, id);
        }
        output = own[2];
    }
}

FUNCTION void find_literals(const Automaton *all, const GLOBAL u8 *text, u32 len, Hits *hits)
{
    u32 state = 0;
    hits->len = 0;
    for (u32 at = 0; at < len && hits->len <= KEPT_MAX; at++) {
        state = all->cells[state * BYTE_CLASSES + all->byte_classes[text[at]]];
        if (state >= ACCEPTING) report(all, state, text + at + 1, hits);
    }
}

/* Whether a packet has a payload to look into. */
FUNCTION int has_text(Packet p)
{
    u32 flags = header_flags(p);
    if (malformed(p) || flags & FLAG_FRAGMENT) return 0;
    if (!(flags & FLAG_TRANSPORT) && ip_protocol(p) != IP_PROTOCOL_SCTP) return 0;
    return payload_offset(p) < ip_end(p) && ip_end(p) <= frame_len(p);
}

FUNCTION int has_ports(u32 protocol) { return protocol == IP_PROTOCOL_TCP || protocol == IP_PROTOCOL_UDP; }

/* The number of a packet's group among all, by classes of its ports; the last class is that of none. */
FUNCTION u32 number_of(Fields f, const GLOBAL u8 *port_classes, const GLOBAL u32 *numbers)
{
    u32 protocol = ip_protocol(f.packet), upper = 3, by_src = PORT_CLASSES - 1, by_dst = PORT_CLASSES - 1;
    if (protocol == IP_PROTOCOL_TCP) {
        upper = 0;
        by_src = port_classes[src_port_tcp(f)];
        by_dst = port_classes[0x10000 + dst_port_tcp(f)];
    } else if (protocol == IP_PROTOCOL_UDP) {
        upper = 1;
        by_src = port_classes[0x20000 + src_port_udp(f)];
        by_dst = port_classes[0x30000 + dst_port_udp(f)];
    } else if (protocol == IP_PROTOCOL_ICMP || protocol == IP_PROTOCOL_ICMPV6) {
        upper = 2;
    }
    return numbers[(upper * PORT_CLASSES + by_src) * PORT_CLASSES + by_dst];
}

/* WORD says where the ids of what was found are kept. */
PACKET_KERNEL(scan_payloads)
{
    ITEMS {
        if (index() >= count) continue;
        Packet p = packet_at(arena, packets, index());
        if (!is_ours(p)) continue;
        if (!has_text(p)) { set_scratch(p, WORD, 0); continue; }
        /* Ingress found both ports; what it found is believed within the frame only. */
        if (has_ports(ip_protocol(p)) && l4_offset(p) + 4 > frame_len(p)) { leave(p, place); continue; }
        Fields f = fields_of(p);
        u32 number = number_of(f, port_classes, numbers);
        if (number == NONE) { set_scratch(p, WORD, 0); continue; }
        Automaton all;
        all.byte_classes = byte_classes; all.exact = exact; all.cells = cells;
        all.outputs = outputs; all.entries = entries; all.ids = ids + number * ENTRIES;
        Hits hits;
        find_literals(&all, payload(f), ip_end(p) - payload_offset(p), &hits);
        u32 word = hits.len > KEPT_MAX ? NO_ROOM : begin_list(findings, findings_room, hits.len);
        set_scratch(p, WORD, word);
        for (u32 i = 0; i < hits.len && word != NO_ROOM; i++) put_finding(findings, word, i, hits.ids[i]);
    }
}
