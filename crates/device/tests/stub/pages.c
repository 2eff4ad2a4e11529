/* Host memory that is page-locked: cuMemHostRegister, cuMemHostUnregister,
 * cuMemHostGetDevicePointer, cuMemHostAlloc, cuMemFreeHost. The driver locks whole pages, each
 * once, whichever context asked for it. */

#include "stub.h"

#include <stdlib.h>

enum { PAGE = 4096, PORTABLE = 1, MAPPED = 2 };

static struct range {
    address at;
    size_t bytes;
    unsigned flags;
    /* The driver made the memory. */
    int is_own;
    struct context *context;
    struct range *next;
} *ranges;
static int live;

static address first_page(address at) { return at / PAGE; }
static address end_page(address at, size_t bytes) { return (at + bytes + PAGE - 1) / PAGE; }

static const struct range *overlapping(address at, size_t bytes)
{
    const struct range *one = ranges;
    while (one
        && !(first_page(at) < end_page(one->at, one->bytes)
            && first_page(one->at) < end_page(at, bytes)))
        one = one->next;
    return one;
}

enum pages pages_of(address at, size_t bytes)
{
    enum pages how = PAGEABLE;
    pthread_mutex_lock(&stub_lock);
    for (const struct range *one = ranges; one; one = one->next) {
        if (at >= one->at && at + bytes <= one->at + one->bytes) how = PINNED;
        else if (how == PAGEABLE && at < one->at + one->bytes && one->at < at + bytes) how = PARTLY;
    }
    pthread_mutex_unlock(&stub_lock);
    return how;
}

int cuMemHostRegister_v2(void *at, size_t bytes, unsigned flags)
{
    ENTER;
    if (!at || !bytes || flags & ~7u) REFUSE(INVALID_VALUE, "no memory, or unknown flags");
    struct range *own = malloc(sizeof *own);
    pthread_mutex_lock(&stub_lock);
    int is_locked = overlapping((address)at, bytes) != 0;
    if (!is_locked) {
        *own = (struct range){ (address)at, bytes, flags, 0, context, ranges };
        ranges = own;
        live++;
    }
    pthread_mutex_unlock(&stub_lock);
    if (is_locked) { free(own); REFUSE(ALREADY_REGISTERED, "a page of it is locked already"); }
    memory_map_host(at, bytes);
    return 0;
}

/* Takes a range that begins there out of the list. */
static int give_back(const char *name, struct context *context, void *at, int is_own, int unknown)
{
    stream_wait_idle(name, context);
    pthread_mutex_lock(&stub_lock);
    struct range **link = &ranges;
    while (*link && ((*link)->at != (address)at || (*link)->is_own != is_own))
        link = &(*link)->next;
    struct range *gone = *link;
    if (gone) { *link = gone->next; live--; }
    pthread_mutex_unlock(&stub_lock);
    if (!gone) return misused(name, unknown, "no such memory");
    for (size_t i = 0; is_own && i < gone->bytes; i++)
        if (((char *)at)[i]) { misused(name, 0, "memory that may have keys"); break; }
    if (stream_uses(gone->at, gone->bytes)) misused(name, 0, "queued work uses the memory");
    memory_unmap_host(at);
    free(gone);
    return 0;
}

int cuMemHostUnregister(void *at)
{
    ENTER;
    return give_back(__func__, context, at, 0, NOT_REGISTERED);
}

/* New memory, which is locked. */
int cuMemHostAlloc(void **to, size_t bytes, unsigned flags)
{
    ENTER;
    if (!bytes || flags) REFUSE(INVALID_VALUE, "no bytes, or unknown flags");
    void *at = aligned_alloc(PAGE, (bytes + PAGE - 1) / PAGE * PAGE);
    if (!at) return OUT_OF_MEMORY;
    struct range *own = malloc(sizeof *own);
    pthread_mutex_lock(&stub_lock);
    *own = (struct range){ (address)at, bytes, 0, 1, context, ranges };
    ranges = own;
    live++;
    pthread_mutex_unlock(&stub_lock);
    memory_map_host(at, bytes);
    *to = at;
    return 0;
}

int cuMemFreeHost(void *at)
{
    ENTER;
    int code = give_back(__func__, context, at, 1, INVALID_VALUE);
    if (!code) free(at);
    return code;
}

int cuMemHostGetDevicePointer_v2(address *to, void *at, unsigned flags)
{
    ENTER;
    if (flags) REFUSE(INVALID_VALUE, "flags");
    pthread_mutex_lock(&stub_lock);
    const struct range *own = ranges;
    while (own && (address)at - own->at >= own->bytes) own = own->next;
    int is_here = own && own->flags & MAPPED && (own->context == context || own->flags & PORTABLE);
    pthread_mutex_unlock(&stub_lock);
    if (!device_maps_host_memory(context->device) || !is_here)
        REFUSE(INVALID_VALUE, "not mapped in this context");
    *to = (address)at;
    return 0;
}

/* How many ranges are locked. */
int stub_registrations(void) { return live; }
