/* The parts of the stub of CUDA's driver, and what they have of each other. Each file's functions
 * are those of cuda.h that it names. */

#ifndef STUB_H
#define STUB_H

#include <pthread.h>
#include <stddef.h>

#include "memory.h"

enum {
    INVALID_VALUE = 1,
    OUT_OF_MEMORY = 2,
    NOT_INITIALIZED = 3,
    NO_DEVICE = 100,
    INVALID_DEVICE = 101,
    INVALID_IMAGE = 200,
    INVALID_CONTEXT = 201,
    NO_BINARY_FOR_GPU = 209,
    INVALID_HANDLE = 400,
    ILLEGAL_STATE = 401,
    NOT_FOUND = 500,
    NOT_READY = 600,
    ILLEGAL_ADDRESS = 700,
    ALREADY_REGISTERED = 712,
    NOT_REGISTERED = 713,
    CAPTURE_UNSUPPORTED = 900,
    CAPTURE_INVALIDATED = 901,
    CAPTURED_EVENT = 907,
    UPDATE_FAILURE = 910
};

/* Guards all state of the stub but a device's memory. */
extern pthread_mutex_t stub_lock;

/* calls.c: how often functions were called, which call is to fail, and what was done that a program
 * must not do. */
int call_fate(const char *name);
int is_loss(int code);
/* Prints a misuse, and counts it: tests end with an error. Gives `code`. */
int misused(const char *name, int code, const char *why);
/* Counts a call that waited for a device, on a thread that gives streams work. */
void stalled(const char *name);
/* Counts bytes that were copied back and that no copy and no kernel wrote. */
void copied_unwritten(address from, size_t bytes);

/* devices.c: devices and their primary contexts. */
struct context { int device, retained, sticky, pending; struct stream *null; };
struct context *context_current(void);
int device_maps_host_memory(int device);
int context_enter(const char *name, struct context **to);
int device_capability(int device);

#define ENTER                                            \
    struct context *context;                             \
    {                                                    \
        int entered = context_enter(__func__, &context); \
        if (entered) return entered;                     \
    }
#define REFUSE(code, why) return misused(__func__, code, why)

/* objects.c: handles that are valid, each of a context. Memory of a handle is never used again, so
 * one that is used too late is known. */
enum kind { STREAM, EVENT, MODULE, FUNCTION, GRAPH, EXECUTABLE, NULL_STREAM, KINDS };
struct object { enum kind kind; int is_live; struct context *context; struct object *next; };
void *object_make(enum kind kind, size_t bytes, struct context *context);
/* 0, or the error that cuda.h has for a handle that is unknown, was destroyed, or is another
 * context's. */
int object_check(
    const char *name, enum kind kind, const void *handle, const struct context *context);
void object_destroy(void *handle);

#define CHECK(kind, handle)                                          \
    {                                                                \
        int checked = object_check(__func__, kind, handle, context); \
        if (checked) return checked;                                 \
    }

/* allocations.c: a device's memory by its contexts. */
int allocation_has(address at, size_t bytes, const struct context *context);
/* A kernel whose stores are not seen has a pointer to it. */
void allocation_assume_written(address at);

/* pages.c: host memory that is page-locked. */
enum pages { PAGEABLE, PINNED, PARTLY };
enum pages pages_of(address at, size_t bytes);

/* streams.c: what streams do, each by a thread of its own. */
enum { COPY_IN, COPY_OUT, CALL, SET, VALUES_MAX = 32 };
/* A copy, a call of a kernel, or bytes that are set to `from`. `staged`: what a copy of pageable
 * memory read at once. */
struct node {
    int kind;
    address to, from;
    size_t bytes;
    /* A copy of rows: bytes of each, and from one to the next. Both are 0 where all of `bytes` is
     * copied. */
    size_t width, pitch;
    void *staged;
    struct function *function;
    unsigned groups, items, shared;
    unsigned long long values[VALUES_MAX];
};
struct stream;
struct graph;
int stream_give(const char *name, struct stream *stream, const struct node *node);
/* Waits, as a driver does that frees what its device may use, until nothing is under way in the
 * context. */
void stream_wait_idle(const char *name, struct context *context);
/* Whether work that is queued names bytes of the range. */
int stream_uses(address at, size_t bytes);
int stream_capture(const char *name, struct stream *stream, struct graph **captured, int begin);

/* modules.c: an image's kernels. `run` does a call, on the stream's thread; its result is 0 or the
 * error that the context has from then on. */
struct module { struct object object; void *library; struct ptx_module *ptx; };
struct function {
    struct object object;
    struct module *module;
    int (*run)(const struct node *);
    void *code;
    const char *kinds;
    unsigned values, shared_max;
};

/* graphs.c */
enum { NODES_MAX = 4096 };
struct graph { struct object object; int count, is_broken; struct node *nodes; };
int graph_capture(const char *name, struct graph *graph, const struct node *node);

#endif
