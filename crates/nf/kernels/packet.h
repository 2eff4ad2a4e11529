/* Packets as kernels see them: in a mirror, which has an arena's size and layout, and in the table
 * of the launch, of which each packet has a row. `COLUMN_*` and the other numbers are made of the
 * table of columns in the crate that owns it. Fields of frames are reached by accessors, whose text
 * stands after this one: they are made of the table of fields, and of where each lies for this
 * build.
 *
 * A kernel works on a packet that is still forwarded and that no kernel before it left to the CPU;
 * the rest is none of its business. */

typedef struct {
    GLOBAL u8 *arena;
    /* The launch's table, its rows, and the packet's own. */
    GLOBAL u8 *table;
    u32 rows, row;
} Packet;

/* Packet i of a launch. */
FUNCTION Packet packet_at(GLOBAL u8 *arena, GLOBAL u8 *packets, u32 rows, u32 i)
{
    Packet p;
    p.arena = arena;
    p.table = packets;
    p.rows = rows;
    p.row = i;
    return p;
}

/* The head of kernel `name`, made of its description (`src/kernels.rs`). */
#define PACKET_KERNEL(name) HEAD_OF_##name

/* A packet's part of a column, which begins after the columns of so many bytes a row. */
#define CELL(type, p, column) (((GLOBAL type *)((p).table + (column) * (p).rows))[(p).row])

FUNCTION GLOBAL u8 *frame_of(Packet p)
{
    return p.arena + CELL(u32, p, COLUMN_ROOM_AT) + CELL(u16, p, COLUMN_START);
}

FUNCTION u32 frame_len(Packet p) { return CELL(u32, p, COLUMN_FRAME_LEN); }
FUNCTION u32 wire_len(Packet p) { return CELL(u32, p, COLUMN_WIRE_LEN); }
FUNCTION u32 flow_hash(Packet p) { return CELL(u32, p, COLUMN_FLOW_HASH); }
FUNCTION u32 interface_of(Packet p) { return CELL(u16, p, COLUMN_INTERFACE); }
FUNCTION u32 next_hop(Packet p) { return CELL(u16, p, COLUMN_NEXT_HOP); }
FUNCTION u32 link_of(Packet p) { return CELL(u16, p, COLUMN_LINK); }

/* The places of its headers: offsets are from the frame's first byte. */
#define HEADERS_CELL(type, p, part) \
    (*(GLOBAL type *)((p).table + COLUMN_HEADERS_OF * (p).rows + 16 * (p).row + (part)))
FUNCTION u32 ip_end(Packet p) { return HEADERS_CELL(u32, p, HEADERS_END); }
FUNCTION u32 l3_offset(Packet p) { return HEADERS_CELL(u16, p, HEADERS_L3); }
FUNCTION u32 l4_offset(Packet p) { return HEADERS_CELL(u16, p, HEADERS_L4); }
FUNCTION u32 payload_offset(Packet p) { return HEADERS_CELL(u16, p, HEADERS_PAYLOAD); }
FUNCTION u32 header_flags(Packet p) { return HEADERS_CELL(u16, p, HEADERS_FLAGS); }
FUNCTION u32 ip_version(Packet p) { return HEADERS_CELL(u8, p, HEADERS_VERSION); }
FUNCTION u32 ip_protocol(Packet p) { return HEADERS_CELL(u8, p, HEADERS_PROTOCOL); }
/* The header that lies; 0 where none does. */
FUNCTION u32 malformed(Packet p) { return HEADERS_CELL(u8, p, HEADERS_LIE); }

/* Where the accessors find a packet's fields, found once: its columns, and its headers and payload
 * in the frame. */
typedef struct {
    Packet packet;
    GLOBAL u8 *link_at, *ip_at, *transport_at, *payload_at;
} Fields;

FUNCTION Fields fields_of(Packet p)
{
    Fields f;
    f.packet = p;
    f.link_at = frame_of(p);
    f.ip_at = f.link_at + l3_offset(p);
    f.transport_at = f.link_at + l4_offset(p);
    f.payload_at = f.link_at + payload_offset(p);
    return f;
}

/* Which headers it has. */
FUNCTION int is_ethernet(Packet p) { return link_of(p) == LINKTYPE_ETHERNET; }
FUNCTION int is_tagged(Packet p) { return is_ethernet(p) && header_flags(p) & FLAG_VLAN; }
/* The protocol of its transport header; 0 where it has none. */
FUNCTION u32 transport_of(Packet p)
{
    return header_flags(p) & FLAG_TRANSPORT ? ip_protocol(p) : 0;
}

/* Of kernels that copy fields between frames and columns: whether a field lies in the frame, and
 * how it goes. */
FUNCTION int is_in_frame(Fields f, const GLOBAL u8 *at, u32 len)
{
    return (u32)(at - f.link_at) + len <= frame_len(f.packet);
}
FUNCTION void put_bytes(GLOBAL u8 *at, const GLOBAL u8 *row, u32 len)
{
    for (u32 i = 0; i < len; i++) at[i] = row[i];
}
FUNCTION void take_bytes(const GLOBAL u8 *at, GLOBAL u8 *row, u32 len)
{
    for (u32 i = 0; i < len; i++) row[i] = at[i];
}

/* Whether the kernel has to do with it. */
FUNCTION int is_ours(Packet p)
{
    return CELL(u8, p, COLUMN_VERDICT_OF) == VERDICT_FORWARD && CELL(u8, p, COLUMN_LEFT) == 0;
}

/* Leaves the work of the function at `place` and of those after it to the CPU. Nothing of the
 * packet may be changed. */
FUNCTION void leave(Packet p, u32 place) { CELL(u8, p, COLUMN_LEFT) = (u8)(place + 1); }

FUNCTION void settle(Packet p, u32 verdict, u32 reason, u32 place)
{
    CELL(u8, p, COLUMN_VERDICT_OF) = (u8)verdict;
    CELL(u8, p, COLUMN_REASON_OF) = (u8)reason;
    CELL(u8, p, COLUMN_DROPPED_BY) = (u8)place;
}

FUNCTION void drop(Packet p, u32 reason, u32 place) { settle(p, VERDICT_DROPPED, reason, place); }

/* Rejects it where its headers lie; says whether they do. */
FUNCTION int reject_malformed(Packet p, u32 place)
{
    if (!malformed(p)) return 0;
    settle(p, VERDICT_MALFORMED, malformed(p), place);
    return 1;
}

/* Flags it for `after` of the function at `place`, which may change it: no function after that
 * gets it here. */
FUNCTION void flag(Packet p, u32 place)
{
    CELL(u8, p, COLUMN_FLAGGED) = (u8)(place + 1);
    leave(p, place + 1);
}
FUNCTION void set_next_hop(Packet p, u32 hop) { CELL(u16, p, COLUMN_NEXT_HOP) = (u16)hop; }
/* A scratch word by its number; texts say `scratch(p, WORD)` and `set_scratch(p, WORD, value)`,
 * which are made for each function. */
FUNCTION u32 scratch_word(Packet p, u32 word) { return CELL(u32, p, COLUMN_SCRATCH + 4 * word); }
FUNCTION void set_scratch_word(Packet p, u32 word, u32 value)
{
    CELL(u32, p, COLUMN_SCRATCH + 4 * word) = value;
}

/* Numbers in network order, at any address. */
FUNCTION u32 get_be16(const GLOBAL u8 *at) { return (u32)at[0] << 8 | at[1]; }
FUNCTION u32 get_be32(const GLOBAL u8 *at) { return get_be16(at) << 16 | get_be16(at + 2); }
FUNCTION void put_be16(GLOBAL u8 *at, u32 value) { at[0] = (u8)(value >> 8); at[1] = (u8)value; }
FUNCTION void put_be32(GLOBAL u8 *at, u32 value)
{
    put_be16(at, value >> 16);
    put_be16(at + 2, value);
}

/* Bytes and numbers in network order, `at` bytes after words of the item's own. */
FUNCTION u32 byte_in(const u32 *words, u32 at) { return words[at / 4] >> 8 * (at % 4) & 255; }
FUNCTION u32 be16_in(const u32 *words, u32 at)
{
    return byte_in(words, at) << 8 | byte_in(words, at + 1);
}
FUNCTION u32 be32_in(const u32 *words, u32 at)
{
    return be16_in(words, at) << 16 | be16_in(words, at + 2);
}
