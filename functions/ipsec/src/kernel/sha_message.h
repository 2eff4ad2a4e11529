/* Messages of SHA-1 and SHA-256 as blocks of sixteen big-endian words. */

/* A message of whole words whose first part was hashed already. */
typedef struct {
    /* The words that lie in memory, and how many. */
    const GLOBAL u8 *bytes;
    u32 words;
    /* One more word after them, where `has_last`. */
    u32 has_last;
    u32 last;
    /* Bytes that were hashed before. */
    u32 before;
} Message;

/* Blocks of the message with its padding (FIPS 180-4, 5.1.1). */
FUNCTION u32 message_blocks(Message m) { return (m.words + m.has_last + 3 + 15) / 16; }

/* Word `i` after the words in memory, of a message that has `end` words with its padding. */
FUNCTION u32 message_end(Message m, u32 i, u32 end)
{
    u32 len = m.words + m.has_last;
    if (i < len) return m.last;
    if (i == len) return 0x80000000;
    return i + 1 == end ? 8 * (m.before + 4 * len) : 0;
}

FUNCTION void message_block(Message m, u32 block, u32 *words)
{
    u32 end = 16 * message_blocks(m);
    if (16 * block + 16 <= m.words) {
        UNROLL
        for (u32 i = 0; i < 16; i += 4) load_words(m.bytes + 64 * block + 4 * i, 16, words + i);
        UNROLL
        for (u32 i = 0; i < 16; i++) words[i] = swap_bytes(words[i]);
        return;
    }
    UNROLL
    for (u32 i = 0; i < 16; i += 4) {
        u32 first = 16 * block + i, left = first < m.words ? m.words - first : 0;
        if (left) load_words(m.bytes + 4 * first, left < 4 ? 4 * left : 16, words + i);
        UNROLL
        for (u32 w = 0; w < 4; w++)
            words[i + w] = w < left ? swap_bytes(words[i + w]) : message_end(m, first + w, end);
    }
}

/* The only block of a digest of `count` words that is hashed after one block: the outer hash of
 * HMAC (RFC 2104). */
FUNCTION void digest_block(const u32 *digest, u32 count, u32 *words)
{
    UNROLL
    for (u32 i = 0; i < 16; i++) words[i] = i < count ? digest[i] : i == count ? 0x80000000 : 0;
    words[15] = 8 * (64 + 4 * count);
}
