/* See library.h. */
#include "sinks/library.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

bool library_load(const char *soname, const char *package, const struct library_function *functions,
                  size_t count, char *problem, size_t problem_size)
{
    void *library = dlopen(soname, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        snprintf(problem, problem_size, "%s; install the package %s", dlerror(), package);
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        void *found = dlsym(library, functions[i].name);
        if (found == NULL) {
            snprintf(problem, problem_size, "%s has no %s: install a newer package %s", soname,
                     functions[i].name, package);
            return false;
        }
        /* POSIX: a pointer to a function has the representation of an object pointer. */
        memcpy(functions[i].slot, &found, sizeof(found));
    }
    return true;
}
