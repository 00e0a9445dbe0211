/* Keys, counters and transactions (S13); a part of core/state.h, for the files of core/ only. */
#ifndef HOLDFAST_CORE_KEY_H
#define HOLDFAST_CORE_KEY_H

#include "core/ring.h"
#include "core/view.h"

/* A name with a number, not a lock (S13.5). */
struct counter {
    uint8_t kind;
    uint8_t unused;
    uint16_t name_len;
    uint32_t tenant;
    ref next;
    struct links ring;    /* in the order of creation */
    uint32_t timer;       /* in the heap; 0: no deadline */
    uint64_t deadline_ms; /* 0: none */
    int64_t number;
    uint64_t change; /* number of its last change; rises over all counters */
    char name[];
};

/* An applied transaction and its answer (S13.6). */
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

/* ---- key.c ---- */
/* Of a grant's flags: the types of version 9 in a state of this version. */
bool key_types_ok(uint8_t flags, uint32_t version);
void key_view_fill(const struct core *c, uint32_t tenant, struct slice name, struct key_view *out);
/* Ignores one past its deadline (S1.7). */
struct counter *counter_find(const struct core *c, uint32_t tenant, struct slice name);
/* Includes one past its deadline that is not swept yet. */
struct counter *counter_find_any(const struct core *c, uint32_t tenant, struct slice name);
bool counter_is_dead(const struct core *c, const struct counter *counter);
/* Number 0, never changed. */
ref counter_add(struct core *c, uint32_t tenant, struct slice name);
/* 0: none. */
void counter_set_deadline(struct core *c, ref counter, uint64_t deadline_ms);
void counter_remove(struct core *c, ref counter);
/* In a backlog: removes it if it is dead; the name can be used again. */
void counter_prune(struct core *c, uint32_t tenant, struct slice name);
ref counter_ref(const struct core *c, uint32_t tenant, struct slice name); /* as counter_find */
struct slice counter_name(const struct counter *counter);

/* ---- transact.c ---- */
void apply_transact(struct core *c, const struct command *cmd, struct result *out);
const struct done_transact *transact_find(const struct core *c, uint32_t tenant, struct id id);
void transact_add(struct core *c, const struct done_transact *done);
/* Adds it to the memory of its tenant; drops the oldest. */
void transact_remember(struct core *c, ref transact);

#endif
