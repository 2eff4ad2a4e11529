/* Checks memory.c by itself: prints what it wants and does not find, and ends with 1. */

#include "memory.h"

#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

static int failed;
#define WANT(what) ((what) ? (void)0 \
    : (void)(failed = 1, printf("line %d: not %s\n", __LINE__, #what)))

static sigjmp_buf faulted;
static void on_fault(int number) { (void)number; siglongjmp(faulted, 1); }

static void bounds(void)
{
    char bytes[300] = "bytes";
    address at, other;
    WANT(memory_allocate(&at, 300) == MEMORY_FINE && at % MEMORY_ALIGNMENT == 0);
    WANT(memory_allocate(&other, 1) == MEMORY_FINE && other != at);
    WANT(memory_write(at, bytes, 300) == MEMORY_FINE);
    WANT(memory_write(at, bytes, 301) == MEMORY_OUT_OF_BOUNDS);
    WANT(memory_write(at + 1, bytes, 300) == MEMORY_OUT_OF_BOUNDS);
    WANT(memory_write(at - 1, bytes, 2) == MEMORY_OUT_OF_BOUNDS);
    WANT(memory_read(bytes, at + 299, 2) == MEMORY_OUT_OF_BOUNDS);
    WANT(memory_read(bytes, (address)bytes, 1) == MEMORY_OUT_OF_BOUNDS);
    WANT(memory_read(bytes, at, -(size_t)1) == MEMORY_OUT_OF_BOUNDS);
    WANT(memory_read(bytes, at + 300, 0) == MEMORY_FINE);
    WANT(memory_free(at + 256) == MEMORY_UNKNOWN);
    WANT(memory_free(at) == MEMORY_FINE && memory_free(at) == MEMORY_UNKNOWN);
    WANT(memory_read(bytes, at, 1) == MEMORY_OUT_OF_BOUNDS);
    WANT(memory_free(other) == MEMORY_FINE);
    /* Two that fill their rooms don't touch. */
    WANT(memory_allocate(&at, 256) == MEMORY_FINE && memory_allocate(&other, 256) == MEMORY_FINE);
    WANT(memory_write(at, bytes, 257) == MEMORY_OUT_OF_BOUNDS
        && memory_write(other, bytes, 257) == MEMORY_OUT_OF_BOUNDS);
    memory_free(at), memory_free(other);
}

static void states(void)
{
    char bytes[16] = "sixteen bytes..";
    address at, to;
    memory_allocate(&at, 16);
    memory_allocate(&to, 16);
    WANT(memory_read(bytes, at, 1) == MEMORY_UNWRITTEN);
    memory_write(at + 4, bytes, 4);
    WANT(memory_read(bytes + 8, at + 4, 4) == MEMORY_FINE && !memcmp(bytes + 8, bytes, 4));
    WANT(memory_read(bytes, at + 3, 2) == MEMORY_UNWRITTEN
        && memory_read(bytes, at + 7, 2) == MEMORY_UNWRITTEN);
    WANT(memory_copy(to, at, 16) == MEMORY_UNWRITTEN);
    WANT(memory_read(bytes, to + 4, 4) == MEMORY_FINE
        && memory_read(bytes, to + 8, 1) == MEMORY_UNWRITTEN);
    WANT(memory_copy(to + 8, at, 9) == MEMORY_OUT_OF_BOUNDS);
    memory_assume_written(to + 7);
    WANT(memory_read(bytes, to, 16) == MEMORY_FINE
        && memory_read(bytes, at, 16) == MEMORY_UNWRITTEN);
    WANT(memory_is_device(at) && !memory_is_device((address)bytes));
    memory_free(at);
    memory_free(to);
}

static void capacity(void)
{
    size_t all = memory_free_bytes();
    address at, last = 0;
    WANT(memory_allocate(&at, all + 1) == MEMORY_FULL && memory_allocate(&at, 0) == MEMORY_FULL);
    /* Past the end of the range and round again, without meeting what is still there. */
    for (int i = 0; i < 200; i++) {
        WANT(memory_allocate(&at, all / 3) == MEMORY_FINE);
        if (i % 2) { WANT(memory_write(at, "x", 1) == MEMORY_FINE); memory_free(last); }
        else if (last) memory_free(last);
        WANT(at != last && memory_free_bytes() == all - all / 3);
        last = at;
    }
    memory_free(last);
    WANT(memory_free_bytes() == all);
}

static void host(void)
{
    char bytes[64];
    address at = (address)bytes, device;
    WANT(!memory_is_mapped(at, 1));
    memory_map_host(bytes, 64);
    WANT(memory_is_mapped(at, 64) && memory_is_mapped(at + 63, 1) && !memory_is_mapped(at + 1, 64)
        && !memory_is_mapped(at - 1, 2));
    memory_unmap_host(bytes);
    WANT(!memory_is_mapped(at, 1));
    memory_allocate(&device, 8);
    signal(SIGSEGV, on_fault);
    int is_faulted = sigsetjmp(faulted, 1);
    if (!is_faulted) *(volatile char *)device = 1;
    WANT(is_faulted);
    memory_free(device);
}

int main(void)
{
    bounds();
    states();
    capacity();
    host();
    return failed;
}
