/* Ends the process with one line that says where and why. It is the only place in base/ that
 * prints, because after it there is nobody left to hand an error to. */
#include "base/panic.h"

#include <stdio.h>
#include <stdlib.h>

_Noreturn void hf_panic(const char *file, int line, const char *what)
{
    fprintf(stderr, "holdfast: %s:%d: %s\n", file, line, what);
    fflush(stderr);
    abort();
}
