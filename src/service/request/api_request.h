/* One request and its answer, whatever door it came through: what the handlers of the API see.
 *
 * A door fills in the request, calls api_request_begin, and later gets either one answer or one
 * stream. Handlers read the request, make a command of it and name a function that renders its
 * result. */
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
    bool is_constant;  /* the body lasts as long as the program: it need not be copied */
    const char *allow; /* the header Allow; NULL: none */
    uint32_t retry_after_s;
    enum hf_error error;             /* HF_OK: the body is what was asked for */
    const char *message;             /* the sentence for the error */
    struct pending_request *pending; /* to be settled when the answer is written; may be NULL */
};

/* The head of an answer whose body comes piece by piece, as the client takes it. */
struct long_answer {
    const char *content_type;
    uint64_t bytes;                  /* of the body; of all pieces together */
    const struct http1_extra *extra; /* their names in small letters */
    size_t extra_count;
};

/* What a door does for an exchange. */
struct api_transport {
    /* Answers are JSON. If not, render functions get no writer and put bytes of their own into the
     * service's scratch, and errors come as a code and a sentence. */
    bool is_json;
    void (*answer)(struct api_request *x, const struct answer *answer);
    /* Begins a stream of events; later come pieces, and then its end. */
    void (*stream)(struct api_request *x);
    void (*piece)(struct api_request *x, struct slice piece);
    void (*end)(struct api_request *x, const char *why);
    /* Bytes that the client has not taken yet. */
    size_t (*backlog)(const struct api_request *x);
    /* Begins an answer of known length; its pieces and its end follow as those of a stream do. An
     * end before the last byte breaks it off so that the client sees it. NULL: not by this door. */
    void (*long_answer)(struct api_request *x, const struct long_answer *answer);
};

/* A list goes on behind the replicated state with what the tier EFFICIENCY holds: cursors from here
 * on are of that, less this number. */
#define MEMORY_CURSOR (UINT64_C(1) << 33)

/* Writes the members of the answer, between its braces. `result` is NULL after a barrier, `w` when
 * the door does not take JSON. */
typedef void (*render_fn)(struct api_request *x, const struct result *result,
                          struct json_writer *w);

/* Which page of a list. */
struct page {
    uint64_t cursor;
    uint64_t limit;
    bool is_private; /* private sessions too */
    bool is_stale;
    bool is_omitted; /* stale, where the tier EFFICIENCY is not to be seen */
};

struct api_request {
    const struct api_transport *door;
    struct service *service;
    uint32_t tenant;
    bool is_operator; /* may see tokens and ids of others (S4.4), and force locks open */

    /* The request. Lasts until api_request_begin returns. */
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
    struct slice name; /* from the path, or the prefix of a list; lies in name_bytes */
    uint8_t name_bytes[LIMIT_NAME];
    struct id id; /* of the session or the lease in the path */
    struct page page;
    char request_id[LIMIT_REQUEST_ID + 1]; /* to ask again with; "" when there is none */
    struct buffer kept;                    /* texts that the answer repeats */
    size_t kept_first;                     /* length of the first of them */
    bool now;                              /* force-unlock */
    enum tier tier;                        /* that the request asks for (S10) */
    uint32_t ttl_ms;                       /* of a session, which a replay does not repeat */
    enum hf_error refused;                 /* set by a render function that finds nothing to show */
    render_fn render;
    struct pending_request *pending; /* in flight */
    uint64_t member;                 /* of the cluster, from the path or the body; 0: none */
    enum gateway_change change_kind;
    struct member_change *change; /* in flight */
    struct download *download;    /* of a snapshot, until all of it was sent */
    struct watcher watcher;
};

void api_request_init(struct api_request *x, struct service *s, const struct api_transport *door);
void api_request_close(struct api_request *x);

/* Routes the request and hands it to its handler. */
void api_request_begin(struct api_request *x);
/* Whether there is such a path and method, before the body has come. */
bool api_request_is_known(struct api_request *x);

/* The client is gone before it was answered. */
void api_request_abandon(struct api_request *x);
/* The node stops: a wait is answered, a stream ended. */
void api_request_drain(struct api_request *x);

/* For handlers. Exactly one of these, once. */
void api_request_submit(struct api_request *x, const struct command *command, bool keeps_place,
                        render_fn render);
/* Withdraws the acquire with this id (S7.5). */
void api_request_cancel(struct api_request *x, const struct command *acquire, render_fn render);
void api_request_keepalive(struct api_request *x, struct id session, render_fn render);
/* Renders from the local state, behind a barrier unless page.is_stale (S9.1). */
void api_request_read(struct api_request *x, render_fn render);
/* The same, with a page of the tier EFFICIENCY in service.looked: of the exchange's name, or of the
 * names that begin with it. */
void api_request_look(struct api_request *x, enum memory_page_kind kind, render_fn render);
void api_request_fail(struct api_request *x, enum hf_error error, const char *message);
void api_request_fault(struct api_request *x, const struct fault *fault);
void api_request_answer_json(struct api_request *x, int status, render_fn render);
void api_request_answer_text(struct api_request *x, int status, const char *content_type,
                             struct slice body);
void api_request_answer_constant(struct api_request *x, const char *content_type,
                                 struct slice body);
/* api_member.c: the client is gone while its change is in flight. */
void member_abandon(struct api_request *x);
/* api_snapshot.c: the client is gone, or the node stops. */
void download_abandon(struct api_request *x);
void download_drain(struct api_request *x);
/* With an `ask` of one's own: what on_answer of api_request_submit would have done with it. */
void api_request_answered(void *owner, enum hf_error error, const struct result *result);

#endif
