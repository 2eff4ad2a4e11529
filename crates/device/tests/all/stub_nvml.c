/* A stub of NVML, with the signatures of nvml.h: one GPU at one place on the bus, whose numbers the
 * environment sets, and an instance of it. */

#include <stdlib.h>
#include <string.h>

static int gpu, instance;

static int is_said(const char *name) { return getenv(name) != NULL; }

int nvmlInit_v2(void) { return is_said("STUB_NO_DRIVER") ? 9 : 0; }

int nvmlDeviceGetHandleByPciBusId_v2(const char *bus, void **device) {
    if (strcmp(bus, "0000:19:00.0") != 0) return 6;
    *device = &gpu;
    return 0;
}

int nvmlDeviceGetHandleByUUID(const char *uuid, void **device) {
    if (strcmp(uuid, "MIG-00112233-4455-6677-8899-aabbccddeeff") != 0) return 6;
    *device = &instance;
    return 0;
}

int nvmlDeviceGetPowerUsage(void *device, unsigned int *milliwatts) {
    if (device != &gpu) return 2;
    *milliwatts = 123400;
    return 0;
}

int nvmlDeviceGetTotalEnergyConsumption(void *device, unsigned long long *millijoules) {
    if (device != &gpu) return 2;
    if (is_said("STUB_POOR")) return 3;
    *millijoules = 5000000500ull;
    return 0;
}

/* Total, free, used. */
int nvmlDeviceGetMemoryInfo(void *device, unsigned long long *memory) {
    if (device != &gpu && device != &instance) return 2;
    memory[0] = device == &gpu ? 80ull << 30 : 10ull << 30;
    memory[2] = device == &gpu ? 3ull << 30 : 1ull << 30;
    memory[1] = memory[0] - memory[2];
    return 0;
}

/* The GPU's, its memory's. */
int nvmlDeviceGetUtilizationRates(void *device, unsigned int *percent) {
    if (device != &gpu) return 2;
    if (is_said("STUB_POOR")) return 15;
    percent[0] = 87;
    percent[1] = 12;
    return 0;
}

int nvmlDeviceGetMigMode(void *device, unsigned int *now, unsigned int *next) {
    if (device != &gpu) return 2;
    if (is_said("STUB_POOR")) return 3;
    *now = is_said("STUB_DIVIDED");
    *next = !*now;
    return 0;
}
