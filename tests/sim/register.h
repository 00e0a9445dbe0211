/* What clients saw of a counter that each raises by one: reads it somewhere, maybe an old value,
 * and has it changed if it is still what it was (S13). Whether any order of events explains that.
 * Knows nothing of the world. A counter's values are their own order, so nothing has to be searched
 * for. */
#ifndef HOLDFAST_TESTS_SIM_REGISTER_H
#define HOLDFAST_TESTS_SIM_REGISTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define REGISTER_NEVER UINT64_MAX

enum register_outcome {
    REGISTER_RAISED,   /* `seen` became `seen` + 1 */
    REGISTER_CONFLICT, /* it was answered that the counter is not `seen` any more */
    REGISTER_UNKNOWN   /* it was raised at some time after the call, or never */
};

struct register_op {
    enum register_outcome outcome;
    int client;
    bool alone;    /* no other name was compared: a conflict is about this one */
    bool is_built; /* `seen` is a change that was submitted before; it may have been refused */
    uint64_t seen; /* at its call, on some node */
    uint64_t call_us;
    uint64_t return_us; /* REGISTER_NEVER: unknown */
};

/* Sorts them. False: `problem` says what cannot have been. */
bool register_check(struct register_op *ops, size_t count, char *problem, size_t size);

#endif
