/* Which literals of its group are in each packet's payload, for sets whose automaton would be too
 * large: all grams of a payload, four bytes each, are looked up by their hash in a table of bits.
 * Where that has one, the literals in its bucket are compared. An automaton finds the few literals
 * that have no gram of their own. An item a packet. The tables are as `matcher/gram_tables.rs` lays
 * them out.
 *
 * A payload of n bytes takes n looks at bits, n steps of that automaton, and of what follows from
 * them n + STEPS_MIN steps at most: to look at a row, to compare a literal, to look at an output or
 * to tell an entry is one. A payload that needs more is left to the CPU. */

/* A row is the gram of a literal, how far it is from the literal's start and the literal's length,
 * where its folded bytes begin, and its first entry. Its last one stands before the next row's
 * first. */
#define ROW_WORDS 4

typedef struct {
    Literals literals;
    Automaton rest;
    const GLOBAL u32 *filter, *starts, *rows;
    const GLOBAL u8 *folded;
} Set;

/* Takes steps from those left for a packet; returns whether there were so many. */
FUNCTION int take(u32 *left, u32 steps)
{
    if (steps > *left) return 0;
    *left -= steps;
    return 1;
}

/* Four bytes with letters of ASCII in lower case: the high bit of a byte is put where it is from A
 * on and not after Z. */
FUNCTION u32 fold_case(u32 word)
{
    u32 low = word & 0x7f7f7f7f;
    u32 is_upper = (low + 0x3f3f3f3f) & ~(low + 0x25252525) & ~word & 0x80808080;
    return word | is_upper >> 2;
}

FUNCTION u32 hash_of(u32 gram) { return gram * (u32)HASH_FACTOR; }

/* 1 where a gram, folded, may be one of a literal. */
FUNCTION u32 has_gram(const Set *all, u32 gram)
{
    u32 hash = hash_of(gram) >> FILTER_SHIFT;
    return all->filter[hash / 32] >> (hash & 31) & 1;
}

/* Which bytes of sixteen end a gram that may be one of a literal; `before` are the four in
 * front. */
FUNCTION u32 ends_of_grams(const Set *all, u32 before, const u32 *words)
{
    u32 ends = 0;
    UNROLL
    for (u32 i = 0; i < 4; i++) {
        u32 last = i ? words[i - 1] : before;
        ends |= has_gram(all, joined(last, words[i], 8)) << 4 * i;
        ends |= has_gram(all, joined(last, words[i], 16)) << (4 * i + 1);
        ends |= has_gram(all, joined(last, words[i], 24)) << (4 * i + 2);
        ends |= has_gram(all, words[i]) << (4 * i + 3);
    }
    return ends;
}

FUNCTION int is_same_folded(const GLOBAL u8 *text, const GLOBAL u8 *folded, u32 len)
{
    for (u32 i = 0; i < len; i++) {
        if (fold_case(text[i]) != folded[i]) return 0;
    }
    return 1;
}

/* Compares the literals of the gram at `at`; 0 where that takes too many steps. */
FUNCTION int look_closer(
    const Set *all, const GLOBAL u8 *text, u32 len, u32 at, Hits *hits, u32 *left)
{
    u32 gram = fold_case(load_bytes(text + at)), bucket = hash_of(gram) >> BUCKET_SHIFT;
    u32 last = all->starts[bucket + 1];
    for (u32 row = all->starts[bucket]; row < last; row++) {
        const GLOBAL u32 *own = all->rows + ROW_WORDS * row;
        if (!take(left, 1)) return 0;
        u32 back = own[1] & 0xffff, own_len = own[1] >> 16;
        if (own[0] != gram || back > at || own_len > len - (at - back)) continue;
        const GLOBAL u8 *start = text + at - back;
        if (!take(left, 1)) return 0;
        if (!is_same_folded(start, all->folded + own[2], own_len)) continue;
        if (!take(left, own[ROW_WORDS + 3] - own[3])) return 0;
        report_entries(&all->literals, own[3], own[ROW_WORDS + 3], start + own_len, hits);
    }
    return 1;
}

FUNCTION int find_by_grams(const Set *all, const GLOBAL u8 *text, u32 len, Hits *hits, u32 *left)
{
    u32 before = 0, words[4];
    for (u32 at = 0; at < len && hits->len <= KEPT_MAX; at += 16) {
        load_words(text + at, len - at, words);
        UNROLL
        for (u32 i = 0; i < 4; i++) words[i] = fold_case(words[i]);
        u32 ends = ends_of_grams(all, before, words);
        before = words[3];
        /* No gram ends in the first three bytes. */
        if (at == 0) ends &= ~7u;
        while (ends) {
            u32 end = 31 - leading_zeros(ends & (0u - ends));
            ends &= ends - 1;
            /* Grams after the end of the payload don't count. */
            if (at + end >= len) break;
            if (!look_closer(all, text, len, at + end - 3, hits, left)) return 0;
        }
    }
    return 1;
}

#if HAS_REST
/* States of which nothing more is to be reported: the last one, that of a run of bytes, say; and of
 * the first 64 that have outputs, those of the shortest literals, a bit for each. */
typedef struct {
    u32 last;
    u64 first;
} Reported;

FUNCTION int is_reported(const Reported *reported, u32 state)
{
    u32 output = state - ACCEPTING;
    return state == reported->last || (output < 64 && reported->first >> output & 1);
}

/* Adds what ends in an accepting state, before `behind`; 0 where that takes too many steps. */
FUNCTION int report_state(
    const Set *all, u32 state, const GLOBAL u8 *behind, Hits *hits, u32 *left, Reported *reported)
{
    int is_all = 1;
    u32 output = state - ACCEPTING;
    while (output != NONE) {
        const GLOBAL u32 *own = all->rest.outputs + OUTPUT_WORDS * output;
        if (!take(left, 1 + own[1] - own[0])) return 0;
        is_all &= report_entries(&all->literals, own[0], own[1], behind, hits);
        output = own[2];
    }
    if (!is_all) return 1;
    reported->last = state;
    if (state - ACCEPTING < 64) reported->first |= (u64)1 << (state - ACCEPTING);
    return 1;
}

FUNCTION int find_rest(const Set *all, const GLOBAL u8 *text, u32 len, Hits *hits, u32 *left)
{
    u32 state = 0;
    Reported reported;
    reported.last = 0; reported.first = 0;
    for (u32 at = 0; at < len && hits->len <= KEPT_MAX; at++) {
        state = next_state(&all->rest, state, text[at]);
        if (state < ACCEPTING || is_reported(&reported, state)) continue;
        if (!report_state(all, state, text + at + 1, hits, left, &reported)) return 0;
    }
    return 1;
}
#else
FUNCTION int find_rest(const Set *all, const GLOBAL u8 *text, u32 len, Hits *hits, u32 *left)
{
    return 1;
}
#endif

/* Marks of packets that get no word; room for findings ends before. */
#define NOT_OURS 0xfffffffeu
#define TO_LEAVE 0xfffffffdu

/* WORD says where the ids of what was found are kept. It is written after the search, by a block
 * that finds the packet again: a packet that was kept meanwhile would take registers that the
 * search has not got. */
PACKET_KERNEL(filter_payloads)
{
    SHARED(u32, words, GROUP);
    ITEMS {
        words[item()] = NOT_OURS;
        if (index() >= count) continue;
        Packet p = packet_at(arena, packets, packet_rows, index());
        if (!is_ours(p)) continue;
        words[item()] = 0;
        if (!has_text(p)) continue;
        if (lacks_ports(p)) { words[item()] = TO_LEAVE; continue; }
        Fields f = fields_of(p);
        u32 number = number_of(f, port_classes, numbers);
        if (number == NONE) continue;
        Set all;
        all.literals.exact = exact;
        all.literals.entries = entries;
        all.literals.ids = ids + number * ENTRIES;
        all.rest.byte_classes = byte_classes; all.rest.cells = cells; all.rest.outputs = outputs;
        all.filter = filter; all.starts = starts; all.rows = rows; all.folded = folded;
        const GLOBAL u8 *text = payload(f);
        u32 len = ip_end(p) - payload_offset(p), left = STEPS_MIN + len;
        Hits hits;
        hits.len = 0;
        int is_done = find_by_grams(&all, text, len, &hits, &left)
            && find_rest(&all, text, len, &hits, &left);
#ifdef REPORT_STEPS
        /* For tests: how many steps that took. */
        words[item()] = STEPS_MIN + len - left;
        continue;
#endif
        if (!is_done) { words[item()] = TO_LEAVE; continue; }
        u32 word = hits.len > KEPT_MAX ? NO_ROOM : begin_list(findings, findings_room, hits.len);
        words[item()] = word;
        for (u32 i = 0; i < hits.len && word != NO_ROOM; i++)
            put_finding(findings, word, i, hits.ids[i]);
    }
    ITEMS {
        u32 word = words[item()];
        if (word == NOT_OURS) continue;
        Packet p = packet_at(arena, packets, packet_rows, index());
        if (word == TO_LEAVE) leave(p, place);
        else set_scratch(p, WORD, word);
    }
}
