/* Requests of the HTTP API over HTTP/2. Their strings are copied: the body may arrive in later
 * calls. */
#include "service/http/http2_conn.h"

static void keep_texts(struct stream *stream, const struct http2_request *request)
{
    struct api_request *x = &stream->x;
    struct slice *to[] = {&x->path,          &x->query,           &x->host,
                          &x->origin,        &x->idempotency_key, &x->last_event_id,
                          &x->authorization, &x->tenant_name,     &x->traceparent};
    const struct slice from[] = {
        request->path,          request->query,           request->host,
        request->origin,        request->idempotency_key, request->last_event_id,
        request->authorization, request->tenant,          request->traceparent};
    for (size_t i = 0; i < sizeof(to) / sizeof(to[0]); i++) {
        bool is_kept = buffer_append_slice(&stream->head, from[i]);
        hf_assert(is_kept); /* the capacity is the limit of a head */
    }
    size_t at = 0;
    struct slice all = buffer_bytes(&stream->head);
    for (size_t i = 0; i < sizeof(to) / sizeof(to[0]); i++) {
        *to[i] = slice_make(all.data == NULL ? NULL : all.data + at, from[i].len);
        at += from[i].len;
    }
}

void http2_request_begin(struct stream *stream, const struct http2_request *request)
{
    stream->x.method = request->method;
    if (request->error != HF_OK) {
        api_request_fail(&stream->x, request->error, NULL);
        return;
    }
    keep_texts(stream, request);
}

void http2_request_data(struct stream *stream, struct slice bytes)
{
    (void)stream_keep_body(stream, bytes, LIMIT_HTTP_BODY);
}

void http2_request_end(struct stream *stream)
{
    struct api_request *x = &stream->x;
    stream_set_state(stream, STREAM_BUSY);
    x->body = buffer_bytes(&stream->body);
    api_request_begin(x);
    if (auth_is_waiting(&x->wait)) {
        return; /* transport_resume calls this again */
    }
    stream_drop_body(stream);
    buffer_close(&stream->head);
}
