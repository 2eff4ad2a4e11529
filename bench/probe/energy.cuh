// B8: how often the energy counter moves, what the device draws idle and under two loads.
#pragma once

#include "contention.cuh"

// NVML's calls that are needed, by their documented types. Zero is success.
struct Nvml {
    using Device = void*;
    Library library{"libnvidia-ml.so.1"};
    int (*init)() = library.function<int()>("nvmlInit_v2");
    int (*by_bus)(const char*, Device*) = library.function<int(const char*, Device*)>("nvmlDeviceGetHandleByPciBusId_v2");
    int (*energy)(Device, unsigned long long*) = library.function<int(Device, unsigned long long*)>("nvmlDeviceGetTotalEnergyConsumption");
    int (*power)(Device, unsigned*) = library.function<int(Device, unsigned*)>("nvmlDeviceGetPowerUsage");
    int (*clock)(Device, int, unsigned*) = library.function<int(Device, int, unsigned*)>("nvmlDeviceGetClockInfo");
    Device device = nullptr;
    std::string missing;
    Nvml() {
        char bus[32];
        unsigned long long mj;
        CHECK(cudaDeviceGetPCIBusId(bus, sizeof bus, 0));
        if (!init || !by_bus || !energy || !power || !clock) missing = "libnvidia-ml.so.1 or a function of it is absent";
        else if (int code = init()) missing = "nvmlInit_v2 gives " + std::to_string(code);
        else if (int code = by_bus(bus, &device)) missing = "no handle by bus: " + std::to_string(code);
        else if (int code = energy(device, &mj)) missing = "no energy counter: " + std::to_string(code);
    }
    double joules() const {
        unsigned long long mj = 0;
        if (energy(device, &mj) != 0) { std::fprintf(stderr, "the energy counter went away\n"); std::exit(1); }
        return 1e-3 * double(mj);
    }
    double watts() const { unsigned mw = 0; return power(device, &mw) == 0 ? 1e-3 * mw : 0; }
    double sm_mhz() const { unsigned mhz = 0; return clock(device, 1, &mhz) == 0 ? mhz : 0; }
};

inline void sleep_s(double seconds) {
    timespec t = {time_t(seconds), long(1e9 * (seconds - std::floor(seconds)))};
    nanosleep(&t, nullptr);
}

inline void measure_counter(const Nvml& nvml) {
    std::vector<double> periods, steps;
    double calls = 0, begin = now_s(), changed = begin, last = nvml.joules();
    while (now_s() < begin + 3) {
        double joules = nvml.joules(), now = now_s();
        calls++;
        if (joules == last) continue;
        periods.push_back(now - changed);
        steps.push_back(joules - last);
        changed = now;
        last = joules;
    }
    row("B8.counter", "time of one reading", 1e6 * 3 / calls, "us");
    if (periods.empty()) return note("B8.counter", "period", "it did not move in 3 s");
    row("B8.counter", "period", 1e3 * median(periods), "ms");
    row("B8.counter", "step", 1e3 * median(steps), "mJ");
}

// Joules by the counter over about `seconds` of `work`, which does what it says once and waits for it.
inline double draw(const Nvml& nvml, const char* what, double seconds, const std::function<void()>& work) {
    double from = nvml.joules(), start = now_s(), runs = 0;
    double watts = 0;
    do { work(); runs++; watts = nvml.watts(); } while (now_s() < start + seconds);
    double joules = nvml.joules() - from, took = now_s() - start;
    row("B8.power", std::string(what) + " by the counter", joules / took, "W");
    row("B8.power", std::string(what) + " as reported last", watts, "W");
    row("B8.clock", what, nvml.sm_mhz(), "MHz");
    return joules / runs;
}

inline void measure_energy(const Bench& bench) {
    progress("B8 energy");
    Nvml nvml;
    if (!nvml.missing.empty()) return note("B8.counter", "absent", nvml.missing);
    measure_counter(nvml);
    sleep_s(5);
    draw(nvml, "idle", 15, [] { sleep_s(0.5); });
    Works works(bench);
    Stream s;
    double seal = draw(nvml, "aes_cbc_hmac_sha1", 12, [&] { works.seal(s); s.wait(); });
    row("B8.energy", "aes_cbc_hmac_sha1", seal / works.seal_gb(), "J/Gb");
    double scan = draw(nvml, "automaton", 12, [&] { works.scan(s); s.wait(); });
    row("B8.energy", "automaton", scan / works.scan_gb(), "J/Gb");
}
