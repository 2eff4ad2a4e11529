/* A device's memory in the stub of the driver. Its addresses lie in a range that the host can't
 * touch; the bytes lie elsewhere, and a state for every byte beside them, so that a checked access
 * compares states and looks nothing up. Freed addresses are used again as late as possible. Any
 * thread may call. */

#ifndef STUB_MEMORY_H
#define STUB_MEMORY_H

#include <stddef.h>

typedef unsigned long long address;

/* The states of a byte. Bytes between allocations are UNALLOCATED, so each access out of bounds
 * meets one. */
enum { UNALLOCATED = 0, UNWRITTEN = 1, WRITTEN = 3 };

/* The outcomes of a call. */
enum memory_outcome { MEMORY_FINE, MEMORY_FULL, MEMORY_UNKNOWN, MEMORY_OUT_OF_BOUNDS,
    MEMORY_UNWRITTEN };

/* Log2 of the bytes of the addresses' range, and of the device's capacity. */
#ifndef MEMORY_BITS
#define MEMORY_BITS 36
#define CAPACITY_BITS 33
#endif
enum { MEMORY_ALIGNMENT = 256 };

enum memory_outcome memory_allocate(address *to, size_t bytes);
/* MEMORY_UNKNOWN: no allocation starts there. */
enum memory_outcome memory_free(address at);
size_t memory_free_bytes(void);

/* Copies. MEMORY_UNWRITTEN: all was copied, but some of it had never been written. */
enum memory_outcome memory_read(void *to, address from, size_t bytes);
enum memory_outcome memory_write(address to, const void *from, size_t bytes);
enum memory_outcome memory_copy(address to, address from, size_t bytes);

/* Where the device's range begins. */
address memory_first(void);
/* Whether the address lies in the device's range, allocated or not. */
int memory_is_device(address at);
/* The bytes after an address of the device's range, for kernels that the host's compiler made. */
void *memory_backing(address at);
/* The states of these bytes, one after another. */
unsigned char *memory_states(address at);
void memory_set_states(address at, size_t bytes, int state);
/* Whether all of these bytes are zero; those that were never touched are. */
int memory_is_zero(address at, size_t bytes);
/* Declares all bytes of the allocation that holds `at` written: after a kernel whose stores are not
 * seen. */
void memory_assume_written(address at);

/* Host memory that a kernel may access at its own address, all of it counting as written. */
void memory_map_host(const void *at, size_t bytes);
void memory_unmap_host(const void *at);
int memory_is_mapped(address at, size_t bytes);

#endif
