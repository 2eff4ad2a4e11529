/* See ptx_calls.h. */

#include "ptx_calls.h"

#include <stdio.h>
#include <stdlib.h>

enum { NOT_FOUND = 500, ILLEGAL_ADDRESS = 700, ILLEGAL_INSTRUCTION = 715, MISALIGNED_ADDRESS = 716,
    LAUNCH_FAILED = 719 };

struct ptx_module *ptx_open(const char *image)
{
    char why[512], *damaged = getenv("STUB_NO_ATOMICS") ? ptx_without_atomics(image) : 0;
    struct ptx_module *module = ptx_load(damaged ? damaged : image, why, sizeof why);
    free(damaged);
    if (!module) fprintf(stderr, "stub: %s\n", why);
    return module;
}

int ptx_call(const struct ptx_function *function, unsigned groups, unsigned items, unsigned shared,
    const unsigned long long *values)
{
    char why[512];
    unsigned long long own[64];
    unsigned count = ptx_parameters(function);
    if (count > 64) return LAUNCH_FAILED;
    for (unsigned i = 0; i < count; i++) own[i] = ptx_parameter_bytes(function, i)
        == 8 ? values[i] : (unsigned)values[i];
    const struct ptx_grid grid = { groups, items, shared, own, 0, 0 };
    enum ptx_outcome outcome = getenv("STUB_MUTANTS") ? ptx_run_mutants(function, &grid, why,
        sizeof why) : ptx_run(function, &grid, why, sizeof why);
    if (!outcome) return 0;
    fprintf(stderr, "stub: %s\n", why);
    return outcome == PTX_OUT_OF_BOUNDS ? ILLEGAL_ADDRESS : outcome == PTX_MISALIGNED
        ? MISALIGNED_ADDRESS
        : outcome == PTX_TRAPPED ? ILLEGAL_INSTRUCTION : LAUNCH_FAILED;
}

/* NVRTC looks for tables of the driver's own, and does without them. */
int cuGetExportTable(const void **table, const void *id)
{
    (void)id;
    *table = 0;
    return NOT_FOUND;
}
