/* Fields that several calls share. */
#include <inttypes.h>
#include <stdio.h>

#include "service/grpc/rpc.h"
#include "service/http/reply.h"

bool rpc_next_piece(struct slice *message, uint64_t *number, struct slice *value)
{
    uint64_t tag;
    uint64_t len;
    struct slice skipped;
    *value = slice_make(NULL, 0);
    if (message->len == 0 || !message_take_varint(message, &tag)) {
        return false;
    }
    *number = tag >> 3;
    switch (tag & 7) {
    case 0:
        return message_take_varint(message, &len);
    case 1:
        return message_take_bytes(message, 8, &skipped);
    case 2:
        return message_take_varint(message, &len) && message_take_bytes(message, len, value);
    case 5:
        return message_take_bytes(message, 4, &skipped);
    default:
        return false;
    }
}

void rpc_body_init(struct body *b)
{
    memset(&b->f, 0, sizeof(b->f));
    b->f.ttl_ms = BODY_ABSENT;
    b->f.deadline_ms = BODY_ABSENT;
    b->f.ttl_seconds = BODY_ABSENT;
    b->present = 0;
    b->is_open = false;
}

bool rpc_name(struct api_request *x, const char *name)
{
    size_t len = strlen(name);
    if (len == 0 || len > sizeof(x->name_bytes)) {
        api_request_fail(x, HF_INVALID_NAME, NULL);
        return false;
    }
    memcpy(x->name_bytes, name, len);
    x->name = slice_make(x->name_bytes, len);
    return true;
}

static bool refuse_range(struct api_request *x, const char *field, uint64_t max_ms)
{
    struct fault fault;
    fault_set(&fault, HF_FIELD_RANGE, "%s: must be a duration from 0 to %" PRIu64 " ms", field,
              max_ms);
    api_request_fault(x, &fault);
    return false;
}

bool rpc_duration(struct api_request *x, const Google__Protobuf__Duration *duration,
                  const char *field, uint64_t max_ms, uint64_t *out)
{
    const int64_t most_s = INT64_C(315576000000); /* the limit in duration.proto */
    if (duration == NULL) {
        return true;
    }
    if (duration->seconds < 0 || duration->seconds > most_s || duration->nanos < 0 ||
        duration->nanos > 999999999) {
        return refuse_range(x, field, max_ms);
    }
    uint64_t ms =
        (uint64_t)duration->seconds * 1000 + ((uint64_t)duration->nanos + 999999) / 1000000;
    if (ms > max_ms) {
        return refuse_range(x, field, max_ms);
    }
    *out = ms;
    return true;
}

bool rpc_wait(struct api_request *x, const Google__Protobuf__Duration *duration, struct body *b)
{
    uint64_t ms = 0;
    if (duration != NULL && (duration->seconds < 0 || duration->nanos < 0)) {
        b->f.wait_timeout_ms = -1;
        return true;
    }
    if (!rpc_duration(x, duration, "wait_timeout", BODY_MOST, &ms)) {
        return false;
    }
    b->f.wait_timeout_ms = (int64_t)ms;
    return true;
}

/* Checked and stored as by the HTTP API. */
bool rpc_metadata(struct api_request *x, const char *text, struct body *b)
{
    struct service *s = x->service;
    struct slice given = slice_of(text);
    if (given.len == 0) {
        return true;
    }
    struct fault fault;
    size_t len = 0;
    uint8_t *compact = given.len > LIMIT_HTTP_BODY ? NULL : bump_take(&s->arena, given.len);
    if (compact == NULL) {
        api_request_fail(x, HF_INVALID_METADATA, NULL);
        return false;
    }
    if (json_compact(s->memory, given, compact, &len, &fault) != HF_OK || len > LIMIT_METADATA) {
        api_request_fail(x, HF_INVALID_METADATA,
                         "metadata: must be JSON text of at most 4,096 bytes");
        return false;
    }
    b->f.metadata = slice_make(compact, len);
    return true;
}

struct slice rpc_mode(Holdfast__V1__Mode mode)
{
    _Static_assert((int)HOLDFAST__V1__MODE__EXCLUSIVE == (int)MODE_EXCLUSIVE + 1 &&
                       (int)HOLDFAST__V1__MODE__ELECTION == (int)MODE_COUNT,
                   "lock.proto has the modes in another order");
    if (mode == HOLDFAST__V1__MODE__MODE_UNSPECIFIED) {
        return slice_make(NULL, 0);
    }
    return slice_of((unsigned)mode <= MODE_COUNT ? mode_name((enum mode)(mode - 1)) : "unknown");
}

Holdfast__V1__Tier rpc_tier_out(enum tier tier)
{
    return tier == TIER_EFFICIENCY ? HOLDFAST__V1__TIER__EFFICIENCY
                                   : HOLDFAST__V1__TIER__CORRECTNESS;
}

struct slice rpc_tier(Holdfast__V1__Tier tier)
{
    switch (tier) {
    case HOLDFAST__V1__TIER__TIER_UNSPECIFIED:
        return slice_make(NULL, 0);
    case HOLDFAST__V1__TIER__CORRECTNESS:
        return slice_of(tier_name(TIER_CORRECTNESS));
    case HOLDFAST__V1__TIER__EFFICIENCY:
        return slice_of(tier_name(TIER_EFFICIENCY));
    default:
        return slice_of("unknown");
    }
}

bool rpc_page(struct api_request *x, uint32_t limit, const char *cursor, bool stale)
{
    uint64_t value = 0;
    for (const char *c = cursor; *c != '\0'; c++) {
        if (*c < '0' || *c > '9' || value >= PAGE_CURSOR_MAX / 10) {
            api_request_fail(x, HF_FIELD_RANGE,
                             "cursor: must be the next_cursor of an earlier page");
            return false;
        }
        value = value * 10 + (uint64_t)(*c - '0');
    }
    if (limit > LIMIT_PAGE_MAX) {
        api_request_fail(x, HF_FIELD_RANGE, "limit: must be at most 1,000");
        return false;
    }
    x->page = (struct list_page){
        .cursor = value, .limit = limit == 0 ? LIMIT_PAGE : limit, .is_stale = stale};
    return true;
}
