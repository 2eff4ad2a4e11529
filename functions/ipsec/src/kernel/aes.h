/* AES (FIPS 197) by tables in shared memory: a round of a column is four look-ups.
 *
 * A block is four little-endian words, one a column. Round keys lie as the standard writes them, 16
 * bytes each, at a multiple of 16. A group fills the table that its kernel has, in two blocks of
 * ITEMS before the first use:
 *
 *     SHARED_BIG(u32, encrypting, AES_TABLE);
 *     ITEMS { aes_begin(encrypting); }
 *     ITEMS { aes_fill(encrypting); }
 *
 * The table has a row for each value of a byte: what it gives to its column in the first row of a
 * block, then the same turned by eight bits, each in as many copies as items use banks of memory at
 * once. A GPU's row is 256 bytes, so that byte and item are put together by one instruction, and
 * each item has a bank of its own: how long a look-up in it takes does not depend on keys. */

#if PLATFORM_CUDA
# define AES_COPIES AES_BANKS
#else
# define AES_COPIES 1
#endif
/* Words of a row, and of the table. */
#define AES_ROW (2 * AES_COPIES)
#define AES_TABLE (256 * AES_ROW)
/* Bytes of the inverse S-box. */
#define AES_BOX 256

/* FIPS 197, figure 7. */
CONSTANT_TABLE u8 AES_SBOX[256] = {
    0x63, 0x7c, 0x77, 0x7b, 0xf2, 0x6b, 0x6f, 0xc5, 0x30, 0x01, 0x67, 0x2b, 0xfe, 0xd7, 0xab, 0x76,
    0xca, 0x82, 0xc9, 0x7d, 0xfa, 0x59, 0x47, 0xf0, 0xad, 0xd4, 0xa2, 0xaf, 0x9c, 0xa4, 0x72, 0xc0,
    0xb7, 0xfd, 0x93, 0x26, 0x36, 0x3f, 0xf7, 0xcc, 0x34, 0xa5, 0xe5, 0xf1, 0x71, 0xd8, 0x31, 0x15,
    0x04, 0xc7, 0x23, 0xc3, 0x18, 0x96, 0x05, 0x9a, 0x07, 0x12, 0x80, 0xe2, 0xeb, 0x27, 0xb2, 0x75,
    0x09, 0x83, 0x2c, 0x1a, 0x1b, 0x6e, 0x5a, 0xa0, 0x52, 0x3b, 0xd6, 0xb3, 0x29, 0xe3, 0x2f, 0x84,
    0x53, 0xd1, 0x00, 0xed, 0x20, 0xfc, 0xb1, 0x5b, 0x6a, 0xcb, 0xbe, 0x39, 0x4a, 0x4c, 0x58, 0xcf,
    0xd0, 0xef, 0xaa, 0xfb, 0x43, 0x4d, 0x33, 0x85, 0x45, 0xf9, 0x02, 0x7f, 0x50, 0x3c, 0x9f, 0xa8,
    0x51, 0xa3, 0x40, 0x8f, 0x92, 0x9d, 0x38, 0xf5, 0xbc, 0xb6, 0xda, 0x21, 0x10, 0xff, 0xf3, 0xd2,
    0xcd, 0x0c, 0x13, 0xec, 0x5f, 0x97, 0x44, 0x17, 0xc4, 0xa7, 0x7e, 0x3d, 0x64, 0x5d, 0x19, 0x73,
    0x60, 0x81, 0x4f, 0xdc, 0x22, 0x2a, 0x90, 0x88, 0x46, 0xee, 0xb8, 0x14, 0xde, 0x5e, 0x0b, 0xdb,
    0xe0, 0x32, 0x3a, 0x0a, 0x49, 0x06, 0x24, 0x5c, 0xc2, 0xd3, 0xac, 0x62, 0x91, 0x95, 0xe4, 0x79,
    0xe7, 0xc8, 0x37, 0x6d, 0x8d, 0xd5, 0x4e, 0xa9, 0x6c, 0x56, 0xf4, 0xea, 0x65, 0x7a, 0xae, 0x08,
    0xba, 0x78, 0x25, 0x2e, 0x1c, 0xa6, 0xb4, 0xc6, 0xe8, 0xdd, 0x74, 0x1f, 0x4b, 0xbd, 0x8b, 0x8a,
    0x70, 0x3e, 0xb5, 0x66, 0x48, 0x03, 0xf6, 0x0e, 0x61, 0x35, 0x57, 0xb9, 0x86, 0xc1, 0x1d, 0x9e,
    0xe1, 0xf8, 0x98, 0x11, 0x69, 0xd9, 0x8e, 0x94, 0x9b, 0x1e, 0x87, 0xe9, 0xce, 0x55, 0x28, 0xdf,
    0x8c, 0xa1, 0x89, 0x0d, 0xbf, 0xe6, 0x42, 0x68, 0x41, 0x99, 0x2d, 0x0f, 0xb0, 0x54, 0xbb, 0x16,
};

/* FIPS 197, 4.2.1: times x. */
FUNCTION u32 aes_double(u32 x) { return (x << 1 ^ (x >> 7) * 0x1b) & 255; }

/* The first word of each row: what a byte of the first row of a block gives to its column, by the
 * S-box and MixColumns (5.1.3). The S-box alone is in bytes 1 and 2. */
FUNCTION void aes_begin(LOCAL u32 *table)
{
    for (u32 x = item(); x < 256; x += group_size()) {
        u32 s = AES_SBOX[x], twice = aes_double(s);
        table[x * AES_ROW] = twice | s << 8 | s << 16 | (twice ^ s) << 24;
    }
}

/* The same of the inverse cipher: the inverse S-box, then InvMixColumns (5.3.3); and the inverse
 * S-box. */
FUNCTION void aes_begin_inverse(LOCAL u32 *table, LOCAL u8 *box)
{
    for (u32 x = item(); x < 256; x += group_size()) {
        u32 s = AES_SBOX[x];
        u32 by2 = aes_double(x), by4 = aes_double(by2), by8 = aes_double(by4);
        table[s * AES_ROW] =
            (by8 ^ by4 ^ by2) | (by8 ^ x) << 8 | (by8 ^ by4 ^ x) << 16 | (by8 ^ by2 ^ x) << 24;
        box[s] = (u8)x;
    }
}

/* The rest of each row. */
FUNCTION void aes_fill(LOCAL u32 *table)
{
    for (u32 i = item(); i < AES_TABLE; i += group_size()) {
        u32 place = i % AES_ROW;
        if (place == 0) continue;
        u32 first = table[i - place];
        table[i] = place < AES_COPIES ? first : rotate_left(first, 8);
    }
}

/* The item's word of the row of byte `k` of `x`, or the one that is turned. */
FUNCTION u32 aes_look(const LOCAL u32 *table, u32 x, u32 k, u32 is_turned)
{
#if PLATFORM_CUDA
    u32 at = __byte_perm(x, 4 * (item() % AES_COPIES), 0x5504 | k << 4);
    return *(const LOCAL u32 *)((const LOCAL u8 *)table + at + 4 * AES_COPIES * is_turned);
#else
    return table[(x >> 8 * k & 255) * AES_ROW + is_turned];
#endif
}

/* A column after a round, without its round key, of bytes 0 to 3 of four columns. */
FUNCTION u32 aes_mixed(const LOCAL u32 *table, u32 a, u32 b, u32 c, u32 d)
{
    u32 low = aes_look(table, a, 0, 0) ^ aes_look(table, b, 1, 1);
    u32 high = aes_look(table, c, 2, 0) ^ aes_look(table, d, 3, 1);
    return low ^ rotate_left(high, 16);
}

/* The same of the last round, which mixes no columns. */
FUNCTION u32 aes_unmixed(const LOCAL u32 *table, u32 a, u32 b, u32 c, u32 d)
{
    return (aes_look(table, a, 0, 0) >> 8 & 0xff) | (aes_look(table, b, 1, 0) & 0xff00)
        | (aes_look(table, c, 2, 0) & 0xff0000) | (aes_look(table, d, 3, 1) & 0xff000000);
}

FUNCTION u32 aes_unboxed(const LOCAL u8 *box, u32 a, u32 b, u32 c, u32 d)
{
    return box[a & 255] | (u32)box[b >> 8 & 255] << 8 | (u32)box[c >> 16 & 255] << 16
        | (u32)box[d >> 24] << 24;
}

/* FIPS 197, 5.1: encrypts `block` with `rounds` + 1 round keys. */
FUNCTION void aes_encrypt(u32 *block, const GLOBAL u8 *keys, u32 rounds, const LOCAL u32 *table)
{
    u32x4 key = load16(keys);
    u32 a = block[0] ^ key.x, b = block[1] ^ key.y, c = block[2] ^ key.z, d = block[3] ^ key.w;
    for (u32 round = 1; round < rounds; round++) {
        key = load16(keys + 16 * round);
        u32 e = aes_mixed(table, a, b, c, d), f = aes_mixed(table, b, c, d, a);
        u32 g = aes_mixed(table, c, d, a, b), h = aes_mixed(table, d, a, b, c);
        a = e ^ key.x; b = f ^ key.y; c = g ^ key.z; d = h ^ key.w;
    }
    key = load16(keys + 16 * rounds);
    block[0] = aes_unmixed(table, a, b, c, d) ^ key.x;
    block[1] = aes_unmixed(table, b, c, d, a) ^ key.y;
    block[2] = aes_unmixed(table, c, d, a, b) ^ key.z;
    block[3] = aes_unmixed(table, d, a, b, c) ^ key.w;
}

/* FIPS 197, 5.3.5: decrypts `block` with the round keys of the equivalent inverse cipher, in the
 * order of their use. */
FUNCTION void aes_decrypt(
    u32 *block, const GLOBAL u8 *keys, u32 rounds, const LOCAL u32 *table, const LOCAL u8 *box)
{
    u32x4 key = load16(keys);
    u32 a = block[0] ^ key.x, b = block[1] ^ key.y, c = block[2] ^ key.z, d = block[3] ^ key.w;
    for (u32 round = 1; round < rounds; round++) {
        key = load16(keys + 16 * round);
        u32 e = aes_mixed(table, a, d, c, b), f = aes_mixed(table, b, a, d, c);
        u32 g = aes_mixed(table, c, b, a, d), h = aes_mixed(table, d, c, b, a);
        a = e ^ key.x; b = f ^ key.y; c = g ^ key.z; d = h ^ key.w;
    }
    key = load16(keys + 16 * rounds);
    block[0] = aes_unboxed(box, a, d, c, b) ^ key.x;
    block[1] = aes_unboxed(box, b, a, d, c) ^ key.y;
    block[2] = aes_unboxed(box, c, b, a, d) ^ key.z;
    block[3] = aes_unboxed(box, d, c, b, a) ^ key.w;
}
