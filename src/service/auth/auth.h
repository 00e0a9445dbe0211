/* Who calls, and what it may do (auth = on). With auth = off a request passes none of this.
 *
 *     credentials ──auth_identify──▶ PASSED: struct caller
 *                        │
 *                        └─UNSURE──▶ auth_wait ──back-off──▶ shared barrier ──▶ the request again:
 *                                                                            PASSED, or refused
 *
 * The policy applied here may be older than the cluster's. So nothing is refused before a barrier.
 * All requests that wait share one, and there are at most ten a second. Commands are authorised by
 * the leader and by the state machine. */
#ifndef HOLDFAST_SERVICE_AUTH_AUTH_H
#define HOLDFAST_SERVICE_AUTH_AUTH_H

#include "base/peer_identity.h"
#include "core/policy.h"
#include "replica/quota.h"
#include "service/auth/caller.h"
#include "service/auth/need.h"
#include "service/list.h"
#include "service/service.h"
#include "wire/fault.h"

struct api_request;

enum {
    AUTH_TOKEN_MAX = 64,                       /* bytes; a longer text is no token */
    AUTH_BASIC_MAX = 255 + 1 + AUTH_TOKEN_MAX, /* bytes of USER:TOKEN */
    AUTH_TEXT = 800,                           /* bytes of a denial */
    AUTH_STALE_MS = 10000,                     /* without a leader: the policy counts as stale */
    AUTH_VERSION = 6,                          /* of the state: the first with principals */
};

/* Of one connection. The token that was accepted last is kept: its next use is a comparison. */
struct auth_conn {
    struct peer_identity *peer; /* NULL: no certificate */
    uint64_t version;           /* of the policy that accepted `caller`, plus one; 0: none */
    struct caller caller;       /* in its home tenant */
    uint32_t token_len;         /* 0: by certificate */
    uint8_t token[AUTH_TOKEN_MAX];
    uint64_t address; /* hash of the client's IP address */
};

/* `address`: "IP:PORT"; NULL: unknown. */
void auth_conn_open(struct service *s, struct auth_conn *conn, const char *address);
void auth_conn_set_peer(struct service *s, struct auth_conn *conn,
                        const struct peer_identity *peer);
void auth_conn_close(struct service *s, struct auth_conn *conn);

/* What a request presents; empty slices: nothing. */
struct auth_credentials {
    struct slice token;
    struct slice user;   /* TENANT/NAME that the token must belong to */
    struct slice tenant; /* the chosen tenant, else the home tenant */
    bool is_foreign;     /* an authorization of another scheme */
};

enum auth_verdict {
    AUTH_PASSED,
    AUTH_UNSURE,  /* refused by the policy applied here; `fault` is the refusal */
    AUTH_REFUSED, /* whatever the policy is; the same */
};

enum auth_verdict auth_identify(struct service *s, struct auth_conn *conn,
                                const struct auth_credentials *presented, struct caller *out,
                                struct fault *fault);
/* The principal's home, or it has a right there. Others look as if they did not exist. */
bool auth_knows_tenant(const struct policy *p, uint32_t principal, uint32_t tenant);
/* Of the needs that neither a command nor the rows of the answer decide. */
enum auth_verdict auth_check_need(const struct service *s, const struct caller *caller,
                                  enum need need, struct fault *fault);
/* HF_OK, or why no caller is served now: HF_POLICY_STALE, HF_UNAVAILABLE (whether the state has the
 * version is not known), HF_NOT_UPGRADED. */
enum hf_error auth_is_ready(const struct service *s, const char **message);

/* The password of `Basic` credentials, in `bytes`. The user may be anything. False: no such
 * credentials. */
bool auth_basic(struct slice authorization, uint8_t bytes[AUTH_BASIC_MAX], struct slice *token);
/* For api_request and gRPC. True: x->caller is set. False: the request is answered, or waits and is
 * resumed by its transport. */
bool auth_admit(struct api_request *x, enum need need);
/* Before the rows of a read are rendered; false: `text` is the denial. */
bool auth_may_render(struct api_request *x, char text[AUTH_TEXT]);

/* ---- waiting for the shared barrier: wait.c ---- */

struct auth_wait {
    struct list link;                       /* not in a list: does not wait */
    uint64_t due_ms;                        /* boot time: end of the back-off */
    uint64_t address;                       /* of the client */
    void (*decide)(struct auth_wait *wait); /* called by service_run, once */
    bool is_sure;                           /* the barrier has passed */
    enum hf_error error;                    /* of the barrier */
};

void auth_wait_open(struct auth_wait *wait);
/* False: too many wait. */
bool auth_wait_begin(struct service *s, struct auth_wait *wait, const struct auth_conn *conn,
                     void (*decide)(struct auth_wait *wait));
void auth_wait_stop(struct service *s, struct auth_wait *wait);
static inline bool auth_is_waiting(const struct auth_wait *wait)
{
    return !list_is_empty(&wait->link);
}
/* A refusal after the barrier: further ones from this address are delayed. */
void auth_failed(struct service *s, const struct auth_conn *conn);

/* ---- rights: denial.c, denied.c ---- */

/* A call of this caller was denied, for the audit trail. */
void auth_denied(struct service *s, struct caller_id who, const char *text);

/* Principal 0: true. */
static inline bool caller_may(const struct policy *p, struct caller_id who, enum right right,
                              struct slice name)
{
    return who.principal == 0 || policy_allows(p, who.principal, who.tenant, right, name);
}

/* Names principal, right and name; an empty name: all names. */
void auth_denial(const struct policy *p, struct caller_id who, enum right right, struct slice name,
                 char out[AUTH_TEXT]);
/* Why the policy applied here denies the command; "": it does not. */
void auth_denial_of(const struct policy *p, const struct command *c, char out[AUTH_TEXT]);
/* Why the caller's credentials are not valid any more; NULL: they are. */
const char *auth_why_over(const struct service *s, const struct auth_conn *conn,
                          const struct caller *caller);

/* ---- quotas: quota.c (S15) ---- */

/* Why a command was refused; `out` names the quota, the caller's tenant and what to do. */
void auth_quota_text(const struct policy *p, uint32_t tenant, const struct quota_refusal *refusal,
                     char out[AUTH_TEXT]);
/* Of a result with HF_QUOTA, also of another node. */
struct quota_refusal auth_refusal_of(const struct result *result);
/* A read of this tenant begins at this node. False: it has no token of requests_per_second here. */
bool auth_takes_read(struct service *s, uint32_t tenant, struct quota_refusal *refusal);
/* A watch of this tenant begins at this node, or ends (auth_watch_ended). False: it has too many. */
bool auth_takes_watch(struct service *s, uint32_t tenant, struct quota_refusal *refusal);
void auth_watch_ended(struct service *s, uint32_t tenant);

/* ---- the node: wait.c, review.c ---- */

void auth_open(struct service *s);
void auth_close(struct service *s);
/* Starts barriers and decides waiting requests. After a change of the policy, and when credentials
 * expire, ends the requests and connections of callers that are not valid any more. */
void auth_run(struct service *s);
uint64_t auth_next_ms(const struct service *s);
void auth_review(struct service *s);
/* For the connections: auth_why_over, and remembers the expiry of a valid caller. */
const char *auth_review_caller(struct service *s, const struct auth_conn *conn,
                               const struct caller *caller);
uint64_t auth_review_next_ms(const struct service *s);

#endif
