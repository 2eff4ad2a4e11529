// Packets in the device's memory, as the ciphers and digests see them: 1472 bytes each, 1536 apart, so that every
// one starts on a 16-byte boundary and is 92 AES blocks or 23 digest blocks.
#pragma once

#include "measure.cuh"

constexpr u32 PAYLOAD_BYTES = 1472, PAYLOAD_STRIDE = 1536, KEYS = 1024;

__host__ __device__ __forceinline__ u32 swap_bytes(u32 x) {
    return x >> 24 | (x >> 8 & 0xff00) | (x << 8 & 0xff0000) | x << 24;
}

// What kernels are given: packet i has the key i % KEYS.
struct Packets {
    u8* bytes;
    const uint4* ivs;
    const u32* keys;
    const u32* midstates;
    u32 blocks16;
    __device__ __forceinline__ uint4* data_of(u32 packet) const { return reinterpret_cast<uint4*>(bytes + size_t(packet) * PAYLOAD_STRIDE); }
    __device__ __forceinline__ const u32* keys_of(u32 packet) const { return keys + packet % KEYS * 44; }
    __device__ __forceinline__ const u32* midstates_of(u32 packet) const { return midstates + packet % KEYS * 10; }
    __device__ __forceinline__ u32 blocks64() const { return (blocks16 + 3) / 4; }
};

// The same pseudo-random bytes before every timed run.
__global__ void fill(uint4* words, size_t count, u32 seed) {
    for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < count; i += size_t(gridDim.x) * blockDim.x) {
        u32 x = (u32(i) ^ seed) * 0x9e3779b1u;
        x ^= x >> 15;
        words[i] = make_uint4(x, x * 0x85ebca6bu, x * 0xc2b2ae35u, x * 0x27d4eb2fu);
    }
}
