/* The cipher work of ESP (RFC 4303, 3.3.2 and 3.4.4) on one packet: IV, text, ICV. The text is
 * whole words. */

typedef struct {
    const GLOBAL u8 *sa;
    u32 low, high;
    /* From the SPI on. */
    GLOBAL u8 *esp;
    /* Bytes from there to the text, and of it. */
    u32 text_at, text_len;
    /* The IV of counter modes. */
    u32 iv[2];
    /* Of the cipher. */
    u32 rounds;
} Esp;

/* The AES tables of a kernel that opens: counter modes need one table, CBC the others. */
typedef struct {
    int is_counter_mode;
    const LOCAL u32 *encrypting;
    const LOCAL u32 *decrypting;
    const LOCAL u8 *box;
} Opening;

/* Bytes of SPI and sequence number. */
#define HEADER_LEN_ESP 8

/* Whether the SA's cipher enciphers a counter. */
FUNCTION int is_counter_mode(const GLOBAL u8 *sa)
{
    return sa[SA_CIPHER] == CIPHER_CTR || sa[SA_CIPHER] == CIPHER_GCM;
}

/* The ESP of task `t` at `stretch`, which has room for what is around a text; its IV is what lies
 * there. */
FUNCTION Esp esp_of(Task t, Stretch stretch)
{
    Esp e;
    e.sa = t.sa;
    e.low = t.low;
    e.high = t.high;
    e.esp = frame_of(t.packet) + stretch.at;
    e.text_at = HEADER_LEN_ESP + t.sa[SA_IV_LEN];
    e.text_len = stretch.len - e.text_at - t.sa[SA_ICV_LEN];
    e.rounds = t.sa[SA_ROUNDS];
    e.iv[0] = load_word(e.esp + HEADER_LEN_ESP);
    e.iv[1] = load_word(e.esp + HEADER_LEN_ESP + 4);
    return e;
}

FUNCTION u32 blocks_of(Esp e) { return (e.text_len + 15) / 16; }

/* Words of block `i`: four, or fewer in the last. */
FUNCTION u32 words_of(Esp e, u32 i)
{
    u32 left = e.text_len / 4 - 4 * i;
    return left < 4 ? left : 4;
}

/* Block `i` of the text, with zeroes after its end. */
FUNCTION void load_block(Esp e, u32 i, u32 *block)
{
    u32 words = words_of(e, i);
    load_words(e.esp + e.text_at + 16 * i, 4 * words, block);
    UNROLL
    for (u32 w = 1; w < 4; w++) block[w] = w < words ? block[w] : 0;
}

FUNCTION void store_block(Esp e, u32 i, const u32 *block)
{
    u32 words = words_of(e, i);
    GLOBAL u8 *at = e.esp + e.text_at + 16 * i;
    if (words == 4) {
        store_words(at, block);
        return;
    }
    UNROLL
    for (u32 w = 0; w < 3; w++) {
        if (w < words) store_word(at + 4 * w, block[w]);
    }
}

/* Block `counter` of the key stream (RFC 3686, 4; RFC 4106, 4). */
FUNCTION void key_stream(Esp e, u32 counter, const LOCAL u32 *encrypting, u32 *block)
{
    block[0] = *(const GLOBAL u32 *)(e.sa + SA_SALT);
    block[1] = e.iv[0];
    block[2] = e.iv[1];
    block[3] = swap_bytes(counter);
    aes_encrypt(block, e.sa + SA_ROUND_KEYS, e.rounds, encrypting);
}

/* The counter of the text's first block: GCM hides its hash with one before. */
FUNCTION u32 first_counter(Esp e) { return e.sa[SA_CIPHER] == CIPHER_GCM ? 2 : 1; }

/* Enciphers and deciphers block `i` of counter modes. */
FUNCTION void add_key_stream(Esp e, u32 i, const LOCAL u32 *encrypting, u32 *block)
{
    u32 stream[4];
    load_block(e, i, block);
    key_stream(e, first_counter(e) + i, encrypting, stream);
    for (u32 w = 0; w < 4; w++) block[w] ^= stream[w];
}

/* Writes the IV. It is the number; of CBC it is encrypted with a key for that alone, and left in
 * `chained`. */
FUNCTION void write_iv(Esp *e, const LOCAL u32 *encrypting, u32 *chained)
{
    GLOBAL u8 *iv = e->esp + HEADER_LEN_ESP;
    u32 high = swap_bytes(e->high), low = swap_bytes(e->low);
    if (e->sa[SA_CIPHER] == CIPHER_CBC) {
        chained[0] = chained[1] = 0;
        chained[2] = high;
        chained[3] = low;
        aes_encrypt(chained, e->sa + SA_IV_KEYS, 10, encrypting);
        store_words(iv, chained);
    } else if (e->sa[SA_CIPHER] != CIPHER_NULL) {
        e->iv[0] = high;
        e->iv[1] = low;
        store_word(iv, high);
        store_word(iv + 4, low);
    }
}

/* Enciphers the text by CBC, with the IV in `chained`. The next block is read before the cipher's
 * work, which takes longer. */
FUNCTION void seal_cbc(Esp e, const LOCAL u32 *encrypting, u32 *chained)
{
    u32 next[4], blocks = blocks_of(e);
    if (blocks > 0) load_block(e, 0, next);
    for (u32 i = 0; i < blocks; i++) {
        for (u32 w = 0; w < 4; w++) chained[w] ^= next[w];
        if (i + 1 < blocks) load_block(e, i + 1, next);
        aes_encrypt(chained, e.sa + SA_ROUND_KEYS, e.rounds, encrypting);
        store_block(e, i, chained);
    }
}

/* Enciphers or deciphers the text by a counter mode. */
FUNCTION void add_key_streams(Esp e, const LOCAL u32 *encrypting)
{
    u32 block[4], blocks = blocks_of(e);
    for (u32 i = 0; i < blocks; i++) {
        add_key_stream(e, i, encrypting, block);
        store_block(e, i, block);
    }
}

/* Writes the IV and enciphers the text. */
FUNCTION void seal_text(Esp *e, const LOCAL u32 *encrypting)
{
    u32 chained[4], cipher = e->sa[SA_CIPHER];
    write_iv(e, encrypting, chained);
    if (cipher == CIPHER_CBC) seal_cbc(*e, encrypting, chained);
    else if (cipher != CIPHER_NULL) add_key_streams(*e, encrypting);
}

/* Deciphers a block of CBC; `before` is the block sent before it. */
FUNCTION void decipher(Esp e, Opening by, const u32 *before, u32 *block)
{
    aes_decrypt(block, e.sa + SA_ROUND_KEYS, e.rounds, by.decrypting, by.box);
    for (u32 w = 0; w < 4; w++) block[w] ^= before[w];
}

/* Block `i` as it is in the clear. It and the one before it are not deciphered yet. */
FUNCTION void plain_block(Esp e, u32 i, Opening by, u32 *block)
{
    u32 before[4];
    if (by.is_counter_mode) {
        add_key_stream(e, i, by.encrypting, block);
        return;
    }
    load_block(e, i, block);
    if (e.sa[SA_CIPHER] == CIPHER_NULL) return;
    /* The IV lies right before the text. */
    load_words(e.esp + e.text_at + 16 * i - 16, 16, before);
    decipher(e, by, before, block);
}

/* Deciphers the text by CBC. */
FUNCTION void open_cbc(Esp e, Opening by)
{
    u32 before[4], sent[4], next[4], block[4], blocks = blocks_of(e);
    load_words(e.esp + e.text_at - 16, 16, before);
    if (blocks > 0) load_block(e, 0, next);
    for (u32 i = 0; i < blocks; i++) {
        for (u32 w = 0; w < 4; w++) block[w] = sent[w] = next[w];
        if (i + 1 < blocks) load_block(e, i + 1, next);
        decipher(e, by, before, block);
        store_block(e, i, block);
        for (u32 w = 0; w < 4; w++) before[w] = sent[w];
    }
}

/* Deciphers the text in place. */
FUNCTION void open_text(Esp e, Opening by)
{
    if (by.is_counter_mode) add_key_streams(e, by.encrypting);
    else if (e.sa[SA_CIPHER] == CIPHER_CBC) open_cbc(e, by);
}

/* The input of GHASH, a block at a time: the additional data, the text as it was sent, and their
 * lengths
 * (RFC 4106, 5; NIST SP 800-38D, 7.1). */
FUNCTION void hashed_block(Esp e, u32 i, u32 *block)
{
    u32 has_high = e.sa[SA_ESN], low = esp_seq_at(e.esp);
    if (i == 0) {
        block[0] = esp_spi_at(e.esp);
        block[1] = has_high ? e.high : low;
        block[2] = has_high ? low : 0;
        block[3] = 0;
    } else if (i <= blocks_of(e)) {
        load_block(e, i - 1, block);
        for (u32 w = 0; w < 4; w++) block[w] = swap_bytes(block[w]);
    } else {
        block[0] = block[2] = 0;
        block[1] = has_high ? 96 : 64;
        block[3] = 8 * e.text_len;
    }
}

FUNCTION void gcm_icv(Esp e, const LOCAL u32 *encrypting, u32 *icv)
{
    u32 block[4];
    for (u32 w = 0; w < 4; w++) icv[w] = 0;
    for (u32 i = 0; i < blocks_of(e) + 2; i++) {
        hashed_block(e, i, block);
        ghash_block(icv, block, e.sa + SA_HASH_TABLE);
    }
    key_stream(e, 1, encrypting, block);
    for (u32 w = 0; w < 4; w++) icv[w] ^= swap_bytes(block[w]);
}

/* The ICV by HMAC. */
FUNCTION void hmac_icv(Esp e, u32 *icv)
{
    Message message;
    message.bytes = e.esp;
    message.words = (e.text_at + e.text_len) / 4;
    message.has_last = e.sa[SA_ESN];
    message.last = e.high;
    message.before = 64;
    const GLOBAL u32 *inner = (const GLOBAL u32 *)(e.sa + SA_HMAC_INNER),
                     *outer = (const GLOBAL u32 *)(e.sa + SA_HMAC_OUTER);
    u32 mac[8];
    if (e.sa[SA_AUTH] == AUTH_SHA1) hmac_sha1(message, inner, outer, mac);
    if (e.sa[SA_AUTH] == AUTH_SHA256) hmac_sha256(message, inner, outer, mac);
    for (u32 w = 0; w < 4; w++) icv[w] = e.sa[SA_AUTH] == AUTH_NONE ? 0 : mac[w];
}

/* The ICV over the text as it was sent, as words in network order; as many of the four as the SA
 * has count. */
FUNCTION void icv_of(Esp e, int may_be_gcm, const LOCAL u32 *encrypting, u32 *icv)
{
    if (may_be_gcm && e.sa[SA_CIPHER] == CIPHER_GCM) gcm_icv(e, encrypting, icv);
    else hmac_icv(e, icv);
}

FUNCTION void write_icv(Esp e, const LOCAL u32 *encrypting)
{
    u32 icv[4], words = e.sa[SA_ICV_LEN] / 4;
    if (words == 0) return;
    icv_of(e, 1, encrypting, icv);
    for (u32 w = 0; w < words; w++) put_be32(e.esp + e.text_at + e.text_len + 4 * w, icv[w]);
}

FUNCTION int is_authentic(Esp e, Opening by)
{
    u32 icv[4], words = e.sa[SA_ICV_LEN] / 4, wrong = 0;
    if (words == 0) return 1;
    icv_of(e, by.is_counter_mode, by.encrypting, icv);
    for (u32 w = 0; w < words; w++)
        wrong |= icv[w] ^ get_be32(e.esp + e.text_at + e.text_len + 4 * w);
    return wrong == 0;
}
