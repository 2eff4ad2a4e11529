/* An interpreter of PTX as NVRTC makes it of our kernels: what a GPU would run is run here, item by item from barrier to barrier, and every access
 * is checked. Instructions that let the items of a warp talk (shfl, vote, bar.warp), calls, floats and textures are unknown: a text that
 * has one is not loaded. */

#ifndef STUB_PTX_H
#define STUB_PTX_H

#include <stddef.h>

struct ptx_module;
struct ptx_function;

/* A text's functions; null, with the line and the reason in `why`, where something in it is unknown. */
struct ptx_module *ptx_load(const char *text, char *why, size_t why_bytes);
void ptx_unload(struct ptx_module *module);
const struct ptx_function *ptx_find(const struct ptx_module *module, const char *name);

/* How many parameters there are, and the bytes of one: 4 or 8. */
unsigned ptx_parameters(const struct ptx_function *function);
unsigned ptx_parameter_bytes(const struct ptx_function *function, unsigned index);

/* The outcomes of a launch. */
enum ptx_outcome {
    PTX_FINE, PTX_REFUSED, PTX_OUT_OF_BOUNDS, PTX_MISALIGNED, PTX_UNWRITTEN, PTX_RACE, PTX_DIVERGED, PTX_ENDLESS, PTX_DIVIDED_BY_ZERO, PTX_TRAPPED
};

/* Runs a function; whatever is wrong ends it, with kernel, line, instruction and item in `why`. `shared`: bytes of dynamic
 * shared memory. */
enum ptx_outcome ptx_run(const struct ptx_function *function, unsigned groups, unsigned items, unsigned shared, const unsigned long long *values,
                         char *why, size_t why_bytes);

#endif
