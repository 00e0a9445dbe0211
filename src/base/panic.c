/* Ends the process with one line of place and reason. Only this file of base/ prints: no caller is
 * left to return an error to. */
#include "base/panic.h"

#include <stdio.h>
#include <stdlib.h>

_Noreturn void hf_panic(const char *file, int line, const char *what)
{
    fprintf(stderr, "holdfast: %s:%d: %s\n", file, line, what);
    fflush(stderr);
    abort();
}

_Noreturn void hf_stop(const char *what)
{
    fprintf(stderr, "holdfast: %s\n", what);
    fflush(stderr);
    _Exit(EXIT_FAILURE); /* no handlers: other threads still run */
}
