/* One request and its answer, independent of the transport.
 *
 * A transport fills in the request, calls api_request_begin, and later receives either one answer
 * or one stream. A handler reads the request, submits a command and names a function that renders
 * the result. */
#ifndef HOLDFAST_SERVICE_REQUEST_API_REQUEST_H
#define HOLDFAST_SERVICE_REQUEST_API_REQUEST_H

#include "core/view.h"
#include "service/request/memory_page.h"
#include "service/request/watch.h"
#include "service/state.h"
#include "wire/fault.h"
#include "wire/http1.h"
#include "wire/json_write.h"
#include "wire/uri.h"

struct api_request;
struct route;
struct member_change;
struct download;

struct answer {
    int status;
    const char *content_type;
    struct slice body;
    bool is_constant;  /* the body is static: no copy is needed */
    const char *allow; /* the header Allow; NULL: none */
    uint32_t retry_after_s;
    enum hf_error error;             /* HF_OK: success */
    const char *message;             /* the sentence for the error */
    struct pending_request *pending; /* to be settled when the answer is written; may be NULL */
};

/* The head of an answer whose body is sent in pieces, as fast as the client reads it. */
struct long_answer {
    const char *content_type;
    uint64_t bytes;                  /* of the complete body */
    const struct http1_extra *extra; /* header names in lower case */
    size_t extra_count;
};

/* What a transport (HTTP/1.1, HTTP/2, gRPC) implements. */
struct api_transport {
    /* Answers are JSON. If not, render functions get no writer and write into service.scratch
     * themselves; errors are passed as a code and a sentence. */
    bool is_json;
    void (*answer)(struct api_request *x, const struct answer *answer);
    /* Begins a stream of events; calls of `piece` and one of `end` follow. */
    void (*stream)(struct api_request *x);
    void (*piece)(struct api_request *x, struct slice piece);
    void (*end)(struct api_request *x, const char *why);
    /* Bytes of output that are not sent yet. */
    size_t (*backlog)(const struct api_request *x);
    /* Begins an answer of known length; `piece` and `end` follow. An `end` before the last byte
     * aborts the answer so that the client detects it. NULL: not supported. */
    void (*long_answer)(struct api_request *x, const struct long_answer *answer);
};

/* A list shows the replicated state first, then the tier EFFICIENCY. Cursors from here on belong to
 * that tier, with this offset. */
#define MEMORY_CURSOR (UINT64_C(1) << 33)

/* Writes the members of the answer's JSON object. `result` is NULL after a barrier. `w` is NULL if
 * the transport does not use JSON. */
typedef void (*render_fn)(struct api_request *x, const struct result *result,
                          struct json_writer *w);

/* The page of a list that is requested. */
struct list_page {
    uint64_t cursor;
    uint64_t limit;
    bool is_private; /* include private sessions */
    bool is_stale;
    bool is_omitted; /* a stale read on a node without the tier EFFICIENCY */
};

struct api_request {
    const struct api_transport *transport;
    struct service *service;
    uint32_t tenant;
    bool is_operator; /* may see tokens and ids of others (S4.4), and force locks open */

    /* The request. Valid until api_request_begin returns. */
    enum http_method method;
    struct slice path;
    struct slice query;
    struct slice host;
    struct slice origin;
    struct slice idempotency_key;
    struct slice last_event_id;
    struct slice body;
    const struct uri_query *parameters; /* of the query, decoded */

    /* What the answer needs. */
    const struct route *route;
    struct slice name; /* from the path, or the prefix of a list; stored in name_bytes */
    uint8_t name_bytes[LIMIT_NAME];
    struct id id; /* of the session or the lease in the path */
    struct list_page page;
    char request_id[LIMIT_REQUEST_ID + 1]; /* to retry with; "": none */
    struct buffer kept;                    /* strings that the answer repeats */
    size_t kept_first;                     /* length of the first of them */
    bool now;                              /* force-unlock */
    enum tier tier;                        /* requested (S10) */
    uint32_t ttl_ms;                       /* of a session; the result of a replay lacks it */
    enum hf_error refused;                 /* set by a render function that has nothing to show */
    render_fn render;
    struct pending_request *pending; /* in flight */
    uint64_t member;                 /* of the cluster, from the path or the body; 0: none */
    enum gateway_change change_kind;
    struct member_change *change; /* in flight */
    struct download *download;    /* of a snapshot, until it is sent */
    struct watcher watcher;
};

void api_request_init(struct api_request *x, struct service *s,
                      const struct api_transport *transport);
void api_request_close(struct api_request *x);

/* Routes the request and calls its handler. */
void api_request_begin(struct api_request *x);
/* Whether a route exists for path and method. Needs no body. */
bool api_request_is_known(struct api_request *x);

/* The client disconnected before the answer. */
void api_request_abandon(struct api_request *x);
/* The node stops: answers a waiting request, ends a stream. */
void api_request_drain(struct api_request *x);

/* For handlers: call exactly one of these, once. */
void api_request_submit(struct api_request *x, const struct command *command, bool keeps_place,
                        render_fn render);
/* Withdraws the acquire with this request id (S7.5). */
void api_request_cancel(struct api_request *x, const struct command *acquire, render_fn render);
void api_request_keepalive(struct api_request *x, struct id session, render_fn render);
/* Renders from the local state, after a barrier unless page.is_stale (S9.1). */
void api_request_read(struct api_request *x, render_fn render);
/* The same, with a page of the tier EFFICIENCY in service.looked: x->name, or the names with that
 * prefix. */
void api_request_look(struct api_request *x, enum memory_page_kind kind, render_fn render);
void api_request_fail(struct api_request *x, enum hf_error error, const char *message);
void api_request_fault(struct api_request *x, const struct fault *fault);
void api_request_answer_json(struct api_request *x, int status, render_fn render);
void api_request_answer_text(struct api_request *x, int status, const char *content_type,
                             struct slice body);
void api_request_answer_constant(struct api_request *x, const char *content_type,
                                 struct slice body);
/* api_member.c: the client is gone while its membership change is in flight. */
void member_abandon(struct api_request *x);
/* api_snapshot.c: the client is gone, or the node stops. */
void download_abandon(struct api_request *x);
void download_drain(struct api_request *x);
/* For handlers that create x->pending themselves: the on_answer that api_request_submit uses. */
void api_request_answered(void *owner, enum hf_error error, const struct result *result);

#endif
