/* The headers of an HTTP/2 request that is being received: private to http2.c. */
#ifndef HOLDFAST_WIRE_HTTP2_HEAD_H
#define HOLDFAST_WIRE_HTTP2_HEAD_H

#include "wire/http2.h"

/* The values that are kept. */
enum http2_field {
    FIELD_METHOD,
    FIELD_PATH,
    FIELD_AUTHORITY,
    FIELD_HOST,
    FIELD_CONTENT_TYPE,
    FIELD_ORIGIN,
    FIELD_IDEMPOTENCY_KEY,
    FIELD_LAST_EVENT_ID,
    FIELD_GRPC_TIMEOUT,
    FIELD_GRPC_ENCODING,
    FIELD_AUTHORIZATION,
    FIELD_TENANT,
    FIELD_TRACEPARENT,
    FIELD_COUNT
};

struct http2_head {
    struct buffer texts;
    uint16_t at[FIELD_COUNT];
    uint16_t len[FIELD_COUNT];
    uint16_t has; /* bit i: field i is present */
    uint16_t count;
    uint32_t bytes;
    uint64_t received; /* bytes, also those that are not kept */
    enum hf_error error;
};

void http2_head_init(struct http2_head *head, const struct memory *memory);
void http2_head_close(struct http2_head *head);
void http2_head_begin(struct http2_head *head);
void http2_head_add(struct http2_head *head, struct slice name, struct slice value);
/* So much above the limit that no answer is due: a few bytes of HPACK can stand for megabytes. */
bool http2_head_is_bomb(const struct http2_head *head);
/* Its texts point into `head`. */
void http2_head_read(struct http2_head *head, struct http2_request *out);
/* Until the next request begins. */
void http2_head_end(struct http2_head *head);

#endif
