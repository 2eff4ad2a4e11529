/* The part of the CUDA driver's interface that the device uses, over host memory, for machines without a GPU: what is
 * checked is that every call gets what cuda.h says, on a thread that has the context. Copies and launches are done at once, the
 * latter by what the stub of NVRTC made; an event is done when it was asked twice. With $STUB_LOST every event says what a
 * kernel's bad address makes of a context. A test may ask how often a function was called, and have its next call fail. */

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef unsigned long long address;

enum { INVALID_VALUE = 1, OUT_OF_MEMORY = 2, INVALID_IMAGE = 200, INVALID_CONTEXT = 201, NO_BINARY_FOR_GPU = 209, NOT_FOUND = 500, NOT_READY = 600, ILLEGAL_ADDRESS = 700,
       CAPTURE_UNSUPPORTED = 900, CAPTURE_INVALIDATED = 901, CAPTURED_EVENT = 907, UPDATE_FAILURE = 910, ILLEGAL_STATE = 401 };

static char context;
static __thread void *current;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Functions that were called or are to fail: how often they did not, and what their next call gives. */
static struct called { char name[64]; int times, next; } called[32];

static struct called *of(const char *name)
{
    struct called *at = called;
    while (at->name[0] && strcmp(at->name, name)) at++;
    strcpy(at->name, name);
    return at;
}

int stub_times(const char *name) { return of(name)->times; }
void stub_fail(const char *name, int code) { of(name)->next = code; }

static int fate(const char *name)
{
    pthread_mutex_lock(&lock);
    struct called *own = of(name);
    int code = own->next;
    own->next = 0;
    own->times += !code;
    pthread_mutex_unlock(&lock);
    return code;
}

#define NEEDS_CONTEXT if (current != &context) return INVALID_CONTEXT
#define CALLED NEEDS_CONTEXT; { int code = fate(__func__); if (code) return code; }

/* A copy or a launch, with what it was given. */
enum { COPY_IN, COPY_OUT, KERNEL, NODES_MAX = 4096, VALUES_MAX = 32 };
struct function { void (*run)(unsigned long long **, unsigned); unsigned values, shared_max; };
struct node { int kind; address to, from; size_t bytes; struct function *function; unsigned groups; unsigned long long values[VALUES_MAX]; };
struct graph { int count; struct node nodes[NODES_MAX]; };
struct stream { struct graph *captured; int is_broken; };

static void execute(const struct node *node)
{
    unsigned long long values[VALUES_MAX], *pointers[VALUES_MAX];
    if (node->kind != KERNEL) { memcpy((void *)node->to, (void *)node->from, node->bytes); return; }
    memcpy(values, node->values, sizeof values);
    for (int i = 0; i < VALUES_MAX; i++) pointers[i] = values + i;
    node->function->run(pointers, node->groups);
}

static int capture(struct stream *stream, const struct node *node);

static int give(struct stream *stream, const struct node *node)
{
    if (!stream) return INVALID_VALUE;
    if (stream->captured) return capture(stream, node);
    execute(node);
    return 0;
}

/* Host memory that is registered. */
static struct range { char *at; size_t bytes; struct range *next; } *registered;
static int is_registered(address at, size_t bytes);

int cuInit(unsigned flags) { return flags ? INVALID_VALUE : 0; }
int cuDriverGetVersion(int *version) { *version = 13000; return 0; }
int cuDeviceGetCount(int *count) { *count = 1; return 0; }
int cuDeviceGet(int *device, int ordinal) { *device = ordinal; return ordinal ? INVALID_VALUE : 0; }
int cuDeviceGetName(char *name, int size, int device) { snprintf(name, size, "stub"); return 0; }
int cuDeviceGetPCIBusId(char *name, int size, int device) { snprintf(name, size, "0000:01:00.0"); return 0; }
int cuDeviceGetUuid_v2(unsigned char *uuid, int device) { for (int i = 0; i < 16; i++) uuid[i] = 0x11 * i; return 0; }
int cuDeviceTotalMem_v2(size_t *bytes, int device) { *bytes = 1ull << 32; return 0; }

int cuDeviceGetAttribute(int *value, int attribute, int device)
{
    switch (attribute) {
    case 1: *value = 1024; break;                     /* threads of a block */
    case 16: case 19: *value = 1; break;              /* multiprocessors; maps host memory */
    case 75: *value = 9; break;                       /* compute capability 9.0 */
    case 97: *value = 227 * 1024; break;              /* shared memory of a block */
    default: *value = 0;
    }
    return 0;
}

int cuDevicePrimaryCtxRetain(void **to, int device) { *to = &context; return 0; }
int cuDevicePrimaryCtxRelease_v2(int device) { return 0; }
int cuCtxSetCurrent(void *to) { current = to; return 0; }
int cuMemGetInfo_v2(size_t *free, size_t *total) { NEEDS_CONTEXT; *free = 1 << 20; *total = 1ull << 32; return 0; }

int cuMemAlloc_v2(address *to, size_t bytes)
{
    NEEDS_CONTEXT;
    if (bytes > 1ull << 32) return OUT_OF_MEMORY;
    *to = (address)aligned_alloc(256, (bytes + 255) / 256 * 256);
    return *to ? 0 : OUT_OF_MEMORY;
}

int cuMemFree_v2(address at) { NEEDS_CONTEXT; free((void *)at); return 0; }

int cuMemHostRegister_v2(void *at, size_t bytes, unsigned flags)
{
    struct range *range = malloc(sizeof *range);
    NEEDS_CONTEXT;
    pthread_mutex_lock(&lock);
    *range = (struct range){ at, bytes, registered };
    registered = range;
    pthread_mutex_unlock(&lock);
    return flags == 3 ? 0 : INVALID_VALUE;
}

int cuMemHostUnregister(void *at)
{
    NEEDS_CONTEXT;
    pthread_mutex_lock(&lock);
    struct range **link = &registered;
    while (*link && (*link)->at != at) link = &(*link)->next;
    struct range *gone = *link;
    if (gone) *link = gone->next;
    free(gone);
    pthread_mutex_unlock(&lock);
    return 0;
}

int cuMemHostGetDevicePointer_v2(address *to, void *at, unsigned flags)
{
    CALLED;
    *to = (address)at;
    return !flags && is_registered((address)at, 1) ? 0 : INVALID_VALUE;
}

int cuModuleLoadData(void **module, const char *image)
{
    NEEDS_CONTEXT;
    int is_cubin = !memcmp(image, "\177ELF", 4);
    if (is_cubin && getenv("STUB_REFUSES_CUBINS")) return NO_BINARY_FOR_GPU;
    *module = is_cubin || !memcmp(image, "//  ", 4) ? dlopen(image + 4, RTLD_NOW) : 0;
    return *module ? 0 : INVALID_IMAGE;
}

int cuModuleUnload(void *module) { NEEDS_CONTEXT; dlclose(module); return 0; }

int cuModuleGetFunction(struct function **function, void *module, const char *name)
{
    char run[256], values[256];
    NEEDS_CONTEXT;
    snprintf(run, sizeof run, "wl_run_%s", name);
    snprintf(values, sizeof values, "wl_values_of_%s", name);
    const unsigned *count = dlsym(module, values);
    if (!dlsym(module, run) || !count || *count > VALUES_MAX) return NOT_FOUND;
    *function = malloc(sizeof **function);
    **function = (struct function){ dlsym(module, run), *count, 48 << 10 };
    return 0;
}

/* Of dynamic shared memory a kernel may have 48 KiB, or what was said. */
int cuFuncSetAttribute(struct function *function, int attribute, int value)
{
    NEEDS_CONTEXT;
    if (attribute != 8 || value > 227 << 10) return INVALID_VALUE;
    function->shared_max = value;
    return 0;
}

int cuStreamCreate(void **stream, unsigned flags) { NEEDS_CONTEXT; *stream = calloc(1, sizeof(struct stream)); return flags == 1 ? 0 : INVALID_VALUE; }
int cuStreamDestroy_v2(void *stream) { NEEDS_CONTEXT; free(stream); return 0; }
int cuStreamQuery(struct stream *stream) { NEEDS_CONTEXT; return stream->captured ? CAPTURE_UNSUPPORTED : 0; }
int cuEventCreate(void **event, unsigned flags) { NEEDS_CONTEXT; *event = calloc(1, sizeof(int)); return flags == 2 ? 0 : INVALID_VALUE; }

int cuEventRecord(int *event, struct stream *stream)
{
    NEEDS_CONTEXT;
    if (!stream) return INVALID_VALUE;
    *event = stream->captured ? -1 : 2;
    return 0;
}

int cuEventDestroy_v2(void *event) { NEEDS_CONTEXT; free(event); return 0; }

int cuEventQuery(int *event)
{
    NEEDS_CONTEXT;
    if (*event < 0) return CAPTURED_EVENT;
    if (*event > 0) { --*event; return NOT_READY; }
    return getenv("STUB_LOST") ? ILLEGAL_ADDRESS : 0;
}

int cuMemcpyHtoDAsync_v2(address to, const void *from, size_t bytes, struct stream *stream)
{
    CALLED;
    return give(stream, &(struct node){ COPY_IN, to, (address)from, bytes });
}

int cuMemcpyDtoHAsync_v2(void *to, address from, size_t bytes, struct stream *stream)
{
    CALLED;
    return give(stream, &(struct node){ COPY_OUT, (address)to, from, bytes });
}

int cuLaunchKernel(struct function *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared,
                   struct stream *stream, void **values, void **extra)
{
    struct node node = { KERNEL, .function = function, .groups = gx };
    CALLED;
    if (gy != 1 || gz != 1 || !bx || by != 1 || bz != 1 || shared > function->shared_max || !stream || extra) return INVALID_VALUE;
    for (unsigned i = 0; i < function->values; i++) node.values[i] = *(unsigned long long *)values[i];
    return give(stream, &node);
}

int cuGetErrorName(int code, const char **text) { *text = code == ILLEGAL_ADDRESS ? "CUDA_ERROR_ILLEGAL_ADDRESS" : "CUDA_ERROR"; return 0; }
int cuGetErrorString(int code, const char **text) { *text = "says the stub"; return 0; }
