/* MD5 (RFC 1321) of payloads, an item a packet. */

/* Words 4 `quarter` to 4 `quarter` + 3 of a text of `len` bytes after which are a byte 0x80 and
 * zeros (RFC 1321, 3.1). */
FUNCTION void padded_words(const GLOBAL u8 *text, u32 quarter, u32 len, u32 *words)
{
    u32 at = 16 * quarter, left = len > at ? len - at : 0;
    if (left) load_words(text + at, left < 16 ? left : 16, words);
    UNROLL
    for (u32 i = 0; i < 4; i++) {
        u32 own = left > 4 * i ? left - 4 * i : 0;
        if (own < 4) words[i] = own ? words[i] & ((1u << 8 * own) - 1) : 0;
        if (len / 4 == at / 4 + i) words[i] |= 0x80u << 8 * (len & 3);
    }
}

/* RFC 1321, 3.4. */
#define MIX_1(x, y, z) (z ^ (x & (y ^ z)))
#define MIX_2(x, y, z) (y ^ (z & (x ^ y)))
#define MIX_3(x, y, z) (x ^ y ^ z)
#define MIX_4(x, y, z) (y ^ (x | ~z))
#define TURN(mix, p, q, r, s, word, sine, bits) \
    p = q + rotate_left(p + mix(q, r, s) + block[word] + sine, bits)
/* Four steps by words i to l of the block; w to z are 2^32 times the absolute sines of their
 * numbers, cut to integers. */
#define FOUR(mix, bits_1, bits_2, bits_3, bits_4, i, j, k, l, w, x, y, z) \
    TURN(mix, a, b, c, d, i, w, bits_1); \
    TURN(mix, d, a, b, c, j, x, bits_2); \
    TURN(mix, c, d, a, b, k, y, bits_3); \
    TURN(mix, b, c, d, a, l, z, bits_4)
#define ROUND_1(i, j, k, l, w, x, y, z) FOUR(MIX_1, 7, 12, 17, 22, i, j, k, l, w, x, y, z)
#define ROUND_2(i, j, k, l, w, x, y, z) FOUR(MIX_2, 5, 9, 14, 20, i, j, k, l, w, x, y, z)
#define ROUND_3(i, j, k, l, w, x, y, z) FOUR(MIX_3, 4, 11, 16, 23, i, j, k, l, w, x, y, z)
#define ROUND_4(i, j, k, l, w, x, y, z) FOUR(MIX_4, 6, 10, 15, 21, i, j, k, l, w, x, y, z)

/* One block into the digest. */
FUNCTION void md5_block(u32 *digest, const u32 *block)
{
    u32 a = digest[0], b = digest[1], c = digest[2], d = digest[3];
    ROUND_1(0, 1, 2, 3, 0xd76aa478, 0xe8c7b756, 0x242070db, 0xc1bdceee);
    ROUND_1(4, 5, 6, 7, 0xf57c0faf, 0x4787c62a, 0xa8304613, 0xfd469501);
    ROUND_1(8, 9, 10, 11, 0x698098d8, 0x8b44f7af, 0xffff5bb1, 0x895cd7be);
    ROUND_1(12, 13, 14, 15, 0x6b901122, 0xfd987193, 0xa679438e, 0x49b40821);
    ROUND_2(1, 6, 11, 0, 0xf61e2562, 0xc040b340, 0x265e5a51, 0xe9b6c7aa);
    ROUND_2(5, 10, 15, 4, 0xd62f105d, 0x02441453, 0xd8a1e681, 0xe7d3fbc8);
    ROUND_2(9, 14, 3, 8, 0x21e1cde6, 0xc33707d6, 0xf4d50d87, 0x455a14ed);
    ROUND_2(13, 2, 7, 12, 0xa9e3e905, 0xfcefa3f8, 0x676f02d9, 0x8d2a4c8a);
    ROUND_3(5, 8, 11, 14, 0xfffa3942, 0x8771f681, 0x6d9d6122, 0xfde5380c);
    ROUND_3(1, 4, 7, 10, 0xa4beea44, 0x4bdecfa9, 0xf6bb4b60, 0xbebfbc70);
    ROUND_3(13, 0, 3, 6, 0x289b7ec6, 0xeaa127fa, 0xd4ef3085, 0x04881d05);
    ROUND_3(9, 12, 15, 2, 0xd9d4d039, 0xe6db99e5, 0x1fa27cf8, 0xc4ac5665);
    ROUND_4(0, 7, 14, 5, 0xf4292244, 0x432aff97, 0xab9423a7, 0xfc93a039);
    ROUND_4(12, 3, 10, 1, 0x655b59c3, 0x8f0ccc92, 0xffeff47d, 0x85845dd1);
    ROUND_4(8, 15, 6, 13, 0x6fa87e4f, 0xfe2ce6e0, 0xa3014314, 0x4e0811a1);
    ROUND_4(4, 11, 2, 9, 0xf7537e82, 0xbd3af235, 0x2ad7d2bb, 0xeb86d391);
    digest[0] += a; digest[1] += b; digest[2] += c; digest[3] += d;
}

FUNCTION void md5(const GLOBAL u8 *text, u32 len, u32 *digest)
{
    digest[0] = 0x67452301; digest[1] = 0xefcdab89; digest[2] = 0x98badcfe; digest[3] = 0x10325476;
    /* Behind the text are at least nine bytes more: 0x80 and its length in bits. */
    u32 last = (len + 8) / 64;
    for (u32 number = 0; number <= last; number++) {
        u32 block[16];
        UNROLL
        for (u32 i = 0; i < 4; i++) {
            if (64 * number + 64 <= len) load_words(text + 64 * number + 16 * i, 16, block + 4 * i);
            else padded_words(text, 4 * number + i, len, block + 4 * i);
        }
        if (number == last) {
            block[14] = len << 3;
            block[15] = len >> 29;
        }
        md5_block(digest, block);
    }
}

/* The digest's words, and the flag, of payloads of at least MIN_LEN bytes; WORD_0 and so on are the
 * function's words. */
PACKET_KERNEL(digest_payloads)
{
    ITEMS {
        if (index() >= count) continue;
        Packet p = packet_at(arena, packets, packet_rows, index());
        if (!is_ours(p) || reject_malformed(p, place)) continue;
        if (ip_version(p) == 0 || header_flags(p) & FLAG_SNAPPED) continue;
        u32 start = payload_offset(p), end = ip_end(p);
        if (end > frame_len(p) || start > end || end - start < MIN_LEN) continue;
        u32 digest[4];
        md5(payload(fields_of(p)), end - start, digest);
        set_scratch(p, WORD_0, digest[0]);
        set_scratch(p, WORD_1, digest[1]);
        set_scratch(p, WORD_2, digest[2]);
        set_scratch(p, WORD_3, digest[3]);
        flag(p, place);
    }
}
