/* SAs as kernels see them, and what is to be done with a packet.
 *
 * The table of SAs is the number of its rows, little-endian, in the first of `SA_HEAD` bytes, then
 * a row of `SA_LEN` bytes for each. All is aligned to 16 bytes. `SA_*` are places in a row. It
 * begins with the row of keys; after it is what ESP of this SA looks like: lengths, one byte each,
 * and the headers before ESP with zeroes for what differs from packet to packet. */

typedef struct {
    Packet packet;
    const GLOBAL u8 *sa;
    /* The halves of the sequence number. */
    u32 low, high;
} Task;

/* Where ESP lies in a frame: from the SPI to the end of the ICV. */
typedef struct {
    u32 at, len;
} Stretch;

/* The task that the words of packet `p` name, which has one. */
FUNCTION Task task_of(Packet p, const GLOBAL u8 *sas)
{
    Task t;
    t.packet = p;
    t.sa = sas + SA_HEAD + SA_LEN * (scratch(p, WORD_WHAT) & 0xffff);
    t.low = scratch(p, WORD_LOW);
    t.high = scratch(p, WORD_HIGH);
    return t;
}

/* Whether the word of packet `p` asks for `work` here, and if so, the task. What only a CPU does is
 * left to it. */
FUNCTION int has_task(Packet p, const GLOBAL u8 *sas, u32 work, u32 place, Task *task)
{
    u32 what = scratch(p, WORD_WHAT), row = what & 0xffff;
    if ((what >> 16 & 255) != work) return 0;
    *task = task_of(p, sas);
    /* A packet that the capture cut keeps its wire length; none gets here. */
    int is_known = row < *(const GLOBAL u32 *)sas && task->sa[SA_DIRECTION] == work
        && task->sa[SA_CIPHER] <= CIPHER_GCM && wire_len(p) <= frame_len(p);
    if (!is_known) leave(p, place);
    return is_known;
}

FUNCTION void set_outcome(Packet p, u32 outcome)
{
    set_scratch(p, WORD_WHAT, (scratch(p, WORD_WHAT) & 0x00ffffff) | outcome << 24);
}

/* Whether headers of an IPv6 packet follow the header of this number (RFC 8200, 4.1). */
FUNCTION int is_extension(u32 protocol)
{
    return protocol == IP_PROTOCOL_HOP_BY_HOP || protocol == IP_PROTOCOL_ROUTING
        || protocol == IP_PROTOCOL_FRAGMENT || protocol == IP_PROTOCOL_AH
        || protocol == IP_PROTOCOL_DESTINATION_OPTIONS;
}

/* Whether the IP header lies where it should, and in transport mode the place of ESP where no
 * header has to be walked over. Fragments are sealed by tunnels alone. */
FUNCTION int is_usual_shape(Task t)
{
    Packet p = t.packet;
    u32 version = ip_version(p), l4 = l4_offset(p), end = ip_end(p),
        behind = l3_offset(p) + ip_header_len(version);
    int is_tunnel = t.sa[SA_OUTER_LEN] != 0;
    if (version == 0 || end > frame_len(p) || behind > end) return 0;
    if (is_tunnel && t.sa[SA_DIRECTION] == WORK_SEAL) return 1;
    if (header_flags(p) & FLAG_FRAGMENT || l4 < behind || l4 > end) return 0;
    return is_tunnel || version == 4 || l4 == behind;
}

/* The protocol after the IP header at `ip`. */
FUNCTION u32 next_of(const GLOBAL u8 *ip, u32 version)
{
    return version == 4 ? ip_protocol_v4_at(ip) : ip_protocol_v6_at(ip);
}

/* Tells the IP header at `ip` its packet's length, and that it carries `protocol` now. */
FUNCTION void mend_ip_header(GLOBAL u8 *ip, u32 version, u32 len, u32 protocol)
{
    if (version == 6) {
        set_ip_len_v6_at(ip, len - 40);
        set_ip_protocol_v6_at(ip, protocol);
        return;
    }
    u32 sum = update_sum(ip_checksum_at(ip), ip_len_v4_at(ip), len & 0xffff);
    set_ip_checksum_at(ip, update_sum(sum, ip_protocol_v4_at(ip), protocol));
    set_ip_len_v4_at(ip, len);
    set_ip_protocol_v4_at(ip, protocol);
}

/* The sum of both addresses of the IP header at `ip`. */
FUNCTION u32 sum_addresses(GLOBAL u8 *ip, u32 version)
{
    if (version == 6) return sum_bytes(src_addr_v6_at(ip), 16) + sum_bytes(dst_addr_v6_at(ip), 16);
    u32 src = src_addr_v4_at(ip), dst = dst_addr_v4_at(ip);
    return (src >> 16) + (src & 0xffff) + (dst >> 16) + (dst & 0xffff);
}

/* The checksum of `len` bytes at `l4`, where that field is zero, after the IP header at `ip`. */
FUNCTION u32 checksum_of(GLOBAL u8 *ip, u32 version, u32 protocol, const GLOBAL u8 *l4, u32 len)
{
    u32 sum = sum_pseudo(sum_addresses(ip, version), protocol, len) + fold_sum(sum_bytes(l4, len));
    sum = ~fold_sum(sum) & 0xffff;
    /* RFC 768: zero would say that there is no sum. */
    return sum == 0 && protocol == IP_PROTOCOL_UDP ? 0xffff : sum;
}

FUNCTION void fill_tcp_sum(GLOBAL u8 *ip, u32 version, GLOBAL u8 *tcp, u32 len)
{
    set_l4_checksum_tcp_at(tcp, 0);
    set_l4_checksum_tcp_at(tcp, checksum_of(ip, version, IP_PROTOCOL_TCP, tcp, len));
}

FUNCTION void fill_udp_sum(GLOBAL u8 *ip, u32 version, GLOBAL u8 *udp, u32 len)
{
    set_l4_checksum_udp_at(udp, 0);
    set_l4_checksum_udp_at(udp, checksum_of(ip, version, IP_PROTOCOL_UDP, udp, len));
}
