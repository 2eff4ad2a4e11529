// B4: digests, a thread for a packet: MD5 (RFC 1321), SHA-1 and SHA-256 (FIPS 180-4), HMAC-SHA1 (RFC 2104) from
// midstates; and AES-CBC with HMAC-SHA1 in one pass over the packet.
#pragma once

#include <cmath>

#include "aes.cuh"

__host__ __device__ __forceinline__ u32 turn(u32 x, u32 n) { return x << n | x >> (32 - n); }

struct Sha1 {
    u32 h[5];
    static constexpr u32 WORDS = 5;
    static constexpr bool BIG_ENDIAN_WORDS = true;
    __host__ __device__ static Sha1 start() { return {{0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0}}; }
    __host__ __device__ __forceinline__ void block(u32 w[16]) {
        u32 a = h[0], b = h[1], c = h[2], d = h[3], e = h[4];
#pragma unroll
        for (int i = 0; i < 80; i++) {
            if (i >= 16) w[i & 15] = turn(w[(i + 13) & 15] ^ w[(i + 8) & 15] ^ w[(i + 2) & 15] ^ w[i & 15], 1);
            u32 f = i < 20 ? (d ^ (b & (c ^ d))) + 0x5a827999 : i < 40 ? (b ^ c ^ d) + 0x6ed9eba1
                  : i < 60 ? ((b & c) | (d & (b | c))) + 0x8f1bbcdc : (b ^ c ^ d) + 0xca62c1d6;
            u32 next = turn(a, 5) + f + e + w[i & 15];
            e = d; d = c; c = turn(b, 30); b = a; a = next;
        }
        h[0] += a; h[1] += b; h[2] += c; h[3] += d; h[4] += e;
    }
};

__device__ __constant__ u32 SHA256_K[64];
__device__ __constant__ u32 MD5_K[64];

struct Sha256 {
    u32 h[8];
    static constexpr u32 WORDS = 8;
    static constexpr bool BIG_ENDIAN_WORDS = true;
    __device__ static Sha256 start() {
        return {{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19}};
    }
    __device__ __forceinline__ void block(u32 w[16]) {
        u32 a = h[0], b = h[1], c = h[2], d = h[3], e = h[4], f = h[5], g = h[6], k = h[7];
#pragma unroll
        for (int i = 0; i < 64; i++) {
            if (i >= 16) {
                u32 x = w[(i + 1) & 15], y = w[(i + 14) & 15];
                w[i & 15] += (turn(x, 25) ^ turn(x, 14) ^ x >> 3) + w[(i + 9) & 15] + (turn(y, 15) ^ turn(y, 13) ^ y >> 10);
            }
            u32 t1 = k + (turn(e, 26) ^ turn(e, 21) ^ turn(e, 7)) + (g ^ (e & (f ^ g))) + SHA256_K[i] + w[i & 15];
            u32 t2 = (turn(a, 30) ^ turn(a, 19) ^ turn(a, 10)) + ((a & b) | (c & (a | b)));
            k = g; g = f; f = e; e = d + t1; d = c; c = b; b = a; a = t1 + t2;
        }
        h[0] += a; h[1] += b; h[2] += c; h[3] += d; h[4] += e; h[5] += f; h[6] += g; h[7] += k;
    }
};

struct Md5 {
    u32 h[4];
    static constexpr u32 WORDS = 4;
    static constexpr bool BIG_ENDIAN_WORDS = false;
    __device__ static Md5 start() { return {{0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476}}; }
    __device__ __forceinline__ void block(u32 w[16]) {
        constexpr u32 TURNS[4][4] = {{7, 12, 17, 22}, {5, 9, 14, 20}, {4, 11, 16, 23}, {6, 10, 15, 21}};
        u32 a = h[0], b = h[1], c = h[2], d = h[3];
#pragma unroll
        for (int i = 0; i < 64; i++) {
            u32 f = i < 16 ? d ^ (b & (c ^ d)) : i < 32 ? c ^ (d & (b ^ c)) : i < 48 ? b ^ c ^ d : c ^ (b | ~d);
            int word = i < 16 ? i : i < 32 ? 5 * i + 1 : i < 48 ? 3 * i + 5 : 7 * i;
            u32 sum = a + f + MD5_K[i] + w[word & 15];
            a = d; d = c; c = b; b += turn(sum, TURNS[i / 16][i % 4]);
        }
        h[0] += a; h[1] += b; h[2] += c; h[3] += d;
    }
};

template <class H> __device__ __forceinline__ void take(H& hash, const uint4 from[4]) {
    u32 w[16];
#pragma unroll
    for (int i = 0; i < 4; i++) {
        w[4 * i] = from[i].x; w[4 * i + 1] = from[i].y; w[4 * i + 2] = from[i].z; w[4 * i + 3] = from[i].w;
    }
    if (H::BIG_ENDIAN_WORDS)
#pragma unroll
        for (int i = 0; i < 16; i++) w[i] = swap_bytes(w[i]);
    hash.block(w);
}

template <class H> __device__ __forceinline__ void give(const H& hash, u32* out) {
    for (u32 i = 0; i < H::WORDS; i++) out[i] = H::BIG_ENDIAN_WORDS ? swap_bytes(hash.h[i]) : hash.h[i];
}

// The padding is already in the packet.
template <class H> __global__ void __launch_bounds__(128) digest(Packets p, u32* out, u32 n) {
    u32 packet = blockIdx.x * blockDim.x + threadIdx.x;
    if (packet >= n) return;
    H hash = H::start();
    for (u32 b = 0; b < p.blocks64(); b++) take(hash, p.data_of(packet) + 4 * b);
    give(hash, out + packet * H::WORDS);
}

// The outer hash of HMAC over the inner digest, from the outer midstate.
__device__ __forceinline__ void finish_hmac(const Sha1& inner, const u32* outer, u32* out) {
    Sha1 hash = {{outer[0], outer[1], outer[2], outer[3], outer[4]}};
    u32 w[16] = {inner.h[0], inner.h[1], inner.h[2], inner.h[3], inner.h[4], 0x80000000, 0, 0, 0, 0, 0, 0, 0, 0, 0, (64 + 20) * 8};
    hash.block(w);
    give(hash, out);
}

__global__ void __launch_bounds__(128) hmac_sha1(Packets p, u32* out, u32 n) {
    u32 packet = blockIdx.x * blockDim.x + threadIdx.x;
    if (packet >= n) return;
    const u32* m = p.midstates_of(packet);
    Sha1 hash = {{m[0], m[1], m[2], m[3], m[4]}};
    for (u32 b = 0; b < p.blocks64(); b++) take(hash, p.data_of(packet) + 4 * b);
    finish_hmac(hash, m + 5, out + packet * 5);
}

// Encrypts four blocks, then hashes them while they are in registers. Whole 64-byte blocks only.
__global__ void __launch_bounds__(128) cbc_hmac_sha1(Packets p, const u32* __restrict__ t0, u32* out, u32 n) {
    extern __shared__ u32 shared[];
    TwoTables tables(shared, t0);
    for (u32 packet = blockIdx.x * blockDim.x + threadIdx.x; packet < n; packet += gridDim.x * blockDim.x) {
        u32 key[AES_ROUND_KEYS];
        for (u32 i = 0; i < AES_ROUND_KEYS; i++) key[i] = p.keys_of(packet)[i];
        const u32* m = p.midstates_of(packet);
        Sha1 hash = {{m[0], m[1], m[2], m[3], m[4]}};
        uint4 chain = p.ivs[packet], held[4];
        uint4* data = p.data_of(packet);
        for (u32 b = 0; b < p.blocks64(); b++, data += 4) {
#pragma unroll
            for (int i = 0; i < 4; i++) data[i] = held[i] = chain = encrypt(tables, chain ^ data[i], key);
            take(hash, held);
        }
        finish_hmac(hash, m + 5, out + packet * 5);
    }
}

// The constants by their definitions: MD5's from the sine, SHA-256's from cube roots of the first primes.
inline void load_digest_constants() {
    u32 md5[64], sha[64];
    for (int i = 0; i < 64; i++) md5[i] = u32(std::floor(std::fabs(std::sin(i + 1.0)) * 4294967296.0));
    int count = 0;
    for (int candidate = 2; count < 64; candidate++) {
        bool prime = true;
        for (int d = 2; d * d <= candidate; d++) prime &= candidate % d != 0;
        long double root = std::cbrt((long double)candidate);
        if (prime) sha[count++] = u32((root - std::floor(root)) * 4294967296.0L);
    }
    CHECK(cudaMemcpyToSymbol(MD5_K, md5, sizeof md5));
    CHECK(cudaMemcpyToSymbol(SHA256_K, sha, sizeof sha));
}
