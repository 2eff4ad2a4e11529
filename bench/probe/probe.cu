// Measures what the design of the device path rests on: copies, launches, ciphers, digests, look-ups, contention,
// energy (B1 to B8). Writes one CSV of measurement, parameter, value, unit. README.md says how to run it.

#include "copies.cuh"
#include "energy.cuh"
#include "launches.cuh"

static void describe(const cudaDeviceProp& device) {
    int driver, runtime, clock_khz, memory_khz;
    CHECK(cudaDriverGetVersion(&driver));
    CHECK(cudaRuntimeGetVersion(&runtime));
    CHECK(cudaDeviceGetAttribute(&clock_khz, cudaDevAttrClockRate, 0));
    CHECK(cudaDeviceGetAttribute(&memory_khz, cudaDevAttrMemoryClockRate, 0));
    note("machine", "device", device.name);
    row("machine", "capability", device.major + 0.1 * device.minor, "version");
    row("machine", "driver", driver, "version");
    row("machine", "runtime", runtime, "version");
    row("machine", "memory", double(device.totalGlobalMem), "B");
    row("machine", "l2", device.l2CacheSize, "B");
    row("machine", "sms", device.multiProcessorCount, "count");
    row("machine", "clock", 1e-3 * clock_khz, "MHz");
    row("machine", "memory_clock", 1e-3 * memory_khz, "MHz");
    row("machine", "copy_engines", device.asyncEngineCount, "count");
}

// `probe OUT.csv` measures all; letters after it pick some: `probe OUT.csv B1 B2`.
int main(int count, char** words) {
    if (count < 2 || !(csv = std::fopen(words[1], "w"))) {
        std::fprintf(stderr, "usage: probe OUT.csv [B1 B2 B3 B5 B7 B8]\n");
        return 2;
    }
    auto wanted = [&](const char* part) {
        return count == 2 || std::any_of(words + 2, words + count, [&](char* word) { return std::strcmp(word, part) == 0; });
    };
    std::fprintf(csv, "measurement,parameter,value,unit\n");
    cudaDeviceProp device;
    CHECK(cudaGetDeviceProperties(&device, 0));
    describe(device);
    int sms = device.multiProcessorCount;
    if (wanted("B1")) measure_copies(sms);
    if (wanted("B2")) measure_launches();
    Bench bench(sms);
    if (wanted("B3")) measure_ciphers(bench);
    if (wanted("B5")) measure_lookups(sms);
    if (wanted("B7")) measure_contention(bench, sms);
    if (wanted("B8")) measure_energy(bench);
    progress("done");
    return std::fclose(csv) == 0 && all_right ? 0 : 1;
}
