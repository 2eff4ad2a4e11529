// What all parts of the probe use: checked calls, rows of the CSV, clocks, host and device memory.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <functional>
#include <string>
#include <vector>

#include <sys/mman.h>

using u8 = std::uint8_t;
using u16 = std::uint16_t;
using u32 = std::uint32_t;
using u64 = std::uint64_t;

constexpr size_t KIB = 1024, MIB = 1024 * KIB;

// Ends the program at the first failing call: a figure after an error means nothing.
#define CHECK(call) checked((call), #call, __FILE__, __LINE__)

inline void checked(cudaError_t code, const char* call, const char* file, int line) {
    if (code == cudaSuccess) return;
    std::fprintf(stderr, "%s:%d: %s: %s\n", file, line, call, cudaGetErrorString(code));
    std::exit(1);
}

// ---- the CSV: measurement, parameter, value, unit; a row is on disk as soon as it is known

inline std::FILE* csv = nullptr;

inline void row(const std::string& measurement, const std::string& parameter, double value, const char* unit) {
    std::fprintf(csv, "%s,%s,%.6g,%s\n", measurement.c_str(), parameter.c_str(), value, unit);
    std::fflush(csv);
}

inline void note(const std::string& measurement, const std::string& parameter, std::string text) {
    std::replace(text.begin(), text.end(), ',', ';');
    std::fprintf(csv, "%s,%s,%s,text\n", measurement.c_str(), parameter.c_str(), text.c_str());
    std::fflush(csv);
}

// A kernel's result that is not the published or recomputed one is a row, and the probe's status at its end.
inline bool all_right = true;

inline void expect(bool right, const char* what) {
    if (right) return;
    all_right = false;
    std::fprintf(stderr, "wrong result: %s\n", what);
    note("wrong", what, "not the published or recomputed result");
}

inline std::string set(const char* name, u64 value) { return std::string(name) + "=" + std::to_string(value); }

// ---- clocks

inline double now_s() {
    using namespace std::chrono;
    return duration<double>(steady_clock::now().time_since_epoch()).count();
}

// Time that this thread used a processor, not counting what it waited.
inline double cpu_s() {
    timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return double(t.tv_sec) + 1e-9 * double(t.tv_nsec);
}

inline void progress(const char* what) {
    static const double start = now_s();
    std::fprintf(stderr, "%7.1f s  %s\n", now_s() - start, what);
}

inline double median(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    return values[values.size() / 2];
}

struct Event {
    cudaEvent_t event;
    Event() { CHECK(cudaEventCreate(&event)); }
    ~Event() { cudaEventDestroy(event); }
    Event(const Event&) = delete;
    void record(cudaStream_t stream) { CHECK(cudaEventRecord(event, stream)); }
    double seconds_since(const Event& start) const {
        float ms;
        CHECK(cudaEventElapsedTime(&ms, start.event, event));
        return 1e-3 * ms;
    }
};

struct Stream {
    cudaStream_t stream;
    Stream() { CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking)); }
    ~Stream() { cudaStreamDestroy(stream); }
    Stream(const Stream&) = delete;
    operator cudaStream_t() const { return stream; }
    void wait() { CHECK(cudaStreamSynchronize(stream)); }
};

// Median seconds on the device of `work`, after one run that is not counted. `refill` comes before each
// run, outside the time, so that no kernel is timed on data that it already changed.
inline double device_seconds(cudaStream_t stream, const std::function<void()>& work,
                             const std::function<void()>& refill = [] {}, int rounds = 7) {
    std::vector<double> seconds;
    for (int round = 0; round <= rounds; round++) {
        Event start, end;
        refill();
        start.record(stream);
        work();
        end.record(stream);
        CHECK(cudaGetLastError());
        CHECK(cudaStreamSynchronize(stream));
        if (round > 0) seconds.push_back(end.seconds_since(start));
    }
    return median(seconds);
}

// ---- memory

template <class T> struct DeviceArray {
    T* at = nullptr;
    size_t count;
    explicit DeviceArray(size_t count) : count(count) { CHECK(cudaMalloc(&at, count * sizeof(T))); }
    explicit DeviceArray(const std::vector<T>& from) : DeviceArray(from.size()) { put(from); }
    ~DeviceArray() { cudaFree(at); }
    DeviceArray(const DeviceArray&) = delete;
    void put(const std::vector<T>& from) {
        CHECK(cudaMemcpy(at, from.data(), from.size() * sizeof(T), cudaMemcpyHostToDevice));
    }
    std::vector<T> get(size_t n) const {
        std::vector<T> to(n);
        CHECK(cudaMemcpy(to.data(), at, n * sizeof(T), cudaMemcpyDeviceToHost));
        return to;
    }
};

// Host memory as the arenas have it: anonymous, in huge pages where the system gives them, registered
// with the driver and mapped for the device. Where it can't be registered, the driver's own.
struct HostArena {
    u8* at = nullptr;
    u8* on_device = nullptr;
    size_t bytes;
    bool registered;
    explicit HostArena(size_t bytes) : bytes(bytes) {
        void* p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (p == MAP_FAILED) { std::perror("mmap"); std::exit(1); }
        madvise(p, bytes, MADV_HUGEPAGE);
        std::memset(p, 0x5a, bytes);
        registered = cudaHostRegister(p, bytes, cudaHostRegisterPortable | cudaHostRegisterMapped) == cudaSuccess;
        if (!registered) {
            cudaGetLastError();
            munmap(p, bytes);
            CHECK(cudaHostAlloc(&p, bytes, cudaHostAllocPortable | cudaHostAllocMapped));
        }
        at = static_cast<u8*>(p);
        CHECK(cudaHostGetDevicePointer(reinterpret_cast<void**>(&on_device), at, 0));
    }
    ~HostArena() {
        if (!registered) { cudaFreeHost(at); return; }
        cudaHostUnregister(at);
        munmap(at, bytes);
    }
    HostArena(const HostArena&) = delete;
};

// xorshift32 (Marsaglia 2003): the same data on every run.
struct Random {
    u32 state;
    explicit Random(u32 seed) : state(seed) {}
    u32 next() {
        state ^= state << 13;
        state ^= state >> 17;
        return state ^= state << 5;
    }
};
