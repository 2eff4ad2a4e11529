/* Host memory that is page-locked: cuMemHostRegister, cuMemHostUnregister,
 * cuMemHostGetDevicePointer. The driver locks whole pages, each once, whichever context asked for
 * it. */

#include "stub.h"

#include <stdlib.h>

enum { PAGE = 4096, PORTABLE = 1, MAPPED = 2 };

static struct range {
    address at;
    size_t bytes;
    unsigned flags;
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
        *own = (struct range){ (address)at, bytes, flags, context, ranges };
        ranges = own;
        live++;
    }
    pthread_mutex_unlock(&stub_lock);
    if (is_locked) { free(own); REFUSE(ALREADY_REGISTERED, "a page of it is locked already"); }
    memory_map_host(at, bytes);
    return 0;
}

int cuMemHostUnregister(void *at)
{
    ENTER;
    stream_wait_idle(__func__, context);
    pthread_mutex_lock(&stub_lock);
    struct range **link = &ranges;
    while (*link && (*link)->at != (address)at) link = &(*link)->next;
    struct range *gone = *link;
    if (gone) { *link = gone->next; live--; }
    pthread_mutex_unlock(&stub_lock);
    if (!gone) REFUSE(NOT_REGISTERED, "not registered");
    if (stream_uses(gone->at, gone->bytes)) misused(__func__, 0, "queued work uses the memory");
    memory_unmap_host(at);
    free(gone);
    return 0;
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
