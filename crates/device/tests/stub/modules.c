/* Modules that the stub of NVRTC compiled or that NVRTC made as PTX, and calls of their kernels:
 * cuModule*, cuFuncSetAttribute, cuLaunchKernel. PTX is interpreted (ptx_calls.h). Other kernels
 * are code of the host: they get the bytes that a device's address stands for, and all memory that
 * they have a pointer to counts as written. */

#include "ptx_calls.h"
#include "stub.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int run_host_code(const struct node *node)
{
    unsigned long long values[VALUES_MAX], *pointers[VALUES_MAX];
    const struct function *function = node->function;
    void (*code)(unsigned long long **, unsigned) = function->code;
    for (unsigned i = 0; i < function->values; i++) {
        address value = node->values[i];
        if (memory_is_device(value)) {
            if (!allocation_has(value, 1, function->object.context)) return ILLEGAL_ADDRESS;
            allocation_assume_written(value);
            value = (address)memory_backing(value);
        } else if (function->kinds[i] == 'p' && pages_of(value, 1) != PINNED)
            return ILLEGAL_ADDRESS;
        values[i] = value;
        pointers[i] = values + i;
    }
    code(pointers, node->groups);
    return 0;
}

int cuModuleLoadData(struct module **to, const char *image)
{
    ENTER;
    int is_cubin = !memcmp(image, "\177ELF", 4);
    if (is_cubin && getenv("STUB_REFUSES_CUBINS")) return NO_BINARY_FOR_GPU;
    void *library = is_cubin || !memcmp(image, "//  ", 4) ? dlopen(image + 4, RTLD_NOW) : 0;
    struct ptx_module *ptx = is_cubin || library ? 0 : ptx_open(image);
    if (!library && !ptx) return is_cubin ? NO_BINARY_FOR_GPU : INVALID_IMAGE;
    *to = object_make(MODULE, sizeof **to, context);
    (*to)->library = library;
    (*to)->ptx = ptx;
    return 0;
}

int cuModuleUnload(struct module *module)
{
    ENTER;
    CHECK(MODULE, module);
    stream_wait_idle(__func__, context);
    object_destroy(module);
    if (module->library) dlclose(module->library);
    if (module->ptx) ptx_unload(module->ptx);
    return 0;
}

static int run_ptx(const struct node *node)
{
    return ptx_call(node->function->code, node->groups, node->items, node->shared, node->values);
}

static int find_ptx(
    struct function **to, struct module *module, const char *name, struct context *context)
{
    const struct ptx_function *found = ptx_find(module->ptx, name);
    if (!found || ptx_parameters(found) > VALUES_MAX) return NOT_FOUND;
    *to = object_make(FUNCTION, sizeof **to, context);
    (*to)->module = module;
    (*to)->run = run_ptx;
    (*to)->code = (void *)found;
    (*to)->values = ptx_parameters(found);
    (*to)->shared_max = 48 << 10;
    return 0;
}

int cuModuleGetFunction(struct function **to, struct module *module, const char *name)
{
    char run[256], kinds[256];
    ENTER;
    CHECK(MODULE, module);
    if (module->ptx) return find_ptx(to, module, name, context);
    snprintf(run, sizeof run, "wl_run_%s", name);
    snprintf(kinds, sizeof kinds, "wl_kinds_of_%s", name);
    const char *own_kinds = dlsym(module->library, kinds);
    if (!dlsym(module->library, run) || !own_kinds || strlen(own_kinds) > VALUES_MAX)
        return NOT_FOUND;
    *to = object_make(FUNCTION, sizeof **to, context);
    (*to)->module = module;
    (*to)->run = run_host_code;
    (*to)->code = dlsym(module->library, run);
    (*to)->kinds = own_kinds;
    (*to)->values = strlen(own_kinds);
    (*to)->shared_max = 48 << 10;
    return 0;
}

/* Of dynamic shared memory a kernel may have 48 KiB, or what was said. */
int cuFuncSetAttribute(struct function *function, int attribute, int value)
{
    ENTER;
    CHECK(FUNCTION, function);
    if (attribute != 8 || value < 0 || value > 227 << 10)
        REFUSE(INVALID_VALUE, "more than a block may have");
    function->shared_max = value;
    return 0;
}

int cuLaunchKernel(struct function *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
    unsigned by, unsigned bz, unsigned shared, struct stream *stream, void **values, void **extra)
{
    ENTER;
    CHECK(FUNCTION, function);
    CHECK(MODULE, function->module);
    if (!gx || gx > 0x7fffffff || gy != 1 || gz != 1 || !bx || bx > 1024 || by != 1 || bz != 1
        || shared > function->shared_max || extra)
        REFUSE(INVALID_VALUE, "such a grid");
    struct node node = { CALL, .function = function, .groups = gx, .items = bx, .shared = shared };
    for (unsigned i = 0; i < function->values; i++)
        node.values[i] = *(unsigned long long *)values[i];
    return stream_give(__func__, stream, &node);
}
