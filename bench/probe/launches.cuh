// B2: what it costs to start work and to learn that it is done: kernel, graph of five nodes, copies, events,
// a word in mapped memory; and the CPU time of one batch in and out.
#pragma once

#include "measure.cuh"

__global__ void do_nothing() {}

__global__ void raise_flag(volatile u32* flag, u32 value) { *flag = value; }

// Answers `rounds` doorbells: waits for each number in `asked` and puts it into `answered`.
__global__ void answer(volatile u32* asked, volatile u32* answered, u32 rounds) {
    for (u32 round = 1; round <= rounds; round++) {
        while (*asked != round) {}
        __threadfence_system();
        *answered = round;
    }
}

// Median wall time and mean CPU time of one `step`, in microseconds. Every 100 steps the stream is emptied, outside
// both, so that a full queue is not taken for cost.
inline void cost(const char* what, cudaStream_t stream, const std::function<void()>& step, int steps = 2000) {
    std::vector<double> wall;
    double cpu = 0;
    for (int i = 0; i < steps; i++) {
        if (i % 100 == 0) CHECK(cudaStreamSynchronize(stream));
        double cpu_start = cpu_s(), start = now_s();
        step();
        wall.push_back(now_s() - start);
        cpu += cpu_s() - cpu_start;
    }
    CHECK(cudaStreamSynchronize(stream));
    row("B2.wall", what, 1e6 * median(wall), "us");
    row("B2.cpu", what, 1e6 * cpu / steps, "us");
}

inline cudaGraphExec_t capture(cudaStream_t stream, const std::function<void()>& work) {
    cudaGraph_t graph;
    cudaGraphExec_t ready;
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    work();
    CHECK(cudaStreamEndCapture(stream, &graph));
    CHECK(cudaGraphInstantiate(&ready, graph, 0));
    CHECK(cudaGraphDestroy(graph));
    return ready;
}

inline void poll(Event& event) {
    for (;;) {
        cudaError_t code = cudaEventQuery(event.event);
        if (code == cudaSuccess) return;
        if (code != cudaErrorNotReady) CHECK(code);
    }
}

inline void wait_for(volatile u32* word, u32 value) {
    double limit = now_s() + 10;
    while (*word != value)
        if (now_s() > limit) { std::fprintf(stderr, "no answer from the device in 10 s\n"); std::exit(1); }
}

inline void measure_doorbell(HostArena& host, cudaStream_t stream) {
    constexpr u32 ROUNDS = 20000;
    volatile u32 *asked = reinterpret_cast<u32*>(host.at), *answered = asked + 64;
    *asked = *answered = 0;
    u32* there = reinterpret_cast<u32*>(host.on_device);
    answer<<<1, 1, 0, stream>>>(there, there + 64, ROUNDS);
    CHECK(cudaGetLastError());
    std::vector<double> seconds;
    for (u32 round = 1; round <= ROUNDS; round++) {
        double start = now_s();
        *asked = round;
        wait_for(answered, round);
        seconds.push_back(now_s() - start);
    }
    CHECK(cudaStreamSynchronize(stream));
    row("B2.wall", "doorbell to a running kernel and back", 1e6 * median(seconds), "us");
}

// One batch as a lane would submit it: 1 MiB in, five kernels, 1 MiB out, a word that says so.
inline void enqueue_batch(HostArena& host, u8* device, u32 value, cudaStream_t stream) {
    CHECK(cudaMemcpyAsync(device, host.at + MIB, MIB, cudaMemcpyHostToDevice, stream));
    for (int i = 0; i < 5; i++) do_nothing<<<8, 128, 0, stream>>>();
    CHECK(cudaMemcpyAsync(host.at + 2 * MIB, device, MIB, cudaMemcpyDeviceToHost, stream));
    raise_flag<<<1, 1, 0, stream>>>(reinterpret_cast<u32*>(host.on_device), value);
    CHECK(cudaGetLastError());
}

inline void measure_batches(HostArena& host, u8* device, Stream& s) {
    volatile u32* flag = reinterpret_cast<u32*>(host.at);
    u32 round = 0;
    cost("batch of 1 MiB submitted call by call", s, [&] { enqueue_batch(host, device, ++round, s); }, 500);
    cost("batch of 1 MiB call by call until its flag", s, [&] {
        *flag = 0;
        enqueue_batch(host, device, 7, s);
        wait_for(flag, 7);
    }, 500);
    cudaGraphExec_t graph = capture(s, [&] { enqueue_batch(host, device, 9, s); });
    cost("batch of 1 MiB submitted as a graph", s, [&] { CHECK(cudaGraphLaunch(graph, s)); }, 500);
    cost("batch of 1 MiB as a graph until its flag", s, [&] {
        *flag = 0;
        CHECK(cudaGraphLaunch(graph, s));
        wait_for(flag, 9);
    }, 500);
    CHECK(cudaGraphExecDestroy(graph));
}

inline void measure_launches() {
    progress("B2 launches");
    Stream s;
    HostArena host(4 * MIB);
    DeviceArray<u8> device(4 * MIB);
    Event done;
    volatile u32* flag = reinterpret_cast<u32*>(host.at);
    cost("kernel launch", s, [&] { do_nothing<<<1, 32, 0, s>>>(); });
    cost("kernel launch and synchronise", s, [&] { do_nothing<<<1, 32, 0, s>>>(); s.wait(); });
    cost("kernel launch and poll an event", s, [&] { do_nothing<<<1, 32, 0, s>>>(); done.record(s); poll(done); });
    cost("kernel launch until its flag in mapped memory", s, [&] {
        *flag = 0;
        raise_flag<<<1, 1, 0, s>>>(reinterpret_cast<u32*>(host.on_device), 1);
        wait_for(flag, 1);
    });
    cudaGraphExec_t five = capture(s, [&] { for (int i = 0; i < 5; i++) do_nothing<<<1, 32, 0, s>>>(); });
    cost("graph of 5 kernels", s, [&] { CHECK(cudaGraphLaunch(five, s)); });
    cost("graph of 5 kernels and synchronise", s, [&] { CHECK(cudaGraphLaunch(five, s)); s.wait(); });
    cost("5 kernels and synchronise", s, [&] { for (int i = 0; i < 5; i++) do_nothing<<<1, 32, 0, s>>>(); s.wait(); });
    CHECK(cudaGraphExecDestroy(five));
    for (size_t bytes : {size_t(64), 64 * KIB, MIB}) {
        std::string in = "copy in of " + std::to_string(bytes) + " B", out = "copy out of " + std::to_string(bytes) + " B";
        auto copy_in = [&] { CHECK(cudaMemcpyAsync(device.at, host.at, bytes, cudaMemcpyHostToDevice, s)); };
        auto copy_out = [&] { CHECK(cudaMemcpyAsync(host.at, device.at, bytes, cudaMemcpyDeviceToHost, s)); };
        cost(in.c_str(), s, copy_in, 1000);
        cost((in + " and synchronise").c_str(), s, [&] { copy_in(); s.wait(); }, 1000);
        cost((out + " and synchronise").c_str(), s, [&] { copy_out(); s.wait(); }, 1000);
    }
    cost("event record", s, [&] { done.record(s); });
    cost("query of an event that is done", s, [&] { cudaEventQuery(done.event); });
    measure_doorbell(host, s);
    measure_batches(host, device.at, s);
}
