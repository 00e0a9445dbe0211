/* See admin_request.h. */
#include "node/admin/admin_request.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/panic.h"
#include "base/text.h"
#include "wire/json_tree.h"
#include "wire/json_write.h"

enum {
    ADMIN_VERSION = 6, /* of the state: the first with a policy */
    ADMIN_TRIES = 4,
    CHANGE_MS = 4000, /* longest time for the command */
    CHANGE_BYTES_MAX = 1024,
    ACTOR_TEXT = 64,
};

static void refuse(struct admin_request *r, enum hf_error code, const char *text)
{
    r->state = ADMIN_ANSWERED;
    (void)fault_set(&r->fault, code, "%s", text);
}

/* ---- the line ---- */

static bool read_hex(struct slice text, uint8_t out[TOKEN_SHA_BYTES])
{
    if (text.len != (size_t)2 * TOKEN_SHA_BYTES) {
        return false;
    }
    for (size_t i = 0; i < text.len; i++) {
        uint8_t c = text.data[i];
        unsigned digit = c >= '0' && c <= '9'   ? (unsigned)c - '0'
                         : c >= 'a' && c <= 'f' ? (unsigned)c - 'a' + 10
                                                : 16;
        if (digit == 16) {
            return false;
        }
        out[i / 2] = (uint8_t)(i % 2 == 0 ? digit << 4 : out[i / 2] | digit);
    }
    return true;
}

static bool read_principal(struct admin_request *r, struct slice text)
{
    const uint8_t *slash = text.len == 0 ? NULL : memchr(text.data, '/', text.len);
    if (slash == NULL || text.len >= sizeof(r->principal)) {
        return false;
    }
    size_t len = (size_t)(slash - text.data);
    memcpy(r->principal, text.data, text.len);
    r->tenant = slice_make((const uint8_t *)r->principal, len);
    r->name = slice_make((const uint8_t *)r->principal + len + 1, text.len - len - 1);
    return policy_name_is_valid(r->tenant) && policy_name_is_valid(r->name);
}

/* NULL, or what is wrong. */
static const char *read_fields(struct admin_request *r, const struct json_t *tree)
{
    static const char *const known[] = {"op", "principal", "sha256", "description", NULL};
    struct slice op = json_tree_text(json_tree_get(tree, "op"));
    struct slice description = json_tree_text(json_tree_get(tree, "description"));
    if (!json_tree_is_object(tree) || json_tree_other_key(tree, known) != NULL) {
        return "the request is one JSON object with op, principal, sha256 and description";
    }
    if (slice_equal(op, slice_of("bootstrap"))) {
        r->origin = POLICY_BOOTSTRAP;
    } else if (slice_equal(op, slice_of("rescue"))) {
        r->origin = POLICY_RESCUE;
    } else {
        return "op must be bootstrap or rescue";
    }
    if (!read_principal(r, json_tree_text(json_tree_get(tree, "principal")))) {
        return "principal must be TENANT/NAME, each 1 to 64 of a-z A-Z 0-9 . _ - and beginning "
               "with "
               "a letter or digit";
    }
    if (!read_hex(json_tree_text(json_tree_get(tree, "sha256")), r->sha256)) {
        return "sha256 must be 64 lower-case hexadecimal digits";
    }
    if (description.len > LIMIT_POLICY_TEXT || !text_is_plain(description)) {
        return "description must be at most 256 bytes of UTF-8 without control characters";
    }
    if (description.len > 0) {
        memcpy(r->description, description.data, description.len);
    }
    return NULL;
}

static void read_line(struct admin_request *r, struct slice line)
{
    struct json_t *tree = json_tree_parse(line, &r->fault);
    if (tree == NULL) {
        r->state = ADMIN_ANSWERED;
        return;
    }
    const char *wrong = read_fields(r, tree);
    if (wrong != NULL) {
        refuse(r, HF_INVALID_POLICY, wrong);
    }
    json_tree_free(tree);
}

/* ---- the change ---- */

static void on_barrier(struct gateway_call *call, enum hf_error error, const struct result *result)
{
    struct admin_request *r = call->owner;
    (void)result;
    hf_assert(r->state == ADMIN_BARRIER);
    r->state = ADMIN_BARRIER_DONE;
    r->error = error;
}

static void on_change(struct gateway_call *call, enum hf_error error, const struct result *result)
{
    struct admin_request *r = call->owner;
    hf_assert(r->state == ADMIN_CHANGE);
    r->state = ADMIN_CHANGE_DONE;
    r->error = error == HF_OK ? result->error : error;
    r->version = r->error == HF_OK ? result->token : 0;
}

static void start_barrier(struct admin_request *r)
{
    r->state = ADMIN_BARRIER;
    r->call = (struct gateway_call){.done = on_barrier, .owner = r};
    r->gateway->barrier(r->gateway->ctx, &r->call);
}

static bool pack_changes(const struct admin_request *r, const struct policy *p,
                         struct packer *changes)
{
    uint8_t bytes[64];
    struct packer grants = packer_make(bytes, sizeof(bytes));
    struct policy_grant all = {.tenant = slice_of("*"), .rights = RIGHTS_ALL};
    struct policy_change tenant = {.kind = POLICY_TENANT_PUT, .tenant = r->tenant};
    struct policy_change principal = {.kind = POLICY_PRINCIPAL_PUT,
                                      .tenant = r->tenant,
                                      .name = r->name,
                                      .description = slice_of(r->description)};
    struct policy_change token = {.kind = POLICY_TOKEN_ADD,
                                  .tenant = r->tenant,
                                  .name = r->name,
                                  .sha256 = slice_make(r->sha256, sizeof(r->sha256)),
                                  .description = slice_of(r->description)};
    if (!pack_policy_grant(&grants, &all)) {
        return false;
    }
    principal.grants = packer_list(&grants);
    return (policy_find_tenant(p, r->tenant, NULL) || pack_policy_change(changes, &tenant)) &&
           pack_policy_change(changes, &principal) && pack_policy_change(changes, &token);
}

static void submit_change(struct admin_request *r, const struct policy *p)
{
    uint8_t bytes[CHANGE_BYTES_MAX];
    struct packer changes = packer_make(bytes, sizeof(bytes));
    char actor[ACTOR_TEXT];
    struct command c;
    bool fits = pack_changes(r, p, &changes);
    hf_assert(fits); /* every text has a limit */
    snprintf(actor, sizeof(actor), "user %" PRIu32 " of the node's machine", r->uid);
    command_init(&c, COMMAND_POLICY_CHANGE);
    c.policy_change.expect = policy_version(p);
    c.policy_change.origin = r->origin;
    c.policy_change.actor = slice_of(actor);
    c.policy_change.reason =
        slice_of(r->origin == POLICY_BOOTSTRAP ? "auth bootstrap" : "auth rescue");
    c.policy_change.changes = packer_list(&changes);
    enum hf_error error = command_check(&c);
    if (error != HF_OK) {
        refuse(r, error, hf_error_text(error));
        return;
    }
    r->tries++;
    r->state = ADMIN_CHANGE;
    r->call = (struct gateway_call){
        .done = on_change, .owner = r, .is_own = true, .within_ms = CHANGE_MS};
    r->gateway->submit(r->gateway->ctx, &c, &r->call);
}

/* By an earlier attempt, whose answer was lost. */
static bool is_made(const struct admin_request *r, const struct policy *p)
{
    struct token_view token;
    uint8_t text[PRINCIPAL_TEXT];
    return r->tries > 0 && policy_find_token(p, r->sha256, &token) &&
           slice_equal(policy_principal_text(p, token.principal, text), slice_of(r->principal));
}

static void after_barrier(struct admin_request *r)
{
    const struct core *core = r->gateway->core(r->gateway->ctx);
    const struct policy *p = core_policy(core);
    if (r->error != HF_OK) {
        refuse(r, r->error, hf_error_text(r->error));
    } else if (core_version(core) < ADMIN_VERSION) {
        refuse(
            r, HF_NOT_UPGRADED,
            "this needs version 6 of the state; a member of the cluster runs an older version of "
            "Holdfast, or the upgrade is a second away; nothing was done; try again");
    } else if (is_made(r, p)) {
        r->version = policy_version(p);
        r->state = ADMIN_ANSWERED;
    } else {
        submit_change(r, p);
    }
}

static void after_change(struct admin_request *r)
{
    bool is_conflict = r->error == HF_POLICY_CONFLICT || r->error == HF_OUTCOME_UNKNOWN;
    if (r->error == HF_OK) {
        r->state = ADMIN_ANSWERED;
    } else if (is_conflict && r->tries < ADMIN_TRIES) {
        start_barrier(r);
    } else if (r->error == HF_POLICY_EXISTS) {
        refuse(r, r->error,
               r->origin == POLICY_BOOTSTRAP
                   ? "the policy has or had a principal, so there is nothing to bootstrap; nothing "
                     "was done; `holdfast auth rescue` replaces the administrators"
                   : "another token has this secret; nothing was done; use a new secret");
    } else {
        refuse(r, r->error, hf_error_text(r->error));
    }
}

void admin_request_begin(struct admin_request *r, const struct gateway *gateway, struct slice line,
                         uint32_t uid)
{
    *r = (struct admin_request){.gateway = gateway, .uid = uid};
    read_line(r, line);
    if (r->state == ADMIN_ANSWERED) {
        return;
    }
    if (gateway == NULL) {
        refuse(r, HF_UNAVAILABLE, "this node does not serve yet; nothing was done; try again");
        return;
    }
    start_barrier(r);
}

void admin_request_run(struct admin_request *r)
{
    if (r->state == ADMIN_BARRIER_DONE) {
        after_barrier(r);
    } else if (r->state == ADMIN_CHANGE_DONE) {
        after_change(r);
    }
}

void admin_request_answer(const struct admin_request *r, struct buffer *out)
{
    struct json_writer w;
    hf_assert(r->state == ADMIN_ANSWERED);
    json_writer_init(&w, out);
    json_write_open(&w, '{');
    if (r->fault.code == HF_OK) {
        json_put_text(&w, "principal", r->principal);
        json_put_u64(&w, "version", r->version);
    } else {
        json_put_text(&w, "error", hf_error_code(r->fault.code));
        json_put_text(&w, "message", r->fault.text);
    }
    json_write_close(&w);
    buffer_append_byte(out, '\n');
}
