/* What the tests of transactions share: a core, and a transaction that is put together piece by
 * piece. To be included first and once. */
#ifndef HOLDFAST_TESTS_TRANSACT_WORLD_H
#define HOLDFAST_TESTS_TRANSACT_WORLD_H

#include "base_testing.h"

#include "core/snapshot.h"
#include "core/view.h"

#include "../support/core_harness.h"

struct world {
    struct core *core;
    uint64_t index;
    uint64_t now_ms;
    uint64_t ids;
    uint32_t published;
    struct result result;
    char name[64];
    /* The transaction that is being put together. */
    uint8_t check_bytes[4096];
    uint8_t effect_bytes[16384];
    struct packer checks;
    struct packer effects;
};

static inline void on_event(void *ctx, const struct event *e)
{
    struct world *w = ctx;
    if (e->type == EVENT_PUBLISHED) {
        assert_true(slice_equal(e->name, slice_of("topic")));
        assert_true(slice_equal(e->text, slice_of("\xff")));
        w->published++;
    }
}

static inline void pass(struct world *w, uint64_t ms)
{
    w->now_ms += ms;
    core_begin(w->core, ++w->index, w->now_ms, w->now_ms);
}

static inline void fresh(struct world *w)
{
    w->checks = packer_make(w->check_bytes, sizeof(w->check_bytes));
    w->effects = packer_make(w->effect_bytes, sizeof(w->effect_bytes));
}

static inline int setup(void **state)
{
    struct world *w = calloc(1, sizeof(*w));
    assert_non_null(w);
    w->core = core_new(&(struct core_options){.memory = memory_system(),
                                              .hash_key = 1,
                                              .on_event = on_event,
                                              .event_ctx = w,
                                              .version = CORE_VERSION});
    pass(w, 1000);
    fresh(w);
    *state = w;
    return 0;
}

static inline int teardown(void **state)
{
    struct world *w = *state;
    assert_null(core_check_invariants(w->core));
    core_free(w->core);
    free(w);
    return 0;
}

static inline struct key_view look(const struct world *w, const char *name)
{
    struct key_view view;
    view_key(w->core, 0, slice_of(name), &view);
    return view;
}

/* ---- putting one together ---- */

static inline void expect(struct world *w, const char *name, struct key_version version)
{
    assert_true(pack_check(&w->checks, &(struct key_check){slice_of(name), version}));
}

static inline void effect(struct world *w, struct effect e)
{
    assert_true(pack_effect(&w->effects, &e));
}

static inline void put(struct world *w, const char *name, const char *value, uint32_t ttl_ms)
{
    effect(w, (struct effect){.kind = EFFECT_PUT,
                              .name = slice_of(name),
                              .value = slice_of(value),
                              .lease = {++w->ids, 7},
                              .ttl_ms = ttl_ms});
}

static inline void drop(struct world *w, const char *name, uint32_t flags)
{
    effect(w, (struct effect){.kind = EFFECT_DROP, .name = slice_of(name), .flags = flags});
}

static inline void set_counter(struct world *w, const char *name, int64_t number)
{
    effect(w, (struct effect){.kind = EFFECT_COUNTER, .name = slice_of(name), .number = number});
}

static inline void send(struct world *w, uint64_t id)
{
    struct command c;
    command_init(&c, COMMAND_TRANSACT);
    c.transact.id = (struct id){id, 9};
    c.transact.client = slice_of("resp");
    c.transact.actor = slice_of("resp");
    c.transact.reason = slice_of("DEL");
    c.transact.checks = packer_list(&w->checks);
    c.transact.effects = packer_list(&w->effects);
    core_apply(w->core, &c, &w->result);
    (void)snprintf(w->name, sizeof(w->name), "%.*s", (int)w->result.name.len,
                   (const char *)w->result.name.data);
    assert_null(core_check_invariants(w->core));
}

static inline const struct result *run(struct world *w)
{
    send(w, ++w->ids);
    fresh(w);
    return &w->result;
}

static inline void assert_done(const struct result *r)
{
    assert_string_equal(hf_error_code(r->error), "ok");
    assert_string_equal(reason_name(r->reason), "ok");
    assert_int_equal(r->outcome, OUTCOME_DONE);
}

static inline void assert_refused(const struct world *w, const char *reason, const char *name)
{
    assert_string_equal(hf_error_code(w->result.error), "ok");
    assert_int_equal(w->result.outcome, OUTCOME_REFUSED);
    assert_string_equal(reason_name(w->result.reason), reason);
    assert_string_equal(w->name, name);
    assert_int_equal(w->result.count, 0);
}

static inline void acquire(struct world *w, const char *name, uint32_t mode, uint64_t wait_ms)
{
    struct command c;
    command_init(&c, COMMAND_ACQUIRE);
    c.acquire.lease = (struct id){++w->ids, 7};
    c.acquire.node = 1;
    c.acquire.client = slice_of("http");
    c.acquire.names.count = 1;
    c.acquire.names.at[0] = slice_of(name);
    c.acquire.mode = mode;
    c.acquire.ttl_ms = 10000;
    c.acquire.wait_ms = wait_ms;
    core_apply(w->core, &c, &w->result);
}

#endif
