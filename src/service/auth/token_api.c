/* Tokens over HTTP: listed, made, revoked. The state machine authorises the changes: `admin` on the
 * home tenant of the principal. */
#include "service/auth/policy_work.h"
#include "service/http/api.h"
#include "service/http/body.h"
#include "tls/digest.h"

enum { SECRET_BYTES = 32, TTL_MAX_S = 100 * 365 * 86400u };

static bool may_see(const struct api_request *x, const struct principal_view *principal)
{
    uint32_t caller = x->caller.id.principal;
    return caller == 0 || caller == principal->number ||
           policy_allows_tenant(service_policy(x->service), caller, principal->tenant, RIGHT_ADMIN);
}

struct token_listing {
    struct api_request *x;
    struct json_writer *w;
};

static void put_token(void *ctx, const struct token_view *token)
{
    struct token_listing *l = ctx;
    const struct policy *p = service_policy(l->x->service);
    struct principal_view principal;
    uint8_t text[PRINCIPAL_TEXT];
    struct slice wanted = buffer_bytes(&l->x->kept);
    struct slice who = policy_principal_text(p, token->principal, text);
    if (!policy_principal(p, token->principal, &principal) || !may_see(l->x, &principal) ||
        (wanted.len > 0 && !slice_equal(who, wanted))) {
        return;
    }
    json_write_open(l->w, '{');
    json_put_u64(l->w, "number", token->number);
    json_put_string(l->w, "principal", who);
    json_put_string(l->w, "description", token->description);
    json_put_time(l->w, "created_at", token->created_wall_ms);
    if (token->expires_wall_ms == 0) {
        json_put_null(l->w, "expires_at");
    } else {
        json_put_time(l->w, "expires_at", token->expires_wall_ms);
    }
    json_write_close(l->w);
}

static void render_tokens(struct api_request *x, const struct result *r, struct json_writer *w)
{
    struct token_listing l = {x, w};
    json_put_open(w, "tokens", '[');
    policy_each_token(service_policy(x->service), put_token, &l);
    json_write_close(w);
}

void api_tokens(struct api_request *x)
{
    struct slice principal;
    if (uri_query_text(x->parameters, "principal", &principal)) {
        if (principal.len == 0 || principal.len > PRINCIPAL_TEXT) {
            api_request_fail(x, HF_FIELD_RANGE, "principal: must be TENANT/NAME");
            return;
        }
        buffer_append_slice(&x->kept, principal);
    }
    api_request_read(x, render_tokens);
}

/* ---- changes ---- */

static void submit(struct api_request *x, const struct policy_change *change, const char *reason,
                   render_fn render)
{
    uint8_t packed[LIMIT_POLICY_TEXT + 512];
    uint8_t text[PRINCIPAL_TEXT];
    struct packer changes = packer_make(packed, sizeof(packed));
    struct command c;
    bool fits = pack_policy_change(&changes, change);
    hf_assert(fits); /* every text has a limit */
    command_init(&c, COMMAND_POLICY_CHANGE);
    caller_sign(&c, x->caller.id);
    c.policy_change.expect = UINT64_MAX;
    c.policy_change.actor = policy_actor(x, text);
    c.policy_change.reason = slice_of(reason);
    c.policy_change.changes = packer_list(&changes);
    enum hf_error error = command_check(&c);
    if (error != HF_OK) {
        api_request_fail(x, error, NULL);
    } else {
        api_request_submit(x, &c, true, render);
    }
}

/* "hf_" and base64url of random bytes, without padding. */
static void make_secret(char out[SECRET_TEXT + 1])
{
    static const char letters[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    uint8_t bytes[SECRET_BYTES];
    size_t len = 3;
    uint32_t bits = 0;
    unsigned count = 0;
    digest_random(bytes, sizeof(bytes));
    memcpy(out, "hf_", 3);
    for (size_t i = 0; i < sizeof(bytes); i++) {
        bits = bits << 8 | bytes[i];
        for (count += 8; count >= 6; count -= 6) {
            out[len++] = letters[bits >> (count - 6) & 63];
        }
    }
    out[len++] = letters[bits << (6 - count) & 63];
    out[len] = '\0';
    hf_assert(len == SECRET_TEXT);
    digest_wipe(bytes, sizeof(bytes));
}

static bool read_hex(struct slice text, uint8_t out[TOKEN_SHA_BYTES])
{
    if (text.len != (size_t)2 * TOKEN_SHA_BYTES) {
        return false;
    }
    for (size_t i = 0; i < text.len; i++) {
        uint8_t c = text.data[i];
        unsigned digit = c >= '0' && c <= '9'   ? c - (unsigned)'0'
                         : c >= 'a' && c <= 'f' ? c - (unsigned)'a' + 10
                         : c >= 'A' && c <= 'F' ? c - (unsigned)'A' + 10
                                                : 16;
        if (digit > 15) {
            return false;
        }
        unsigned high = i % 2 == 0 ? 0 : (unsigned)out[i / 2] << 4;
        out[i / 2] = (uint8_t)(high | digit);
    }
    return true;
}

static void render_made(struct api_request *x, const struct result *r, struct json_writer *w)
{
    const struct policy_work *work = x->policy;
    json_put_u64(w, "number", r->highest);
    json_put_u64(w, "version", r->token);
    if (work->secret[0] != '\0') {
        json_put_text(w, "token", work->secret);
    }
    if (work->expires_ms == 0) {
        json_put_null(w, "expires_at");
    } else {
        json_put_time(w, "expires_at", work->expires_ms);
    }
}

static const struct json_field token_fields[] = {
    BODY_TEXT(principal, true, 1, PRINCIPAL_TEXT),
    BODY_TEXT(description, false, 0, LIMIT_POLICY_TEXT),
    BODY_NUMBER(ttl_seconds, false, 1, TTL_MAX_S),
    BODY_TEXT(sha256, false, 1, 64),
};

static void make_token(struct api_request *x, const struct body *b)
{
    uint8_t hash[TOKEN_SHA_BYTES] = {0};
    struct policy_change change = {.kind = POLICY_TOKEN_ADD,
                                   .description = b->f.description,
                                   .sha256 = slice_make(hash, sizeof(hash))};
    if (!document_split(b->f.principal, &change.tenant, &change.name)) {
        api_request_fail(x, HF_FIELD_RANGE, "principal: must be TENANT/NAME");
        return;
    }
    bool is_given = b->f.sha256.len > 0;
    if (is_given && !read_hex(b->f.sha256, hash)) {
        api_request_fail(x, HF_FIELD_RANGE, "sha256: must be 64 hexadecimal digits");
        return;
    }
    struct policy_work *work = policy_work_new(x);
    if (!is_given) {
        make_secret(work->secret);
        digest_sha256(slice_of(work->secret), hash);
    }
    if (b->f.ttl_seconds != BODY_ABSENT) {
        work->expires_ms =
            x->service->gateway.wall_ms(x->service->gateway.ctx) + b->f.ttl_seconds * 1000;
    }
    change.expires_wall_ms = work->expires_ms;
    submit(x, &change, "token created", render_made);
}

void api_token_create(struct api_request *x)
{
    struct body b;
    if (BODY_READ(x, &b, token_fields)) {
        make_token(x, &b);
        body_close(&b);
    }
}

static void render_revoked(struct api_request *x, const struct result *r, struct json_writer *w)
{
    json_put_u64(w, "number", x->member);
    json_put_u64(w, "version", r->token);
}

void api_token_revoke(struct api_request *x)
{
    struct body b;
    if (body_read(x, &b, NULL, 0)) {
        body_close(&b);
        struct policy_change change = {.kind = POLICY_TOKEN_REMOVE, .token = x->member};
        submit(x, &change, "token revoked", render_revoked);
    }
}
