/* Reading bodies and shared rules, see body.h. */
#include "service/http/body.h"

#include <inttypes.h>

#include "base/text.h"
#include "service/http/reply.h"

static const char lease_prefix[] = REQUEST_ID_LEASE;
static const char session_prefix[] = "session-";

static bool is_anything_required(const struct json_field *table, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (table[i].required) {
            return true;
        }
    }
    return false;
}

uint64_t body_ttl_min_seconds(const struct api_request *x)
{
    return (x->service->options.ttl_min_ms + 999u) / 1000u;
}

/* The static tables lack the configured `ttl-min`: reads a bad body again with it, so the error
 * names the range. */
static void name_ttl_range(const struct api_request *x, struct body *b,
                           const struct json_field *table, size_t count, struct fault *fault)
{
    struct json_field exact[JSON_FIELDS];
    for (size_t i = 0; i < count; i++) {
        exact[i] = table[i];
        if (table[i].offset == offsetof(struct fields, ttl_ms)) {
            exact[i].min = x->service->options.ttl_min_ms;
            exact[i].max = LIMIT_TTL_MAX_MS;
        } else if (table[i].offset == offsetof(struct fields, ttl_seconds)) {
            exact[i].min = (int64_t)body_ttl_min_seconds(x);
            exact[i].max = LIMIT_TTL_MAX_MS / 1000;
        }
    }
    (void)json_doc_read(&b->doc, exact, count, &b->f, &b->present, fault);
}

bool body_read(struct api_request *x, struct body *b, const struct json_field *table, size_t count)
{
    memset(&b->f, 0, sizeof(b->f));
    b->f.ttl_ms = BODY_ABSENT;
    b->f.deadline_ms = BODY_ABSENT;
    b->f.ttl_seconds = BODY_ABSENT;
    b->present = 0;
    b->is_open = false;
    if (x->body.len == 0 && !is_anything_required(table, count)) {
        return true;
    }
    struct fault fault;
    if (json_doc_open(&b->doc, x->service->memory, x->body, &fault) != HF_OK) {
        api_request_fault(x, &fault);
        return false;
    }
    b->is_open = true;
    if (json_doc_read(&b->doc, table, count, &b->f, &b->present, &fault) != HF_OK) {
        name_ttl_range(x, b, table, count, &fault);
        body_close(b);
        api_request_fault(x, &fault);
        return false;
    }
    return true;
}

void body_close(struct body *b)
{
    if (b->is_open) {
        json_doc_close(&b->doc);
        b->is_open = false;
    }
}

static bool refuse(struct api_request *x, enum hf_error error, const char *message)
{
    api_request_fail(x, error, message);
    return false;
}

bool body_id(struct api_request *x, struct slice text, const char *field, struct id *out)
{
    if (text.len == 0 || reply_parse_id(text, out)) {
        return true;
    }
    struct fault fault;
    fault_set(&fault, HF_INVALID_ID, "%s: must be %d hexadecimal digits, in small letters", field,
              REPLY_ID);
    api_request_fault(x, &fault);
    return false;
}

bool body_session(struct api_request *x, const struct body *b, struct command *command)
{
    if (!body_id(x, b->f.session_id, "session_id", &command->session)) {
        return false;
    }
    command->seq = b->f.seq;
    command->acked_through = b->f.acked_through;
    return true;
}

/* "lease-" or "session-" and an id. */
static bool parse_drawn(struct slice text, const char *prefix, struct id *out)
{
    size_t len = strlen(prefix);
    return slice_starts_with(text, slice_of(prefix)) &&
           reply_parse_id(slice_make(text.data + len, text.len - len), out);
}

/* No snprintf: every acquire and release runs this. */
static void keep_request_id(struct api_request *x, const char *prefix, struct slice id)
{
    size_t len = strlen(prefix);
    hf_assert(len + id.len < sizeof(x->request_id));
    memcpy(x->request_id, prefix, len);
    if (id.len > 0) {
        memcpy(x->request_id + len, id.data, id.len);
    }
    x->request_id[len + id.len] = '\0';
}

/* For an answer that returns it. */
static void store_drawn_id(struct api_request *x, const char *prefix, struct id id)
{
    char text[REPLY_ID + 1];
    reply_format_id(id, text);
    keep_request_id(x, prefix, slice_make(text, REPLY_ID));
}

/* From the body or the header. */
static bool given_id(struct api_request *x, const struct body *b, struct slice *out)
{
    struct slice id = b->f.request_id;
    struct slice key = x->idempotency_key;
    if (id.len > 0 && key.len > 0 && !slice_equal(id, key)) {
        return refuse(x, HF_INVALID_REQUEST_ID,
                      "request_id and the header Idempotency-Key mean the same and differ");
    }
    *out = id.len > 0 ? id : key;
    return out->len == 0 || text_is_request_id(*out) || refuse(x, HF_INVALID_REQUEST_ID, NULL);
}

bool body_request_id(struct api_request *x, const struct body *b, enum body_id from,
                     struct command *command, struct id *drawn, bool *is_given)
{
    struct slice id;
    if (!given_id(x, b, &id)) {
        return false;
    }
    const char *prefix = from == BODY_ID_LEASE ? lease_prefix : session_prefix;
    bool draws_id = from == BODY_ID_LEASE || from == BODY_ID_SESSION;
    *is_given = id.len > 0 || command->seq != 0;
    keep_request_id(x, "", id);
    if (draws_id && parse_drawn(id, prefix, drawn)) {
        return true;
    }
    command->request_id = id;
    if (draws_id) {
        *drawn = service_random_id(x->service);
        if (!*is_given) {
            store_drawn_id(x, prefix, *drawn);
        }
    } else if (from == BODY_ID_DRAWN && !*is_given) {
        store_drawn_id(x, REQUEST_ID_NODE, service_random_id(x->service));
        command->request_id = slice_of(x->request_id);
    }
    return true;
}

bool body_ttl(struct api_request *x, const struct body *b, uint32_t otherwise, uint32_t *ttl_ms)
{
    uint32_t min_ms = x->service->options.ttl_min_ms;
    if (b->f.ttl_ms == BODY_ABSENT) {
        *ttl_ms = otherwise;
        return true;
    }
    if (b->f.ttl_ms < min_ms || b->f.ttl_ms > LIMIT_TTL_MAX_MS) {
        struct fault fault;
        fault_set(&fault, HF_FIELD_RANGE, "ttl_ms: must be a whole number from %" PRIu32 " to %u",
                  min_ms, LIMIT_TTL_MAX_MS);
        api_request_fault(x, &fault);
        return false;
    }
    *ttl_ms = (uint32_t)b->f.ttl_ms;
    return true;
}

bool body_client(struct api_request *x, const struct body *b, struct slice *out)
{
    *out = b->f.client_id;
    if (out->len == 0 && b->f.session_id.len == 0) {
        return refuse(x, HF_FIELD_MISSING, "client_id: is required");
    }
    return true;
}

bool body_tier(struct api_request *x, const struct body *b)
{
    x->tier = TIER_CORRECTNESS;
    if (b->f.tier.len == 0 || slice_is_word(b->f.tier, tier_name(TIER_CORRECTNESS))) {
        return true;
    }
    if (slice_is_word(b->f.tier, tier_name(TIER_EFFICIENCY))) {
        x->tier = TIER_EFFICIENCY;
        return true;
    }
    return refuse(x, HF_FIELD_RANGE, "tier: must be CORRECTNESS or EFFICIENCY");
}

bool body_check(struct api_request *x, const struct command *command)
{
    enum hf_error error = command_check(command);
    return error == HF_OK || refuse(x, error, NULL);
}
