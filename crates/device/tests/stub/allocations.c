/* A device's memory by its contexts: cuMemAlloc, cuMemFree, cuMemGetInfo. */

#include "stub.h"

#include <stdlib.h>
#include <string.h>

static struct allocation {
    address at;
    size_t bytes;
    struct context *context;
    int is_assumed;
    struct allocation *next;
} *allocations;
static int live, unwiped;

static struct allocation *holding(address at)
{
    struct allocation *own = allocations;
    while (own && at - own->at >= own->bytes) own = own->next;
    return own;
}

int allocation_has(address at, size_t bytes, const struct context *context)
{
    pthread_mutex_lock(&stub_lock);
    const struct allocation *own = holding(at);
    int has = own && own->context == context && bytes <= own->bytes - (at - own->at);
    pthread_mutex_unlock(&stub_lock);
    return has;
}

void allocation_assume_written(address at)
{
    pthread_mutex_lock(&stub_lock);
    struct allocation *own = holding(at);
    int is_new = own && !own->is_assumed;
    if (own) own->is_assumed = 1;
    pthread_mutex_unlock(&stub_lock);
    if (is_new) memory_assume_written(at);
}

int cuMemGetInfo_v2(size_t *free, size_t *total)
{
    ENTER;
    *free = memory_free_bytes();
    *total = 1ull << CAPACITY_BITS;
    return 0;
}

int cuMemAlloc_v2(address *to, size_t bytes)
{
    ENTER;
    if (!bytes) REFUSE(INVALID_VALUE, "no byte");
    if (memory_allocate(to, bytes) != MEMORY_FINE) return OUT_OF_MEMORY;
    struct allocation *own = malloc(sizeof *own);
    pthread_mutex_lock(&stub_lock);
    *own = (struct allocation){ *to, bytes, context, 0, allocations };
    allocations = own;
    live++;
    pthread_mutex_unlock(&stub_lock);
    return 0;
}

int cuMemFree_v2(address at)
{
    ENTER;
    stream_wait_idle(__func__, context);
    pthread_mutex_lock(&stub_lock);
    struct allocation **link = &allocations, *gone;
    while (*link && (*link)->at != at) link = &(*link)->next;
    gone = *link;
    if (gone && gone->context == context) { *link = gone->next; live--; }
    pthread_mutex_unlock(&stub_lock);
    if (!gone) REFUSE(INVALID_VALUE, "no allocation starts there");
    if (gone->context != context) REFUSE(INVALID_VALUE, "another context's memory");
    if (stream_uses(gone->at, gone->bytes)) misused(__func__, 0, "queued work uses the memory");
    unwiped += !memory_is_zero(gone->at, gone->bytes);
    memory_free(at);
    free(gone);
    return 0;
}

/* How many allocations there are, and how many were freed with bytes in them that are not zero. */
int stub_allocations(void) { return live; }
int stub_unwiped(void) { return unwiped; }
