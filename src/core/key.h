/* Keys, counters and transactions in the state (S13), for the files of core/ only; a part of
 * core/state.h. */
#ifndef HOLDFAST_CORE_KEY_H
#define HOLDFAST_CORE_KEY_H

#include "core/ring.h"
#include "core/view.h"

/* A number under a name that is no lock (S13.5). */
struct counter {
    ref next;
    struct links ring; /* in the order they were made */
    uint32_t tenant;
    uint32_t name_len;
    int64_t number;
    uint64_t change; /* the number of its last change; rises over all counters */
    char name[];
};

/* A transaction that was applied and what was answered, by its id (S13.6). */
struct done_transact {
    uint32_t tenant;
    uint32_t count;
    uint8_t outcome;
    uint8_t reason;
    struct id id;
    uint64_t digest;
    uint64_t token;
    uint64_t deadline_ms;
};

/* ---- key.c: names as keys, counters (S13) ---- */
void key_view_fill(const struct core *c, uint32_t tenant, struct slice name, struct key_view *out);
struct counter *counter_find(const struct core *c, uint32_t tenant, struct slice name);
/* A new one, of the number 0 and never changed. */
ref counter_add(struct core *c, uint32_t tenant, struct slice name);
void counter_remove(struct core *c, struct counter *counter);
struct slice counter_name(const struct counter *counter);

/* ---- transact.c ---- */
void apply_transact(struct core *c, const struct command *cmd, struct result *out);
const struct done_transact *transact_find(const struct core *c, struct id id);
void transact_add(struct core *c, const struct done_transact *done);

#endif
