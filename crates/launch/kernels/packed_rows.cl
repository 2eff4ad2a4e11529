/* Rows of a launch's table that crossed in eight bytes each (`packed_rows.rs` of
 * `warpline-packet`), in `host`: the rows, then the shapes, of which each row names one. An item a
 * packet writes the table's columns from both, before other kernels look at them. */

FUNCTION u32 low(u32 word) { return word & 0xffff; }
FUNCTION u32 high(u32 word) { return word >> 16; }

PACKET_KERNEL(unpack_rows)
{
    ITEMS {
        u32 i = index();
        if (i >= count) continue;
        Packet p = packet_at(arena, packets, packet_rows, i);
        const GLOBAL u32 *row = (const GLOBAL u32 *)host + 2 * i;
        u32 place = row[0], len = low(row[1]), behind = high(row[1]) & 0xff;
        const GLOBAL u32 *shape = (const GLOBAL u32 *)(host + 8 * packet_rows) + 8 * (row[1] >> 24);
        u32 start = high(shape[3]);
        CELL(u32, p, COLUMN_ROOM_AT) = place & ~(ROOM_ALIGN - 1);
        CELL(u32, p, COLUMN_ROOM_LEN) = ((start + len + ROOM_ALIGN - 1) & ~(ROOM_ALIGN - 1))
            + (place & (ROOM_ALIGN - 1)) * ROOM_ALIGN;
        CELL(u32, p, COLUMN_FRAME_LEN) = len;
        CELL(u16, p, COLUMN_START) = (u16)start;
        CELL(u16, p, COLUMN_LINK) = (u16)low(shape[3]);
        HEADERS_CELL(u32, p, HEADERS_END) = len - behind;
        HEADERS_CELL(u16, p, HEADERS_L3) = (u16)low(shape[0]);
        HEADERS_CELL(u16, p, HEADERS_L4) = (u16)high(shape[0]);
        HEADERS_CELL(u16, p, HEADERS_PAYLOAD) = (u16)low(shape[1]);
        HEADERS_CELL(u16, p, HEADERS_FLAGS) = (u16)high(shape[1]);
        HEADERS_CELL(u32, p, HEADERS_VERSION) = shape[2];
        CELL(u32, p, COLUMN_WIRE_LEN) = len + shape[4];
        CELL(u16, p, COLUMN_NEXT_HOP) = (u16)low(shape[5]);
        CELL(u8, p, COLUMN_LEFT) = (u8)shape[6];
        CELL(u8, p, COLUMN_VERDICT_OF) = (u8)(shape[6] >> 8);
        CELL(u8, p, COLUMN_REASON_OF) = (u8)high(shape[6]);
        CELL(u8, p, COLUMN_DROPPED_BY) = (u8)(shape[6] >> 24);
        CELL(u8, p, COLUMN_FLAGGED) = (u8)shape[7];
    }
}
