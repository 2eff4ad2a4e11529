// A library that is looked for when the probe runs, so that it builds where there is only the compiler.
#pragma once

#include "measure.cuh"

#include <dlfcn.h>

struct Library {
    void* handle;
    explicit Library(const char* name) : handle(dlopen(name, RTLD_NOW)) {}
    template <class F> F* function(const char* name) const {
        return handle ? reinterpret_cast<F*>(dlsym(handle, name)) : nullptr;
    }
};
