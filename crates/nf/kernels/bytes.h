/* Bytes of packets at any address: words, moves, sums. */

/* 32 bits of 64, from bit `shift` on, which is below 32. */
FUNCTION u32 joined(u32 low, u32 high, u32 shift)
{
    return (u32)(((u64)high << 32 | low) >> shift);
}

/* Little-endian words. Which type they are read and written by follows from the address alone, so
 * that a compiler that tells types apart sees that a word is read that was written. */
FUNCTION u32 load_word(const GLOBAL u8 *at)
{
    u32 odd = (u32)(u64)at & 3;
    if (odd == 0) return *(const GLOBAL u32 *)at;
    if (odd == 2) return *(const GLOBAL u16 *)at | (u32)*(const GLOBAL u16 *)(at + 2) << 16;
    return load_bytes(at);
}

FUNCTION void store_word(GLOBAL u8 *at, u32 word)
{
    u32 odd = (u32)(u64)at & 3;
    if (odd == 0) {
        *(GLOBAL u32 *)at = word;
    } else if (odd == 2) {
        *(GLOBAL u16 *)at = (u16)word;
        *(GLOBAL u16 *)(at + 2) = (u16)(word >> 16);
    } else {
        for (u32 i = 0; i < 4; i++) at[i] = (u8)(word >> 8 * i);
    }
}

/* The sixteen bytes at `at` as words, of which the first `len` count, all where it is more. Read as
 * one or two pieces of sixteen bytes where those are aligned, none of which holds no byte that
 * counts: so nothing outside of a packet's room is read, whose ends are multiples of 64. */
FUNCTION void load_words(const GLOBAL u8 *at, u32 len, u32 *words)
{
    u32 odd = (u32)(u64)at & 15, shift = 8 * (odd & 3);
    u32x4 low = load16(at - odd), high = low;
    words[0] = low.x; words[1] = low.y; words[2] = low.z; words[3] = low.w;
    if (odd == 0) return;
    if (odd + len > 16) high = load16(at - odd + 16);
    u32 by2[6] = {low.x, low.y, low.z, low.w, high.x, high.y}, next;
    if (odd & 8) {
        by2[0] = low.z;
        by2[1] = low.w;
        by2[2] = high.x;
        by2[3] = high.y;
        by2[4] = high.z;
        by2[5] = high.w;
    }
    UNROLL
    for (u32 i = 0; i < 4; i++) words[i] = odd & 4 ? by2[i + 1] : by2[i];
    next = odd & 4 ? by2[5] : by2[4];
    if (shift == 0) return;
    UNROLL
    for (u32 i = 0; i < 4; i++) words[i] = joined(words[i], i < 3 ? words[i + 1] : next, shift);
}

/* Four words to `at`. */
FUNCTION void store_words(GLOBAL u8 *at, const u32 *words)
{
    if (((u32)(u64)at & 15) == 0) {
        store16(at, make16(words[0], words[1], words[2], words[3]));
        return;
    }
    UNROLL
    for (u32 i = 0; i < 4; i++) store_word(at + 4 * i, words[i]);
}

/* Moves bytes to a lower address. */
FUNCTION void move_down(GLOBAL u8 *to, const GLOBAL u8 *from, u32 len)
{
    for (u32 i = 0; i < len; i++) to[i] = from[i];
}

/* Moves bytes to a higher address. */
FUNCTION void move_up(GLOBAL u8 *to, const GLOBAL u8 *from, u32 len)
{
    for (u32 i = len; i > 0; i--) to[i - 1] = from[i - 1];
}

/* A sum of words brought down to 16 bits (RFC 1071, 1). */
FUNCTION u32 fold_sum(u32 sum)
{
    sum = (sum >> 16) + (sum & 0xffff);
    return (sum >> 16) + (sum & 0xffff);
}

/* The sum of at most 65,535 bytes, not folded; an odd last byte counts as the high half of a
 * word. */
FUNCTION u32 sum_bytes(const GLOBAL u8 *at, u32 len)
{
    u32 sum = 0;
    for (u32 i = 0; i + 1 < len; i += 2) sum += get_be16(at + i);
    return len & 1 ? sum + ((u32)at[len - 1] << 8) : sum;
}

/* The sum of a pseudo-header (RFC 793; RFC 8200, 8.1): of the sum of both addresses, protocol and
 * length. */
FUNCTION u32 sum_pseudo(u32 addresses, u32 protocol, u32 len)
{
    return fold_sum(addresses) + protocol + (len >> 16) + (len & 0xffff);
}

/* A checksum after a word of what it sums changed (RFC 1624, equation 3). */
FUNCTION u32 update_sum(u32 checksum, u32 old, u32 new_word)
{
    return ~fold_sum((~checksum & 0xffff) + (~old & 0xffff) + new_word) & 0xffff;
}
