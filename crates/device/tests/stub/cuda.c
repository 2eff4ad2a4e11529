/* The part of the CUDA driver's interface that the device uses, over host memory, for machines without a GPU: what is
 * checked is that every call gets what cuda.h says, on a thread that has the context. Copies and launches are done at once, the
 * latter by what the stub of NVRTC made; an event is done when it was asked twice. With $STUB_LOST every event says what a
 * kernel's bad address makes of a context. */

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef unsigned long long address;

enum { INVALID_VALUE = 1, OUT_OF_MEMORY = 2, INVALID_IMAGE = 200, INVALID_CONTEXT = 201, NOT_FOUND = 500, NOT_READY = 600, ILLEGAL_ADDRESS = 700 };

static char context;
static __thread void *current;

#define NEEDS_CONTEXT if (current != &context) return INVALID_CONTEXT

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
int cuMemHostRegister_v2(void *at, size_t bytes, unsigned flags) { NEEDS_CONTEXT; return flags == 3 ? 0 : INVALID_VALUE; }
int cuMemHostUnregister(void *at) { NEEDS_CONTEXT; return 0; }
int cuMemHostGetDevicePointer_v2(address *to, void *at, unsigned flags) { NEEDS_CONTEXT; *to = (address)at; return 0; }

int cuModuleLoadData(void **module, const char *image)
{
    NEEDS_CONTEXT;
    *module = memcmp(image, "\177ELF", 4) ? 0 : dlopen(image + 4, RTLD_NOW);
    return *module ? 0 : INVALID_IMAGE;
}

int cuModuleUnload(void *module) { NEEDS_CONTEXT; dlclose(module); return 0; }

int cuModuleGetFunction(void **function, void *module, const char *name)
{
    char run[256];
    NEEDS_CONTEXT;
    snprintf(run, sizeof run, "wl_run_%s", name);
    *function = dlsym(module, run);
    return *function ? 0 : NOT_FOUND;
}


/* The most dynamic shared memory that the last kernel may have of which it was said: 48 KiB is what each may. */
static unsigned shared_max = 48 << 10;
int cuFuncSetAttribute(void *function, int attribute, int value)
{
    NEEDS_CONTEXT;
    shared_max = value;
    return attribute == 8 && value <= 227 << 10 ? 0 : INVALID_VALUE;
}

int cuStreamCreate(void **stream, unsigned flags) { NEEDS_CONTEXT; *stream = malloc(1); return flags == 1 ? 0 : INVALID_VALUE; }
int cuStreamDestroy_v2(void *stream) { NEEDS_CONTEXT; free(stream); return 0; }
int cuStreamQuery(void *stream) { NEEDS_CONTEXT; return 0; }
int cuEventCreate(void **event, unsigned flags) { NEEDS_CONTEXT; *event = calloc(1, sizeof(int)); return flags == 2 ? 0 : INVALID_VALUE; }
int cuEventRecord(int *event, void *stream) { NEEDS_CONTEXT; *event = 2; return stream ? 0 : INVALID_VALUE; }
int cuEventDestroy_v2(void *event) { NEEDS_CONTEXT; free(event); return 0; }

int cuEventQuery(int *event)
{
    NEEDS_CONTEXT;
    if (*event > 0) { --*event; return NOT_READY; }
    return getenv("STUB_LOST") ? ILLEGAL_ADDRESS : 0;
}

int cuMemcpyHtoDAsync_v2(address to, const void *from, size_t bytes, void *stream)
{
    NEEDS_CONTEXT;
    memcpy((void *)to, from, bytes);
    return stream ? 0 : INVALID_VALUE;
}

int cuMemcpyDtoHAsync_v2(void *to, address from, size_t bytes, void *stream)
{
    NEEDS_CONTEXT;
    memcpy(to, (void *)from, bytes);
    return stream ? 0 : INVALID_VALUE;
}

int cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared,
                   void *stream, void **values, void **extra)
{
    NEEDS_CONTEXT;
    if (gy != 1 || gz != 1 || !bx || by != 1 || bz != 1 || shared > shared_max || !stream || extra) return INVALID_VALUE;
    ((void (*)(void **, unsigned))function)(values, gx);
    return 0;
}

int cuGetErrorName(int code, const char **text) { *text = code == ILLEGAL_ADDRESS ? "CUDA_ERROR_ILLEGAL_ADDRESS" : "CUDA_ERROR"; return 0; }
int cuGetErrorString(int code, const char **text) { *text = "says the stub"; return 0; }
