/* Rooms of packets between the arena in the host's memory, `host`, which a device reaches over the
 * bus, and the mirror, `arena`: ROOM_ITEMS items a packet, which read and write consecutive pieces
 * of sixteen bytes at once, so that whole lines cross. They have to do with all packets of a
 * launch, whatever functions make of them. Rooms begin and end on multiples of 64. */

/* Pieces that an item has on their way at once: what is read over the bus takes long to come. */
#define PIECES 4
#define STRIDE (16 * ROOM_ITEMS)

FUNCTION void copy_room(GLOBAL u8 *to, const GLOBAL u8 *from, u32 len, u32 first)
{
    for (u32 at = first; at < len; at += PIECES * STRIDE) {
        u32x4 held[PIECES];
        UNROLL
        for (u32 i = 0; i < PIECES; i++)
            if (at + i * STRIDE < len) held[i] = load16(from + at + i * STRIDE);
        UNROLL
        for (u32 i = 0; i < PIECES; i++)
            if (at + i * STRIDE < len) store16(to + at + i * STRIDE, held[i]);
    }
}

/* To the mirror, but for packets that a mirror named by `without` has. The column that says so is
 * there only then. */
PACKET_KERNEL(pull_rooms)
{
    ITEMS {
        u32 i = index() / ROOM_ITEMS, first = index() % ROOM_ITEMS * 16;
        if (i >= count) continue;
        Packet p = packet_at(arena, packets, packet_rows, i);
        if (without && CELL(u8, p, COLUMN_MIRRORED) & without) continue;
        u32 at = CELL(u32, p, COLUMN_ROOM_AT);
        copy_room(arena + at, host + at, CELL(u32, p, COLUMN_ROOM_LEN), first);
    }
}

/* Back to the host, of all. */
PACKET_KERNEL(push_rooms)
{
    ITEMS {
        u32 i = index() / ROOM_ITEMS, first = index() % ROOM_ITEMS * 16;
        if (i >= count) continue;
        Packet p = packet_at(arena, packets, packet_rows, i);
        u32 at = CELL(u32, p, COLUMN_ROOM_AT);
        copy_room(host + at, arena + at, CELL(u32, p, COLUMN_ROOM_LEN), first);
    }
}
