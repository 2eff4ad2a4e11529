/* SHA-1 (FIPS 180-4, 6.1) and HMAC with it (RFC 2104), for messages of whole words. */

/* Word `t` of the schedule, of which sixteen are kept. */
FUNCTION u32 sha1_word(u32 *words, u32 t)
{
    if (t < 16) return words[t];
    u32 sum = words[(t - 3) & 15] ^ words[(t - 8) & 15] ^ words[(t - 14) & 15] ^ words[t & 15];
    return words[t & 15] = rotate_left(sum, 1);
}

FUNCTION u32 sha1_mixed(u32 t, u32 b, u32 c, u32 d)
{
    if (t < 20) return ((b & c) | (~b & d)) + 0x5a827999;
    if (t < 40) return (b ^ c ^ d) + 0x6ed9eba1;
    if (t < 60) return ((b & c) | (b & d) | (c & d)) + 0x8f1bbcdc;
    return (b ^ c ^ d) + 0xca62c1d6;
}

/* One block, which is used up, into the five words of the state. */
FUNCTION void sha1_block(u32 *state, u32 *words)
{
    u32 a = state[0], b = state[1], c = state[2], d = state[3], e = state[4];
    UNROLL
    for (u32 t = 0; t < 80; t++) {
        u32 sum = rotate_left(a, 5) + sha1_mixed(t, b, c, d) + e + sha1_word(words, t);
        e = d; d = c; c = rotate_left(b, 30); b = a; a = sum;
    }
    state[0] += a; state[1] += b; state[2] += c; state[3] += d; state[4] += e;
}

/* HMAC of `message` from the states after the padded keys: five words of `mac`. */
FUNCTION void hmac_sha1(Message message, const GLOBAL u32 *inner, const GLOBAL u32 *outer, u32 *mac)
{
    u32 words[16], blocks = message_blocks(message);
    for (u32 i = 0; i < 5; i++) mac[i] = inner[i];
    for (u32 block = 0; block <= blocks; block++) {
        if (block < blocks) {
            message_block(message, block, words);
        } else {
            digest_block(mac, 5, words);
            for (u32 i = 0; i < 5; i++) mac[i] = outer[i];
        }
        sha1_block(mac, words);
    }
}
