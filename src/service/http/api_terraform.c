/* The locks of the HTTP backend of Terraform and OpenTofu. Their states are stored elsewhere.
 *
 *     LOCK NAME, lock info ───────▶ acquire ──▶ 200, or 423 with the lock info of the holder
 *     UNLOCK NAME, lock info ─────▶ release ──▶ 200, or 409: not held with that ID
 *     UNLOCK NAME, no body ───────▶ force-unlock: `force-unlock` of clients that do not send the ID
 *
 * The lease id is a digest of name and ID, so that a repeated LOCK gets its own lock (S7.1) and an UNLOCK
 * concerns no other run. The lock info is the metadata, its ID the owner. Terraform never renews: the TTL
 * is the longest that there is. */
#include "base/text.h"
#include "service/auth/auth.h"
#include "service/http/api.h"
#include "service/http/reply.h"
#include "service/request/acquire.h"
#include "service/request/operator.h"
#include "tls/digest.h"
#include "wire/json_scan.h"

#define NO_NAME \
    "terraform" /* the client of a lock info without Who; the actor without a principal */

struct lock_info {
    struct slice id;
    struct slice who; /* empty: none */
};

static bool is_plain(struct slice text, size_t max)
{
    return text.len > 0 && text.len <= max && text_is_plain(text);
}

/* `b` is empty and stays open. False: answered. */
static bool read_info(struct api_request *x, struct body *b, struct lock_info *info)
{
    struct fault fault;
    *info = (struct lock_info){.id = slice_make(NULL, 0)};
    memset(&b->f, 0, sizeof(b->f));
    if (json_doc_open(&b->doc, x->service->memory, x->body, &fault) != HF_OK) {
        api_request_fault(x, &fault);
        return false;
    }
    b->is_open = true;
    if (!json_doc_text(&b->doc, "ID", &info->id)) {
        (void)fault_set(&fault, HF_FIELD_MISSING,
                        "ID: is required; this address locks and stores no state: set lock_address "
                        "and unlock_address to it, and address to where the state is");
    } else if (!is_plain(info->id, LIMIT_OWNER)) {
        (void)fault_set(&fault, HF_FIELD_RANGE,
                        "ID: must be 1 to %d bytes of UTF-8 without control characters",
                        LIMIT_OWNER);
    } else {
        (void)json_doc_text(&b->doc, "Who", &info->who);
        return true;
    }
    body_close(b);
    api_request_fault(x, &fault);
    return false;
}

/* The same on every node. A name contains no NUL. */
static struct id lease_of(const struct api_request *x, struct slice id)
{
    static const char purpose[] = "holdfast terraform lock";
    uint8_t hash[DIGEST_SIZE];
    uint8_t tenant[4];
    for (unsigned i = 0; i < sizeof(tenant); i++) {
        tenant[i] = (uint8_t)(x->caller.id.tenant >> 8 * i);
    }
    const struct slice parts[] = {slice_make(tenant, sizeof(tenant)), x->name, slice_make("", 1),
                                  id};
    digest_hmac(slice_of(purpose), parts, sizeof(parts) / sizeof(parts[0]), hash);
    struct id lease = {0, 0};
    for (unsigned i = 0; i < 8; i++) {
        lease.high = lease.high << 8 | hash[i];
        lease.low = lease.low << 8 | hash[8 + i];
    }
    return lease;
}

/* ---- lock ---- */

/* Whether the lock was made by api_terraform_lock. */
static bool is_lock_info(const struct api_request *x, const struct holder_view *holder)
{
    struct json_doc doc;
    struct fault fault;
    struct slice id = slice_make(NULL, 0);
    if (holder->owner.len == 0 || holder->metadata.len == 0 ||
        json_doc_open(&doc, x->service->memory, holder->metadata, &fault) != HF_OK) {
        return false;
    }
    bool is = json_doc_text(&doc, "ID", &id) && slice_equal(id, holder->owner);
    json_doc_close(&doc);
    return is;
}

/* Terraform shows the ID. Only an operator may see the token (S4.4). */
static void put_other_holder(struct api_request *x, const struct result *r, struct json_writer *w)
{
    struct slice who = r->has_holder ? r->holder.client : r->reserved_for;
    json_put_string(w, "ID", who);
    json_put_text(w, "Operation", reason_name(acquire_reason(r)));
    json_put_text(w, "Info", "not locked by Terraform; `holdfast show` has the holder");
    json_put_string(w, "Who", who);
    json_put_text(w, "Version", "");
    reply_put_since(w, x->service, "Created", r->holder.since_ms, r->holder.since_wall_ms);
    json_put_string(w, "Path", x->name);
}

static void render_lock(struct api_request *x, const struct result *r, struct json_writer *w)
{
    if (acquire_is_held(r)) {
        json_put_bool(w, "acquired", true);
        acquire_grant(x, r, w);
    } else if (r->outcome == OUTCOME_GRANTED) {
        x->refused = HF_LOCK_ID; /* a repetition after the end of the lock */
    } else {
        x->status = 423;
        if (r->has_holder && is_lock_info(x, &r->holder)) {
            json_write_members(w, r->holder.metadata);
        } else {
            put_other_holder(x, r, w);
        }
    }
}

/* As compact text, which `out` gets. */
static bool put_metadata(struct api_request *x, struct buffer *out, struct slice *metadata)
{
    uint8_t *space = buffer_reserve(out, x->body.len);
    hf_assert(space != NULL);
    size_t len = json_scan_compact(x->body, space);
    buffer_commit(out, len);
    *metadata = buffer_bytes(out);
    if (len > LIMIT_METADATA) {
        struct fault fault;
        fault_set(&fault, HF_INVALID_METADATA, "the lock info has %zu bytes; at most %d are kept",
                  len, LIMIT_METADATA);
        api_request_fault(x, &fault);
    }
    return len <= LIMIT_METADATA;
}

void api_terraform_lock(struct api_request *x)
{
    struct body b;
    struct lock_info info;
    struct command c;
    struct buffer metadata;
    if (!read_info(x, &b, &info)) {
        return;
    }
    command_init(&c, COMMAND_ACQUIRE);
    caller_sign(&c, x->caller.id);
    c.acquire.lease = lease_of(x, info.id);
    c.acquire.node = x->service->node;
    c.acquire.client = is_plain(info.who, LIMIT_CLIENT) ? info.who : slice_of(NO_NAME);
    c.acquire.owner = info.id;
    c.acquire.names.count = 1;
    c.acquire.names.at[0] = x->name;
    c.acquire.ttl_ms = LIMIT_TTL_MAX_MS;
    c.acquire.trace = acquire_trace(x, &b);
    buffer_init(&metadata, x->service->memory, LIMIT_HTTP_BODY);
    if (put_metadata(x, &metadata, &c.acquire.metadata) && body_check(x, &c)) {
        command_drop_hints(&c, core_version(service_core(x->service)));
        api_request_submit(x, &c, true, render_lock);
    }
    buffer_close(&metadata);
    body_close(&b);
}

/* ---- unlock ---- */

static void render_unlock(struct api_request *x, const struct result *r, struct json_writer *w)
{
    if (r->outcome != OUTCOME_DONE && r->reason != REASON_ALREADY_RELEASED) {
        x->refused = HF_LOCK_ID;
        return;
    }
    json_put_bool(w, "released", true);
}

static void render_force(struct api_request *x, const struct result *r, struct json_writer *w)
{
    json_put_bool(w, "released", true);
    json_put_u64(w, "holders", r->count);
}

/* `token` 0: whoever holds it. */
static void force(struct api_request *x, struct body *b, uint64_t token, struct slice reason)
{
    uint8_t text[PRINCIPAL_TEXT];
    const struct policy *p = service_policy(x->service);
    uint32_t principal = x->caller.id.principal;
    if (x->service->auth == NULL && !operator_is_allowed(x)) {
        return; /* with auth = on, the leader decides */
    }
    b->f.actor_id = principal == 0 ? slice_of(NO_NAME) : policy_principal_text(p, principal, text);
    b->f.reason = reason;
    b->f.if_token = token;
    operator_force_unlock(x, b, render_force);
}

/* The token of the lock with this ID if another principal holds it, as far as this node knows; else 0. */
static uint64_t token_of_another(const struct api_request *x, struct slice id)
{
    const struct core *core = service_core(x->service);
    uint32_t tenant = x->caller.id.tenant;
    struct lock_view lock;
    struct key_view key;
    if (!view_lock(core, tenant, x->name, &lock) || !lock.has_holder ||
        !slice_equal(lock.first.holder.owner, id)) {
        return 0;
    }
    view_key(core, tenant, x->name, &key);
    return key.principal != x->caller.id.principal ? lock.first.token : 0;
}

static void release(struct api_request *x, const struct body *b, struct slice id)
{
    struct command c;
    struct id unused;
    bool is_given;
    command_init(&c, COMMAND_RELEASE);
    caller_sign(&c, x->caller.id);
    c.release.lease = lease_of(x, id);
    if (body_request_id(x, b, BODY_ID_DRAWN, &c, &unused, &is_given) && body_check(x, &c)) {
        api_request_submit(x, &c, true, render_unlock);
    }
}

void api_terraform_unlock(struct api_request *x)
{
    struct body b = {.is_open = false};
    struct lock_info info;
    if (x->body.len == 0) {
        force(x, &b, 0, slice_of("Terraform: force-unlock without an ID"));
        return;
    }
    if (!read_info(x, &b, &info)) {
        return;
    }
    uint64_t token = token_of_another(x, info.id);
    if (token != 0) {
        force(x, &b, token, slice_of("Terraform: force-unlock by ID"));
    } else {
        release(x, &b, info.id);
    }
    body_close(&b);
}
