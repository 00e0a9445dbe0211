/* The flags of `lock` and `acquire` that say what to acquire, and how long to wait for it. */
#ifndef HOLDFAST_CLI_LOCK_FLAGS_H
#define HOLDFAST_CLI_LOCK_FLAGS_H

#include "cli/options.h"

enum { LOCK_NAMES_MAX = 64, LOCK_NAMES_TEXT = 64 * 514 };

struct lock_flags {
    bool no_wait;
    bool is_shared;
    bool is_exclusive;
    bool detect_deadlock;
    uint64_t wait_ms; /* UINT64_MAX: no limit */
    uint64_t permits;
    uint64_t limit;
    const char *tier;
    bool is_fast; /* set by lock_flags_check */
};

#define LOCK_FLAGS_DEFAULT    \
    {                         \
        .wait_ms = UINT64_MAX \
    }

#define LOCK_FLAGS_OPTIONS(type, at)                                                     \
    {"nonblock", 'n', FLAG_SWITCH(type, at.no_wait), NULL,                               \
     "do not wait: exit with 75 if it is held"},                                         \
        {"wait", 'w', FLAG_DURATION(type, at.wait_ms), "DURATION",                       \
         "maximum time to wait (default: no limit)"},                                    \
        {"shared", 's', FLAG_SWITCH(type, at.is_shared), NULL, "acquire a shared lock"}, \
        {"exclusive", 'x', FLAG_SWITCH(type, at.is_exclusive), NULL,                     \
         "acquire an exclusive lock (the default)"},                                     \
        {"limit", 'l', FLAG_NUMBER(type, at.limit), "N",                                 \
         "acquire a semaphore with N permits in total"},                                 \
    {                                                                                    \
        "permits", 'p', FLAG_NUMBER(type, at.permits), "K",                              \
            "with --limit: permits to acquire (default: 1)"                              \
    }
#define LOCK_TIER_OPTION(type, at)                                                      \
    {                                                                                   \
        "tier", 0, FLAG_TEXT(type, at.tier), "TIER",                                    \
            "correctness, or efficiency: faster, lost if the leader changes (default: " \
            "correctness)"                                                              \
    }

/* These print the problem as "COMMAND: ..." and return false; the exit code is EXIT_USAGE. */
bool lock_flags_check(const char *command, struct lock_flags *o);
/* Number of names, and modes that only take one. */
bool lock_flags_check_names(const char *command, const struct lock_flags *o, int names);

/* Names with a space between them. */
void lock_flags_join(char *out, size_t size, char *const *items, int count);

#endif
