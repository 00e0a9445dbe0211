/* What tests of the core share: snapshots as bytes, cores made from them, and fingerprints of
 * results and events, to see whether two cores say the same. */
#ifndef HOLDFAST_TESTS_SUPPORT_CORE_HARNESS_H
#define HOLDFAST_TESTS_SUPPORT_CORE_HARNESS_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/core.h"
#include "core/snapshot.h"

/* ---- bytes that grow ---- */

struct bytes {
    uint8_t *data;
    size_t len;
    size_t size;
};

static inline bool bytes_add(void *ctx, const void *data, size_t len)
{
    struct bytes *b = ctx;
    if (len == 0) {
        return true;
    }
    if (b->len + len > b->size) {
        b->size = (b->len + len) * 2;
        b->data = realloc(b->data, b->size);
        hf_assert(b->data != NULL);
    }
    memcpy(b->data + b->len, data, len);
    b->len += len;
    return true;
}

static inline void bytes_free(struct bytes *b)
{
    free(b->data);
    *b = (struct bytes){NULL, 0, 0};
}

static inline bool bytes_equal(const struct bytes *a, const struct bytes *b)
{
    return a->len == b->len && memcmp(a->data, b->data, a->len) == 0;
}

/* ---- snapshots ---- */

static inline struct bytes snapshot_of(const struct core *core)
{
    struct bytes out = {NULL, 0, 0};
    hf_assert(snapshot_write(core, bytes_add, &out));
    return out;
}

/* Restores from pieces of that size; NULL when it is refused, for the reason in `error` and
 * `problem`. */
static inline struct core *core_from(const struct core_options *options, const void *data,
                                     size_t len, size_t piece, enum hf_error *error,
                                     struct snapshot_problem *problem)
{
    struct snapshot_reader *reader = snapshot_reader_new(options);
    const uint8_t *at = data;
    for (size_t used = 0; used < len;) {
        size_t now = len - used < piece ? len - used : piece;
        if (snapshot_reader_feed(reader, at + used, now) != HF_OK) {
            break;
        }
        used += now;
    }
    struct core *core = NULL;
    memset(problem, 0, sizeof(*problem));
    *error = snapshot_reader_finish(reader, &core, problem);
    return core;
}

/* ---- fingerprints (FNV-1a, word by word) ---- */

static inline void print_number(uint64_t *print, uint64_t value)
{
    *print = (*print ^ value) * UINT64_C(0x100000001b3);
    *print ^= *print >> 29;
}

static inline void print_slice(uint64_t *print, struct slice text)
{
    print_number(print, text.len);
    for (size_t i = 0; i < text.len; i++) {
        print_number(print, text.data[i]);
    }
}

static inline void print_id(uint64_t *print, struct id id)
{
    print_number(print, id.high);
    print_number(print, id.low);
}

/* To be given to a core as on_event, with a uint64_t as context. */
static inline void print_event(void *ctx, const struct event *e)
{
    uint64_t *print = ctx;
    const uint64_t numbers[] = {e->type,    e->tenant, e->index,      e->ordinal,
                                e->part,    e->parts,  e->node,       e->at_ms,
                                e->wall_ms, e->token,  e->attachment, e->deadline_ms,
                                e->reason,  e->ended,  e->mode,       e->slot};
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        print_number(print, numbers[i]);
    }
    print_id(print, e->session);
    print_id(print, e->lease);
    print_slice(print, e->name);
    print_slice(print, e->client);
    print_slice(print, e->owner);
    print_slice(print, e->actor);
    print_slice(print, e->text);
    print_slice(print, e->trace);
}

static inline void print_result(uint64_t *print, const struct result *r)
{
    const uint64_t numbers[] = {r->type,
                                r->error,
                                r->outcome,
                                r->reason,
                                r->ended,
                                r->replayed,
                                r->deadlock_unchecked,
                                r->accepted,
                                r->mode,
                                r->token,
                                r->deadline_ms,
                                r->ttl_ms,
                                r->attachment,
                                r->wait_deadline_ms,
                                r->delayed_until_ms,
                                r->highest,
                                r->slot,
                                r->depth,
                                r->queue_length,
                                r->queue_position,
                                r->count,
                                r->more,
                                r->has_holder,
                                r->holders,
                                r->holder.mode,
                                r->holder.permits,
                                r->holder.since_ms,
                                r->holder.deadline_ms,
                                r->cycle_length};
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        print_number(print, numbers[i]);
    }
    print_id(print, r->lease);
    print_slice(print, r->holder.client);
    print_slice(print, r->holder.owner);
    print_slice(print, r->holder.metadata);
    print_slice(print, r->holder.trace);
    print_slice(print, r->reserved_for);
    print_slice(print, r->name);
    for (uint32_t i = 0; r->alive != NULL && i < r->count; i++) {
        print_number(print, r->alive[i]);
    }
    for (uint32_t i = 0; i < r->cycle_length; i++) {
        print_slice(print, r->cycle[i].client);
        print_slice(print, r->cycle[i].owner);
        print_slice(print, r->cycle[i].name);
    }
}

#endif
