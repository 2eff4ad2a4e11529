/* GHASH (NIST SP 800-38D, 6.4), four bits at a time by a table of its key: V. Shoup, "On fast and
 * provably secure message authentication based on universal hashing", 1996, 6.
 *
 * Blocks are four big-endian words. The table has the key times 1 to 15, where bit 3 of the number
 * is the block's first bit: 16 bytes each, as four words from the first to the last. */

/* The reduction of four bits that leave a block at its end (NIST SP 800-38D, 6.3: R). */
FUNCTION u32 ghash_reduced(u32 bits) { return (bits ^ bits << 5 ^ bits << 6 ^ bits << 7) << 21; }

/* Adds `block` to the hash and multiplies it by the key. */
FUNCTION void ghash_block(u32 *hash, const u32 *block, const GLOBAL u8 *table)
{
    u32 from[4], a = 0, b = 0, c = 0, d = 0;
    for (u32 i = 0; i < 4; i++) from[i] = hash[i] ^ block[i];
    UNROLL
    for (u32 i = 0; i < 32; i++) {
        u32 out = ghash_reduced(d & 15);
        d = d >> 4 | c << 28;
        c = c >> 4 | b << 28;
        b = b >> 4 | a << 28;
        a = a >> 4 ^ out;
        u32 number = from[3 - i / 8] >> 4 * (i % 8) & 15;
        if (number == 0) continue;
        u32x4 product = load16(table + 16 * (number - 1));
        a ^= product.x; b ^= product.y; c ^= product.z; d ^= product.w;
    }
    hash[0] = a; hash[1] = b; hash[2] = c; hash[3] = d;
}
