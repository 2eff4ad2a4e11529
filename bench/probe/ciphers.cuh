// B3 and B4 measured: published vectors first, then rates by the number of packets in a launch.
#pragma once

#include "digests.cuh"

// Packets in device memory with keys, first blocks and midstates; the kernels' tables and outputs.
struct Bench {
    static constexpr u32 PACKETS = 131072;
    DeviceArray<u8> bytes{size_t(PACKETS) * PAYLOAD_STRIDE};
    DeviceArray<uint4> ivs{PACKETS};
    DeviceArray<u32> keys{KEYS * AES_ROUND_KEYS}, midstates{KEYS * 10}, t0{aes_table()}, out{PACKETS * 8};
    int sms;
    explicit Bench(int sms) : sms(sms) {
        load_digest_constants();
        allow_shared(aes_ctr<OneTable, 1>, OneTable::BYTES);
        allow_shared(aes_ctr<TwoTables, 1>, TwoTables::BYTES);
        allow_shared(aes_ctr<TwoTables, 4>, TwoTables::BYTES);
        allow_shared(aes_cbc<OneTable>, OneTable::BYTES);
        allow_shared(aes_cbc<TwoTables>, TwoTables::BYTES);
        allow_shared(cbc_hmac_sha1, TwoTables::BYTES);
    }
    template <class K> static void allow_shared(K* kernel, u32 bytes) {
        CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, int(bytes)));
    }
    Packets packets(u32 blocks16 = PAYLOAD_BYTES / 16) const {
        return {bytes.at, ivs.at, keys.at, midstates.at, blocks16};
    }
    void refill(cudaStream_t s, u32 n = PACKETS) const {
        fill<<<2048, 256, 0, s>>>(reinterpret_cast<uint4*>(bytes.at), size_t(n) * PAYLOAD_STRIDE / 16, 1);
    }
    template <class T, u32 BLOCKS> void ctr(u32 n, cudaStream_t s) const {
        int resident = T::BYTES > 48 * 1024 ? 3 : 4;
        aes_ctr<T, BLOCKS><<<sms * resident, 512, T::BYTES, s>>>(packets(), t0.at, n);
    }
    template <class T> void cbc(u32 n, cudaStream_t s) const {
        aes_cbc<T><<<(n + 127) / 128, 128, T::BYTES, s>>>(packets(), t0.at, n);
    }
    template <class H> void hash(u32 n, cudaStream_t s) const { digest<H><<<(n + 127) / 128, 128, 0, s>>>(packets(), out.at, n); }
    void hmac(u32 n, cudaStream_t s) const { hmac_sha1<<<(n + 127) / 128, 128, 0, s>>>(packets(), out.at, n); }
    void esp(u32 n, cudaStream_t s) const {
        cbc_hmac_sha1<<<(n + 127) / 128, 128, TwoTables::BYTES, s>>>(packets(), t0.at, out.at, n);
    }
};

// ---- published vectors

inline std::vector<u8> from_hex(const char* text) {
    std::vector<u8> bytes;
    for (; text[0] && text[1]; text += 2) bytes.push_back(u8(std::stoi(std::string(text, 2), nullptr, 16)));
    return bytes;
}

inline bool starts_with(const void* bytes, const char* hex) {
    std::vector<u8> want = from_hex(hex);
    return std::memcmp(bytes, want.data(), want.size()) == 0;
}

template <class T> void put_first(const DeviceArray<T>& array, const void* from, size_t bytes) {
    CHECK(cudaMemcpy(array.at, from, bytes, cudaMemcpyHostToDevice));
}

// FIPS 197, C.1. One block of CBC after a block of zeros is the bare cipher; so is the counter's first
// block over a packet of zeros.
inline void check_aes(const Bench& b) {
    const char* cipher = "69c4e0d86a7b0430d8cdb78070b4c55a";
    std::vector<u8> key = from_hex("000102030405060708090a0b0c0d0e0f"), plain = from_hex("00112233445566778899aabbccddeeff");
    std::vector<u32> words = round_keys(key.data());
    put_first(b.keys, words.data(), words.size() * 4);
    auto got = [&](bool cbc, auto launch) {
        std::vector<u8> zeros(16);
        put_first(b.ivs, cbc ? zeros.data() : plain.data(), 16);
        put_first(b.bytes, cbc ? plain.data() : zeros.data(), 16);
        launch();
        CHECK(cudaGetLastError());
        return starts_with(b.bytes.get(16).data(), cipher);
    };
    Packets one = b.packets(1);
    expect(got(true, [&] { aes_cbc<OneTable><<<1, 128, OneTable::BYTES>>>(one, b.t0.at, 1); }), "AES-CBC, one table");
    expect(got(true, [&] { aes_cbc<TwoTables><<<1, 128, TwoTables::BYTES>>>(one, b.t0.at, 1); }), "AES-CBC, two tables");
    expect(got(false, [&] { aes_ctr<OneTable, 1><<<1, 512, OneTable::BYTES>>>(one, b.t0.at, 1); }), "AES-CTR, one table");
    expect(got(false, [&] { aes_ctr<TwoTables, 1><<<1, 512, TwoTables::BYTES>>>(one, b.t0.at, 1); }), "AES-CTR, two tables");
    expect(got(false, [&] { aes_ctr<TwoTables, 4><<<1, 512, TwoTables::BYTES>>>(one, b.t0.at, 1); }), "AES-CTR, four blocks");
}

// A message as one padded block; `before` bytes were hashed ahead of it.
inline std::vector<u8> padded(const char* text, u32 before, bool big_endian) {
    std::vector<u8> block(64);
    size_t length = std::strlen(text);
    std::memcpy(block.data(), text, length);
    block[length] = 0x80;
    u32 bits = u32(8 * (before + length));
    for (int i = 0; i < 4; i++) block[big_endian ? 63 - i : 56 + i] = u8(bits >> 8 * i);
    return block;
}

template <class H> void check_digest(const Bench& b, const char* want, const char* what) {
    put_first(b.bytes, padded("abc", 0, H::BIG_ENDIAN_WORDS).data(), 64);
    digest<H><<<1, 128>>>(b.packets(4), b.out.at, 1);
    CHECK(cudaGetLastError());
    expect(starts_with(b.out.get(8).data(), want), what);
}

// The state after the block of a key of HMAC-SHA1, xored with a pad's byte.
inline Sha1 midstate(const std::vector<u8>& key, u8 pad) {
    u32 w[16];
    for (int i = 0; i < 16; i++) {
        w[i] = 0;
        for (int j = 0; j < 4; j++) w[i] = w[i] << 8 | u32((size_t(4 * i + j) < key.size() ? key[4 * i + j] : 0) ^ pad);
    }
    Sha1 state = Sha1::start();
    state.block(w);
    return state;
}

// RFC 1321 A.5, FIPS 180-4's "abc", RFC 2202 case 1.
inline void check_digests(const Bench& b) {
    check_digest<Md5>(b, "900150983cd24fb0d6963f7d28e17f72", "MD5");
    check_digest<Sha1>(b, "a9993e364706816aba3e25717850c26c9cd0d89d", "SHA-1");
    check_digest<Sha256>(b, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad", "SHA-256");
    std::vector<u8> key(20, 0x0b);
    Sha1 states[2] = {midstate(key, 0x36), midstate(key, 0x5c)};
    put_first(b.midstates, states, sizeof states);
    put_first(b.bytes, padded("Hi There", 64, true).data(), 64);
    hmac_sha1<<<1, 128>>>(b.packets(4), b.out.at, 1);
    CHECK(cudaGetLastError());
    expect(starts_with(b.out.get(8).data(), "b617318655057264e28bc0b6fb378c8ef146be00"), "HMAC-SHA1");
}

// One pass must give what encrypting and then hashing gives.
inline void check_one_pass(const Bench& b) {
    constexpr u32 N = 300;
    b.refill(0, N);
    b.esp(N, 0);
    std::vector<u32> tags = b.out.get(N * 5);
    std::vector<u8> bytes = b.bytes.get(N * PAYLOAD_STRIDE);
    b.refill(0, N);
    b.cbc<TwoTables>(N, 0);
    b.hmac(N, 0);
    CHECK(cudaGetLastError());
    expect(b.bytes.get(N * PAYLOAD_STRIDE) == bytes && b.out.get(N * 5) == tags, "AES-CBC and HMAC-SHA1 in one pass");
}

// ---- rates

inline void measure_ciphers(const Bench& b) {
    progress("B3 and B4: ciphers and digests");
    check_aes(b);
    check_digests(b);
    std::vector<u32> keys(KEYS * AES_ROUND_KEYS), midstates(KEYS * 10);
    Random random(1);
    for (u32& word : keys) word = random.next();
    for (u32& word : midstates) word = random.next();
    put_first(b.keys, keys.data(), keys.size() * 4);
    put_first(b.midstates, midstates.data(), midstates.size() * 4);
    fill<<<64, 256>>>(b.ivs.at, Bench::PACKETS, 2);
    check_one_pass(b);
    Stream s;
    auto rate = [&](const char* what, auto launch) {
        for (u32 n = 2048; n <= Bench::PACKETS; n *= 2) {
            double seconds = device_seconds(s, [&] { launch(n); }, [&] { b.refill(s, n); });
            row(what, set("packets", n), 8e-9 * n * PAYLOAD_BYTES / seconds, "Gb/s");
            if (n == 2048) row(std::string(what) + ".time", set("packets", n), 1e6 * seconds, "us");
        }
    };
    rate("B3.aes_ctr_one_table", [&](u32 n) { b.ctr<OneTable, 1>(n, s); });
    rate("B3.aes_ctr_two_tables", [&](u32 n) { b.ctr<TwoTables, 1>(n, s); });
    rate("B3.aes_ctr_two_tables_4_blocks", [&](u32 n) { b.ctr<TwoTables, 4>(n, s); });
    rate("B3.aes_cbc_one_table", [&](u32 n) { b.cbc<OneTable>(n, s); });
    rate("B3.aes_cbc_two_tables", [&](u32 n) { b.cbc<TwoTables>(n, s); });
    rate("B3.aes_cbc_hmac_sha1", [&](u32 n) { b.esp(n, s); });
    rate("B4.md5", [&](u32 n) { b.hash<Md5>(n, s); });
    rate("B4.sha1", [&](u32 n) { b.hash<Sha1>(n, s); });
    rate("B4.hmac_sha1", [&](u32 n) { b.hmac(n, s); });
    rate("B4.sha256", [&](u32 n) { b.hash<Sha256>(n, s); });
}
