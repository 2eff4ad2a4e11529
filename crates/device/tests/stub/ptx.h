/* An interpreter of PTX as NVRTC makes it of our kernels: what a GPU would run is run here, item by
 * item from barrier to barrier, and every access is checked. Instructions that let the items of a
 * warp talk (shfl, vote, bar.warp), calls, floats and textures are unknown: a text that has one is
 * not loaded. */

#ifndef STUB_PTX_H
#define STUB_PTX_H

#include <stddef.h>

struct ptx_module;
struct ptx_function;

/* A text's functions; null, with the line and the reason in `why`, where something in it is
 * unknown. */
struct ptx_module *ptx_load(const char *text, char *why, size_t why_bytes);
void ptx_unload(struct ptx_module *module);
const struct ptx_function *ptx_find(const struct ptx_module *module, const char *name);

const char *ptx_name(const struct ptx_function *function);
/* The text that it was loaded from. */
const char *ptx_text(const struct ptx_function *function);
/* How many parameters there are, and the bytes of one: 4 or 8. */
unsigned ptx_parameters(const struct ptx_function *function);
unsigned ptx_parameter_bytes(const struct ptx_function *function, unsigned index);

/* The outcomes of a launch. */
enum ptx_outcome {
    PTX_FINE, PTX_REFUSED, PTX_OUT_OF_BOUNDS, PTX_MISALIGNED, PTX_UNWRITTEN, PTX_RACE, PTX_DIVERGED,
        PTX_ENDLESS, PTX_DIVIDED_BY_ZERO, PTX_TRAPPED
};

/* A store to global memory: where, and what was there before it. */
struct ptx_store { unsigned char *at, *states, length, before[16], states_before[16]; };
/* The stores of a launch, in their order. */
struct ptx_journal { struct ptx_store *items; unsigned count, room; };

/* A grid: groups, their items, bytes of dynamic shared memory, the parameters' values, how many
 * branches an item may take between barriers before it counts as endless (0: as many as any kernel
 * of ours), and where stores are noted, or null. */
struct ptx_grid { unsigned groups, items, shared; const unsigned long long *values;
    unsigned branches_max; struct ptx_journal *journal; };

/* Runs a function; the first fault ends it, with kernel, line, instruction and item in `why`. */
enum ptx_outcome ptx_run(const struct ptx_function *function, const struct ptx_grid *grid,
    char *why, size_t why_bytes);

#endif
