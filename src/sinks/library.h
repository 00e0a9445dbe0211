/* A shared library that is loaded only if a setting needs it: libcurl and its own libraries would add
 * 10 ms to the start of every command of the program, and a node without such a sink has less code
 * mapped. Loaded before the sandbox, never unloaded. */
#ifndef HOLDFAST_SINKS_LIBRARY_H
#define HOLDFAST_SINKS_LIBRARY_H

#include <stdbool.h>
#include <stddef.h>

struct library_function {
    const char *name;
    void *slot; /* a pointer to the function pointer */
};

/* `package`: of Debian, for the problem. */
bool library_load(const char *soname, const char *package, const struct library_function *functions,
                  size_t count, char *problem, size_t problem_size);

#endif
