/* PTX as images of the driver's stub: what its modules and launches call. With $STUB_MUTANTS, so
 * many damaged copies of each function are run beside it, until one leaves other memory or faults;
 * at the end of the process it is reported which never did. $STUB_MUTANT_SEED draws the damage.
 * With $STUB_NO_ATOMICS a load and a store take the place of each atomic addition. */

#ifndef STUB_PTX_CALLS_H
#define STUB_PTX_CALLS_H

#include "ptx.h"

/* Null, with a line on standard error, where the text has something unknown. */
struct ptx_module *ptx_open(const char *image);
/* Runs a function with its parameters' values, each in a word: 0, or the driver's error, with a
 * line on standard error. */
int ptx_call(const struct ptx_function *function, unsigned groups, unsigned items, unsigned shared,
    const unsigned long long *values);

/* ptx_mutation.c: a copy of the text with one instruction of the kernel changed, and how, in
 * `reported`; null if there is none. */
char *ptx_mutated(const char *text, const char *kernel, unsigned *random, char *reported,
    size_t reported_bytes);

/* A copy of the text in which a load and a store take the place of each atomic addition. */
char *ptx_without_atomics(const char *text);

/* ptx_mutants.c: runs the function's mutants for as long as they live, then leaves the memory as
 * the function does. */
enum ptx_outcome ptx_run_mutants(const struct ptx_function *function, const struct ptx_grid *grid,
    char *why, size_t why_bytes);

#endif
