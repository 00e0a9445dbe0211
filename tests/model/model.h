/* The reference model: a second implementation of the lock state machine, written from
 * SEMANTICS.md and docs/CORE.md only, as plainly as possible. Lists are arrays, lookups are linear,
 * deadlines are computed when they are read. It is slow, and easy to compare with the rules.
 *
 * It takes the same input as core/core.h and gives the same `struct result` and `struct event`. */
#ifndef HF_TESTS_MODEL_MODEL_H
#define HF_TESTS_MODEL_MODEL_H

#include "core/core.h"
#include "core/view.h"

struct model;

/* The caller owns the result and frees it with model_free. */
struct model *model_new(uint32_t version, core_event_fn on_event, void *event_ctx);
void model_free(struct model *model);

void model_begin(struct model *model, uint64_t index, uint64_t time_ms, uint64_t wall_ms);

/* Applies one command. The result's slices live until the next call. `seen` is what the core
 * answered. It is looked at in one case only: a deadlock search may give up after a bounded number
 * of edges, and where a large graph allows both answers the model goes on with the core's. */
void model_apply(struct model *model, const struct command *command, const struct result *seen,
                 struct result *out);

/* The recovery of a lost majority (S3.3). */
void model_recover(struct model *model, struct slice actor, struct slice reason);

uint64_t model_now_ms(const struct model *model);
uint64_t model_counter(const struct model *model);
uint64_t model_epoch(const struct model *model);
uint32_t model_version(const struct model *model);
/* The earliest true deadline, now when something was left over, UINT64_MAX when nothing pends. */
uint64_t model_next_due_ms(const struct model *model);
/* The last sweep hit a limit: things may be past their deadline and not ended yet. */
bool model_has_backlog(const struct model *model);
/* Sessions of removed principals are left to be ended. */
bool model_has_purge(const struct model *model);
/* Names are left to be handed over. */
bool model_has_woken(const struct model *model);

/* What has been forgotten, of the things that are remembered in bounded memories. */
struct model_forgotten {
    bool audit;
    bool sessions;
    bool grants;
    bool requests;
    bool drawn_requests;
    bool operator_requests;
    bool fences;
    bool transacts;
};
struct model_forgotten model_forgotten(const struct model *model);

/* Only the counts that do not depend on how memory is laid out. */
void model_stats(const struct model *model, struct core_stats *out);

/* The same questions as core/view.h; lists come whole. */
bool model_view_lock(struct model *model, uint32_t tenant, struct slice name,
                     struct lock_view *out);
bool model_view_holders_and_waiters(struct model *model, uint32_t tenant, struct slice name,
                                    view_grant_fn on_grant, view_waiter_fn on_waiter, void *ctx);
void model_view_locks(struct model *model, view_lock_fn on_lock, void *ctx);
void model_view_sessions(struct model *model, view_session_fn on_session, void *ctx);
bool model_view_session(struct model *model, struct id id, struct session_view *out);
void model_view_audit(struct model *model, uint32_t tenant, uint64_t from, view_audit_fn on_record,
                      void *ctx);
void model_tenant_usage(struct model *model, uint32_t tenant, struct tenant_usage *out);
bool model_view_fence(struct model *model, uint32_t tenant, struct slice resource, uint32_t slot,
                      uint64_t *highest, uint64_t *floor);

/* The rule that counts for the name; the rules and the positions of sinks (S16). */
bool model_view_alert(const struct model *model, uint32_t tenant, struct slice name,
                      uint64_t *held_ms);
uint32_t model_alert_count(const struct model *model, uint32_t tenant);
void model_view_sinks(const struct model *model, view_sink_fn on_sink, void *ctx);
uint64_t model_wall_of(const struct model *model, uint64_t cluster_ms);

void model_view_key(struct model *model, uint32_t tenant, struct slice name, struct key_view *out);
typedef void (*model_counter_fn)(void *ctx, uint32_t tenant, struct slice name, int64_t number);
void model_view_counters(struct model *model, model_counter_fn on_counter, void *ctx);

/* What the driver needs to make up commands that have a chance. */
struct model_grant_info {
    uint32_t tenant;
    uint32_t principal;
    uint64_t token;
    struct id lease;
    struct id session; /* zero: private */
    struct slice client;
    struct slice name; /* the first */
    uint32_t parts;
    enum mode mode;
    uint32_t slot;
};
struct model_waiter_info {
    uint32_t tenant;
    uint32_t principal;
    struct id lease;
    struct id session; /* zero: private */
    uint64_t attachment;
    uint32_t node;
    struct slice name; /* the first */
};
size_t model_grant_count(const struct model *model);
void model_grant_at(const struct model *model, size_t i, struct model_grant_info *out);
size_t model_waiter_count(const struct model *model);
void model_waiter_at(const struct model *model, size_t i, struct model_waiter_info *out);

#endif
