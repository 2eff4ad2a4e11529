/* See ptx_races.h. */

#include "ptx_races.h"

#include <stdlib.h>

enum { BLOCK_BITS = 8, BLOCK = 1 << BLOCK_BITS, ROOM_FIRST = 256 };
static const unsigned MANY_GROUPS = ~0u;

struct marks_block { unsigned long long number; struct marks marks[BLOCK]; };

/* Whether a mark is of another item that no barrier separates from this one. */
static int is_unordered(struct mark mark, struct toucher own)
{
    if (!mark.group) return 0;
    if (mark.group != own.group + 1) return 1;
    return mark.at >> ITEM_BITS == own.stretch && (mark.at & MANY_ITEMS) != own.item;
}

static void put(struct mark *mark, struct toucher own)
{
    unsigned at = own.stretch << ITEM_BITS | own.item;
    if (mark->group && mark->group != own.group + 1) { mark->group = MANY_GROUPS; return; }
    int is_first = !mark->group || mark->at >> ITEM_BITS != own.stretch || mark->at == at;
    mark->group = own.group + 1;
    mark->at = is_first ? at : own.stretch << ITEM_BITS | MANY_ITEMS;
}

int races_touch(struct marks *at, unsigned bytes, struct toucher own, enum touch kind)
{
    int is_race = 0;
    for (struct marks *end = at + bytes; at < end; at++) {
        if (kind != READS) is_race |= is_unordered(at->of[READS], own);
        if (kind != CHANGES) is_race |= is_unordered(at->of[CHANGES], own);
        is_race |= is_unordered(at->of[WRITES], own);
        put(&at->of[kind], own);
    }
    return is_race;
}

/* The slot of a block, or the free one where it belongs. */
static struct marks_block **slot(const struct races *races, unsigned long long number)
{
    unsigned at = number * 0x9e3779b97f4a7c15ull >> 32;
    for (;; at++) {
        struct marks_block **own = &races->blocks[at & (races->room - 1)];
        if (!*own || (*own)->number == number) return own;
    }
}

static void grow(struct races *races)
{
    struct races before = *races;
    races->room = before.room ? 2 * before.room : ROOM_FIRST;
    races->blocks = calloc(races->room, sizeof *races->blocks);
    for (unsigned i = 0; i < before.room; i++)
        if (before.blocks[i]) *slot(races, before.blocks[i]->number) = before.blocks[i];
    free(before.blocks);
}

struct marks *races_at(struct races *races, unsigned long long at)
{
    unsigned long long number = at >> BLOCK_BITS;
    if (!races->last || races->last->number != number) {
        if (2 * races->count >= races->room) grow(races);
        struct marks_block **own = slot(races, number);
        if (!*own) {
            *own = calloc(1, sizeof **own);
            (*own)->number = number;
            races->count++;
        }
        races->last = *own;
    }
    return races->last->marks + (at & (BLOCK - 1));
}

void races_end(struct races *races)
{
    for (unsigned i = 0; i < races->room; i++) free(races->blocks[i]);
    free(races->blocks);
}
