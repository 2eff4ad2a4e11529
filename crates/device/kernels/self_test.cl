/* A device must pass these tests before it gets work: digests of messages at any address (MD5, RFC
 * 1321), bytes moved at odd addresses and lengths, the dialect's operations, items of a group that
 * see each other's results. */

CONSTANT_TABLE u32 SINES[64] = {
    0xd76aa478, 0xe8c7b756, 0x242070db, 0xc1bdceee, 0xf57c0faf, 0x4787c62a, 0xa8304613, 0xfd469501,
    0x698098d8, 0x8b44f7af, 0xffff5bb1, 0x895cd7be, 0x6b901122, 0xfd987193, 0xa679438e, 0x49b40821,
    0xf61e2562, 0xc040b340, 0x265e5a51, 0xe9b6c7aa, 0xd62f105d, 0x02441453, 0xd8a1e681, 0xe7d3fbc8,
    0x21e1cde6, 0xc33707d6, 0xf4d50d87, 0x455a14ed, 0xa9e3e905, 0xfcefa3f8, 0x676f02d9, 0x8d2a4c8a,
    0xfffa3942, 0x8771f681, 0x6d9d6122, 0xfde5380c, 0xa4beea44, 0x4bdecfa9, 0xf6bb4b60, 0xbebfbc70,
    0x289b7ec6, 0xeaa127fa, 0xd4ef3085, 0x04881d05, 0xd9d4d039, 0xe6db99e5, 0x1fa27cf8, 0xc4ac5665,
    0xf4292244, 0x432aff97, 0xab9423a7, 0xfc93a039, 0x655b59c3, 0x8f0ccc92, 0xffeff47d, 0x85845dd1,
    0x6fa87e4f, 0xfe2ce6e0, 0xa3014314, 0x4e0811a1, 0xf7537e82, 0xbd3af235, 0x2ad7d2bb, 0xeb86d391,
};

CONSTANT_TABLE u8 TURNS[16] = {7, 12, 17, 22, 5, 9, 14, 20, 4, 11, 16, 23, 6, 10, 15, 21};

/* RFC 1321, 3.4: one block of sixteen words into the state. */
FUNCTION void md5_block(u32 *state, const u32 *words)
{
    u32 a = state[0], b = state[1], c = state[2], d = state[3];
    for (u32 i = 0; i < 64; i++) {
        u32 mixed, word;
        if (i < 16) { mixed = (b & c) | (~b & d); word = i; }
        else if (i < 32) { mixed = (d & b) | (~d & c); word = 5 * i + 1; }
        else if (i < 48) { mixed = b ^ c ^ d; word = 3 * i + 5; }
        else { mixed = c ^ (b | ~d); word = 7 * i; }
        u32 sum = a + mixed + SINES[i] + words[word & 15];
        a = d; d = c; c = b;
        b += rotate_left(sum, TURNS[i / 16 * 4 + i % 4]);
    }
    state[0] += a; state[1] += b; state[2] += c; state[3] += d;
}

/* Byte `at` of a message of `length` bytes with its padding (RFC 1321, 3.1 and 3.2); `end` is where
 * that ends. */
FUNCTION u32 padded_byte(const GLOBAL u8 *message, u32 length, u32 at, u32 end)
{
    if (at < length) return message[at];
    if (at == length) return 0x80;
    return at >= end - 8 && at < end - 4 ? length * 8 >> 8 * (at - (end - 8)) & 255 : 0;
}

/* Message i begins at `starts[i]` of `bytes` and ends where the next begins; its digest is four
 * words of `digests`. */
KERNEL(md5, 64)(const GLOBAL u8 *bytes, const GLOBAL u32 *starts, GLOBAL u32 *digests, u32 count)
{
    ITEMS {
        u32 i = index();
        if (i >= count) continue;
        const GLOBAL u8 *message = bytes + starts[i];
        u32 length = starts[i + 1] - starts[i], end = (length + 9 + 63) / 64 * 64;
        u32 state[4] = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476};
        for (u32 block = 0; block < end; block += 64) {
            u32 words[16];
            for (u32 w = 0; w < 16; w++) {
                words[w] = 0;
                for (u32 k = 0; k < 4; k++)
                    words[w] |= padded_byte(message, length, block + 4 * w + k, end) << 8 * k;
            }
            md5_block(state, words);
        }
        for (u32 w = 0; w < 4; w++) digests[4 * i + w] = state[w];
    }
}

/* Moves bytes `start` to `end`. */
KERNEL(move, 64)(const GLOBAL u8 *from, GLOBAL u8 *to, u32 start, u32 end)
{
    ITEMS {
        for (u32 i = start + index(); i < end; i += items()) to[i] = from[i];
    }
}

/* The dialect's operations, one result a word: out[6 * i ..] from word i. Counts in `sum` the ones
 * of all words. */
KERNEL(operations, 64)(const GLOBAL u32 *words, GLOBAL u32 *out, GLOBAL u32 *sum, u32 count)
{
    ITEMS {
        u32 i = index();
        if (i >= count) continue;
        u32 x = words[i];
        out[6 * i] = rotate_left(x, i % 32);
        out[6 * i + 1] = swap_bytes(x);
        out[6 * i + 2] = count_ones(x);
        out[6 * i + 3] = leading_zeros(x);
        out[6 * i + 4] = load_bytes((const GLOBAL u8 *)words + i);
        out[6 * i + 5] = (u32)((u64)x * x >> 32);
        add_atomic(sum, count_ones(x));
        or_atomic(sum + 1, x);
    }
}

/* Each group turns its 64 pieces of 16 bytes around, through shared memory, and adds the group's
 * number. */
KERNEL(turn_around, 64)(const GLOBAL u8 *in, GLOBAL u8 *out)
{
    SHARED(u32x4, held, 64);
    ITEMS {
        held[item()] = load16(in + 16 * index());
    }
    ITEMS {
        u32x4 piece = held[63 - item()];
        store16(out + 16 * index(), make16(piece.w + group(), piece.z, piece.y, piece.x));
    }
}
