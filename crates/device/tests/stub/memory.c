/* See memory.h. */

#include "memory.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { ALIGNMENT = MEMORY_ALIGNMENT, PAGE = 4096, BLOCK = 16 << 20, MAPPED_LEAST = 1 << 18 };

/* An allocation with the gap that follows it, or host memory. Allocations are in the order of their
 * addresses. */
struct extent { address at; size_t bytes; struct extent *next; };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct extent *allocations, *mapped;
static address first, roving;
static unsigned char *bytes_of, *states_of;
/* A file with a block of each state. States of whole pages are private mappings of it, so most are
 * never written. */
static int blocks;
static size_t used;

static void *reserve(int access)
{
    void *at = mmap(0, (size_t)1 << MEMORY_BITS, access, MAP_PRIVATE | MAP_ANONYMOUS
        | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) abort();
    return at;
}

/* The place of the block of a state. */
static size_t block(int state) { return state == WRITTEN ? BLOCK : 0; }

static void fill_block(int state)
{
    unsigned char *at = mmap(0, BLOCK, PROT_WRITE, MAP_SHARED, blocks, block(state));
    if (at == MAP_FAILED) abort();
    memset(at, state, BLOCK);
    munmap(at, BLOCK);
}

static void start(void)
{
    blocks = memfd_create("states", MFD_CLOEXEC);
    if (blocks < 0 || ftruncate(blocks, 2 * (off_t)BLOCK)) abort();
    fill_block(UNWRITTEN);
    fill_block(WRITTEN);
    first = roving = (address)reserve(PROT_NONE);
    bytes_of = reserve(PROT_READ | PROT_WRITE);
    states_of = reserve(PROT_READ | PROT_WRITE);
}

/* The room that an allocation takes: with a gap, so that no two touch. */
static size_t room(size_t bytes) { return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT
    + ALIGNMENT; }

int memory_is_device(address at)
{
    pthread_once(&once, start);
    return at - first < (address)1 << MEMORY_BITS;
}

address memory_first(void)
{
    pthread_once(&once, start);
    return first;
}

void *memory_backing(address at) { return bytes_of + (at - first); }
unsigned char *memory_states(address at) { return states_of + (at - first); }

/* Splits bytes into those before the first whole page, whole pages, and the rest. */
static void split(const void *at, size_t bytes, size_t *before, size_t *pages)
{
    size_t to_page = -(size_t)at % PAGE;
    *before = to_page < bytes ? to_page : bytes;
    *pages = (bytes - *before) / PAGE * PAGE;
}

void memory_set_states(address at, size_t bytes, int state)
{
    unsigned char *states = memory_states(at);
    size_t before, pages;
    split(states, bytes, &before, &pages);
    if (pages < MAPPED_LEAST) {
        memset(states, state, bytes);
        return;
    }
    memset(states, state, before);
    for (size_t done = 0; done < pages; done += BLOCK) {
        size_t len = pages - done < BLOCK ? pages - done : BLOCK;
        void *to = states + before + done;
        int access = PROT_READ | PROT_WRITE, flags = MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE;
        if (mmap(to, len, access, flags, blocks, block(state)) != to) abort();
    }
    memset(states + before + pages, state, bytes - before - pages);
}

int memory_is_zero(address at, size_t bytes)
{
    enum { AT_ONCE = 1024 };
    const unsigned char *from = memory_backing(at), *end = from + bytes;
    unsigned char are_there[AT_ONCE];
    while (from < end) {
        const unsigned char *page = from - (size_t)from % PAGE;
        size_t len = end - page < (long)PAGE * AT_ONCE ? end - page : (long)PAGE * AT_ONCE;
        if (mincore((void *)page, len, are_there)) abort();
        for (size_t one = 0; one * PAGE < len; one++) {
            const unsigned char *next =
                page + (one + 1) * PAGE < end ? page + (one + 1) * PAGE : end;
            int is_there = are_there[one] & 1;
            if (is_there && (*from || memcmp(from, from + 1, next - from - 1))) return 0;
            from = next;
        }
    }
    return 1;
}

/* The link at which an extent of `wanted` bytes fits at `from` or later. */
static struct extent **gap(address *from, size_t wanted)
{
    address end = first + ((address)1 << MEMORY_BITS);
    struct extent **link = &allocations;
    for (; *link; link = &(*link)->next) {
        if ((*link)->at >= *from && (*link)->at - *from >= wanted) return link;
        if ((*link)->at + room((*link)->bytes) > *from) *from = (*link)->at + room((*link)->bytes);
    }
    return end - *from >= wanted ? link : 0;
}

enum memory_outcome memory_allocate(address *to, size_t bytes)
{
    size_t capacity = (size_t)1 << CAPACITY_BITS;
    pthread_once(&once, start);
    pthread_mutex_lock(&lock);
    int is_full = !bytes || bytes > capacity - used;
    address at = roving;
    struct extent **link = is_full ? 0 : gap(&at, room(bytes));
    if (!link && !is_full) at = first, link = gap(&at, room(bytes));
    if (link) {
        struct extent *own = malloc(sizeof *own);
        *own = (struct extent){ at, bytes, *link };
        *link = own;
        roving = at + room(bytes);
        used += bytes;
        memory_set_states(at, bytes, UNWRITTEN);
        *to = at;
    }
    pthread_mutex_unlock(&lock);
    return link ? MEMORY_FINE : MEMORY_FULL;
}

/* Clears bytes, and gives their pages back to the host. */
static void give_back(unsigned char *at, size_t bytes)
{
    size_t before, pages;
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE;
    split(at, bytes, &before, &pages);
    memset(at, 0, before);
    if (pages && mmap(at + before, pages, PROT_READ | PROT_WRITE, flags, -1, 0) == MAP_FAILED)
        abort();
    memset(at + before + pages, 0, bytes - before - pages);
}

enum memory_outcome memory_free(address at)
{
    pthread_mutex_lock(&lock);
    struct extent **link = &allocations;
    while (*link && (*link)->at != at) link = &(*link)->next;
    struct extent *gone = *link;
    if (gone) {
        *link = gone->next;
        used -= gone->bytes;
        give_back(memory_backing(at), gone->bytes);
        give_back(memory_states(at), gone->bytes);
        free(gone);
    }
    pthread_mutex_unlock(&lock);
    return gone ? MEMORY_FINE : MEMORY_UNKNOWN;
}

size_t memory_free_bytes(void)
{
    pthread_mutex_lock(&lock);
    size_t left = ((size_t)1 << CAPACITY_BITS) - used;
    pthread_mutex_unlock(&lock);
    return left;
}

/* Whether all of these bytes are of an allocation, and were written. */
static enum memory_outcome look(address at, size_t bytes)
{
    if (!bytes) return MEMORY_FINE;
    address end = first + ((address)1 << MEMORY_BITS);
    if (!memory_is_device(at) || bytes > end - at) return MEMORY_OUT_OF_BOUNDS;
    const unsigned char *states = memory_states(at);
    if (memchr(states, UNALLOCATED, bytes)) return MEMORY_OUT_OF_BOUNDS;
    return memchr(states, UNWRITTEN, bytes) ? MEMORY_UNWRITTEN : MEMORY_FINE;
}

enum memory_outcome memory_read(void *to, address from, size_t bytes)
{
    enum memory_outcome outcome = look(from, bytes);
    if (bytes && outcome != MEMORY_OUT_OF_BOUNDS) memcpy(to, memory_backing(from), bytes);
    return outcome;
}

enum memory_outcome memory_write(address to, const void *from, size_t bytes)
{
    if (look(to, bytes) == MEMORY_OUT_OF_BOUNDS) return MEMORY_OUT_OF_BOUNDS;
    if (!bytes) return MEMORY_FINE;
    memcpy(memory_backing(to), from, bytes);
    memory_set_states(to, bytes, WRITTEN);
    return MEMORY_FINE;
}

enum memory_outcome memory_copy(address to, address from, size_t bytes)
{
    enum memory_outcome outcome = look(from, bytes);
    if (outcome == MEMORY_OUT_OF_BOUNDS || look(to, bytes) == MEMORY_OUT_OF_BOUNDS)
        return MEMORY_OUT_OF_BOUNDS;
    if (!bytes) return MEMORY_FINE;
    memmove(memory_backing(to), memory_backing(from), bytes);
    memmove(memory_states(to), memory_states(from), bytes);
    return outcome;
}

void memory_assume_written(address at)
{
    pthread_mutex_lock(&lock);
    for (struct extent *own = allocations; own; own = own->next)
        if (at - own->at < own->bytes) memory_set_states(own->at, own->bytes, WRITTEN);
    pthread_mutex_unlock(&lock);
}

void memory_map_host(const void *at, size_t bytes)
{
    struct extent *own = malloc(sizeof *own);
    pthread_mutex_lock(&lock);
    *own = (struct extent){ (address)at, bytes, mapped };
    mapped = own;
    pthread_mutex_unlock(&lock);
}

void memory_unmap_host(const void *at)
{
    pthread_mutex_lock(&lock);
    struct extent **link = &mapped;
    while (*link && (*link)->at != (address)at) link = &(*link)->next;
    struct extent *gone = *link;
    if (gone) *link = gone->next;
    free(gone);
    pthread_mutex_unlock(&lock);
}

int memory_is_mapped(address at, size_t bytes)
{
    int is = 0;
    pthread_mutex_lock(&lock);
    for (struct extent *own = mapped; own; own = own->next)
        is |= at - own->at < own->bytes && bytes <= own->bytes - (at - own->at);
    pthread_mutex_unlock(&lock);
    return is;
}
