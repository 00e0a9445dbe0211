/* One request and its answer, for any transport.
 *
 * A transport fills in the request, calls api_request_begin, and later receives one answer or
 * stream. A handler submits a command and names a function that renders the result. */
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
struct event_search;
struct search_work;
struct policy_work;

struct answer {
    int status;
    const char *content_type;
    struct slice body;
    bool is_constant;                /* static body: no copy needed */
    const char *allow;               /* the header Allow; NULL: none */
    const struct http1_extra *extra; /* names in lower case; at most CORS_PAGE_HEADERS */
    size_t extra_count;
    uint32_t retry_after_s;
    enum hf_error error;             /* HF_OK: success */
    const char *message;             /* for the error */
    struct pending_request *pending; /* settle when the answer is written; may be NULL */
};

/* Sent in pieces, as fast as the client reads. */
struct long_answer {
    const char *content_type;
    uint64_t bytes;                  /* of the complete body */
    const struct http1_extra *extra; /* header names in lower case */
    size_t extra_count;
};

/* Implemented by HTTP/1.1, HTTP/2 and gRPC. */
struct api_transport {
    /* If not JSON, render functions get no writer and write into service.scratch; errors are a code
     * and a sentence. */
    bool is_json;
    void (*answer)(struct api_request *x, const struct answer *answer);
    /* Begins a stream of events; calls of `piece` and one `end` follow. */
    void (*stream)(struct api_request *x);
    void (*piece)(struct api_request *x, struct slice piece);
    void (*end)(struct api_request *x, enum hf_error error, const char *why);
    /* Unsent bytes. */
    size_t (*backlog)(const struct api_request *x);
    /* The request waited for its caller to be known: begins it again. */
    void (*resume)(struct api_request *x);
    /* Begins an answer of known length; `piece` and `end` follow. The client detects an early
     * `end`. NULL: not supported. */
    void (*long_answer)(struct api_request *x, const struct long_answer *answer);
};

/* A list shows the replicated state, then the tier EFFICIENCY, whose cursors have this offset. */
#define MEMORY_CURSOR (UINT64_C(1) << 33)

/* Writes the members of the answer's JSON object. `result`: NULL after a barrier. `w`: NULL without
 * JSON. */
typedef void (*render_fn)(struct api_request *x, const struct result *result,
                          struct json_writer *w);

/* Each list checks its own range, which is narrower. */
#define PAGE_CURSOR_MAX ((UINT64_C(1) << 56) - 1)

struct list_page {
    uint64_t cursor;
    uint64_t limit;
    bool is_private; /* include private sessions */
    bool is_no_ttl;  /* only names whose first holder has no deadline */
    bool is_stale;
    bool is_omitted; /* a stale read without the tier EFFICIENCY */
};

/* What a search collects. Its owner embeds it. */
struct search_work {
    void (*free)(struct api_request *x, struct search_work *work);
};

struct api_request {
    const struct api_transport *transport;
    struct service *service;
    struct caller caller;
    enum need need;         /* of the route or method */
    struct auth_conn *auth; /* of the connection */
    struct auth_wait wait;
    char *denial; /* AUTH_TEXT bytes: the local policy denies the command; NULL: it does not */
    struct quota_refusal refusal; /* of the answer HF_QUOTA */
    bool is_operator;             /* sees tokens and ids of others (S4.4), forces locks open */
    char *page_origin;            /* the request is from a page of a member (cors.h); NULL: no */

    /* Valid until api_request_begin returns. */
    enum http_method method;
    struct slice path;
    struct slice query;
    struct slice host;
    struct slice origin;
    struct slice idempotency_key;
    struct slice last_event_id;
    struct slice authorization; /* with auth = on */
    struct slice tenant_name;   /* the same */
    struct slice traceparent;   /* as sent; the trace of an acquire that names none */
    struct slice body;
    const struct uri_query *parameters; /* decoded */

    /* For the answer. */
    const struct route *route;
    struct slice name; /* from the path, or a list's prefix; in name_bytes */
    uint8_t name_bytes[LIMIT_NAME];
    struct id id; /* session or lease in the path */
    struct list_page page;
    char request_id[LIMIT_REQUEST_ID + 1]; /* to retry with; "": none */
    struct buffer kept;                    /* strings for the answer */
    size_t kept_first;                     /* length of the first */
    bool now;                              /* force-unlock */
    enum tier tier;                        /* requested (S10) */
    uint32_t ttl_ms;                       /* of a session; a replayed result lacks it */
    enum hf_error refused;                 /* set by a render function with nothing to show */
    int status;                            /* set by a render function; 0: as its caller says */
    render_fn render;
    struct pending_request *pending; /* in flight */
    uint64_t member;                 /* of the cluster, in path or body; 0: none */
    enum gateway_change change_kind;
    struct member_change *change;         /* in flight */
    struct policy_work *policy;           /* of a change of the policy, until answered */
    struct download *download;            /* of a snapshot, until sent */
    struct event_search *search;          /* in flight; event_search.h */
    struct search_work *work;             /* of a history or an audit search, until answered */
    void (*ready)(struct api_request *x); /* api_request_read_first */
    struct watcher watcher;
};

void api_request_init(struct api_request *x, struct service *s,
                      const struct api_transport *transport);
void api_request_close(struct api_request *x);

/* These two are in http/dispatch.c. */
void api_request_begin(struct api_request *x);
/* Whether path and method have a route. Needs no body. */
bool api_request_is_known(struct api_request *x);

/* The client is gone. */
void api_request_abandon(struct api_request *x);
/* The node stops: answers a waiting request, ends a stream. */
void api_request_drain(struct api_request *x);
/* The caller is not valid any more: ends what the request has begun. */
void api_request_deny(struct api_request *x, const char *why);

/* For handlers: call exactly one of these, once. */
void api_request_submit(struct api_request *x, const struct command *command, bool keeps_place,
                        render_fn render);
/* Withdraws the acquire with this request id (S7.5). */
void api_request_cancel(struct api_request *x, const struct command *acquire, render_fn render);
/* Renders the local state, after a barrier unless page.is_stale (S9.1). */
void api_request_read(struct api_request *x, render_fn render);
/* The same, with a page of the tier EFFICIENCY in service.looked: x->name, or that prefix. */
void api_request_look(struct api_request *x, enum memory_page_kind kind, render_fn render);
/* As the two above, with more work before the answer: calls `ready` where they would render. It may look
 * at the state and at service.looked, and answers, or begins a search in the event log. */
void api_request_read_first(struct api_request *x, void (*ready)(struct api_request *x));
void api_request_look_first(struct api_request *x, enum memory_page_kind kind,
                            void (*ready)(struct api_request *x));
/* Renders the leader's answer in service.looked (leader_query.h). Copies the query. */
void api_request_query(struct api_request *x, struct slice query, render_fn render);
void api_request_fail(struct api_request *x, enum hf_error error, const char *message);
void api_request_fault(struct api_request *x, const struct fault *fault);
void api_request_fail_quota(struct api_request *x, const struct quota_refusal *refusal);
void api_request_answer_json(struct api_request *x, int status, render_fn render);
void api_request_answer_text(struct api_request *x, int status, const char *content_type,
                             struct slice body);
void api_request_answer_constant(struct api_request *x, const char *content_type,
                                 struct slice body);
/* api_member.c: the client is gone. */
void member_abandon(struct api_request *x);
/* auth/policy_api.c: it is answered, or the client is gone. */
void policy_work_free(struct api_request *x);
/* api_snapshot.c: the client is gone, or the node stops. */
void download_abandon(struct api_request *x);
void download_drain(struct api_request *x);
/* For handlers that create x->pending: the on_answer of api_request_submit, or called by theirs. */
void api_request_answered(void *owner, enum hf_error error, const struct result *result);

#endif
