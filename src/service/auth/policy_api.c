/* The policy over HTTP: shown, replaced as a whole, explained; and who the caller is. */
#include <stdio.h>

#include "service/auth/policy_work.h"
#include "service/http/api.h"
#include "service/http/reply.h"
#include "tls/digest.h"

enum { TEXTS_MAX = 128 << 10 };

struct policy_work *policy_work_new(struct api_request *x)
{
    const struct memory *memory = x->service->memory;
    struct policy_work *work = memory_alloc(memory, sizeof(*work));
    hf_assert(x->policy == NULL);
    memset(work, 0, sizeof(*work));
    work->x = x;
    list_init(&work->link);
    buffer_init(&work->texts, memory, TEXTS_MAX);
    x->policy = work;
    return work;
}

void policy_work_free(struct api_request *x)
{
    struct policy_work *work = x->policy;
    if (work == NULL) {
        return;
    }
    x->policy = NULL;
    list_remove(&work->link);
    document_free(work->document);
    buffer_close(&work->texts);
    digest_wipe(work, sizeof(*work));
    memory_free(x->service->memory, work, sizeof(*work));
}

struct slice policy_actor(const struct api_request *x, uint8_t text[PRINCIPAL_TEXT])
{
    struct slice who =
        policy_principal_text(service_policy(x->service), x->caller.id.principal, text);
    return who.len > 0 ? who : slice_of("anonymous");
}

static void render_policy(struct api_request *x, const struct result *r, struct json_writer *w)
{
    document_write(service_policy(x->service), w);
}

void api_policy(struct api_request *x)
{
    api_request_read(x, render_policy);
}

/* ---- PUT ---- */

static void render_changes(struct api_request *x, const struct result *r, struct json_writer *w)
{
    struct slice rest = buffer_bytes(&x->policy->texts);
    json_put_u64(w, "version", r == NULL ? x->policy->version : r->token);
    if (x->policy->is_dry) {
        json_put_bool(w, "dry_run", true);
    }
    json_put_open(w, "changes", '[');
    while (rest.len > 0) {
        const uint8_t *end = memchr(rest.data, '\n', rest.len);
        size_t len = (size_t)(end - rest.data);
        json_write_string(w, slice_make(rest.data, len));
        rest = slice_make(end + 1, rest.len - len - 1);
    }
    json_write_close(w);
}

static void answer_changes(struct api_request *x)
{
    x->need = NEED_CALLER; /* the right was checked */
    api_request_answer_json(x, 200, render_changes);
}

static void submit_changes(struct policy_work *work, const struct packed *changes)
{
    /* A dry run ends after the rules that need no state. */
    struct api_request *x = work->x;
    struct command c;
    uint8_t text[PRINCIPAL_TEXT];
    command_init(&c, COMMAND_POLICY_CHANGE);
    caller_sign(&c, x->caller.id);
    c.policy_change.expect = work->version;
    c.policy_change.actor = policy_actor(x, text);
    c.policy_change.reason = slice_of("policy applied");
    c.policy_change.end_sessions = work->ends_sessions;
    c.policy_change.changes = *changes;
    enum hf_error error = command_check(&c);
    if (error != HF_OK) {
        api_request_fail(x, error, NULL);
    } else if (work->is_dry) {
        answer_changes(x);
    } else {
        api_request_submit(x, &c, true, render_changes);
    }
}

static void compare(struct policy_work *work)
{
    struct api_request *x = work->x;
    const struct policy *p = service_policy(x->service);
    uint64_t expected = document_version(work->document);
    struct packed changes;
    struct fault fault;
    work->version = policy_version(p);
    if (expected != UINT64_MAX && expected != work->version) {
        api_request_fail(x, HF_POLICY_CONFLICT, NULL);
    } else if (document_compare(work->document, p, &changes, &work->texts, &fault) != HF_OK) {
        api_request_fault(x, &fault);
    } else if (x->caller.id.principal != 0 && !document_has_administrator(work->document)) {
        api_request_fail(
            x, HF_INVALID_POLICY,
            "principals: none has the right admin with tenant * and prefix *, so nobody "
            "could change the policy any more; nothing was done");
    } else if (changes.count == 0) {
        answer_changes(x);
    } else {
        submit_changes(work, &changes);
    }
}

void policy_run(struct service *s)
{
    for (struct list *link = list_take(&s->policy_work); link != NULL;
         link = list_take(&s->policy_work)) {
        compare(LIST_OBJECT(link, struct policy_work, link));
    }
}

static void on_barrier(void *owner, enum hf_error error, const struct result *result)
{
    struct api_request *x = owner;
    if (error != HF_OK) {
        api_request_answered(owner, error, result);
        return;
    }
    struct pending_request *pending = x->pending;
    x->pending = NULL;
    (void)pending_settle(pending);
    list_append(&x->service->policy_work, &x->policy->link);
}

static bool flag(const struct api_request *x, const char *key)
{
    struct slice text;
    return uri_query_text(x->parameters, key, &text) &&
           (text.len == 0 || slice_is_word(text, "true") || slice_equal(text, slice_of("1")));
}

void api_policy_put(struct api_request *x)
{
    struct fault fault;
    struct policy_document *d = document_new(x->service->memory, x->body, &fault);
    if (d == NULL) {
        api_request_fault(x, &fault);
        return;
    }
    struct policy_work *work = policy_work_new(x);
    work->document = d;
    work->is_dry = flag(x, "dry_run");
    work->ends_sessions = flag(x, "end_sessions");
    x->pending = pending_barrier(x->service, on_barrier, x);
}

/* ---- explain ---- */

static struct slice kept_word(const struct api_request *x, unsigned i)
{
    struct slice rest = buffer_bytes(&x->kept);
    for (;; i--) {
        const uint8_t *end = memchr(rest.data, '\0', rest.len);
        size_t len = (size_t)(end - rest.data);
        if (i == 0) {
            return slice_make(rest.data, len);
        }
        rest = slice_make(end + 1, rest.len - len - 1);
    }
}

static bool grant_covers(const struct policy_grant_view *g, uint32_t tenant, uint32_t right,
                         struct slice name)
{
    uint32_t rights = g->rights | ((g->rights & RIGHT_LOCK) != 0 ? (uint32_t)RIGHT_READ : 0);
    bool is_prefix = g->prefix.len == 0 || g->prefix.data[g->prefix.len - 1] == '/';
    return (g->tenant == TENANT_ALL || g->tenant == tenant) && (rights & right) != 0 &&
           (is_prefix ? slice_starts_with(name, g->prefix) : slice_equal(name, g->prefix));
}

static void put_because(struct api_request *x, const struct principal_view *principal,
                        uint32_t tenant, uint32_t right, struct json_writer *w)
{
    const struct policy *p = service_policy(x->service);
    char text[AUTH_TEXT];
    struct policy_grant_view g;
    for (uint32_t i = 0; i < principal->grants; i++) {
        if (policy_grant_at(p, principal->number, i, &g) &&
            grant_covers(&g, tenant, right, x->name)) {
            json_put_text(w, "because", "a grant of the principal covers it");
            json_write_key(w, "grant");
            document_put_grant(p, &g, w);
            return;
        }
    }
    auth_denial(p, (struct caller_id){tenant, principal->number}, (enum right)right, x->name, text);
    json_put_text(w, "because", text);
}

/* Own rights, and those of principals whose home tenant the caller administers. */
static bool may_explain(const struct api_request *x, const struct principal_view *principal)
{
    uint32_t caller = x->caller.id.principal;
    return caller == 0 || caller == principal->number ||
           policy_allows_tenant(service_policy(x->service), caller, principal->tenant, RIGHT_ADMIN);
}

static bool find_named(const struct policy *p, struct slice text, struct principal_view *out)
{
    struct slice tenant_name;
    struct slice name;
    struct tenant_view tenant;
    return document_split(text, &tenant_name, &name) &&
           policy_find_tenant(p, tenant_name, &tenant) &&
           policy_find_principal(p, tenant.number, name, out);
}

static void render_explain(struct api_request *x, const struct result *r, struct json_writer *w)
{
    const struct policy *p = service_policy(x->service);
    struct principal_view principal;
    struct tenant_view tenant;
    uint32_t right = right_of_word(kept_word(x, 1));
    struct slice other = kept_word(x, 2);
    if (!find_named(p, kept_word(x, 0), &principal) || !may_explain(x, &principal)) {
        x->refused = HF_POLICY_NOT_FOUND;
        return;
    }
    if (other.len > 0 ? !policy_find_tenant(p, other, &tenant) ||
                            !auth_knows_tenant(p, x->caller.id.principal, tenant.number)
                      : !policy_tenant(p, principal.tenant, &tenant)) {
        x->refused = HF_POLICY_NOT_FOUND;
        return;
    }
    json_put_bool(w, "allowed",
                  policy_allows(p, principal.number, tenant.number, (enum right)right, x->name));
    put_because(x, &principal, tenant.number, right, w);
}

void api_explain(struct api_request *x)
{
    struct slice principal = slice_make("", 0);
    struct slice right = slice_make("", 0);
    struct slice name = slice_make("", 0);
    struct slice tenant = slice_make("", 0);
    (void)uri_query_text(x->parameters, "principal", &principal);
    (void)uri_query_text(x->parameters, "right", &right);
    (void)uri_query_text(x->parameters, "name", &name);
    (void)uri_query_text(x->parameters, "tenant", &tenant);
    if (principal.len == 0 || principal.len > PRINCIPAL_TEXT) {
        api_request_fail(x, HF_FIELD_MISSING, "principal: must be TENANT/NAME");
    } else if (right_of_word(right) == 0) {
        api_request_fail(x, HF_FIELD_RANGE, "right: must be lock, read, operate or admin");
    } else if (name.len > LIMIT_NAME || tenant.len > LIMIT_POLICY_NAME) {
        api_request_fail(x, HF_FIELD_RANGE, "name or tenant: too long");
    } else {
        buffer_append_slice(&x->kept, principal);
        buffer_append_byte(&x->kept, 0);
        buffer_append_slice(&x->kept, right);
        buffer_append_byte(&x->kept, 0);
        buffer_append_slice(&x->kept, tenant);
        buffer_append_byte(&x->kept, 0);
        if (name.len > 0) {
            memcpy(x->name_bytes, name.data, name.len);
        }
        x->name = slice_make(x->name_bytes, name.len);
        api_request_read(x, render_explain);
    }
}

/* ---- who am I ---- */

static void render_whoami(struct api_request *x, const struct result *r, struct json_writer *w)
{
    static const char *const by[] = {
        [CALLER_NONE] = "none", [CALLER_TOKEN] = "token", [CALLER_CERTIFICATE] = "certificate"};
    const struct policy *p = service_policy(x->service);
    struct tenant_view tenant = {.name = slice_of("default")};
    uint8_t text[PRINCIPAL_TEXT];
    struct slice who = policy_principal_text(p, x->caller.id.principal, text);
    (void)policy_tenant(p, x->caller.id.tenant, &tenant);
    if (who.len > 0) {
        json_put_string(w, "principal", who);
    } else {
        json_put_null(w, "principal");
    }
    json_put_string(w, "tenant", tenant.name);
    json_put_text(w, "by", by[x->caller.by]);
    if (x->caller.by != CALLER_NONE && x->caller.expires_ms != UINT64_MAX) {
        json_put_time(w, "expires_at", x->caller.expires_ms);
    } else {
        json_put_null(w, "expires_at");
    }
}

void api_whoami(struct api_request *x)
{
    api_request_answer_json(x, 200, render_whoami);
}
