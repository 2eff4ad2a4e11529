// B5: look-ups that depend on the one before (an Aho-Corasick automaton) and ones that don't, by the size of the table:
// shared memory's neighbour L1, L2, device memory. B6: a filter of 4-grams in shared memory.
#pragma once

#include "measure.cuh"

constexpr u32 CHUNK = 64, OVERLAP = 16, CLASSES = 64;
constexpr size_t TEXT = 64 * MIB;

// States of a made-up automaton: `hot` of ten transitions lead to the first 256 states, as in real traffic, where
// most bytes stay near the root; with 0 they lead anywhere, the worst case. The last state in a thousand accepts.
struct Automaton {
    u32 states, accepting;
    std::vector<u32> next;
    Automaton(size_t bytes, u32 hot) : states(u32(bytes / 4 / CLASSES)), accepting(states - states / 1000 - 1), next(size_t(states) * CLASSES) {
        Random random(3);
        for (u32& to : next) {
            bool near = random.next() % 10 < hot;
            to = random.next() % (near ? std::min(256u, states) : states);
        }
    }
};

// A thread follows one chunk of the text and 16 bytes of the next; `out` gets the chunk's last state, turned by its hits.
__global__ void __launch_bounds__(256) follow(const u8* __restrict__ text, const u32* __restrict__ next, u32 accepting, u32* out, u32 chunks) {
    __shared__ u8 classes[256];
    classes[threadIdx.x] = u8(threadIdx.x % CLASSES);
    __syncthreads();
    for (u32 chunk = blockIdx.x * blockDim.x + threadIdx.x; chunk < chunks; chunk += gridDim.x * blockDim.x) {
        const uint4* at = reinterpret_cast<const uint4*>(text + size_t(chunk) * CHUNK);
        u32 state = 0, hits = 0;
        for (u32 i = 0; i < (CHUNK + OVERLAP) / 16; i++) {
            uint4 v = __ldg(at + i);
            u32 words[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
            for (int k = 0; k < 16; k++) {
                state = __ldg(next + state * CLASSES + classes[words[k / 4] >> 8 * (k % 4) & 255]);
                hits += state >= accepting;
            }
        }
        out[chunk] = state ^ hits << 24;
    }
}

// Independent look-ups, eight in flight for each thread.
__global__ void __launch_bounds__(256) gather(const u32* __restrict__ table, u32 mask, u32* out, u32 rounds) {
    u32 x = (blockIdx.x * blockDim.x + threadIdx.x) * 0x9e3779b1u + 1, sum = 0;
    for (u32 round = 0; round < rounds; round++) {
#pragma unroll
        for (int i = 0; i < 8; i++) {
            x = x * 1664525u + 1013904223u;
            sum ^= __ldg(table + ((x >> 2 ^ x << 13) & mask));
        }
    }
    out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

// A bit for each hashed 4-gram; LOG of the number of bits. A thread tests the 16 that start in its 16 bytes.
template <u32 LOG> __global__ void __launch_bounds__(1024) filter(const u32* __restrict__ text, const u32* __restrict__ bitmap, u32* found, u32 pieces) {
    extern __shared__ u32 bits[];
    for (u32 i = threadIdx.x; i < 1u << (LOG - 5); i += blockDim.x) bits[i] = bitmap[i];
    __syncthreads();
    u32 mine = 0;
    for (u32 i = blockIdx.x * blockDim.x + threadIdx.x; i < pieces; i += gridDim.x * blockDim.x) {
        uint4 v = __ldg(reinterpret_cast<const uint4*>(text) + i);
        u32 words[5] = {v.x, v.y, v.z, v.w, __ldg(text + 4 * i + 4)};
#pragma unroll
        for (int k = 0; k < 16; k++) {
            u32 gram = __funnelshift_r(words[k / 4], words[k / 4 + 1], 8 * (k % 4)) | 0x20202020;
            u32 hash = gram * 0x9e3779b1u >> (32 - LOG);
            mine += bits[hash >> 5] >> (hash & 31) & 1;
        }
    }
    atomicAdd(found, mine);
}

inline u32 follow_on_host(const std::vector<u8>& text, const Automaton& a, u32 chunk) {
    u32 state = 0, hits = 0;
    for (u32 i = 0; i < CHUNK + OVERLAP; i++) {
        state = a.next[size_t(state) * CLASSES + text[size_t(chunk) * CHUNK + i] % CLASSES];
        hits += state >= a.accepting;
    }
    return state ^ hits << 24;
}

inline void measure_automaton(const std::vector<u8>& text, const u8* on_device, size_t bytes, u32 hot, Stream& s) {
    Automaton automaton(bytes, hot);
    DeviceArray<u32> next(automaton.next), out(TEXT / CHUNK);
    u32 chunks = TEXT / CHUNK;
    auto launch = [&] { follow<<<chunks / 256, 256, 0, s>>>(on_device, next.at, automaton.accepting, out.at, chunks); };
    double seconds = device_seconds(s, launch);
    std::vector<u32> got = out.get(1000);
    bool right = true;
    for (u32 chunk = 0; chunk < 1000; chunk++) right &= got[chunk] == follow_on_host(text, automaton, chunk);
    expect(right, "automaton");
    std::string shape = set("table_kib", bytes / KIB) + " " + set("hot_tenths", hot);
    row("B5.automaton", shape, 8e-9 * TEXT / seconds, "Gb/s");
    row("B5.automaton_lookups", shape, 1e-9 * TEXT / CHUNK * (CHUNK + OVERLAP) / seconds, "G/s");
}

inline void measure_gathers(size_t bytes, int sms, Stream& s) {
    DeviceArray<u32> table(bytes / 4), out(size_t(sms) * 8 * 256);
    CHECK(cudaMemset(table.at, 1, bytes));
    constexpr u32 ROUNDS = 256;
    double seconds = device_seconds(s, [&] { gather<<<sms * 8, 256, 0, s>>>(table.at, u32(bytes / 4 - 1), out.at, ROUNDS); });
    row("B5.gathers", set("table_kib", bytes / KIB), 1e-9 * sms * 8 * 256 * ROUNDS * 8 / seconds, "G/s");
}

template <u32 LOG> void measure_filter(const std::vector<u8>& text, const u8* on_device, int sms, Stream& s) {
    std::vector<u32> bitmap(1u << (LOG - 5));
    Random random(5);
    for (u32& word : bitmap) word = random.next() & random.next() & random.next() & random.next() & random.next();
    DeviceArray<u32> bits(bitmap), found(1);
    constexpr u32 SHARED = 1u << (LOG - 3), CHECKED = MIB / 16;
    CHECK(cudaFuncSetAttribute(filter<LOG>, cudaFuncAttributeMaxDynamicSharedMemorySize, int(SHARED)));
    auto launch = [&](u32 pieces) {
        CHECK(cudaMemsetAsync(found.at, 0, 4, s));
        filter<LOG><<<sms * (SHARED > 100 * KIB ? 1 : 2), 1024, SHARED, s>>>(reinterpret_cast<const u32*>(on_device), bits.at, found.at, pieces);
    };
    launch(CHECKED);
    s.wait();
    u32 want = 0;
    for (size_t i = 0; i < CHECKED * 16; i++) {
        u32 gram;
        std::memcpy(&gram, text.data() + i, 4);
        u32 hash = (gram | 0x20202020) * 0x9e3779b1u >> (32 - LOG);
        want += bitmap[hash >> 5] >> (hash & 31) & 1;
    }
    expect(found.get(1)[0] == want, "filter of 4-grams");
    double seconds = device_seconds(s, [&] { launch(TEXT / 16); });
    row("B6.filter", set("bitmap_kib", SHARED / KIB), 8e-9 * TEXT / seconds, "Gb/s");
}

// Text that is a little like text: bytes cluster, as letters do.
inline std::vector<u8> made_up_text() {
    std::vector<u8> text(TEXT + 64);
    Random random(4);
    for (u8& byte : text) byte = u8(random.next() % 96 % (1 + random.next() % 96) + 32);
    return text;
}

inline void measure_lookups(int sms) {
    progress("B5 gathers");
    Stream s;
    std::vector<u8> text = made_up_text();
    DeviceArray<u8> on_device(text);
    for (size_t kib : {100, 1024, 6 * 1024, 24 * 1024, 48 * 1024, 96 * 1024, 192 * 1024})
        for (u32 hot : {0u, 9u}) measure_automaton(text, on_device.at, kib * KIB, hot, s);
    for (size_t bytes = 64 * KIB; bytes <= 1024 * MIB; bytes *= 4) measure_gathers(bytes, sms, s);
    progress("B6 filters");
    measure_filter<17>(text, on_device.at, sms, s);
    measure_filter<18>(text, on_device.at, sms, s);
    measure_filter<19>(text, on_device.at, sms, s);
    measure_filter<20>(text, on_device.at, sms, s);
}
