/* The end of the process when something that cannot happen has happened.
 *
 * A replica that goes on with broken state is worse than one that stopped, so these asserts stay
 * on in release builds, whatever NDEBUG says. */
#ifndef HOLDFAST_BASE_PANIC_H
#define HOLDFAST_BASE_PANIC_H

/* Prints `holdfast: FILE:LINE: WHAT` to stderr and aborts. */
_Noreturn void hf_panic(const char *file, int line, const char *what);

#define hf_assert(cond)                      \
    (__builtin_expect(!!(cond), 1) ? (void)0 \
                                   : hf_panic(__FILE__, __LINE__, "assertion failed: " #cond))

#endif
