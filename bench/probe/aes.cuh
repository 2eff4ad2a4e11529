// B3: AES-128 (FIPS 197) from tables in shared memory. Two layouts: one table, a copy for each lane, found by
// index arithmetic; and two tables whose address is made by one byte permutation.
#pragma once

#include "packets.cuh"

constexpr u32 AES_ROUND_KEYS = 44;
constexpr u32 ONE_TABLE_BYTES = 256 * 32 * 4, TWO_TABLES_BYTES = 2 * ONE_TABLE_BYTES;

// T0[x] holds, from the low byte, 2S, S, S, 3S with S the S-box's byte: SubBytes and MixColumns at once.
__device__ __forceinline__ u32 rotl(u32 x, u32 n) { return __funnelshift_l(x, x, n); }

// Row x has 32 copies of T0[x], a word for each lane: no two lanes meet in a bank.
struct OneTable {
    const u32* rows;
    u32 lane;
    static constexpr u32 BYTES = ONE_TABLE_BYTES;
    __device__ OneTable(u32* shared, const u32* t0) : rows(shared), lane(threadIdx.x % 32) {
        for (u32 i = threadIdx.x; i < 256 * 32; i += blockDim.x) shared[i] = t0[i / 32];
        __syncthreads();
    }
    template <int K> __device__ __forceinline__ u32 t0(u32 x) const { return rows[((x >> 8 * K) & 255) * 32 + lane]; }
    template <int K> __device__ __forceinline__ u32 t1(u32 x) const { return rotl(t0<K>(x), 8); }
};

// Row x has 256 bytes: T0[x] for each lane, then the same turned left by a byte. The address of byte K of a word is
// byte << 8 | lane * 4, one permutation of the word and the lane's number; the second table is 128 bytes on.
struct TwoTables {
    const u8* rows;
    u32 lane4;
    static constexpr u32 BYTES = TWO_TABLES_BYTES;
    __device__ TwoTables(u32* shared, const u32* t0) : rows(reinterpret_cast<u8*>(shared)), lane4(threadIdx.x % 32 * 4) {
        for (u32 i = threadIdx.x; i < 256 * 64; i += blockDim.x) shared[i] = i % 64 < 32 ? t0[i / 64] : rotl(t0[i / 64], 8);
        __syncthreads();
    }
    template <int K> __device__ __forceinline__ const u8* at(u32 x) const { return rows + __byte_perm(x, lane4, 0x5504 | K << 4); }
    template <int K> __device__ __forceinline__ u32 t0(u32 x) const { return *reinterpret_cast<const u32*>(at<K>(x)); }
    template <int K> __device__ __forceinline__ u32 t1(u32 x) const { return *reinterpret_cast<const u32*>(at<K>(x) + 128); }
};

template <class T> __device__ __forceinline__ u32 column(const T& t, u32 a, u32 b, u32 c, u32 d, u32 key) {
    return t.template t0<0>(a) ^ t.template t1<1>(b) ^ key ^ rotl(t.template t0<2>(c) ^ t.template t1<3>(d), 16);
}

// The last round has no MixColumns: S is byte 1 of every T0.
template <class T> __device__ __forceinline__ u32 last_column(const T& t, u32 a, u32 b, u32 c, u32 d, u32 key) {
    u32 low = __byte_perm(t.template t0<0>(a), t.template t0<1>(b), 0x0051);
    u32 high = __byte_perm(t.template t0<2>(c), t.template t0<3>(d), 0x0051);
    return __byte_perm(low, high, 0x5410) ^ key;
}

template <class T> __device__ __forceinline__ uint4 encrypt(const T& t, uint4 s, const u32* key) {
    s = make_uint4(s.x ^ key[0], s.y ^ key[1], s.z ^ key[2], s.w ^ key[3]);
#pragma unroll
    for (int r = 4; r < 40; r += 4)
        s = make_uint4(column(t, s.x, s.y, s.z, s.w, key[r]), column(t, s.y, s.z, s.w, s.x, key[r + 1]),
                       column(t, s.z, s.w, s.x, s.y, key[r + 2]), column(t, s.w, s.x, s.y, s.z, key[r + 3]));
    return make_uint4(last_column(t, s.x, s.y, s.z, s.w, key[40]), last_column(t, s.y, s.z, s.w, s.x, key[41]),
                      last_column(t, s.z, s.w, s.x, s.y, key[42]), last_column(t, s.w, s.x, s.y, s.z, key[43]));
}

__device__ __forceinline__ uint4 operator^(uint4 a, uint4 b) {
    return make_uint4(a.x ^ b.x, a.y ^ b.y, a.z ^ b.z, a.w ^ b.w);
}

// Counter mode: a thread has BLOCKS neighbouring blocks of one packet, and reads each round key once for all of them.
template <class T, u32 BLOCKS>
__global__ void __launch_bounds__(512) aes_ctr(Packets p, const u32* __restrict__ t0, u32 n) {
    extern __shared__ u32 shared[];
    T tables(shared, t0);
    u32 pieces = (p.blocks16 + BLOCKS - 1) / BLOCKS;
    for (u32 i = blockIdx.x * blockDim.x + threadIdx.x; i < n * pieces; i += gridDim.x * blockDim.x) {
        u32 packet = i / pieces, first = i % pieces * BLOCKS;
        const u32* key = p.keys_of(packet);
        uint4 counter = p.ivs[packet];
        uint4* data = p.data_of(packet) + first;
#pragma unroll
        for (u32 b = 0; b < BLOCKS; b++) {
            if (first + b >= p.blocks16) break;
            uint4 s = counter;
            s.w = swap_bytes(swap_bytes(s.w) + first + b);
            data[b] = data[b] ^ encrypt(tables, s, key);
        }
    }
}

// CBC is a chain: a thread has one packet, its round keys in registers.
template <class T> __global__ void __launch_bounds__(128) aes_cbc(Packets p, const u32* __restrict__ t0, u32 n) {
    extern __shared__ u32 shared[];
    T tables(shared, t0);
    for (u32 packet = blockIdx.x * blockDim.x + threadIdx.x; packet < n; packet += gridDim.x * blockDim.x) {
        u32 key[AES_ROUND_KEYS];
        for (u32 i = 0; i < AES_ROUND_KEYS; i++) key[i] = p.keys_of(packet)[i];
        uint4 chain = p.ivs[packet];
        uint4* data = p.data_of(packet);
        for (u32 b = 0; b < p.blocks16; b++) data[b] = chain = encrypt(tables, chain ^ data[b], key);
    }
}

// ---- tables and round keys, computed on the host from the standard's definitions

inline u8 times2(u8 x) { return u8(x << 1 ^ (x & 0x80 ? 0x1b : 0)); }

inline std::vector<u8> s_box() {
    std::vector<u8> box(256);
    u8 p = 1, q = 1;
    do {
        p = u8(p ^ times2(p));
        q ^= u8(q << 1); q ^= u8(q << 2); q ^= u8(q << 4);
        if (q & 0x80) q ^= 0x09;
        auto turned = [q](int n) { return u8(q << n | q >> (8 - n)); };
        box[p] = u8(q ^ turned(1) ^ turned(2) ^ turned(3) ^ turned(4) ^ 0x63);
    } while (p != 1);
    box[0] = 0x63;
    return box;
}

inline std::vector<u32> aes_table() {
    std::vector<u8> box = s_box();
    std::vector<u32> table(256);
    for (u32 x = 0; x < 256; x++) {
        u32 s = box[x], s2 = times2(box[x]);
        table[x] = s2 | s << 8 | s << 16 | (s2 ^ s) << 24;
    }
    return table;
}

// The round keys of FIPS 197, 5.2, as little-endian words.
inline std::vector<u32> round_keys(const u8 key[16]) {
    std::vector<u8> box = s_box();
    std::vector<u32> words(AES_ROUND_KEYS);
    std::memcpy(words.data(), key, 16);
    u8 constant = 1;
    for (u32 i = 4; i < AES_ROUND_KEYS; i++) {
        u32 word = words[i - 1];
        if (i % 4 == 0) {
            word = word >> 8 | word << 24;
            word = u32(box[word & 255]) | u32(box[word >> 8 & 255]) << 8 | u32(box[word >> 16 & 255]) << 16 | u32(box[word >> 24]) << 24;
            word ^= constant;
            constant = times2(constant);
        }
        words[i] = words[i - 4] ^ word;
    }
    return words;
}
