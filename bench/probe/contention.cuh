// B7: two functions on the device at once: AES-CBC with HMAC-SHA1 beside an automaton of 6 MiB. First in two plain streams,
// then each in a green context, a part of the multiprocessors that is its own.
#pragma once

#include "ciphers.cuh"
#include "gathers.cuh"
#include "library.cuh"

#include <cuda.h>

// The driver's calls for green contexts (driver 550 and later).
struct GreenCalls {
    Library driver{"libcuda.so.1"};
#define DRIVER_CALL(name) decltype(&::name) name = driver.function<std::remove_pointer_t<decltype(&::name)>>(#name)
    DRIVER_CALL(cuDeviceGetDevResource);
    DRIVER_CALL(cuDevSmResourceSplitByCount);
    DRIVER_CALL(cuDevResourceGenerateDesc);
    DRIVER_CALL(cuGreenCtxCreate);
    DRIVER_CALL(cuGreenCtxStreamCreate);
    DRIVER_CALL(cuGreenCtxDestroy);
#undef DRIVER_CALL
    bool there() const {
        return cuDeviceGetDevResource && cuDevSmResourceSplitByCount && cuDevResourceGenerateDesc && cuGreenCtxCreate &&
               cuGreenCtxStreamCreate && cuGreenCtxDestroy;
    }
};

// Two streams on `count` multiprocessors and on the rest.
struct Split {
    const GreenCalls& calls;
    CUgreenCtx contexts[2] = {};
    CUstream streams[2] = {};
    u32 sms[2] = {};
    CUresult failed = CUDA_SUCCESS;
    Split(const GreenCalls& calls, u32 count) : calls(calls) {
        CUdevResource all, parts[2];
        u32 groups = 1;
        if (!fine(calls.cuDeviceGetDevResource(0, &all, CU_DEV_RESOURCE_TYPE_SM))) return;
        if (!fine(calls.cuDevSmResourceSplitByCount(&parts[0], &groups, &all, &parts[1], 0, count))) return;
        for (int i = 0; i < 2; i++) {
            CUdevResourceDesc description;
            sms[i] = parts[i].sm.smCount;
            if (!fine(calls.cuDevResourceGenerateDesc(&description, &parts[i], 1))) return;
            if (!fine(calls.cuGreenCtxCreate(&contexts[i], description, 0, CU_GREEN_CTX_DEFAULT_STREAM))) return;
            if (!fine(calls.cuGreenCtxStreamCreate(&streams[i], contexts[i], CU_STREAM_NON_BLOCKING, 0))) return;
        }
    }
    ~Split() {
        for (CUstream stream : streams) if (stream) cudaStreamDestroy(stream);
        for (CUgreenCtx context : contexts) if (context) calls.cuGreenCtxDestroy(context);
    }
    Split(const Split&) = delete;
    bool fine(CUresult code) { failed = failed == CUDA_SUCCESS ? code : failed; return code == CUDA_SUCCESS; }
};

// The two works, each repeated for about a fifth of a second when it is alone on the whole device: few enough launches
// that a stream takes them all without making the CPU wait, so that both are given at once.
struct Works {
    const Bench& bench;
    std::vector<u8> text = made_up_text();
    Automaton automaton{6 * MIB, 9};
    DeviceArray<u8> on_device{text};
    DeviceArray<u32> next{automaton.next}, out{TEXT / CHUNK};
    static constexpr u32 PACKETS = Bench::PACKETS;
    u32 seals = 1, scans = 1;
    explicit Works(const Bench& bench) : bench(bench) {
        Stream s;
        seals = u32(0.2 / seconds_of(s, [&] { seal(s); })) + 1;
        scans = u32(0.2 / seconds_of(s, [&] { scan(s); })) + 1;
    }
    static double seconds_of(cudaStream_t s, const std::function<void()>& work) { return device_seconds(s, work, [] {}, 3); }
    void seal(cudaStream_t s) const { for (u32 i = 0; i < seals; i++) bench.esp(PACKETS, s); }
    void scan(cudaStream_t s) const {
        for (u32 i = 0; i < scans; i++)
            follow<<<TEXT / CHUNK / 256, 256, 0, s>>>(on_device.at, next.at, automaton.accepting, out.at, TEXT / CHUNK);
    }
    double seal_gb() const { return 8e-9 * seals * PACKETS * PAYLOAD_BYTES; }
    double scan_gb() const { return 8e-9 * scans * TEXT; }
};

// Both from the same moment; the rate of each over its own time.
inline void together(const Works& w, const std::string& shape, cudaStream_t s, cudaStream_t t) {
    Event start_s, start_t, end_s, end_t;
    start_s.record(s);
    start_t.record(t);
    w.seal(s);
    w.scan(t);
    end_s.record(s);
    end_t.record(t);
    CHECK(cudaGetLastError());
    CHECK(cudaStreamSynchronize(s));
    CHECK(cudaStreamSynchronize(t));
    row("B7.aes_cbc_hmac_sha1.together", shape, w.seal_gb() / end_s.seconds_since(start_s), "Gb/s");
    row("B7.automaton.together", shape, w.scan_gb() / end_t.seconds_since(start_t), "Gb/s");
}

inline void alone(const Works& w, const std::string& shape, cudaStream_t s, cudaStream_t t) {
    row("B7.aes_cbc_hmac_sha1.alone", shape, w.seal_gb() / Works::seconds_of(s, [&] { w.seal(s); }), "Gb/s");
    row("B7.automaton.alone", shape, w.scan_gb() / Works::seconds_of(t, [&] { w.scan(t); }), "Gb/s");
}

inline void measure_contention(const Bench& bench, int sms) {
    progress("B7 contention");
    Works works(bench);
    Stream s, t;
    alone(works, "streams", s, t);
    together(works, "streams", s, t);
    GreenCalls calls;
    if (!calls.there()) return note("B7.green_contexts", "absent", "this driver has no green contexts");
    for (u32 count = 8; count <= 64 && int(count) < sms; count *= 2) {
        Split split(calls, count);
        if (split.failed != CUDA_SUCCESS) return note("B7.green_contexts", "absent", "driver error " + std::to_string(split.failed));
        std::string shape = set("sms", split.sms[0]) + " " + set("other_sms", split.sms[1]);
        alone(works, shape, split.streams[0], split.streams[1]);
        together(works, shape, split.streams[0], split.streams[1]);
    }
}
