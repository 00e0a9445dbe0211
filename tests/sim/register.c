/* The checker of counters, see register.h. */
#include "register.h"

#include <stdio.h>
#include <stdlib.h>

static int by_seen(const void *a, const void *b)
{
    const struct register_op *x = a;
    const struct register_op *y = b;
    if (x->seen != y->seen) {
        return x->seen < y->seen ? -1 : 1;
    }
    if (x->outcome != y->outcome) {
        return x->outcome < y->outcome ? -1 : 1;
    }
    return x->call_us < y->call_us ? -1 : x->call_us > y->call_us;
}

static bool bad(char *problem, size_t size, const struct register_op *op, const char *why)
{
    snprintf(problem, size, "%s: client %d saw %llu, called at %.6f s", why, op->client,
             (unsigned long long)op->seen, (double)op->call_us / 1e6);
    return false;
}

/* Those that saw one value, ops[0 .. count). `made_us`: not earlier was it there. On success
 * `*next_us` is the same for the value after it, REGISTER_NEVER: nobody made that. */
static bool check_value(const struct register_op *ops, size_t count, uint64_t made_us,
                        uint64_t *next_us, char *problem, size_t size)
{
    const struct register_op *raised = ops[0].outcome == REGISTER_RAISED ? &ops[0] : NULL;
    uint64_t first_call_us = REGISTER_NEVER; /* of whoever may have raised it */
    for (size_t i = 0; i < count; i++) {
        const struct register_op *op = &ops[i];
        /* What it was built on may have been refused, and the same number made by another later. */
        if ((op->is_built ? op->return_us : op->call_us) < made_us) {
            return bad(problem, size, op, "a value was seen before anybody can have made it");
        }
        if (op->outcome == REGISTER_RAISED && op != raised) {
            return bad(problem, size, op, "two raised the same value: a change is lost");
        }
        if (op->outcome != REGISTER_CONFLICT && op->call_us < first_call_us) {
            first_call_us = op->call_us;
        }
    }
    for (size_t i = 0; i < count; i++) {
        const struct register_op *op = &ops[i];
        if (op->outcome == REGISTER_CONFLICT && op->alone &&
            (raised != NULL ? raised->call_us : first_call_us) > op->return_us) {
            return bad(problem, size, op, "a conflict, though nobody had changed it");
        }
    }
    *next_us = raised != NULL ? raised->call_us : first_call_us;
    return true;
}

/* Leaves out what says nothing: what was built on a change that may never have been made, and was not
 * applied for sure. */
static size_t keep_certain(struct register_op *ops, size_t count)
{
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        if (!ops[i].is_built || ops[i].outcome != REGISTER_CONFLICT) {
            ops[kept++] = ops[i];
        }
    }
    return kept;
}

static bool are_all_doubtful(const struct register_op *ops, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (!ops[i].is_built || ops[i].outcome != REGISTER_UNKNOWN) {
            return false;
        }
    }
    return true;
}

bool register_check(struct register_op *ops, size_t count, char *problem, size_t size)
{
    uint64_t made_us = 0;
    uint64_t value = 0;
    count = keep_certain(ops, count);
    if (count > 0) {
        qsort(ops, count, sizeof(*ops), by_seen);
    }
    for (size_t i = 0; i < count;) {
        size_t end = i;
        while (end < count && ops[end].seen == ops[i].seen) {
            end++;
        }
        if (ops[i].seen != value || made_us == REGISTER_NEVER) {
            if (are_all_doubtful(ops + i, count - i)) {
                return true; /* none of them was made, nor what they were built on */
            }
            return bad(problem, size, &ops[i], "a value that nobody made");
        }
        uint64_t next_us = 0;
        if (!check_value(ops + i, end - i, made_us, &next_us, problem, size)) {
            return false;
        }
        made_us = next_us > made_us ? next_us : made_us;
        value++;
        i = end;
    }
    return true;
}
