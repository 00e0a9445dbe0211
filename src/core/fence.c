/* Fence check (S11): the highest token per (resource, slot), bounded. Surplus marks, lowest first,
 * are removed and raise the floor of their tenant. Resources without a mark are refused below the floor.
 *
 * Since version 4 a token that was never issued cannot become a mark or the floor: it would make
 * every later grant stale. An operator resets such marks of older versions. */
#include "core/state.h"

static struct slice mark_name(const struct fence_mark *f)
{
    return slice_make(f->name, f->name_len);
}

size_t fence_mark_size(const struct fence_mark *f)
{
    return sizeof(*f) + f->name_len;
}

struct fence_mark *fence_find(const struct core *c, uint32_t tenant, struct slice name,
                              uint32_t slot)
{
    ref obj = table_first(&c->fences, hash_fence(c, tenant, name, slot));
    while (obj != 0) {
        struct fence_mark *f = fence_mark_at(c, obj);
        if (f->tenant == tenant && f->slot == slot && slice_equal(mark_name(f), name)) {
            return f;
        }
        obj = f->next;
    }
    return NULL;
}

ref fence_add(struct core *c, uint32_t tenant, struct slice name, uint32_t slot, uint64_t token)
{
    hf_assert(name.len >= 1 && name.len <= LIMIT_NAME);
    hf_assert(token > 0 && token < LIMIT_NUMBER && slot < LIMIT_HOLDERS);
    ref obj = 0;
    struct fence_mark *f = pool_alloc(&c->pool, sizeof(*f) + name.len, &obj);
    f->tenant = tenant;
    f->slot = slot;
    f->token = token;
    f->name_len = (uint32_t)name.len;
    memcpy(f->name, name.data, name.len);
    table_insert(&c->fences, hash_fence(c, tenant, name, slot), obj);
    struct tenant *t = tenant_memory(c, tenant);
    heap_insert(&t->fence_heap, token, obj);
    t->fence_count++;
    c->remembered_bytes += pool_rounded(fence_mark_size(f));
    RING_APPEND(c, &t->fence_marks, obj, fence_mark, ring);
    core_step(c, 1);
    return obj;
}

/* No token above this bound can have been issued. C · 1024 is the newest of the log. The tier
 * without a log takes tokens of a C that the log reached before, at most 1,023 more (S3.1, decision
 * 22). The log does not record which, so some below the bound are issued later or never. */
uint64_t fence_issued_bound(const struct core *c)
{
    return c->counter * TOKEN_SCALE + (TOKEN_SCALE - 1);
}

static uint64_t at_most_issued(const struct core *c, uint64_t token)
{
    uint64_t bound = fence_issued_bound(c);
    return c->version >= 4 && token > bound ? bound : token;
}

/* Of a tenant without a share too. */
uint64_t fence_floor(const struct core *c, uint32_t tenant)
{
    uint64_t floor = tenant_memory_look(c, tenant)->fence_floor;
    return floor > c->fence_base ? floor : c->fence_base;
}

/* The floors of other tenants are of version 6, and never above the tokens that were issued. */
void fence_upgrade(struct core *c)
{
    c->own.fence_floor = at_most_issued(c, c->own.fence_floor);
    hf_assert(c->version < 4 || c->own.fence_floor <= fence_issued_bound(c));
}

static void drop_lowest(struct core *c, struct tenant *t)
{
    ref obj = heap_min(&t->fence_heap);
    hf_assert(obj != 0 && t->fence_count > LIMIT_FENCE_MARKS);
    const struct fence_mark *f = fence_mark_at(c, obj);
    uint64_t floor = at_most_issued(c, f->token);
    if (floor > t->fence_floor) {
        t->fence_floor = floor;
    }
    heap_remove(&t->fence_heap, f->position);
    t->fence_count--;
    table_remove(&c->fences, hash_fence(c, f->tenant, mark_name(f), f->slot), obj);
    RING_REMOVE(c, &t->fence_marks, obj, fence_mark, ring);
    hf_assert(c->remembered_bytes >= pool_rounded(fence_mark_size(f)));
    c->remembered_bytes -= pool_rounded(fence_mark_size(f));
    pool_free(&c->pool, obj, fence_mark_size(f));
    core_step(c, 1);
}

static void reject(struct core *c, const struct command *cmd, enum reason reason, uint64_t highest,
                   struct result *out)
{
    hf_assert(reason != REASON_NONE);
    tenant_memory(c, cmd->tenant)->fence_rejections++;
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
    struct tenant *t = tenant_memory(c, cmd->tenant);
    if (c->version >= 4 && f->token > fence_issued_bound(c)) {
        reject(c, cmd, REASON_NOT_ISSUED, mark == NULL ? t->fence_floor : mark->token, out);
        return;
    }
    if (mark == NULL) {
        if (f->token <= t->fence_floor) {
            reject(c, cmd, REASON_BELOW_FLOOR, t->fence_floor, out);
            return;
        }
        (void)fence_add(c, cmd->tenant, f->resource, f->slot, f->token);
        if (t->fence_count > LIMIT_FENCE_MARKS) {
            drop_lowest(c, t);
        }
    } else if (f->token < mark->token) {
        reject(c, cmd, REASON_STALE_TOKEN, mark->token, out);
        return;
    } else if (f->token > mark->token) {
        hf_assert(mark->position != 0);
        mark->token = f->token;
        heap_change(&t->fence_heap, mark->position, f->token);
    }
    hf_assert(t->fence_count <= LIMIT_FENCE_MARKS);
    out->accepted = true;
    out->highest = f->token;
}

void apply_fence_check(struct core *c, const struct command *cmd, struct result *out)
{
    hf_assert(cmd->type == COMMAND_FENCE_CHECK);
    request_once(c, cmd, 0, check_new, out);
}

/* Without a token, C rises and the mark is a token of no grant: every earlier grant is stale, every
 * later one of either tier is not. */
static void reset_new(struct core *c, const struct command *cmd, ref session, struct result *out)
{
    (void)session;
    const struct command_fence_reset *f = &cmd->fence_reset;
    uint8_t principal[PRINCIPAL_TEXT];
    struct slice actor = audit_actor(c, cmd, f->actor, principal);
    struct fence_mark *mark = fence_find(c, cmd->tenant, f->resource, f->slot);
    if (mark == NULL) {
        out->error = HF_FENCE_NOT_FOUND;
        return;
    }
    if (f->token > fence_issued_bound(c)) {
        out->error = HF_TOKEN_NOT_ISSUED;
        return;
    }
    uint64_t token = f->token != 0 ? f->token : counter_raise(c, 1) * TOKEN_SCALE;
    out->token = mark->token;
    struct tenant *t = tenant_memory(c, cmd->tenant);
    mark->token = token > t->fence_floor ? token : t->fence_floor; /* not below the floor */
    heap_change(&t->fence_heap, mark->position, mark->token);
    out->highest = mark->token;
    (void)audit_add(c, &(struct audit_entry){
                           AUDIT_FENCE_RESET, cmd->tenant, 0, {f->resource, actor, f->reason}});
    struct audit_record *record = audit_newest(c, cmd->tenant);
    hf_assert(record->action == AUDIT_FENCE_RESET);
    record->slot = f->slot;
    record->mark_before = out->token;
    record->mark_after = out->highest;
}

void apply_fence_reset(struct core *c, const struct command *cmd, struct result *out)
{
    hf_assert(cmd->type == COMMAND_FENCE_RESET);
    request_once(c, cmd, 0, reset_new, out);
}
