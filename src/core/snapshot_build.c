/* The order of the records, and the records outside sessions (snapshot_build.h). */
#include "core/snapshot_build.h"

#include "base/text.h"
#include "core/invariants.h"
#include "core/policy.h"
#include "core/view.h"

/* Limit of memory that the untrusted first record reserves: 2^21 slots, 16 MiB. */
#define RESERVE_MAGNITUDE 21

const char undecodable[] = "it cannot be decoded";

bool is_plain_text(struct slice text, size_t min, size_t max)
{
    return text.len >= min && text.len <= max && text_is_plain(text);
}

bool is_ttl(uint64_t ttl_ms)
{
    return ttl_ms >= LIMIT_TTL_MIN_MS && ttl_ms <= LIMIT_TTL_MAX_MS;
}

bool is_key_ttl(const struct builder *b, uint64_t ttl_ms)
{
    return is_ttl(ttl_ms) || (key_ttl_is_valid(ttl_ms) && key_ttl_since(ttl_ms) <= b->c->version);
}

const char *record_name(enum record_type type)
{
    static const char *const names[RECORD_COUNT] = {"record",
#define X(symbol, name) #name,
                                                    SNAPSHOT_RECORDS(X)
#undef X
    };
    hf_assert((unsigned)type < RECORD_COUNT);
    return names[type];
}

void builder_init(struct builder *b, struct core *c)
{
    *b = (struct builder){.c = c};
    keyed_init(&b->sharers, c->memory);
    keyed_init(&b->waiters, c->memory);
}

void builder_close(struct builder *b)
{
    keyed_close(&b->sharers);
    keyed_close(&b->waiters);
}

const char *build_name(struct builder *b, uint32_t tenant, struct slice name, uint64_t mode,
                       uint64_t limit, ref *out)
{
    if (!text_is_name(name)) {
        return "its name is not valid";
    }
    if (mode >= MODE_COUNT) {
        return "its mode is unknown";
    }
    if (mode == MODE_SEMAPHORE ? limit == 0 || limit > LIMIT_HOLDERS : limit != 0) {
        return "its limit is out of range";
    }
    struct core *c = b->c;
    tenant_charge(c, tenant);
    uint32_t hash = hash_name(c, tenant, name);
    ref lock = lock_find_hashed(c, hash, tenant, name);
    if (lock == 0) {
        lock = lock_new(c, hash, tenant, name);
        lock_set_mode(c, lock, (enum mode)mode, (uint32_t)limit);
        lock_at(c, lock)->mode = (uint8_t)mode;
        if (mode == MODE_SHARED) {
            (void)lock_extra_make(c, lock); /* it counts the holders */
        }
    }
    const struct lock *l = lock_at(c, lock);
    if (l->mode != mode) {
        return "its name has another mode elsewhere";
    }
    if (mode == MODE_SEMAPHORE && lock_extra_at(c, l->extra)->limit != limit) {
        return "its name has another limit elsewhere";
    }
    *out = lock;
    return NULL;
}

const char *build_extra(struct builder *b, ref lock, struct lock_extra **out)
{
    const struct lock *l = lock_at(b->c, lock);
    if (l->extra == 0 && l->holders != 0) {
        return "its name has a holder whose flags exclude this record";
    }
    *out = lock_extra_make(b->c, lock);
    return NULL;
}

/* `until_ms` NULL: no time. */
static const char *read_name(struct builder *b, struct reader *r, ref *lock, uint64_t *until_ms)
{
    uint32_t tenant = read_u32(r);
    struct slice name = read_slice(r, LIMIT_NAME);
    uint8_t mode = read_u8(r);
    uint64_t limit = read_u64(r);
    if (until_ms != NULL) {
        *until_ms = read_u64(r);
    }
    if (!reader_done(r)) {
        return undecodable;
    }
    return build_name(b, tenant, name, mode, limit, lock);
}

static const char *build_delayed(struct builder *b, struct reader *r)
{
    ref lock = 0;
    uint64_t until_ms = 0;
    struct lock_extra *x = NULL;
    const char *wrong = read_name(b, r, &lock, &until_ms);
    wrong = wrong != NULL ? wrong : build_extra(b, lock, &x);
    if (wrong != NULL) {
        return wrong;
    }
    if (until_ms == 0 || until_ms >= SNAPSHOT_DEADLINE_END) {
        return "its time is out of range";
    }
    if (x->delayed_until_ms != 0) {
        return "its name is delayed twice";
    }
    x->delayed_until_ms = until_ms;
    RING_APPEND(b->c, &b->c->delayed, lock_at(b->c, lock)->extra, lock_extra, delayed);
    timer_set(b->c, lock, until_ms);
    return NULL;
}

static const char *build_woken(struct builder *b, struct reader *r)
{
    ref lock = 0;
    struct lock_extra *x = NULL;
    const char *wrong = read_name(b, r, &lock, NULL);
    wrong = wrong != NULL ? wrong : build_extra(b, lock, &x);
    if (wrong != NULL) {
        return wrong;
    }
    if (x->woken.next != 0) {
        return "its name is woken twice";
    }
    RING_APPEND(b->c, &b->c->woken, lock_at(b->c, lock)->extra, lock_extra, woken);
    return NULL;
}

static void reserve(struct table *t, uint8_t magnitude)
{
    table_reserve(t,
                  UINT64_C(1) << (magnitude < RESERVE_MAGNITUDE ? magnitude : RESERVE_MAGNITUDE));
}

static const char *build_state(struct builder *b, struct reader *r)
{
    struct core *c = b->c;
    c->index = read_u64(r);
    c->now_ms = read_u64(r);
    c->wall_ms = read_u64(r);
    c->counter = read_u64(r);
    c->epoch = read_u64(r);
    c->ticket = read_u64(r);
    c->attachment = read_u64(r);
    c->node_waiters_number = read_u64(r);
    c->own.audit_number = read_u64(r);
    c->own.fence_floor = read_u64(r);
    c->own.fence_rejections = read_u64(r);
    c->counter_change = snapshot_format_of(c->version) > 1 ? read_u64(r) : 0;
    uint8_t backlog = read_u8(r);
    c->backlog = backlog != 0;
    b->sessions_magnitude = read_u8(r);
    b->names_magnitude = read_u8(r);
    b->leases_magnitude = read_u8(r);
    c->fence_base = c->version >= TENANT_VERSION ? read_u64(r) : 0;
    if (!r->bad && reader_left(r) > 0 && snapshot_format_of(c->version) == 1) {
        return "it has more fields than this format: no released version wrote it";
    }
    if (!reader_done(r) || backlog > 1) {
        return undecodable;
    }
    const uint64_t numbers[] = {c->index,
                                c->now_ms,
                                c->wall_ms,
                                c->ticket,
                                c->attachment,
                                c->node_waiters_number,
                                c->own.audit_number,
                                c->own.fence_floor,
                                c->own.fence_rejections,
                                c->counter_change,
                                c->fence_base};
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        if (numbers[i] >= LIMIT_NUMBER) {
            return "a number is 2^53 or more";
        }
    }
    if (c->counter >= LIMIT_NUMBER >> 10) {
        return "the token counter is 2^43 or more";
    }
    if (c->version >= 4 && c->own.fence_floor > fence_issued_bound(c)) {
        return "the floor of the fence is above the tokens that were issued";
    }
    if (c->fence_base > c->own.fence_floor) {
        return "the floor of new tenants is above that of tenant 0";
    }
    reserve(&c->sessions, b->sessions_magnitude);
    reserve(&c->locks, b->names_magnitude);
    reserve(&c->leases, b->leases_magnitude);
    return c->epoch <= c->counter ? NULL : "the epoch is above the token counter";
}

static ref find_node_waiters(const struct core *c, uint64_t number)
{
    RING_EACH(c, obj, c->all_node_waiters, node_waiters, all)
    {
        if (node_waiters_at(c, obj)->number == number) {
            return obj;
        }
    }
    return 0;
}

static const char *build_node_waiters(struct builder *b, struct reader *r)
{
    struct core *c = b->c;
    uint64_t number = read_u64(r);
    uint32_t node = read_u32(r);
    uint8_t gone = read_u8(r);
    uint64_t until_ms = gone == 1 ? read_u64(r) : 0;
    if (!reader_done(r) || gone > 1) {
        return undecodable;
    }
    if (b->counts[RECORD_NODE_WAITERS] > LIMIT_NODES) {
        return "there are more than 64";
    }
    if (number == 0 || number > c->node_waiters_number ||
        (c->all_node_waiters != 0 && number <= node_waiters_at(c, c->all_node_waiters)->number)) {
        return "its number is out of order";
    }
    if (gone && (until_ms == 0 || until_ms >= SNAPSHOT_DEADLINE_END)) {
        return "its time is out of range";
    }
    RING_EACH(c, other, c->all_node_waiters, node_waiters, all)
    {
        if (!gone && !node_waiters_at(c, other)->gone && node_waiters_at(c, other)->node == node) {
            return "its node has two";
        }
    }
    ref obj = 0;
    struct node_waiters *node_waiters = pool_alloc(&c->pool, sizeof(*node_waiters), &obj);
    node_waiters->kind = KIND_NODE_WAITERS;
    node_waiters->gone = gone;
    node_waiters->node = node;
    node_waiters->number = number;
    node_waiters->until_ms = until_ms;
    RING_APPEND(c, &c->all_node_waiters, obj, node_waiters, all);
    c->shared_bytes += sizeof(*node_waiters);
    if (gone) {
        timer_set(c, obj, until_ms);
    }
    return NULL;
}

static const char *build_revisit(struct builder *b, struct reader *r)
{
    struct core *c = b->c;
    ref obj = find_node_waiters(c, read_u64(r));
    uint64_t attachment = read_u64(r);
    if (!reader_done(r)) {
        return undecodable;
    }
    if (obj == 0) {
        return "its list of waiters does not exist";
    }
    struct node_waiters *node_waiters = node_waiters_at(c, obj);
    if (!node_waiters->gone || node_waiters->revisit != 0) {
        return "its list of waiters is not to be visited, or occurs twice";
    }
    RING_EACH(c, waiter, node_waiters->waiters, waiter, in_node_waiters)
    {
        if (waiter_at(c, waiter)->attachment == attachment) {
            node_waiters->revisit = waiter;
            RING_APPEND(c, &c->revisits, obj, node_waiters, revisited);
            return NULL;
        }
    }
    return "its list of waiters has no such waiter";
}

static const char *build_policy(struct builder *b, struct reader *r)
{
    return policy_record_read(b->c->policy, b->counts[RECORD_POLICY] == 1, r);
}

static const char *build_wall_row(struct builder *b, struct reader *r)
{
    struct core *c = b->c;
    struct wall_row row;
    row.cluster_ms = read_u64(r);
    row.wall_ms = read_u64(r);
    if (!reader_done(r)) {
        return undecodable;
    }
    if (b->counts[RECORD_WALL_ROW] > LIMIT_WALL_ROWS) {
        return "there are more than 1,024";
    }
    if (!is_past(b, row.cluster_ms) || row.wall_ms >= LIMIT_NUMBER ||
        (c->wall_row_count > 0 &&
         c->wall_rows[c->wall_row_count - 1].cluster_ms >= row.cluster_ms)) {
        return "its time is out of order";
    }
    wall_row_add(c, &row);
    return NULL;
}

static const char *build_alert(struct builder *b, struct reader *r)
{
    struct core *c = b->c;
    uint32_t number = read_u32(r);
    struct slice prefix = read_slice(r, LIMIT_NAME);
    uint64_t held_ms = read_u64(r);
    if (!reader_done(r)) {
        return undecodable;
    }
    if (b->counts[RECORD_ALERT] > 1 && number < b->tenant) {
        return "its tenant is out of order";
    }
    b->tenant = number;
    tenant_charge(c, number);
    const struct tenant *t = tenant_get(c, number);
    if (t->alert_count > 0 &&
        slice_compare(alert_prefix(t->alerts[t->alert_count - 1]), prefix) >= 0) {
        return "its prefix is out of order";
    }
    if (!policy_prefix_is_valid(prefix) || held_ms < LIMIT_HELD_MIN_MS ||
        held_ms > LIMIT_HELD_MAX_MS) {
        return "it is not valid";
    }
    return alert_put(c, number, prefix, held_ms) ? NULL : "there are too many";
}

static const char *build_sink(struct builder *b, struct reader *r)
{
    struct sink_view known;
    struct slice name = read_slice(r, LIMIT_SINK_NAME);
    uint64_t index = read_u64(r);
    uint32_t ordinal = read_u32(r);
    if (!reader_done(r)) {
        return undecodable;
    }
    if (!is_plain_text(name, 1, LIMIT_SINK_NAME) || index >= LIMIT_NUMBER) {
        return "it is not valid";
    }
    if (view_sink(b->c, name, &known) || b->counts[RECORD_SINK] > LIMIT_SINKS) {
        return "its name comes twice, or there are too many";
    }
    sink_put(b->c, name, index, ordinal);
    return NULL;
}

static const char *build_end(struct builder *b, struct reader *r)
{
    uint64_t records = 0;
    for (int i = 0; i < RECORD_END; i++) {
        records += b->counts[i];
    }
    uint64_t said = read_u64(r);
    if (!reader_done(r)) {
        return undecodable;
    }
    return said == records ? NULL : "its counts do not match the records before it";
}

/* After all sessions: links the rings ordered by token, ticket or attachment number. */
static const char *link_all(struct builder *b)
{
    struct core *c = b->c;
    keyed_sort(&b->sharers);
    for (size_t i = 0; i < b->sharers.count; i++) {
        ref obj = b->sharers.at[i].who;
        RING_APPEND(c, &lock_at(c, grant_at(c, obj)->lock)->holders, obj, grant, in_lock);
    }
    keyed_sort(&b->waiters);
    if (!keyed_is_unique(&b->waiters)) {
        return "two waiters have the same ticket";
    }
    for (size_t i = 0; i < b->waiters.count; i++) {
        struct waiter *w = waiter_at(c, b->waiters.at[i].who);
        for (ref p = w->places; p != 0; p = place_at(c, p)->sibling) {
            const struct lock *l = lock_at(c, place_at(c, p)->lock);
            RING_APPEND(c, &lock_extra_at(c, l->extra)->queue, p, place, in_queue);
        }
        b->waiters.at[i].key = w->attachment;
    }
    keyed_sort(&b->waiters);
    if (!keyed_is_unique(&b->waiters)) {
        return "two waiters have the same attachment number";
    }
    for (size_t i = 0; i < b->waiters.count; i++) {
        ref obj = b->waiters.at[i].who;
        if (waiter_at(c, obj)->node_waiters != 0) {
            RING_APPEND(c, &node_waiters_at(c, waiter_at(c, obj)->node_waiters)->waiters, obj,
                        waiter, in_node_waiters);
        }
    }
    keyed_close(&b->sharers);
    keyed_close(&b->waiters);
    b->is_linked = true;
    return NULL;
}

static bool is_owned(enum record_type type)
{
    return type > RECORD_SESSION && type <= RECORD_WAITER;
}

/* Types are in the order of their numbers; each session starts a new run. */
static const char *check_order(struct builder *b, enum record_type type)
{
    bool begins = b->last == RECORD_NONE;
    if (begins != (type == RECORD_STATE)) {
        return "it is out of order";
    }
    if ((b->parts_left > 0) != (type == RECORD_PART)) {
        return b->parts_left > 0 ? "the parts of a multi-lock are missing before it"
                                 : "it belongs to no multi-lock";
    }
    if (is_owned(type) && b->session == 0) {
        return "it belongs to no session";
    }
    bool next_grant = type == RECORD_GRANT && b->last == RECORD_PART;
    bool next_session = type == RECORD_SESSION && is_owned(b->last);
    if (type < b->last && !next_grant && !next_session) {
        return "it is out of order";
    }
    return NULL;
}

static const char *before_record(struct builder *b, enum record_type type)
{
    const char *wrong = check_order(b, type);
    if (wrong != NULL || is_owned(type)) {
        return wrong;
    }
    if (b->session != 0) {
        wrong = session_complete(b);
        b->session = 0;
    }
    if (wrong == NULL && type > RECORD_WAITER && !b->is_linked) {
        wrong = link_all(b);
    }
    return wrong;
}

const char *builder_take(struct builder *b, enum record_type type, struct reader *r)
{
    static const char *(*const builders[RECORD_COUNT])(struct builder *, struct reader *) = {
        [RECORD_STATE] = build_state,
        [RECORD_NODE_WAITERS] = build_node_waiters,
        [RECORD_SESSION] = build_session,
        [RECORD_REPLY] = build_reply,
        [RECORD_GRANT] = build_grant,
        [RECORD_PART] = build_part,
        [RECORD_WAITER] = build_waiter,
        [RECORD_REVISIT] = build_revisit,
        [RECORD_DELAYED] = build_delayed,
        [RECORD_WOKEN] = build_woken,
        [RECORD_REQUEST] = build_done_request,
        [RECORD_DRAWN_REQUEST] = build_drawn_request,
        [RECORD_OPERATOR_REQUEST] = build_operator_request,
        [RECORD_ENDED_GRANT] = build_ended_grant,
        [RECORD_ENDED_SESSION] = build_ended_session,
        [RECORD_FENCE] = build_fence,
        [RECORD_AUDIT] = build_audit,
        [RECORD_COUNTER] = build_counter,
        [RECORD_TRANSACT] = build_transact,
        [RECORD_TENANT] = build_tenant,
        [RECORD_POLICY] = build_policy,
        [RECORD_WALL_ROW] = build_wall_row,
        [RECORD_ALERT] = build_alert,
        [RECORD_SINK] = build_sink,
        [RECORD_END] = build_end,
    };
    hf_assert(type > RECORD_NONE && type < RECORD_COUNT);
    hf_assert(b->last != RECORD_END);
    b->counts[type]++;
    const char *wrong = before_record(b, type);
    if (wrong == NULL) {
        wrong = builders[type](b, r);
        b->last = type;
    }
    return wrong;
}

const char *builder_finish(struct builder *b)
{
    hf_assert(b->last == RECORD_END && b->is_linked);
    const struct core *c = b->c;
    if (c->version >= POLICY_VERSION && b->counts[RECORD_POLICY] < 2) { /* head and tenant 0 */
        return "the policy is missing";
    }
    if (snapshot_magnitude(table_count(&c->sessions)) != b->sessions_magnitude ||
        snapshot_magnitude(table_count(&c->locks)) != b->names_magnitude ||
        snapshot_magnitude(table_count(&c->leases)) != b->leases_magnitude) {
        return "the number of sessions, names or leases differs from the first record";
    }
    return check_all(c, true);
}
