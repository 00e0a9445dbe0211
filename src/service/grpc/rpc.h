/* gRPC calls. A call is an api_request on a transport without JSON: its handler gets a decoded
 * message, its render function writes one. Handlers use `struct fields` and the functions of the
 * HTTP API, so the rules are the same. */
#ifndef HOLDFAST_SERVICE_GRPC_RPC_H
#define HOLDFAST_SERVICE_GRPC_RPC_H

#include <protobuf-c/protobuf-c.h>

#include <google/protobuf/duration.pb-c.h>
#include <google/protobuf/timestamp.pb-c.h>
#include <holdfast/v1/admin.pb-c.h>
#include <holdfast/v1/election.pb-c.h>
#include <holdfast/v1/lock.pb-c.h>

#include "service/auth/need.h"
#include "service/grpc/message.h"
#include "service/http/body.h"
#include "service/http/http2_conn.h"

enum rpc_kind {
    RPC_ONE,  /* one request message; one answer, or a stream of them */
    RPC_MANY, /* a stream of request messages */
};

struct rpc_method {
    const char *path;
    enum rpc_kind kind;
    enum need need;
    const ProtobufCMessageDescriptor *request;
    /* The message is borrowed for the call. */
    void (*handle)(struct api_request *x, const void *message);
    /* RPC_MANY. `end`: the client's stream has ended. `over`: the call is finished, for any
     * reason. */
    void (*end)(struct api_request *x);
    void (*over)(struct api_request *x);
    /* The node stops; NULL: api_request_drain is enough. */
    void (*drain)(struct api_request *x);
};

/* All methods, the most frequent first. */
const struct rpc_method *rpc_methods(size_t *count);

/* ---- answering, in rpc.c ---- */

/* For render functions: writes the message and its prefix into service.scratch. */
void rpc_put(struct api_request *x, const ProtobufCMessage *message);
/* For answers that are streams: headers, message, end. */
void rpc_stream(struct api_request *x);
void rpc_send(struct api_request *x, const ProtobufCMessage *message);
void rpc_finish(struct api_request *x, enum hf_error error, const char *message);

/* ---- reading, in read.c ---- */

/* The next field of a valid message; false at its end. `value` has data for a string or message. */
bool rpc_next_piece(struct slice *message, uint64_t *number, struct slice *value);

void rpc_body_init(struct body *b);
/* Into x->name. */
bool rpc_name(struct api_request *x, const char *name);
/* In ms, rounded up. False: negative or above `max_ms`; answered. NULL leaves `*out` unchanged. */
bool rpc_duration(struct api_request *x, const Google__Protobuf__Duration *duration,
                  const char *field, uint64_t max_ms, uint64_t *out);
bool rpc_wait(struct api_request *x, const Google__Protobuf__Duration *duration, struct body *b);
/* Checks the JSON text; stores it in b->f.metadata. */
bool rpc_metadata(struct api_request *x, const char *text, struct body *b);
struct slice rpc_mode(Holdfast__V1__Mode mode);
struct slice rpc_tier(Holdfast__V1__Tier tier);
Holdfast__V1__Tier rpc_tier_out(enum tier tier);
bool rpc_page(struct api_request *x, uint32_t limit, const char *cursor, bool stale);

/* ---- writing, in write.c; all in service.arena ---- */

char *rpc_string(const struct service *s, struct slice text);
char *rpc_id(const struct service *s, struct id id);
/* NULL when there is none. */
Google__Protobuf__Timestamp *rpc_time(const struct service *s, uint64_t wall_ms);
Google__Protobuf__Timestamp *rpc_when(const struct service *s, uint64_t cluster_ms);
/* As reply_since_ms. */
Google__Protobuf__Timestamp *rpc_since(const struct service *s, uint64_t since_ms,
                                       uint64_t since_wall_ms);
Google__Protobuf__Duration *rpc_ms(const struct service *s, uint64_t ms);
Google__Protobuf__Duration *rpc_left(const struct service *s, uint64_t deadline_ms);
Holdfast__V1__Mode rpc_mode_out(enum mode mode);
Holdfast__V1__Reason rpc_reason_out(enum reason reason);
Holdfast__V1__Holder *rpc_holder(const struct service *s, const struct holder_view *holder);
uint64_t rpc_epoch(const struct service *s);
/* Never NULL: the size of an answer is bounded. */
void *rpc_alloc(const struct service *s, size_t size);
/* Call before rendering: frees earlier allocations. */
void rpc_render_begin(struct service *s);
/* list.c: with its first holder. */
Holdfast__V1__LockInfo *rpc_lock_info(const struct service *s, const struct lock_view *lock);
/* The tier that a stale read here lacks (S9.1, S10). */
Holdfast__V1__Tier rpc_omitted(const struct api_request *x);
/* next_cursor; "" on the last page. */
char *rpc_cursor(const struct service *s, uint64_t cursor, uint64_t end);
void rpc_put_grant(struct api_request *x, const struct result *r, Holdfast__V1__LockHandle *out);

/* ---- the calls ---- */

/* lock.c */
void rpc_lock(struct api_request *x, const void *message);
void rpc_multilock(struct api_request *x, const void *message);
void rpc_unlock(struct api_request *x, const void *message);
void rpc_renew(struct api_request *x, const void *message);
void rpc_check_fence(struct api_request *x, const void *message);
/* session.c */
void rpc_session(struct api_request *x, const void *message);
void session_call_end(struct api_request *x);
void session_call_over(struct api_request *x);
void session_call_drain(struct api_request *x);
/* watch.c */
void rpc_watch(struct api_request *x, const void *message);
void rpc_observe(struct api_request *x, const void *message);
/* election.c */
void rpc_campaign(struct api_request *x, const void *message);
void rpc_proclaim(struct api_request *x, const void *message);
void rpc_resign(struct api_request *x, const void *message);
void rpc_leader(struct api_request *x, const void *message);
void rpc_leader_response(struct api_request *x, const struct lock_view *lock,
                         Holdfast__V1__LeaderResponse *out);
/* list.c */
void rpc_list(struct api_request *x, const void *message);
void rpc_show(struct api_request *x, const void *message);
void rpc_sessions(struct api_request *x, const void *message);
void rpc_session_locks(struct api_request *x, const void *message);
/* admin.c */
void rpc_force_unlock(struct api_request *x, const void *message);
void rpc_revoke(struct api_request *x, const void *message);
void rpc_reset_fence(struct api_request *x, const void *message);
void rpc_cluster(struct api_request *x, const void *message);
void rpc_member_add(struct api_request *x, const void *message);
void rpc_member_promote(struct api_request *x, const void *message);
void rpc_member_demote(struct api_request *x, const void *message);
void rpc_member_remove(struct api_request *x, const void *message);
void rpc_member_transfer(struct api_request *x, const void *message);
/* alert.c */
void rpc_alerts(struct api_request *x, const void *message);
void rpc_alert_set(struct api_request *x, const void *message);
void rpc_alert_remove(struct api_request *x, const void *message);
/* hot.c */
void rpc_hot(struct api_request *x, const void *message);
/* search.c */
void rpc_history(struct api_request *x, const void *message);
void rpc_audit(struct api_request *x, const void *message);
/* health.c */
void rpc_health(struct api_request *x, const void *message);
void rpc_health_watch(struct api_request *x, const void *message);
void rpc_health_over(struct api_request *x);
void rpc_health_drain(struct api_request *x);
/* reflection.c */
void rpc_reflection(struct api_request *x, const void *message);
void rpc_reflection_end(struct api_request *x);
void rpc_reflection_drain(struct api_request *x);

#endif
