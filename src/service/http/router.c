/* The route table. Rows of one path are adjacent; frequent paths come first. */
#include "service/http/router.h"

#include <stdio.h>

#include "service/http/api.h"

static const char *const page_parameters[] = {"prefix", "limit", "cursor", "stale", "no_ttl", NULL};
static const char *const history_parameters[] = {"at",     "since", "until", "limit",
                                                 "cursor", "stale", NULL};
static const char *const show_parameters[] = {"limit", "stale", NULL};
static const char *const session_parameters[] = {"limit", "cursor", "stale", "private", NULL};
static const char *const session_locks_parameters[] = {"limit", "cursor", "stale", NULL};
static const char *const keepalive_parameters[] = {"cursor", NULL};
static const char *const session_events_parameters[] = {"last_event_id", "reset", NULL};
static const char *const stale_parameters[] = {"stale", NULL};
static const char *const alert_parameters[] = {"limit", "cursor", "stale", NULL};
static const char *const audit_parameters[] = {"name",   "prefix", "actor", "action",
                                               "since",  "until",  "order", "limit",
                                               "cursor", "stale",  NULL};
static const char *const watch_parameters[] = {
    "prefix", "session_id", "last_event_id", "list", "reset", "max_rate", NULL};
static const char *const observe_parameters[] = {"last_event_id", NULL};
static const char *const policy_parameters[] = {"dry_run", "end_sessions", NULL};
static const char *const explain_parameters[] = {"principal", "right", "name", "tenant", NULL};
static const char *const token_parameters[] = {"principal", NULL};
static const char *const check_parameters[] = {"refuse_with", NULL};
static const char *const hot_parameters[] = {"by", "limit", NULL};
static const char *const probe_parameters[] = {"verbose", "format", NULL};

#define LOCKS "/api/v1/locks"
#define SESSIONS "/api/v1/sessions"
#define ELECTIONS "/api/v1/elections/"
#define MULTILOCK "/api/v1/multilock/"
#define MEMBERS "/api/v1/members"
#define LOG_LEVEL "/api/v1/log-level"
#define ALERTS "/api/v1/alerts"
#define AUTH "/api/v1/auth/"
#define SEED "/v1/locks/"
#define TERRAFORM "/integrations/terraform/"

static const struct route routes[] = {
    {HTTP_POST, ROUTE_NAME, LOCKS "/", "acquire", api_acquire, NEED_LOCK, NULL},
    {HTTP_POST, ROUTE_NAME, LOCKS "/", "release", api_release, NEED_OWNER, NULL},
    {HTTP_POST, ROUTE_NAME, LOCKS "/", "renew", api_renew, NEED_LOCK, NULL},
    {HTTP_POST, ROUTE_NAME, LOCKS "/", "force-unlock", api_force_unlock, NEED_OPERATE, NULL},
    {HTTP_POST, ROUTE_NAME, LOCKS "/", "revoke", api_revoke, NEED_OPERATE, NULL},
    {HTTP_GET, ROUTE_EXACT, LOCKS, NULL, api_lock_list, NEED_ROWS, page_parameters},
    {HTTP_GET, ROUTE_NAME, LOCKS "/", "history", api_lock_history, NEED_READ, history_parameters},
    {HTTP_GET, ROUTE_NAME, LOCKS "/", NULL, api_lock_show, NEED_READ, show_parameters},
    {HTTP_POST, ROUTE_ID, SESSIONS "/", "keepalive", api_session_keepalive, NEED_OWNER,
     keepalive_parameters},
    {HTTP_POST, ROUTE_EXACT, SESSIONS, NULL, api_session_open, NEED_SESSION, NULL},
    {HTTP_GET, ROUTE_EXACT, SESSIONS, NULL, api_session_list, NEED_ROWS, session_parameters},
    {HTTP_GET, ROUTE_ID, SESSIONS "/", "locks", api_session_locks, NEED_ROWS,
     session_locks_parameters},
    {HTTP_GET, ROUTE_ID, SESSIONS "/", "events", api_session_events, NEED_OWNER,
     session_events_parameters},
    {HTTP_DELETE, ROUTE_ID, SESSIONS "/", NULL, api_session_close, NEED_OWNER, NULL},
    {HTTP_GET, ROUTE_ID, SESSIONS "/", NULL, api_session_show, NEED_OWNER, stale_parameters},
    {HTTP_POST, ROUTE_EXACT, MULTILOCK "acquire", NULL, api_multilock_acquire, NEED_LOCK, NULL},
    {HTTP_POST, ROUTE_EXACT, MULTILOCK "release", NULL, api_multilock_release, NEED_OWNER, NULL},
    {HTTP_POST, ROUTE_EXACT, MULTILOCK "renew", NULL, api_multilock_renew, NEED_LOCK, NULL},
    {HTTP_POST, ROUTE_EXACT, "/api/v1/fence/check", NULL, api_fence_check, NEED_LOCK,
     check_parameters},
    {HTTP_POST, ROUTE_EXACT, "/api/v1/fence/reset", NULL, api_fence_reset, NEED_OPERATE, NULL},
    {HTTP_POST, ROUTE_NAME, ELECTIONS, "campaign", api_campaign, NEED_LOCK, NULL},
    {HTTP_POST, ROUTE_NAME, ELECTIONS, "proclaim", api_proclaim, NEED_LOCK, NULL},
    {HTTP_POST, ROUTE_NAME, ELECTIONS, "resign", api_resign, NEED_OWNER, NULL},
    {HTTP_GET, ROUTE_NAME, ELECTIONS, "observe", api_election_observe, NEED_READ,
     observe_parameters},
    {HTTP_GET, ROUTE_NAME, ELECTIONS, NULL, api_election_show, NEED_READ, stale_parameters},
    {HTTP_GET, ROUTE_EXACT, "/api/v1/watch", NULL, api_watch, NEED_ROWS, watch_parameters},
    {HTTP_GET, ROUTE_EXACT, "/api/v1/audit", NULL, api_audit, NEED_AUDIT, audit_parameters},
    {HTTP_GET, ROUTE_EXACT, ALERTS, NULL, api_alerts, NEED_ROWS, alert_parameters},
    {HTTP_PUT, ROUTE_EXACT, ALERTS, NULL, api_alert_set, NEED_OPERATE, NULL},
    {HTTP_DELETE, ROUTE_EXACT, ALERTS, NULL, api_alert_remove, NEED_OPERATE, NULL},
    {HTTP_GET, ROUTE_EXACT, "/api/v1/cluster", NULL, api_cluster, NEED_CALLER, NULL},
    {HTTP_GET, ROUTE_EXACT, "/api/v1/stats", NULL, api_stats, NEED_CLUSTER_READ, NULL},
    {HTTP_GET, ROUTE_EXACT, "/api/v1/hot", NULL, api_hot, NEED_CLUSTER_READ, hot_parameters},
    {HTTP_GET, ROUTE_EXACT, "/api/v1/sinks", NULL, api_sinks, NEED_CLUSTER_READ, NULL},
    {HTTP_GET, ROUTE_EXACT, MEMBERS, NULL, api_members, NEED_CALLER, NULL},
    {HTTP_POST, ROUTE_EXACT, MEMBERS, NULL, api_member_add, NEED_CLUSTER_ADMIN, NULL},
    {HTTP_POST, ROUTE_EXACT, MEMBERS "/transfer", NULL, api_member_transfer, NEED_CLUSTER_ADMIN,
     NULL},
    {HTTP_POST, ROUTE_MEMBER, MEMBERS "/", "promote", api_member_promote, NEED_CLUSTER_ADMIN, NULL},
    {HTTP_POST, ROUTE_MEMBER, MEMBERS "/", "demote", api_member_demote, NEED_CLUSTER_ADMIN, NULL},
    {HTTP_DELETE, ROUTE_MEMBER, MEMBERS "/", NULL, api_member_remove, NEED_CLUSTER_ADMIN, NULL},
    {HTTP_GET, ROUTE_EXACT, "/api/v1/snapshot", NULL, api_snapshot, NEED_CLUSTER_ADMIN, NULL},
    {HTTP_GET, ROUTE_EXACT, LOG_LEVEL, NULL, api_log_level, NEED_CLUSTER_ADMIN, NULL},
    {HTTP_PUT, ROUTE_EXACT, LOG_LEVEL, NULL, api_log_level_set, NEED_CLUSTER_ADMIN, NULL},
    {HTTP_GET, ROUTE_EXACT, AUTH "policy", NULL, api_policy, NEED_CLUSTER_ADMIN, NULL},
    {HTTP_PUT, ROUTE_EXACT, AUTH "policy", NULL, api_policy_put, NEED_CLUSTER_ADMIN,
     policy_parameters},
    {HTTP_GET, ROUTE_EXACT, AUTH "explain", NULL, api_explain, NEED_TENANT_ADMIN,
     explain_parameters},
    {HTTP_GET, ROUTE_EXACT, AUTH "tenants", NULL, api_tenants, NEED_CALLER, NULL},
    {HTTP_GET, ROUTE_EXACT, AUTH "whoami", NULL, api_whoami, NEED_CALLER, NULL},
    {HTTP_GET, ROUTE_EXACT, AUTH "tokens", NULL, api_tokens, NEED_TENANT_ADMIN, token_parameters},
    {HTTP_POST, ROUTE_EXACT, AUTH "tokens", NULL, api_token_create, NEED_TENANT_ADMIN, NULL},
    {HTTP_DELETE, ROUTE_MEMBER, AUTH "tokens/", NULL, api_token_revoke, NEED_TENANT_ADMIN, NULL},
    {HTTP_POST, ROUTE_EXACT, SEED "acquire", NULL, api_seed_acquire, NEED_LOCK, NULL},
    {HTTP_POST, ROUTE_ID, SEED, "renew", api_seed_renew, NEED_LOCK, NULL},
    {HTTP_DELETE, ROUTE_ID, SEED, NULL, api_seed_release, NEED_OWNER, NULL},
    {HTTP_LOCK, ROUTE_NAME, TERRAFORM, NULL, api_terraform_lock, NEED_LOCK, NULL},
    {HTTP_POST, ROUTE_NAME, TERRAFORM, NULL, api_terraform_lock, NEED_LOCK, NULL},
    {HTTP_PUT, ROUTE_NAME, TERRAFORM, NULL, api_terraform_lock, NEED_LOCK, NULL},
    {HTTP_UNLOCK, ROUTE_NAME, TERRAFORM, NULL, api_terraform_unlock, NEED_OWNER, NULL},
    {HTTP_DELETE, ROUTE_NAME, TERRAFORM, NULL, api_terraform_unlock, NEED_OWNER, NULL},
    {HTTP_GET, ROUTE_EXACT, "/livez", NULL, api_livez, NEED_NOTHING, probe_parameters},
    {HTTP_GET, ROUTE_EXACT, "/readyz", NULL, api_readyz, NEED_NOTHING, probe_parameters},
    {HTTP_GET, ROUTE_EXACT, "/openapi.yaml", NULL, api_openapi, NEED_CALLER, NULL},
};

enum { ROUTES = sizeof(routes) / sizeof(routes[0]) };

const struct route *router_table(size_t *count)
{
    *count = ROUTES;
    return routes;
}

static bool cut_prefix(struct slice text, const char *prefix, struct slice *rest)
{
    size_t len = strlen(prefix);
    if (text.len < len || memcmp(text.data, prefix, len) != 0) {
        return false;
    }
    *rest = slice_make(text.data + len, text.len - len);
    return true;
}

static bool matches(const struct route *route, struct slice path, struct slice *variable)
{
    struct slice rest;
    if (!cut_prefix(path, route->prefix, &rest)) {
        return false;
    }
    if (route->kind == ROUTE_EXACT) {
        *variable = rest;
        return rest.len == 0;
    }
    if (route->tail != NULL) {
        struct slice verb;
        return uri_cut_verb(rest, variable, &verb) && slice_equal(verb, slice_of(route->tail));
    }
    *variable = rest;
    return route->kind == ROUTE_NAME || memchr(rest.data, '/', rest.len) == NULL;
}

static void add_method(char allow[ROUTER_ALLOW], const char *method)
{
    size_t len = strlen(allow);
    int added = snprintf(allow + len, ROUTER_ALLOW - len, "%s%s", len > 0 ? ", " : "", method);
    hf_assert(added > 0 && (size_t)added < ROUTER_ALLOW - len);
}

/* Each method once. */
static void list_methods(struct slice path, char allow[ROUTER_ALLOW])
{
    static const enum http_method order[] = {HTTP_GET,    HTTP_POST, HTTP_PUT,
                                             HTTP_DELETE, HTTP_LOCK, HTTP_UNLOCK};
    unsigned has = 0; /* bit: enum http_method */
    struct slice variable;
    for (size_t i = 0; i < ROUTES; i++) {
        if (matches(&routes[i], path, &variable)) {
            has |= 1u << routes[i].method;
        }
    }
    allow[0] = '\0';
    for (size_t i = 0; i < sizeof(order) / sizeof(order[0]); i++) {
        if ((has & 1u << order[i]) != 0) {
            add_method(allow, order[i] == HTTP_GET ? "GET, HEAD" : http_method_text(order[i]));
        }
    }
    if (allow[0] != '\0') {
        add_method(allow, "OPTIONS");
    }
}

const struct route *router_find(enum http_method method, struct slice path, struct slice *variable,
                                char allow[ROUTER_ALLOW])
{
    enum http_method wanted = method == HTTP_HEAD ? HTTP_GET : method;
    for (size_t i = 0; i < ROUTES; i++) {
        if (routes[i].method == wanted && matches(&routes[i], path, variable)) {
            return &routes[i];
        }
    }
    list_methods(path, allow);
    return NULL;
}
