/* Remembered objects of a snapshot (snapshot_build.h). */
#include "core/snapshot_build.h"

#include "base/text.h"

void read_answer(struct reader *r, struct request *out)
{
    out->outcome = read_u8(r);
    out->reason = read_u8(r);
    out->ended = read_u8(r);
    out->accepted = read_u8(r);
    out->count = read_u32(r);
    out->depth = read_u32(r);
    out->lease = read_id(r);
    out->token = read_u64(r);
    out->deadline_ms = read_u64(r);
    out->highest = read_u64(r);
}

const char *check_answer(const struct request *a)
{
    if (a->type == COMMAND_NONE || a->type >= COMMAND_COUNT) {
        return "its command is unknown";
    }
    if (a->outcome > OUTCOME_REFUSED || a->reason >= REASON_COUNT || a->ended >= ENDED_COUNT ||
        a->accepted > 1) {
        return "its answer is unknown";
    }
    if (a->token >= LIMIT_NUMBER || a->highest >= LIMIT_NUMBER ||
        (a->deadline_ms >= SNAPSHOT_DEADLINE_END && a->deadline_ms != UINT64_MAX)) {
        return "a number of its answer is 2^53 or more";
    }
    return NULL;
}

const char *build_request(struct builder *b, const struct request *fields, struct slice scope,
                          struct slice id, ref *out)
{
    struct core *c = b->c;
    if (!text_is_request_id(id)) {
        return "its request id is not valid";
    }
    if (!is_plain_text(scope, 0, LIMIT_CLIENT)) {
        return "its scope is not valid";
    }
    struct request *r = pool_alloc(&c->pool, sizeof(*r) + scope.len + id.len, out);
    *r = *fields;
    r->scope_len = (uint8_t)scope.len;
    r->id_len = (uint8_t)id.len;
    if (scope.len > 0) {
        memcpy(r->text, scope.data, scope.len);
    }
    memcpy(r->text + scope.len, id.data, id.len);
    r->hash = request_make_hash(c, r);
    struct request_key key = {.tenant = r->tenant,
                              .principal = r->principal,
                              .type = (enum command_type)r->type,
                              .session_id = r->session,
                              .scope = scope,
                              .id = id,
                              .hash = r->hash};
    if (request_find(c, &key) != 0) {
        return "its request id comes twice";
    }
    if (r->state != REQUEST_DONE) {
        table_insert(&c->requests, r->hash, *out);
    }
    return NULL;
}

/* Sets the share of the tenant of a remembered object. Since version 6 the objects of a type are in
 * the order of their tenants. NULL, or what is wrong. */
static const char *find_memory(struct builder *b, enum record_type type, uint32_t tenant,
                               struct tenant **out)
{
    struct core *c = b->c;
    if (c->version >= TENANT_VERSION && type == b->memory && tenant < b->tenant) {
        return "its tenant is out of order";
    }
    b->memory = type;
    b->tenant = tenant;
    tenant_charge(c, tenant);
    *out = tenant_memory(c, tenant);
    return NULL;
}

static const char *build_done(struct builder *b, struct reader *r, enum record_type type,
                              enum done_kind where)
{
    struct core *c = b->c;
    struct request fields = {.state = REQUEST_DONE};
    fields.tenant = read_u32(r);
    fields.type = read_u8(r);
    fields.session = read_id(r);
    struct slice scope = read_slice(r, LIMIT_CLIENT);
    struct slice id = read_slice(r, LIMIT_REQUEST_ID);
    fields.digest = read_fixed64(r);
    read_answer(r, &fields);
    fields.done_ms = where == DONE_OF_OPERATORS ? read_u64(r) : 0;
    fields.principal = c->version >= POLICY_VERSION ? read_u32(r) : 0;
    if (!reader_done(r)) {
        return undecodable;
    }
    if (fields.principal != 0 && !id_is_zero(fields.session)) {
        return "it is of a session, and has a principal";
    }
    if (where != DONE_OF_CLIENTS && request_kind((enum command_type)fields.type, id) != where) {
        return "it is of another kind";
    }
    struct tenant *t = NULL;
    const char *wrong = find_memory(b, type, fields.tenant, &t);
    if (wrong != NULL) {
        return wrong;
    }
    const struct recent *memory = &t->done_requests[where];
    uint32_t count = recent_count(memory);
    if (count == memory->limit) {
        return "there are too many";
    }
    uint64_t before_ms = count == 0 ? 0 : request_at(c, recent_at(memory, count - 1))->done_ms;
    if (fields.done_ms < before_ms || !is_past(b, fields.done_ms)) {
        return "it was done out of order";
    }
    ref obj = 0;
    wrong = check_answer(&fields);
    wrong = wrong != NULL ? wrong : build_request(b, &fields, scope, id, &obj);
    if (wrong == NULL) {
        request_remember(c, t, where, obj);
    }
    return wrong;
}

const char *build_done_request(struct builder *b, struct reader *r)
{
    return build_done(b, r, RECORD_REQUEST, DONE_OF_CLIENTS);
}

const char *build_drawn_request(struct builder *b, struct reader *r)
{
    return build_done(b, r, RECORD_DRAWN_REQUEST, DONE_DRAWN);
}

const char *build_operator_request(struct builder *b, struct reader *r)
{
    return build_done(b, r, RECORD_OPERATOR_REQUEST, DONE_OF_OPERATORS);
}

const char *build_ended_grant(struct builder *b, struct reader *r)
{
    struct core *c = b->c;
    uint32_t tenant = read_u32(r);
    uint8_t how = read_u8(r);
    uint64_t token = read_u64(r);
    struct id lease = read_id(r);
    if (!reader_done(r) || how == ENDED_NOT || how >= ENDED_COUNT || id_is_zero(lease)) {
        return undecodable;
    }
    struct tenant *t = NULL;
    const char *wrong = find_memory(b, RECORD_ENDED_GRANT, tenant, &t);
    if (wrong != NULL) {
        return wrong;
    }
    if (recent_count(&t->ended_grants) == LIMIT_ENDED) {
        return "there are more than 65,536";
    }
    if (token == 0 || token > c->counter << 10) {
        return "its token is above the counter";
    }
    if (history_by_token(c, tenant, token) != NULL || history_by_lease(c, tenant, lease) != NULL) {
        return "its token or lease id comes twice";
    }
    history_add_grant(c, tenant, token, lease, (enum ended)how);
    return NULL;
}

const char *build_ended_session(struct builder *b, struct reader *r)
{
    struct core *c = b->c;
    uint32_t tenant = read_u32(r);
    uint8_t how = read_u8(r);
    struct id id = read_id(r);
    if (!reader_done(r) || how == ENDED_NOT || how >= ENDED_COUNT || id_is_zero(id)) {
        return undecodable;
    }
    struct tenant *t = NULL;
    const char *wrong = find_memory(b, RECORD_ENDED_SESSION, tenant, &t);
    if (wrong != NULL) {
        return wrong;
    }
    if (t->ended_session_count == LIMIT_ENDED) {
        return "there are more than 65,536";
    }
    ref live = session_find(c, id);
    bool is_live =
        live != 0 && (c->version < TENANT_VERSION || session_at(c, live)->tenant == tenant);
    if (history_session(c, tenant, id) != ENDED_NOT || is_live) {
        return "its id comes twice";
    }
    history_add_session(c, tenant, id, (enum ended)how);
    return NULL;
}

const char *build_fence(struct builder *b, struct reader *r)
{
    struct core *c = b->c;
    uint32_t tenant = read_u32(r);
    struct slice name = read_slice(r, LIMIT_NAME);
    uint32_t slot = read_u32(r);
    uint64_t token = read_u64(r);
    if (!reader_done(r)) {
        return undecodable;
    }
    struct tenant *t = NULL;
    const char *wrong = find_memory(b, RECORD_FENCE, tenant, &t);
    if (wrong != NULL) {
        return wrong;
    }
    if (t->fence_count == LIMIT_FENCE_MARKS) {
        return "there are more than 65,536";
    }
    if (!text_is_name(name) || slot >= LIMIT_HOLDERS) {
        return "its resource is not valid";
    }
    if (token == 0 || token >= LIMIT_NUMBER || token < t->fence_floor) {
        return "its token is out of range";
    }
    if (fence_find(c, tenant, name, slot) != NULL) {
        return "its resource comes twice";
    }
    (void)fence_add(c, tenant, name, slot, token);
    return NULL;
}

/* The upgrade to version 6 leaves gaps. */
static bool is_next_number(const struct core *c, const struct tenant *t, uint64_t number)
{
    uint64_t last = t->audit == 0 ? 0 : audit_record_at(c, t->audit)->number;
    bool has_gap = t->audit != 0 && number != last + 1 && c->version < TENANT_VERSION;
    return number > last && number < LIMIT_NUMBER && !has_gap;
}

static const char *check_audit(const struct builder *b, const struct tenant *t,
                               const struct audit_fields *f, bool is_note, uint8_t action)
{
    const struct core *c = b->c;
    if (!is_next_number(c, t, f->number)) {
        return "its number is out of order";
    }
    if (t->audit_count == LIMIT_AUDIT) {
        return "there are more than 10,000";
    }
    if (f->index > c->index || f->wall_ms >= LIMIT_NUMBER || action >= AUDIT_COUNT ||
        (is_note && action >= AUDIT_RECOVER) || (action == AUDIT_FENCE_RESET && c->version < 4) ||
        (action > AUDIT_FENCE_RESET && c->version < POLICY_VERSION)) {
        return "its index, time or action is out of range";
    }
    if (f->slot >= LIMIT_HOLDERS || f->mark_before >= LIMIT_NUMBER ||
        f->mark_after >= LIMIT_NUMBER) {
        return "its slot or a mark is out of range";
    }
    if (!text_is_plain(f->resource) || !text_is_plain(f->actor) || !text_is_plain(f->reason) ||
        (f->trace.len > 0 && !text_is_traceparent(f->trace))) {
        return "its text is not valid";
    }
    return NULL;
}

const char *build_audit(struct builder *b, struct reader *r)
{
    struct core *c = b->c;
    struct audit_fields f;
    audit_fields_read(r, c->version, &f);
    bool is_note = c->version >= 3 && (f.action & AUDIT_IS_NOTE) != 0;
    uint8_t action = is_note ? (uint8_t)(f.action & ~AUDIT_IS_NOTE) : f.action;
    if (!reader_done(r)) {
        return undecodable;
    }
    struct tenant *t = NULL;
    const char *wrong = find_memory(b, RECORD_AUDIT, f.tenant, &t);
    wrong = wrong != NULL ? wrong : check_audit(b, t, &f, is_note, action);
    if (wrong != NULL) {
        return wrong;
    }
    const struct slice text[AUDIT_TEXTS] = {f.resource, f.actor, f.reason, f.trace};
    ref obj = audit_record_new(c, text);
    struct audit_record *a = audit_record_at(c, obj);
    a->number = f.number;
    a->index = f.index;
    a->wall_ms = f.wall_ms;
    a->tenant = f.tenant;
    a->action = action;
    a->is_note = is_note;
    a->count = f.count;
    a->slot = f.slot;
    a->mark_before = f.mark_before;
    a->mark_after = f.mark_after;
    audit_append(c, t, obj);
    return NULL;
}

const char *build_counter(struct builder *b, struct reader *r)
{
    struct core *c = b->c;
    uint32_t tenant = read_u32(r);
    struct slice name = read_slice(r, LIMIT_NAME);
    int64_t number = (int64_t)read_fixed64(r);
    uint64_t change = read_u64(r);
    uint64_t deadline_ms = c->version >= 4 ? read_u64(r) : 0;
    if (!reader_done(r)) {
        return undecodable;
    }
    struct tenant *t = NULL;
    const char *wrong = find_memory(b, RECORD_COUNTER, tenant, &t);
    if (wrong != NULL) {
        return wrong;
    }
    if (t->counter_count == LIMIT_COUNTERS) {
        return "there are more than 10,000";
    }
    if (!text_is_name(name)) {
        return "its name is not valid";
    }
    if (change == 0 || change > c->counter_change) {
        return "its last change is in the future";
    }
    if (deadline_ms >= SNAPSHOT_DEADLINE_END ||
        (deadline_ms != 0 && deadline_ms <= c->now_ms && !c->backlog)) {
        return "its deadline is out of range, or past";
    }
    ref lock = lock_find(c, tenant, name);
    if (counter_find_any(c, tenant, name) != NULL ||
        (lock != 0 && lock_in_use(c, lock_at(c, lock)))) {
        return "its name comes twice, or is that of a lock";
    }
    ref obj = counter_add(c, tenant, name);
    counter_at(c, obj)->number = number;
    counter_at(c, obj)->change = change;
    counter_set_deadline(c, obj, deadline_ms);
    return NULL;
}

const char *build_transact(struct builder *b, struct reader *r)
{
    struct done_transact t = {.tenant = read_u32(r)};
    t.id = read_id(r);
    t.digest = read_fixed64(r);
    t.outcome = read_u8(r);
    t.reason = read_u8(r);
    t.count = read_u32(r);
    t.token = read_u64(r);
    t.deadline_ms = read_u64(r);
    if (!reader_done(r) || id_is_zero(t.id)) {
        return undecodable;
    }
    struct tenant *share = NULL;
    const char *wrong = find_memory(b, RECORD_TRANSACT, t.tenant, &share);
    if (wrong != NULL) {
        return wrong;
    }
    if (recent_count(&share->transacts) == LIMIT_TRANSACTS) {
        return "there are more than 65,536";
    }
    bool is_refused = t.outcome == OUTCOME_REFUSED;
    if ((t.outcome != OUTCOME_DONE && !is_refused) || t.reason >= REASON_COUNT ||
        (t.reason != REASON_NONE) != is_refused || t.count > LIMIT_EFFECTS ||
        (is_refused && (t.count != 0 || t.token != 0))) {
        return "its answer is unknown";
    }
    if (t.token > b->c->counter << 10 ||
        (t.deadline_ms >= SNAPSHOT_DEADLINE_END && t.deadline_ms != UINT64_MAX)) {
        return "a number of its answer is out of range";
    }
    if (transact_find(b->c, t.tenant, t.id) != NULL) {
        return "its id comes twice";
    }
    transact_add(b->c, &t);
    return NULL;
}

const char *build_tenant(struct builder *b, struct reader *r)
{
    struct core *c = b->c;
    uint32_t number = read_u32(r);
    uint64_t audit_number = read_u64(r);
    uint64_t fence_floor = read_u64(r);
    uint64_t fence_rejections = read_u64(r);
    if (!reader_done(r)) {
        return undecodable;
    }
    if (number == 0 || (b->memory == RECORD_TENANT && number <= b->tenant)) {
        return "its number is out of order";
    }
    if (audit_number >= LIMIT_NUMBER || fence_rejections >= LIMIT_NUMBER ||
        fence_floor < c->fence_base || fence_floor > fence_issued_bound(c)) {
        return "a number is out of range";
    }
    if (audit_number == 0 && fence_floor == c->fence_base && fence_rejections == 0) {
        return "it says nothing";
    }
    struct tenant *t = NULL;
    const char *wrong = find_memory(b, RECORD_TENANT, number, &t);
    if (wrong == NULL) {
        t->audit_number = audit_number;
        t->fence_floor = fence_floor;
        t->fence_rejections = fence_rejections;
    }
    return wrong;
}
