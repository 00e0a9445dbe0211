/* Ends the process on a violated invariant. A replica that continues with broken state is worse
 * than one that stopped, so these asserts are on in release builds, regardless of NDEBUG. */
#ifndef HOLDFAST_BASE_PANIC_H
#define HOLDFAST_BASE_PANIC_H

/* Prints `holdfast: FILE:LINE: WHAT` to stderr and aborts. */
_Noreturn void hf_panic(const char *file, int line, const char *what);

/* Prints `holdfast: WHAT` to stderr and exits with status 1: the process cannot continue, and the
 * cause is outside of it, for example files that a newer version wrote. */
_Noreturn void hf_stop(const char *what);

#define hf_assert(cond)                      \
    (__builtin_expect(!!(cond), 1) ? (void)0 \
                                   : hf_panic(__FILE__, __LINE__, "assertion failed: " #cond))

#endif
