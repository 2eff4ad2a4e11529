/* Literals that were found, and Aho and Corasick's automaton. The tables are as `matcher/flat.rs`
 * lays them out; references in them are right by their making. */

/* An entry is the length of a literal, and where its bytes begin in `exact` if its case counts. */
#define ENTRY_WORDS 2

typedef struct {
    const GLOBAL u8 *exact;
    const GLOBAL u32 *entries;
    /* The id of each entry in the packet's group. */
    const GLOBAL u32 *ids;
} Literals;

/* Found ids in ascending order, each once. `len` is over KEPT_MAX if there were more. */
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

/* Adds those of the entries from `first` on that are the group's, whose folded bytes end before
 * `behind`. Gives whether that was all of them: it was not where the case of one is another. */
FUNCTION int report_entries(
    const Literals *all, u32 first, u32 last, const GLOBAL u8 *behind, Hits *hits)
{
    int is_all = 1;
    for (u32 entry = first; entry < last && hits->len <= KEPT_MAX; entry++) {
        u32 id = all->ids[entry], len = all->entries[ENTRY_WORDS * entry];
        u32 exact = all->entries[ENTRY_WORDS * entry + 1];
        if (id == NONE) continue;
        if (exact == NONE || is_same(all->exact + exact, behind - len, len)) {
            insert(hits, id);
        } else {
            is_all = 0;
        }
    }
    return is_all;
}

/* A cell is the next state. States from ACCEPTING on have outputs. */
#if CELL_BITS == 16
typedef u16 Cell;
#else
typedef u32 Cell;
#endif

/* An output is the first entry of what ends in a state, the one after the last, and the output of
 * the next shorter suffix. */
#define OUTPUT_WORDS 3

typedef struct {
    const GLOBAL u8 *byte_classes;
    const GLOBAL Cell *cells;
    const GLOBAL u32 *outputs;
} Automaton;

FUNCTION u32 next_state(const Automaton *all, u32 state, u32 byte)
{
    return all->cells[state * BYTE_CLASSES + all->byte_classes[byte]];
}
