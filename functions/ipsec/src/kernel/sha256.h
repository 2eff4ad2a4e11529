/* SHA-256 (FIPS 180-4, 6.2) and HMAC with it (RFC 2104), for messages of whole words. */

/* FIPS 180-4, 4.2.2. */
CONSTANT_TABLE u32 SHA256_K[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

FUNCTION u32 rotate_right(u32 x, u32 bits) { return rotate_left(x, 32 - bits); }

/* Word `t` of the schedule, of which sixteen are kept. */
FUNCTION u32 sha256_word(u32 *words, u32 t)
{
    if (t < 16) return words[t];
    u32 far = words[(t - 15) & 15], near = words[(t - 2) & 15];
    u32 low = rotate_right(far, 7) ^ rotate_right(far, 18) ^ far >> 3;
    u32 high = rotate_right(near, 17) ^ rotate_right(near, 19) ^ near >> 10;
    return words[t & 15] += low + words[(t - 7) & 15] + high;
}

/* One block, which is used up, into the eight words of the state. */
FUNCTION void sha256_block(u32 *state, u32 *words)
{
    u32 a = state[0], b = state[1], c = state[2], d = state[3];
    u32 e = state[4], f = state[5], g = state[6], h = state[7];
    UNROLL
    for (u32 t = 0; t < 64; t++) {
        u32 one = h + (rotate_right(e, 6) ^ rotate_right(e, 11) ^ rotate_right(e, 25))
            + ((e & f) ^ (~e & g)) + SHA256_K[t] + sha256_word(words, t);
        u32 two = (rotate_right(a, 2) ^ rotate_right(a, 13) ^ rotate_right(a, 22))
            + ((a & b) ^ (a & c) ^ (b & c));
        h = g; g = f; f = e; e = d + one; d = c; c = b; b = a; a = one + two;
    }
    state[0] += a; state[1] += b; state[2] += c; state[3] += d;
    state[4] += e; state[5] += f; state[6] += g; state[7] += h;
}

/* HMAC of `message` from the states after the padded keys: eight words of `mac`. */
FUNCTION void hmac_sha256(
    Message message, const GLOBAL u32 *inner, const GLOBAL u32 *outer, u32 *mac)
{
    u32 words[16], blocks = message_blocks(message);
    for (u32 i = 0; i < 8; i++) mac[i] = inner[i];
    for (u32 block = 0; block <= blocks; block++) {
        if (block < blocks) {
            message_block(message, block, words);
        } else {
            digest_block(mac, 8, words);
            for (u32 i = 0; i < 8; i++) mac[i] = outer[i];
        }
        sha256_block(mac, words);
    }
}
