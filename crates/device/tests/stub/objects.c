/* See stub.h. */

#include "stub.h"

#include <stdlib.h>

enum { BUCKETS = 4096 };
static struct object *buckets[BUCKETS];
static int live[KINDS];

static struct object **bucket(const void *handle)
{
    return buckets + (size_t)handle / 64 % BUCKETS;
}

void *object_make(enum kind kind, size_t bytes, struct context *context)
{
    struct object *own = calloc(1, bytes);
    pthread_mutex_lock(&stub_lock);
    *own = (struct object){ kind, 1, context, *bucket(own) };
    *bucket(own) = own;
    live[kind]++;
    pthread_mutex_unlock(&stub_lock);
    return own;
}

static const struct object *find(const void *handle)
{
    const struct object *one = *bucket(handle);
    while (one && one != handle) one = one->next;
    return one;
}

int object_check(
    const char *name, enum kind kind, const void *handle, const struct context *context)
{
    pthread_mutex_lock(&stub_lock);
    const struct object *own = find(handle);
    const char *why = !own || own->kind != kind ? "no such handle"
                      : !own->is_live           ? "a handle that was destroyed"
                      : own->context != context ? "a handle of another context" : 0;
    pthread_mutex_unlock(&stub_lock);
    return why ? misused(name, INVALID_HANDLE, why) : 0;
}

void object_destroy(void *handle)
{
    struct object *own = handle;
    pthread_mutex_lock(&stub_lock);
    own->is_live = 0;
    live[own->kind]--;
    pthread_mutex_unlock(&stub_lock);
}

/* How many there are of a kind: 0 streams, 1 events, 2 modules, 3 functions, 4 graphs, 5 executable
 * graphs. */
int stub_live(int kind) { return live[kind]; }
