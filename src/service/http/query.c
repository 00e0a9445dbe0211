/* See query.h. */
#include "service/http/query.h"

#include "wire/instant.h"

static bool refuse(struct api_request *x, enum hf_error error, const char *key, const char *rule)
{
    struct fault fault;
    (void)fault_set(&fault, error, "%s: %s", key, rule);
    api_request_fault(x, &fault);
    return false;
}

bool query_text(struct api_request *x, const char *key, size_t max, struct slice *out)
{
    struct slice text = *out;
    if (!uri_query_text(x->parameters, key, &text)) {
        return true;
    }
    if (text.len == 0 || text.len > max) {
        struct fault fault;
        (void)fault_set(&fault, HF_FIELD_RANGE, "%s: must be 1 to %zu bytes", key, max);
        api_request_fault(x, &fault);
        return false;
    }
    *out = text;
    return true;
}

bool query_instant(struct api_request *x, const char *key, uint64_t latest_ms, uint64_t *out)
{
    struct slice text;
    uint64_t wall_ms;
    if (!uri_query_text(x->parameters, key, &text)) {
        return true;
    }
    if (!instant_parse(text, x->service->gateway.wall_ms(x->service->gateway.ctx), &wall_ms)) {
        return refuse(x, HF_FIELD_TYPE, key, "must be " INSTANT_FORMS);
    }
    if (wall_ms > latest_ms) {
        return refuse(x, HF_FIELD_RANGE, key, "must not be in the future");
    }
    *out = wall_ms;
    return true;
}

bool query_range(struct api_request *x, uint64_t since_ms, uint64_t until_ms)
{
    return until_ms == 0 || until_ms > since_ms ||
           refuse(x, HF_FIELD_RANGE, "until", "must be after since");
}
