// B1: what the bus carries. Copy engines each way and both at once by block size; kernels that pull from and
// push to registered host memory, by the length of their requests and by how packets lie.
#pragma once

#include "measure.cuh"

constexpr size_t COPIED = 256 * MIB;
constexpr u32 PACKET_BYTES = 1500;

enum class Way { In, Out };

inline void copy_blocks(Way way, u8* device, HostArena& host, size_t block, cudaStream_t stream) {
    for (size_t at = 0; at < COPIED; at += block) {
        if (way == Way::In) CHECK(cudaMemcpyAsync(device + at, host.at + at, block, cudaMemcpyHostToDevice, stream));
        else CHECK(cudaMemcpyAsync(host.at + at, device + at, block, cudaMemcpyDeviceToHost, stream));
    }
}

// Runs `in` on one stream and `out` on another, from the same moment; seconds until the later is done.
inline double both_seconds(cudaStream_t in_stream, cudaStream_t out_stream, const std::function<void()>& in,
                           const std::function<void()>& out) {
    return device_seconds(in_stream, [&] {
        Event forked, joined;
        forked.record(in_stream);
        CHECK(cudaStreamWaitEvent(out_stream, forked.event, 0));
        in();
        out();
        joined.record(out_stream);
        CHECK(cudaStreamWaitEvent(in_stream, joined.event, 0));
    }, [] {}, 5);
}

// Copy engines in small blocks: the two directions take turns at being issued, or the CPU would
// have issued all of one before the other starts.
inline void copy_both(u8* device, HostArena& in, HostArena& out, size_t block, cudaStream_t s, cudaStream_t t) {
    for (size_t at = 0; at < COPIED / 2; at += block) {
        CHECK(cudaMemcpyAsync(device + at, in.at + at, block, cudaMemcpyHostToDevice, s));
        CHECK(cudaMemcpyAsync(out.at + at, device + COPIED / 2 + at, block, cudaMemcpyDeviceToHost, t));
    }
}

// A warp's lanes form groups of LINE / 16; a group moves one packet, a line of LINE bytes at a time, eight
// lines in flight. `from` or `to` is host memory; there the packets lie `stride` bytes apart.
template <u32 LINE>
__global__ void move_packets(const u8* __restrict__ from, u8* __restrict__ to, u32 packets, u32 from_stride, u32 to_stride) {
    constexpr u32 LANES = LINE / 16, LINES = (PACKET_BYTES + LINE - 1) / LINE, AHEAD = 8;
    u32 thread = blockIdx.x * blockDim.x + threadIdx.x, lane = thread % LANES;
    for (u32 packet = thread / LANES; packet < packets; packet += gridDim.x * blockDim.x / LANES) {
        const uint4* source = reinterpret_cast<const uint4*>(from + size_t(packet) * from_stride) + lane;
        uint4* target = reinterpret_cast<uint4*>(to + size_t(packet) * to_stride) + lane;
        for (u32 line = 0; line < LINES; line += AHEAD) {
            uint4 held[AHEAD];
#pragma unroll
            for (u32 i = 0; i < AHEAD; i++)
                if (line + i < LINES) held[i] = __ldcs(source + (line + i) * LANES);
#pragma unroll
            for (u32 i = 0; i < AHEAD; i++)
                if (line + i < LINES) __stcs(target + (line + i) * LANES, held[i]);
        }
    }
}

// Bytes a packet takes when it is moved in whole lines.
constexpr u32 moved_bytes(u32 line) { return (PACKET_BYTES + line - 1) / line * line; }

template <u32 LINE>
void move(Way way, HostArena& host, u8* device, u32 stride, u32 blocks, cudaStream_t stream) {
    u32 packets = u32(COPIED / 4096);
    if (way == Way::In) move_packets<LINE><<<blocks, 512, 0, stream>>>(host.on_device, device, packets, stride, 2048);
    else move_packets<LINE><<<blocks, 512, 0, stream>>>(device, host.on_device, packets, 2048, stride);
}

template <u32 LINE> void kernel_moves(HostArena& in, HostArena& out, u8* device, int sms) {
    Stream s, t;
    double gb = 1e-9 * double(COPIED / 4096) * moved_bytes(LINE);
    for (u32 stride : {2048u, 4096u}) {
        std::string shape = set("line", LINE) + " " + set("stride", stride);
        double pull = device_seconds(s, [&] { move<LINE>(Way::In, in, device, stride, sms, s); });
        row("B1.kernel_pull", shape, gb / pull, "GB/s");
        double push = device_seconds(s, [&] { move<LINE>(Way::Out, out, device, stride, sms, s); });
        row("B1.kernel_push", shape, gb / push, "GB/s");
        double both = both_seconds(s, t, [&] { move<LINE>(Way::In, in, device, stride, sms / 2, s); },
                                   [&] { move<LINE>(Way::Out, out, device + COPIED / 2, stride, sms / 2, t); });
        row("B1.kernel_both_each_way", shape, gb / both, "GB/s");
    }
}

inline void measure_copies(int sms) {
    progress("B1 copies");
    HostArena in(COPIED), out(COPIED);
    note("B1.host_memory", "registered", in.registered ? "registered anonymous pages" : "cudaHostAlloc");
    DeviceArray<u8> device(COPIED);
    Stream s, t;
    double gb = 1e-9 * double(COPIED);
    for (size_t block = 16 * KIB; block <= 16 * MIB; block *= 2) {
        std::string size = set("block", block);
        row("B1.copy_in", size, gb / device_seconds(s, [&] { copy_blocks(Way::In, device.at, in, block, s); }), "GB/s");
        row("B1.copy_out", size, gb / device_seconds(s, [&] { copy_blocks(Way::Out, device.at, out, block, s); }), "GB/s");
        double both = both_seconds(s, t, [&] { copy_both(device.at, in, out, block, s, t); }, [] {});
        row("B1.copy_both_each_way", size, gb / 2 / both, "GB/s");
    }
    progress("B1 kernels that pull and push");
    kernel_moves<32>(in, out, device.at, sms);
    kernel_moves<64>(in, out, device.at, sms);
    kernel_moves<128>(in, out, device.at, sms);
    kernel_moves<512>(in, out, device.at, sms);
    double moved = 1e-9 * double(COPIED / 4096) * moved_bytes(512);
    for (u32 blocks : {2u, 4u, 8u, 16u, 32u, 64u}) {
        double pull = device_seconds(s, [&] { move<512>(Way::In, in, device.at, 2048, blocks, s); });
        row("B1.kernel_pull_blocks", set("blocks", blocks), moved / pull, "GB/s");
        double push = device_seconds(s, [&] { move<512>(Way::Out, out, device.at, 2048, blocks, s); });
        row("B1.kernel_push_blocks", set("blocks", blocks), moved / push, "GB/s");
    }
    // A pull kernel beside the copy engine's way out: as much each way, from the same moment.
    size_t half = COPIED / 4096 * moved_bytes(512);
    double mixed = both_seconds(s, t, [&] { move<512>(Way::In, in, device.at, 2048, sms, s); },
        [&] { CHECK(cudaMemcpyAsync(out.at, device.at + COPIED / 2, half, cudaMemcpyDeviceToHost, t)); });
    row("B1.pull_and_copy_out_each_way", "line=512 stride=2048", moved / mixed, "GB/s");
}
