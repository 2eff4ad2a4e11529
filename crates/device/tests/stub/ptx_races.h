/* Who touched bytes of memory while a kernel runs: items that no barrier orders must not touch the
 * same byte if one of them writes, not even the same value. Atomics are ordered among themselves
 * only. A barrier orders the items of its group, and nothing orders groups. */

#ifndef STUB_PTX_RACES_H
#define STUB_PTX_RACES_H

/* The kinds of an access, and of the marks that it leaves. */
enum touch { READS, WRITES, CHANGES, TOUCHES };

/* The last item of a kind, by group and by stretch between barriers; or many of them. */
struct mark { unsigned group, at; };
struct marks { struct mark of[TOUCHES]; };

/* An item in its stretch. Groups run one after the other, in the order of their numbers. */
struct toucher { unsigned group, stretch, item; };
enum { ITEM_BITS = 11, MANY_ITEMS = (1 << ITEM_BITS) - 1 };

/* Marks `bytes` bytes. Whether some item touched one of them that is not ordered with this one. */
int races_touch(struct marks *at, unsigned bytes, struct toucher own, enum touch kind);

/* The marks of a launch in memory that all groups share. */
struct races { struct marks_block **blocks; unsigned count, room; struct marks_block *last; };
/* The marks of the bytes from `at` on, up to 16 of them, at a multiple of their number. */
struct marks *races_at(struct races *races, unsigned long long at);
void races_end(struct races *races);

#endif
