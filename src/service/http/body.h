/* The fields of each call, and shared rules. */
#ifndef HOLDFAST_SERVICE_HTTP_BODY_H
#define HOLDFAST_SERVICE_HTTP_BODY_H

#include "service/request/api_request.h"
#include "wire/json.h"

struct fields {
    struct slice client_id;
    struct slice session_id;
    struct slice owner;
    struct slice mode;
    struct slice tier;
    struct slice metadata;
    struct slice trace;
    struct slice value;
    struct slice request_id;
    struct slice lease_id;
    struct slice resource;
    struct slice lock; /* that protects the resource */
    struct slice actor_id;
    struct slice reason;
    struct slice address;
    struct slice log_level;
    struct slice principal;
    struct slice description;
    struct slice sha256;
    struct slice prefix;
    struct json_strings names;
    uint64_t ttl_ms;
    int64_t wait_timeout_ms;
    uint64_t limit;
    uint64_t permits;
    uint64_t slot;
    uint64_t lock_delay_ms;
    uint64_t linger_ms;
    uint64_t deadline_ms;
    uint64_t fencing_token;
    uint64_t epoch;
    uint64_t seq;
    uint64_t acked_through;
    uint64_t ttl_seconds;
    uint64_t member;
    uint64_t max_hold_ms;
    uint64_t if_token;
    uint64_t after_ms;
    uint64_t lock_count;
    uint64_t lock_xor;
    bool reentrant;
    bool detect_deadlock;
    bool cancel;
    bool now;
};

/* An absent ttl_ms, ttl_seconds or deadline_ms. */
#define BODY_ABSENT UINT64_MAX
#define BODY_MOST ((int64_t)LIMIT_NUMBER - 1)
#define BODY_FIELD(type_, name_, member_, required_, min_, max_)             \
    {                                                                        \
        .name = name_, .type = JSON_FIELD_##type_, .required = required_,    \
        .offset = offsetof(struct fields, member_), .min = min_, .max = max_ \
    }
#define BODY_TEXT(member, required, min, max) \
    BODY_FIELD(STRING, #member, member, required, min, max)
#define BODY_NUMBER(member, required, min, max) \
    BODY_FIELD(UINT, #member, member, required, min, max)

/* Rows of several tables. body_ttl checks TTLs against the configured limits. */
#define BODY_CLIENT BODY_TEXT(client_id, false, 1, LIMIT_CLIENT)
#define BODY_SESSION BODY_TEXT(session_id, false, 1, 64)
#define BODY_REQUEST_ID BODY_TEXT(request_id, false, 1, LIMIT_REQUEST_ID)
#define BODY_TTL BODY_NUMBER(ttl_ms, false, 0, BODY_MOST)
#define BODY_TOKEN(required) BODY_NUMBER(fencing_token, required, 1, BODY_MOST)
#define BODY_SEQ \
    BODY_NUMBER(seq, false, 1, BODY_MOST), BODY_NUMBER(acked_through, false, 0, BODY_MOST)
/* The range is the core's: invalid_max_hold. */
#define BODY_MAX_HOLD BODY_NUMBER(max_hold_ms, false, 0, BODY_MOST)
#define BODY_TRACE BODY_TEXT(trace, false, 0, LIMIT_TRACE)
#define BODY_METADATA BODY_FIELD(ANY, "metadata", metadata, false, 0, LIMIT_METADATA)

struct body {
    struct fields f;
    uint64_t present; /* bit i: the body has the field of row i */
    bool is_open;
    struct json_doc doc;
};

/* Reads x->body. False: invalid; answered. Strings are valid until body_close. An empty body is an
 * empty object if no field is required. */
bool body_read(struct api_request *x, struct body *b, const struct json_field *table, size_t count);
void body_close(struct body *b);

#define BODY_READ(x, b, table) body_read(x, b, table, sizeof(table) / sizeof((table)[0]))

/* These answer the request and return false when a rule is broken. */

/* session_id, seq, acked_through. */
bool body_session(struct api_request *x, const struct body *b, struct command *command);

/* Source of a request id that the client does not give (S8.1). */
enum body_id {
    BODY_ID_OWN,     /* only from the client */
    BODY_ID_DRAWN,   /* 128 random bits */
    BODY_ID_LEASE,   /* the lease id: identifies the acquire to the core */
    BODY_ID_SESSION, /* likewise the session id */
};

/* Reads request_id or the header Idempotency-Key. LEASE and SESSION also draw the id, or take it
 * from a request_id of an earlier answer. `*is_given`: the client has an id to retry with. */
bool body_request_id(struct api_request *x, const struct body *b, enum body_id from,
                     struct command *command, struct id *drawn, bool *is_given);

/* ttl-min, rounded up. */
uint64_t body_ttl_min_seconds(const struct api_request *x);
/* `otherwise` if ttl_ms is absent. */
bool body_ttl(struct api_request *x, const struct body *b, uint32_t otherwise, uint32_t *ttl_ms);

/* An absent field leaves `*out` zero. */
bool body_id(struct api_request *x, struct slice text, const char *field, struct id *out);

/* client_id; required without a session. */
bool body_client(struct api_request *x, const struct body *b, struct slice *out);

/* Sets x->tier. */
bool body_tier(struct api_request *x, const struct body *b);

/* The checks of the core, before replication. */
bool body_check(struct api_request *x, const struct command *command);

#define BODY_TTL_DEFAULT_MS 30000u

#endif
