/* Streams and events: cuStream*, cuEvent*, cuMemcpy*Async, cuMemsetD8. A stream has a thread of its
 * own, which does what it was given some time later: $STUB_SEED and the stream's number say when.
 * Tests may hold all streams, by which they are busy as long as that is wanted. */

#include "stub.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

struct event { struct object object; int recorded, done; };

/* A node, or an event to be marked done; `age` counts all of them. */
struct op {
    struct node node;
    struct event *event;
    int number;
    unsigned long age;
    struct op *next;
};

struct stream {
    struct object object;
    struct op *first, **last;
    struct graph *captured;
    int is_ended;
    unsigned random;
    struct stream *next;
};

static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static struct stream *streams;
static int is_held;
static unsigned long ages;
static unsigned seed;
/* Whether this thread ever gave a stream packets' work: copies, calls or events. */
static __thread int gives;

static void draw_seed(void)
{
    const char *text = getenv("STUB_SEED");
    seed = text && *text ? strtoul(text, 0, 10) : (unsigned)time(0) ^ (unsigned)getpid() << 16;
    fprintf(stderr, "stub: STUB_SEED=%u\n", seed);
}

/* Mostly at once, sometimes later. */
static void delay(struct stream *stream)
{
    stream->random = stream->random * 1664525 + 1013904223;
    unsigned drawn = stream->random >> 16;
    if (drawn % 16 == 0) usleep(drawn / 16 % 200);
    else if (drawn % 4 == 0) sched_yield();
}

static int memory_set(address to, unsigned char value, size_t bytes)
{
    enum { PAGE = 4096 };
    unsigned char *at = memory_backing(to);
    size_t edge = -(size_t)at % PAGE, pages = bytes > edge ? (bytes - edge) / PAGE * PAGE : 0;
    if (memory_states(to)[0] == UNALLOCATED || memory_states(to)[bytes - 1] == UNALLOCATED)
        return ILLEGAL_ADDRESS;
    /* Pages of zeros take no memory of the host's. */
    if (value || !pages || madvise(at + edge, pages, MADV_DONTNEED)) memset(at, value, bytes);
    else {
        memset(at, 0, edge);
        memset(at + edge + pages, 0, bytes - edge - pages);
    }
    memory_set_states(to, bytes, WRITTEN);
    return 0;
}

static int perform(const struct node *node);

/* Row by row, so that bytes between them are neither read nor written. */
static int perform_rows(const struct node *node)
{
    for (size_t at = 0; at < node->bytes; at += node->pitch) {
        struct node row = *node;
        row.to += at;
        row.from += at;
        row.staged = node->staged ? (char *)node->staged + at : 0;
        row.bytes = node->width;
        row.pitch = 0;
        int code = perform(&row);
        if (code) return code;
    }
    return 0;
}

static int perform(const struct node *node)
{
    if (node->pitch) return perform_rows(node);
    enum memory_outcome outcome;
    switch (node->kind) {
    case SET: return memory_set(node->to, node->from, node->bytes);
    case COPY_IN:
        outcome =
            memory_write(node->to, node->staged ? node->staged : (void *)node->from, node->bytes);
        break;
    case COPY_OUT:
        outcome = memory_read((void *)node->to, node->from, node->bytes);
        if (outcome == MEMORY_UNWRITTEN) copied_unwritten(node->from, node->bytes);
        break;
    default:
        return node->function->run(node);
    }
    return outcome == MEMORY_OUT_OF_BOUNDS ? ILLEGAL_ADDRESS : 0;
}

static void *work(void *argument)
{
    struct stream *stream = argument;
    struct context *context = stream->object.context;
    pthread_mutex_lock(&stub_lock);
    for (;;) {
        while ((is_held && stream->first && stream->object.kind != NULL_STREAM)
            || (!stream->first && !stream->is_ended))
            pthread_cond_wait(&changed, &stub_lock);
        struct op *op = stream->first;
        if (!op) break;
        pthread_mutex_unlock(&stub_lock);
        delay(stream);
        int code = context->sticky;
        if (!code && !op->event) code = getenv("STUB_LOST") ? ILLEGAL_ADDRESS : perform(&op->node);
        if (code) __atomic_store_n(&context->sticky, code, __ATOMIC_SEQ_CST);
        pthread_mutex_lock(&stub_lock);
        if (op->event && op->event->done < op->number) op->event->done = op->number;
        stream->first = op->next;
        if (!stream->first) stream->last = &stream->first;
        context->pending--;
        pthread_cond_broadcast(&changed);
        free(op->node.staged);
        free(op);
    }
    struct stream **link = &streams;
    while (*link != stream) link = &(*link)->next;
    *link = stream->next;
    pthread_mutex_unlock(&stub_lock);
    return 0;
}

static void put(struct stream *stream, const struct node *node, struct event *event)
{
    struct op *op = calloc(1, sizeof *op);
    if (node) op->node = *node;
    op->event = event;
    gives |= !node || node->kind != SET;
    pthread_mutex_lock(&stub_lock);
    if (event) op->number = ++event->recorded;
    op->age = ++ages;
    *stream->last = op;
    stream->last = &op->next;
    stream->object.context->pending++;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&stub_lock);
}

static void drain(struct stream *stream)
{
    pthread_mutex_lock(&stub_lock);
    while (stream->first) pthread_cond_wait(&changed, &stub_lock);
    pthread_mutex_unlock(&stub_lock);
}

/* Pageable memory is read at once, and written before the call returns. */
static int copy_pageable(struct stream *stream, const struct node *node)
{
    struct node own = *node;
    if (own.bytes) stalled(own.kind == COPY_IN ? "a pageable copy in" : "a pageable copy out");
    if (own.kind == COPY_IN && own.bytes) {
        own.staged = malloc(own.bytes);
        memcpy(own.staged, (void *)own.from, own.bytes);
    }
    put(stream, &own, 0);
    if (own.kind == COPY_OUT) drain(stream);
    return 0;
}

int stream_give(const char *name, struct stream *stream, const struct node *node)
{
    struct context *context = context_current();
    int code = object_check(name, STREAM, stream, context);
    if (code) return code;
    if (stream->captured) return graph_capture(name, stream->captured, node);
    if (node->kind == CALL) { put(stream, node, 0); return 0; }
    address host = node->kind == COPY_IN ? node->from : node->to,
            there = node->kind == COPY_IN ? node->to : node->from;
    if (node->bytes && !allocation_has(there, node->bytes, context))
        return misused(name, INVALID_VALUE, "not in an allocation of the context");
    enum pages pages = pages_of(host, node->bytes);
    if (pages == PARTLY) return misused(name, INVALID_VALUE, "partly page-locked");
    if (pages == PAGEABLE) return copy_pageable(stream, node);
    put(stream, node, 0);
    return 0;
}

/* Whether a stream of the context has something that it was given by then. */
static int has_older(const struct context *context, unsigned long age)
{
    for (struct stream *one = streams; one; one = one->next)
        if (one->object.context == context && one->first && one->first->age <= age) return 1;
    return 0;
}

/* Work that comes later is not waited for: there may always be some. */
void stream_wait_idle(const char *name, struct context *context)
{
    pthread_mutex_lock(&stub_lock);
    int is_busy = context->pending > 0;
    unsigned long now = ages;
    while (context->null && context->null->first) pthread_cond_wait(&changed, &stub_lock);
    /* While streams are held it would wait for ever. */
    while (has_older(context, now) && !is_held) pthread_cond_wait(&changed, &stub_lock);
    pthread_mutex_unlock(&stub_lock);
    if (is_busy && gives) stalled(name);
}

static int names(const struct node *node, address at, size_t bytes)
{
    int is = 0;
    if (node->kind != CALL)
        return node->to - at < bytes
            || node->from - at < bytes && !node->staged && node->kind != SET;
    for (unsigned i = 0; i < node->function->values; i++) is |= node->values[i] - at < bytes;
    return is;
}

int stream_uses(address at, size_t bytes)
{
    int is = 0;
    pthread_mutex_lock(&stub_lock);
    for (struct stream *one = streams; one; one = one->next)
        for (struct op *op = one->first; op; op = op->next)
            is |= !op->event && names(&op->node, at, bytes);
    pthread_mutex_unlock(&stub_lock);
    return is;
}

/* Begins to capture into a graph, or ends it. */
int stream_capture(const char *name, struct stream *stream, struct graph **captured, int begin)
{
    int code = object_check(name, STREAM, stream, context_current());
    if (code) return code;
    if (begin ? stream->captured != 0 : !stream->captured) return ILLEGAL_STATE;
    struct graph *before = stream->captured;
    stream->captured = begin ? *captured : 0;
    *captured = before;
    return 0;
}

/* Holds the work of all streams but the null stream, or lets it be done. */
void stub_hold(int is)
{
    pthread_mutex_lock(&stub_lock);
    is_held = is;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&stub_lock);
}

static struct stream *make(enum kind kind, struct context *context)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    static unsigned count;
    pthread_t thread;
    pthread_once(&once, draw_seed);
    struct stream *own = object_make(kind, sizeof *own, context);
    own->last = &own->first;
    pthread_mutex_lock(&stub_lock);
    own->random = seed + ++count * 2654435761u;
    own->next = streams;
    streams = own;
    pthread_mutex_unlock(&stub_lock);
    if (pthread_create(&thread, 0, work, own)) abort();
    pthread_detach(thread);
    return own;
}

/* The null stream, which other streams don't wait for, as they are made here. */
static struct stream *null_stream(struct context *context)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&lock);
    if (!context->null) context->null = make(NULL_STREAM, context);
    pthread_mutex_unlock(&lock);
    return context->null;
}

int cuStreamCreate(struct stream **to, unsigned flags)
{
    ENTER;
    if (flags != 1) REFUSE(INVALID_VALUE, "a stream that waits for the null stream");
    *to = make(STREAM, context);
    return 0;
}

int cuStreamSynchronize(struct stream *stream)
{
    ENTER;
    if (stream) CHECK(STREAM, stream);
    drain(stream ? stream : null_stream(context));
    return context->sticky;
}

/* Returns before it is done. */
int cuMemsetD8_v2(address at, unsigned char value, size_t bytes)
{
    ENTER;
    if (!allocation_has(at, bytes, context)) REFUSE(INVALID_VALUE, "not in an allocation");
    put(null_stream(context),
        &(struct node){ .kind = SET, .to = at, .from = value, .bytes = bytes }, 0);
    return 0;
}

/* Work queued on the stream is still done. */
int cuStreamDestroy_v2(struct stream *stream)
{
    ENTER;
    CHECK(STREAM, stream);
    object_destroy(stream);
    pthread_mutex_lock(&stub_lock);
    stream->is_ended = 1;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&stub_lock);
    return 0;
}

int cuStreamQuery(struct stream *stream)
{
    ENTER;
    CHECK(STREAM, stream);
    if (stream->captured) return CAPTURE_UNSUPPORTED;
    pthread_mutex_lock(&stub_lock);
    int is_busy = stream->first != 0;
    pthread_mutex_unlock(&stub_lock);
    return is_busy ? NOT_READY : 0;
}

int cuEventCreate(struct event **to, unsigned flags)
{
    ENTER;
    if (flags != 2) REFUSE(INVALID_VALUE, "an event that takes the time");
    *to = object_make(EVENT, sizeof **to, context);
    return 0;
}

int cuEventRecord(struct event *event, struct stream *stream)
{
    ENTER;
    CHECK(EVENT, event);
    CHECK(STREAM, stream);
    if (stream->captured) event->recorded = -1;
    else put(stream, 0, event);
    return 0;
}

int cuEventDestroy_v2(struct event *event)
{
    ENTER;
    CHECK(EVENT, event);
    object_destroy(event);
    return 0;
}

int cuEventQuery(struct event *event)
{
    ENTER;
    CHECK(EVENT, event);
    pthread_mutex_lock(&stub_lock);
    int code = event->recorded < 0      ? CAPTURED_EVENT
        : event->done < event->recorded ? NOT_READY
                                        : context->sticky;
    pthread_mutex_unlock(&stub_lock);
    return code;
}

int cuMemcpyHtoDAsync_v2(address to, const void *from, size_t bytes, struct stream *stream)
{
    ENTER;
    return stream_give(__func__, stream,
        &(struct node){ .kind = COPY_IN, .to = to, .from = (address)from, .bytes = bytes });
}

int cuMemcpyDtoHAsync_v2(void *to, address from, size_t bytes, struct stream *stream)
{
    ENTER;
    return stream_give(__func__, stream,
        &(struct node){ .kind = COPY_OUT, .to = (address)to, .from = from, .bytes = bytes });
}

/* `CUDA_MEMCPY2D`. */
struct rows_memory {
    size_t x, y;
    int kind;
    void *host;
    address device;
    void *array;
    size_t pitch;
};
struct copy_rows { struct rows_memory from, to; size_t width, count; };

int cuMemcpy2DAsync_v2(const struct copy_rows *copy, struct stream *stream)
{
    enum { HOST = 1, DEVICE = 2 };
    ENTER;
    const struct rows_memory *from = &copy->from, *to = &copy->to;
    int is_in = from->kind == HOST && to->kind == DEVICE;
    if (!is_in && (from->kind != DEVICE || to->kind != HOST))
        REFUSE(INVALID_VALUE, "not between host and device");
    if (from->x || from->y || to->x || to->y || from->pitch != to->pitch)
        REFUSE(INVALID_VALUE, "rows that the program has no use for");
    if (!copy->width || !copy->count || copy->width > from->pitch)
        REFUSE(INVALID_VALUE, "rows that overlap");
    if (stream && stream->captured)
        REFUSE(CAPTURE_UNSUPPORTED, "a graph's copies of rows can't be changed");
    struct node node = {
        .kind = is_in ? COPY_IN : COPY_OUT, .width = copy->width, .pitch = from->pitch
    };
    node.from = is_in ? (address)from->host : from->device;
    node.to = is_in ? to->device : (address)to->host;
    node.bytes = from->pitch * (copy->count - 1) + copy->width;
    return stream_give(__func__, stream, &node);
}
