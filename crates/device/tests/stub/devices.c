/* Devices and their primary contexts: cuInit, cuDevice*, cuDevicePrimaryCtx*, cuCtx*. $STUB_DEVICES
 * names the kind of each (discrete, integrated, unmapped), $STUB_CAPABILITY their compute
 * capability, $STUB_DRIVER the driver's version. */

#include "stub.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEVICES_MAX = 8 };
enum { DISCRETE, INTEGRATED, UNMAPPED };

static int is_started, device_count;
static int kinds[DEVICES_MAX];
static struct context contexts[DEVICES_MAX];
static __thread struct context *current;

static int number_of(const char *name, int usual)
{
    const char *text = getenv(name);
    return text && *text ? atoi(text) : usual;
}

int device_maps_host_memory(int device) { return kinds[device] != UNMAPPED; }
int device_capability(int device) { (void)device; return number_of("STUB_CAPABILITY", 90); }

static void read_devices(void)
{
    const char *text = getenv("STUB_DEVICES");
    char names[256], *rest = 0;
    snprintf(names, sizeof names, "%s", text ? text : "discrete");
    for (char *name = strtok_r(names, ",", &rest); name && device_count < DEVICES_MAX;
        name = strtok_r(0, ",", &rest)) {
        kinds[device_count] = !strcmp(name, "integrated") ? INTEGRATED
            : !strcmp(name, "unmapped")                   ? UNMAPPED
                                                          : DISCRETE;
        contexts[device_count].device = device_count;
        device_count++;
    }
}

#define STARTED                                                                      \
    {                                                                                \
        int code = is_started ? call_fate(__func__)                                  \
                              : misused(__func__, NOT_INITIALIZED, "before cuInit"); \
        if (code) return code;                                                       \
    }
#define KNOWN(device) \
    if (device < 0 || device >= device_count) REFUSE(INVALID_DEVICE, "no such device")

int cuInit(unsigned flags)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    int code = call_fate(__func__);
    if (code || flags) return code ? code : INVALID_VALUE;
    pthread_once(&once, read_devices);
    is_started = 1;
    return 0;
}

int cuDriverGetVersion(int *version)
{
    int code = call_fate(__func__);
    if (!code) *version = number_of("STUB_DRIVER", 13000);
    return code;
}

int cuDeviceGetCount(int *count) { STARTED; *count = device_count; return 0; }
int cuDeviceGet(int *device, int ordinal) { STARTED; KNOWN(ordinal); *device = ordinal; return 0; }
int cuDeviceGetName(char *name, int size, int device)
{
    STARTED;
    KNOWN(device);
    snprintf(name, size, "stub");
    return 0;
}
int cuDeviceTotalMem_v2(size_t *bytes, int device)
{
    STARTED;
    KNOWN(device);
    *bytes = 1ull << CAPACITY_BITS;
    return 0;
}

int cuDeviceGetPCIBusId(char *name, int size, int device)
{
    STARTED;
    KNOWN(device);
    snprintf(name, size, "0000:%02x:00.0", device + 1);
    return 0;
}

int cuDeviceGetUuid_v2(unsigned char *uuid, int device)
{
    STARTED;
    KNOWN(device);
    for (int i = 0; i < 16; i++) uuid[i] = 0x11 * i + device;
    return 0;
}

int cuDeviceGetAttribute(int *value, int attribute, int device)
{
    STARTED;
    KNOWN(device);
    switch (attribute) {
    case 1: *value = 1024; break;                               /* threads of a block */
    case 16: *value = 1; break;                                 /* multiprocessors */
    case 18: *value = kinds[device] == INTEGRATED; break;
    case 19: *value = device_maps_host_memory(device); break;        /* maps host memory */
    case 75: *value = device_capability(device) / 10; break;
    case 76: *value = device_capability(device) % 10; break;
    case 97: *value = 227 * 1024; break;                        /* shared memory of a block */
    case 99: *value = 1; break;                                 /* page-locks host memory */
    default: *value = 0;
    }
    return 0;
}

int cuDevicePrimaryCtxRetain(struct context **to, int device)
{
    STARTED;
    KNOWN(device);
    pthread_mutex_lock(&stub_lock);
    contexts[device].retained++;
    pthread_mutex_unlock(&stub_lock);
    *to = &contexts[device];
    return 0;
}

int cuDevicePrimaryCtxRelease_v2(int device)
{
    STARTED;
    KNOWN(device);
    pthread_mutex_lock(&stub_lock);
    int is_retained = contexts[device].retained > 0;
    contexts[device].retained -= is_retained;
    pthread_mutex_unlock(&stub_lock);
    if (!is_retained) REFUSE(INVALID_CONTEXT, "released more often than retained");
    return 0;
}

int cuCtxSetCurrent(struct context *to)
{
    STARTED;
    if (to && (to < contexts || to >= contexts + device_count || !to->retained))
        REFUSE(INVALID_CONTEXT, "no context");
    current = to;
    return 0;
}

struct context *context_current(void) { return current && current->retained ? current : 0; }

int context_enter(const char *name, struct context **to)
{
    *to = context_current();
    if (!*to) return misused(name, INVALID_CONTEXT, "no context is current on this thread");
    int code = __atomic_load_n(&(*to)->sticky, __ATOMIC_SEQ_CST);
    if (!code) code = call_fate(name);
    if (is_loss(code)) __atomic_store_n(&(*to)->sticky, code, __ATOMIC_SEQ_CST);
    return code;
}

/* From now on all calls on a context give this. */
void stub_lose(int code)
{
    for (int i = 0; i < device_count; i++)
        __atomic_store_n(&contexts[i].sticky, code, __ATOMIC_SEQ_CST);
}

/* How many contexts are retained. */
int stub_contexts(void)
{
    int count = 0;
    for (int i = 0; i < device_count; i++) count += contexts[i].retained > 0;
    return count;
}

int cuGetErrorName(int code, const char **text)
{
    *text = code == ILLEGAL_ADDRESS ? "CUDA_ERROR_ILLEGAL_ADDRESS" : "CUDA_ERROR";
    return 0;
}

int cuGetErrorString(int code, const char **text) { (void)code; *text = "says the stub"; return 0; }
