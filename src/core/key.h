/* Keys, counters and transactions in the state (S13), for the files of core/ only; a part of
 * core/state.h. */
#ifndef HOLDFAST_CORE_KEY_H
#define HOLDFAST_CORE_KEY_H

#include "core/ring.h"
#include "core/view.h"

/* A number under a name that is no lock (S13.5). */
struct counter {
    uint8_t kind;
    uint8_t unused;
    uint16_t name_len;
    uint32_t tenant;
    ref next;
    struct links ring;    /* in the order they were made */
    uint32_t timer;       /* position in the heap; 0 without a deadline */
    uint64_t deadline_ms; /* 0: none */
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
/* Ignores a counter past its deadline (S1.7). */
struct counter *counter_find(const struct core *c, uint32_t tenant, struct slice name);
/* The same, including one past its deadline that the sweep has not removed yet. */
struct counter *counter_find_any(const struct core *c, uint32_t tenant, struct slice name);
bool counter_is_dead(const struct core *c, const struct counter *counter);
/* Creates a counter with the number 0 that was never changed. */
ref counter_add(struct core *c, uint32_t tenant, struct slice name);
/* 0: none. */
void counter_set_deadline(struct core *c, ref counter, uint64_t deadline_ms);
void counter_remove(struct core *c, ref counter);
/* In a backlog: removes it if it is dead, so that the name can be used again. */
void counter_prune(struct core *c, uint32_t tenant, struct slice name);
ref counter_ref(const struct core *c, uint32_t tenant, struct slice name); /* as counter_find */
struct slice counter_name(const struct counter *counter);

/* ---- transact.c ---- */
void apply_transact(struct core *c, const struct command *cmd, struct result *out);
const struct done_transact *transact_find(const struct core *c, struct id id);
void transact_add(struct core *c, const struct done_transact *done);

#endif
