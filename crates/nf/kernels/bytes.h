/* Bytes of packets at any address: words, moves, sums. */

/* Little-endian words. Which type they are read and written by follows from the address alone, so that a compiler that tells
 * types apart sees that a word is read that was written. */
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

/* The sum of at most 65,535 bytes, not folded; an odd last byte counts as the high half of a word. */
FUNCTION u32 sum_bytes(const GLOBAL u8 *at, u32 len)
{
    u32 sum = 0;
    for (u32 i = 0; i + 1 < len; i += 2) sum += get_be16(at + i);
    return len & 1 ? sum + ((u32)at[len - 1] << 8) : sum;
}

/* The sum of a pseudo-header (RFC 793; RFC 8200, 8.1): both addresses, `address_len` bytes in all, protocol and length. */
FUNCTION u32 sum_pseudo(const GLOBAL u8 *addresses, u32 address_len, u32 protocol, u32 len)
{
    return fold_sum(sum_bytes(addresses, address_len)) + protocol + (len >> 16) + (len & 0xffff);
}

/* A checksum after a word of what it sums changed (RFC 1624, equation 3). */
FUNCTION u32 update_sum(u32 checksum, u32 old, u32 new_word)
{
    return ~fold_sum((~checksum & 0xffff) + (~old & 0xffff) + new_word) & 0xffff;
}
