/* Ends what callers have open whose credentials are not valid any more: after a change of the
 * policy, and when a token or certificate expires. */
#include "service/auth/state.h"
#include "service/http/http_conn.h"
#include "service/resp/conn.h"

static bool is_due(const struct service *s)
{
    const struct auth_state *a = s->auth;
    return a->reviewed != policy_version(service_policy(s)) ||
           (a->expires_ms != UINT64_MAX && a->expires_ms <= s->gateway.wall_ms(s->gateway.ctx));
}

void auth_review(struct service *s)
{
    struct auth_state *a = s->auth;
    if (!is_due(s)) {
        return;
    }
    a->reviewed = policy_version(service_policy(s));
    a->expires_ms = UINT64_MAX; /* those that remain set it again */
    struct list *next;
    for (struct list *link = s->conns.next; link != &s->conns; link = next) {
        next = link->next;
        http_conn_review(LIST_OBJECT(link, struct http_conn, link));
    }
    for (struct list *link = s->resp->conns.next; link != &s->resp->conns; link = next) {
        next = link->next;
        resp_conn_review(LIST_OBJECT(link, struct resp_conn, link));
    }
}

const char *auth_review_caller(struct service *s, const struct auth_conn *conn,
                               const struct caller *caller)
{
    struct auth_state *a = s->auth;
    const char *why = auth_why_over(s, conn, caller);
    if (why == NULL && caller->id.principal != 0 && caller->expires_ms < a->expires_ms) {
        a->expires_ms = caller->expires_ms;
    }
    return why;
}

uint64_t auth_review_next_ms(const struct service *s)
{
    const struct auth_state *a = s->auth;
    uint64_t now_ms = service_boot_ms(s);
    if (a->reviewed != policy_version(service_policy(s))) {
        return 0;
    }
    if (a->expires_ms == UINT64_MAX) {
        return UINT64_MAX;
    }
    /* The wall clock may be set: it is read once a second. */
    uint64_t wall_ms = s->gateway.wall_ms(s->gateway.ctx);
    uint64_t left_ms = a->expires_ms > wall_ms ? a->expires_ms - wall_ms : 0;
    return now_ms + (left_ms < AUTH_REVIEW_MS ? left_ms : AUTH_REVIEW_MS);
}
