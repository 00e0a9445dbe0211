/* Fence check (S11): the highest token seen per (resource, slot), bounded. When there are too many
 * marks the lowest are dropped into one floor, below which unknown resources are refused. */
#include "core/state.h"

static struct slice mark_name(const struct fence_mark *f)
{
    return slice_make(f->name, f->name_len);
}

struct fence_mark *fence_find(const struct core *c, uint32_t tenant, struct slice name,
                              uint32_t slot)
{
    ref who = table_first(&c->fences, hash_fence(c, tenant, name, slot));
    while (who != 0) {
        struct fence_mark *f = fence_mark_at(c, who);
        if (f->tenant == tenant && f->slot == slot && slice_equal(mark_name(f), name)) {
            return f;
        }
        who = f->next;
    }
    return NULL;
}

ref fence_add(struct core *c, uint32_t tenant, struct slice name, uint32_t slot, uint64_t token)
{
    ref who = 0;
    struct fence_mark *f = pool_alloc(&c->pool, sizeof(*f) + name.len, &who);
    f->tenant = tenant;
    f->slot = slot;
    f->token = token;
    f->name_len = (uint32_t)name.len;
    memcpy(f->name, name.data, name.len);
    table_insert(&c->fences, hash_fence(c, tenant, name, slot), who);
    heap_insert(&c->fence_heap, token, who);
    RING_APPEND(c, &c->fence_ring, who, fence_mark, ring);
    core_step(c, 1);
    return who;
}

static void drop_lowest(struct core *c)
{
    ref who = heap_min(&c->fence_heap);
    const struct fence_mark *f = fence_mark_at(c, who);
    if (f->token > c->fence_floor) {
        c->fence_floor = f->token;
    }
    heap_remove(&c->fence_heap, f->position);
    table_remove(&c->fences, hash_fence(c, f->tenant, mark_name(f), f->slot), who);
    RING_REMOVE(c, &c->fence_ring, who, fence_mark, ring);
    pool_free(&c->pool, who, sizeof(*f) + f->name_len);
    core_step(c, 1);
}

static void reject(struct core *c, const struct command *cmd, enum reason reason, uint64_t highest,
                   struct result *out)
{
    c->fence_rejections++;
    out->outcome = OUTCOME_REFUSED;
    out->reason = reason;
    out->highest = highest;
    event_emit(c, &(struct event){.type = EVENT_FENCE_REJECTED,
                                  .tenant = cmd->tenant,
                                  .name = cmd->fence_check.resource,
                                  .slot = cmd->fence_check.slot,
                                  .token = cmd->fence_check.token,
                                  .reason = reason,
                                  .parts = 1});
}

static void check_new(struct core *c, const struct command *cmd, ref session, struct result *out)
{
    (void)session;
    const struct command_fence_check *f = &cmd->fence_check;
    struct fence_mark *mark = fence_find(c, cmd->tenant, f->resource, f->slot);
    if (mark == NULL) {
        if (f->token <= c->fence_floor) {
            reject(c, cmd, REASON_BELOW_FLOOR, c->fence_floor, out);
            return;
        }
        (void)fence_add(c, cmd->tenant, f->resource, f->slot, f->token);
        if (table_count(&c->fences) > LIMIT_FENCE_MARKS) {
            drop_lowest(c);
        }
    } else if (f->token < mark->token) {
        reject(c, cmd, REASON_STALE_TOKEN, mark->token, out);
        return;
    } else if (f->token > mark->token) {
        mark->token = f->token;
        heap_change(&c->fence_heap, mark->position, f->token);
    }
    out->accepted = true;
    out->highest = f->token;
}

void apply_fence_check(struct core *c, const struct command *cmd, struct result *out)
{
    request_once(c, cmd, 0, check_new, out);
}
