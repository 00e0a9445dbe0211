/* Callers of the Redis protocol (auth = on): AUTH and HELLO with a token, or a certificate. A
 * connection has one caller at a time.
 *
 * The user of AUTH is TENANT/NAME, or TENANT2:TENANT/NAME for another tenant than the home tenant;
 * without a user the token alone decides. */
#include "service/resp/conn.h"

bool resp_needs_auth(const struct service *s)
{
    return s->auth != NULL || s->options.resp_password[0] != '\0';
}

static struct auth_credentials read_user(struct slice user, struct slice token)
{
    struct auth_credentials c = {.token = token, .user = user};
    const uint8_t *colon = user.len == 0 ? NULL : memchr(user.data, ':', user.len);
    if (colon != NULL) {
        size_t len = (size_t)(colon - user.data);
        c.tenant = slice_make(user.data, len);
        c.user = slice_make(colon + 1, user.len - len - 1);
    }
    return c;
}

/* The user and token of AUTH, or of HELLO with AUTH; false: neither. */
static bool find_credentials(const struct resp_conn *conn, const struct slice *args, uint32_t count,
                             struct slice *user, struct slice *token)
{
    *user = slice_make(NULL, 0);
    if (conn->command->local == resp_auth && (count == 2 || count == 3)) {
        *token = args[count - 1];
        *user = count == 3 ? args[1] : *user;
        return true;
    }
    for (uint32_t i = 2; conn->command->local == resp_hello && i + 2 < count; i++) {
        if (slice_is_word(args[i], "auth")) {
            *user = args[i + 1];
            *token = args[i + 2];
            return true;
        }
    }
    return false;
}

static enum auth_verdict identify(struct resp_conn *conn, struct slice user, struct slice token,
                                  struct caller *caller, struct fault *fault)
{
    /* Redis clients name this user when they name none. */
    bool is_default = slice_is_word(user, "default");
    struct auth_credentials c = read_user(is_default ? slice_make(NULL, 0) : user, token);
    return auth_identify(conn->service, &conn->auth, &c, caller, fault);
}

static void decide(struct auth_wait *wait)
{
    struct resp_conn *conn = LIST_OBJECT(wait, struct resp_conn, wait);
    conn->mode = RESP_MODE_IDLE;
    resp_conn_mark_ready(conn); /* the request begins again */
}

static enum auth_verdict identify_certificate(struct resp_conn *conn, struct caller *caller,
                                              struct fault *fault)
{
    struct auth_credentials none = {.is_foreign = false};
    return auth_identify(conn->service, &conn->auth, &none, caller, fault);
}

/* A pattern needs the right on some name; messages of other channels are left out. */
static bool may_subscribe(const struct resp_conn *conn, struct slice channel, enum subscribed kind)
{
    const struct policy *p = service_policy(conn->service);
    struct caller_id who = conn->caller.id;
    return who.principal == 0 || (kind == SUBSCRIBED_PATTERN
                                      ? policy_allows_some(p, who.principal, who.tenant, RIGHT_READ)
                                      : resp_may_receive(conn, channel, kind));
}

/* A subscription that the policy applied here denies. Other commands have a barrier of their own. */
static bool wants_channel(const struct resp_conn *conn, const struct slice *args, uint32_t count)
{
    enum subscribed kind = conn->command->local == resp_subscribe    ? SUBSCRIBED_CHANNEL
                           : conn->command->local == resp_psubscribe ? SUBSCRIBED_PATTERN
                           : conn->command->local == resp_ssubscribe ? SUBSCRIBED_SHARD
                                                                     : SUBSCRIBED_COUNT;
    if (kind == SUBSCRIBED_COUNT) {
        return false;
    }
    bool is_allowed = true;
    for (uint32_t i = 1; i < count; i++) {
        is_allowed = is_allowed && may_subscribe(conn, args[i], kind);
    }
    return !is_allowed;
}

/* Whether the policy applied here refuses what the request presents, and may be too old. */
static bool is_unsure(struct resp_conn *conn, const struct slice *args, uint32_t count)
{
    struct slice user;
    struct slice token;
    struct caller caller;
    struct fault fault;
    if (find_credentials(conn, args, count, &user, &token)) {
        return identify(conn, user, token, &caller, &fault) == AUTH_UNSURE;
    }
    if (conn->is_authenticated) {
        return wants_channel(conn, args, count);
    }
    bool needs_caller =
        !(conn->command->flags & RESP_NO_AUTH) || conn->command->local == resp_hello;
    return needs_caller && conn->auth.peer != NULL &&
           identify_certificate(conn, &caller, &fault) == AUTH_UNSURE;
}

bool resp_auth_waits(struct resp_conn *conn, const struct slice *args, uint32_t count)
{
    const char *message;
    if (conn->command == NULL || conn->wait.is_sure ||
        auth_is_ready(conn->service, &message) != HF_OK || !is_unsure(conn, args, count) ||
        !auth_wait_begin(conn->service, &conn->wait, &conn->auth, decide)) {
        return false;
    }
    conn->mode = RESP_MODE_AUTHENTICATING;
    return true;
}

static void fail(struct resp_conn *conn, struct caller_id who, const struct fault *fault)
{
    if (fault->code == HF_DENIED) {
        auth_denied(conn->service, who, fault->text);
    }
    resp_conn_error(conn, fault->code == HF_DENIED ? "NOPERM" : "WRONGPASS", "%s", fault->text);
}

/* Why a refusal by the policy applied here is not final; HF_OK: it is. */
static enum hf_error why_not_final(const struct resp_conn *conn, enum auth_verdict verdict)
{
    if (verdict != AUTH_UNSURE) {
        return HF_OK;
    }
    return conn->wait.is_sure ? conn->wait.error : HF_BUSY; /* too many wait */
}

bool resp_auth_token(struct resp_conn *conn, struct slice user, struct slice token)
{
    struct service *s = conn->service;
    struct caller caller = {.expires_ms = UINT64_MAX};
    struct fault fault;
    const char *message;
    enum hf_error error = auth_is_ready(s, &message);
    if (error != HF_OK) {
        resp_conn_fail(conn, error);
        return false;
    }
    enum auth_verdict verdict = identify(conn, user, token, &caller, &fault);
    error = why_not_final(conn, verdict);
    if (error != HF_OK) {
        resp_conn_fail(conn, error);
        return false;
    }
    if (verdict != AUTH_PASSED) {
        if (fault.code == HF_UNAUTHENTICATED) {
            auth_failed(s, &conn->auth);
        }
        fail(conn, caller.id, &fault);
        return false;
    }
    conn->caller = caller;
    conn->is_authenticated = true;
    return true;
}

bool resp_auth_certificate(struct resp_conn *conn)
{
    struct caller caller;
    struct fault fault;
    if (conn->is_authenticated) {
        return true;
    }
    if (conn->auth.peer == NULL) {
        resp_conn_error(conn, "NOAUTH", "Authentication required.");
        return false;
    }
    enum auth_verdict verdict = identify_certificate(conn, &caller, &fault);
    enum hf_error error = why_not_final(conn, verdict);
    if (verdict == AUTH_PASSED) {
        conn->caller = caller;
        conn->is_authenticated = true;
    } else if (error != HF_OK) {
        resp_conn_fail(conn, error);
    } else {
        resp_conn_error(conn, "NOAUTH", "%s", fault.text);
    }
    return conn->is_authenticated;
}

bool resp_auth_refuses(struct resp_conn *conn)
{
    const char *message;
    struct fault fault;
    enum hf_error error = auth_is_ready(conn->service, &message);
    if (error != HF_OK) {
        resp_conn_fail(conn, error);
        return true;
    }
    if (!resp_auth_certificate(conn)) {
        return true;
    }
    if (conn->command != NULL &&
        auth_check_need(conn->service, &conn->caller, conn->command->need, &fault) != AUTH_PASSED) {
        fail(conn, conn->caller.id, &fault);
        return true;
    }
    return false;
}

bool resp_sees_node(const struct resp_conn *conn)
{
    uint32_t principal = conn->caller.id.principal;
    return principal == 0 ||
           policy_allows_cluster(service_policy(conn->service), principal, RIGHT_READ);
}

/* Rights are about names. A channel that is too long has no name and no message. */
static struct slice name_of(struct slice channel, enum subscribed kind,
                            uint8_t bytes[RESP_NAME_BYTES])
{
    struct slice name;
    bool has_name = kind == SUBSCRIBED_SHARD ? resp_name_of_shard(channel, bytes, &name)
                                             : resp_name_of_channel(channel, bytes, &name);
    return has_name ? name : slice_make("", 0);
}

bool resp_may_receive(const struct resp_conn *conn, struct slice channel, enum subscribed kind)
{
    uint8_t bytes[RESP_NAME_BYTES];
    return conn->caller.id.principal == 0 ||
           caller_may(service_policy(conn->service), conn->caller.id, RIGHT_READ,
                      name_of(channel, kind, bytes));
}

bool resp_may_subscribe(struct resp_conn *conn, struct slice channel, enum subscribed kind)
{
    if (may_subscribe(conn, channel, kind)) {
        return true;
    }
    const struct policy *p = service_policy(conn->service);
    struct caller_id who = conn->caller.id;
    char text[AUTH_TEXT];
    uint8_t bytes[RESP_NAME_BYTES];
    auth_denial(p, who, RIGHT_READ,
                kind == SUBSCRIBED_PATTERN ? slice_make(NULL, 0) : name_of(channel, kind, bytes),
                text);
    auth_denied(conn->service, who, text);
    resp_conn_error(conn, "NOPERM", "%s", text);
    return false;
}

/* Subscriptions, waits and transactions end; the client learns why. */
void resp_conn_review(struct resp_conn *conn)
{
    struct service *s = conn->service;
    if (conn->is_closing || !conn->is_authenticated) {
        return;
    }
    const char *why = auth_review_caller(s, &conn->auth, &conn->caller);
    if (why == NULL) {
        return;
    }
    conn->is_authenticated = false;
    conn->auth.version = 0;
    resp_acquire_abandon_all(conn);
    resp_transact_abandon(conn);
    list_remove(&conn->pending);
    resp_wait_end(conn);
    resp_pubsub_leave(conn);
    conn->mode = RESP_MODE_IDLE;
    resp_conn_error(conn, "NOPERM", "%s", why);
    resp_conn_shut(conn);
}

void resp_keep_denial(struct resp_conn *conn, const struct command *command)
{
    const struct memory *memory = conn->service->memory;
    char text[AUTH_TEXT] = "";
    if (conn->service->auth != NULL && command != NULL) {
        auth_denial_of(service_policy(conn->service), command, text);
    }
    if (text[0] != '\0' && conn->denial == NULL) {
        conn->denial = memory_alloc(memory, AUTH_TEXT);
    }
    if (text[0] != '\0') {
        memcpy(conn->denial, text, AUTH_TEXT);
    } else if (conn->denial != NULL) {
        memory_free(memory, conn->denial, AUTH_TEXT);
        conn->denial = NULL;
    }
}
