/* Requests of HTTP and gRPC: who sends them, and whether they may begin. */
#include "service/auth/state.h"
#include "service/request/api_request.h"

static struct slice bearer(struct slice authorization)
{
    static const char scheme[] = "bearer ";
    size_t len = sizeof(scheme) - 1;
    if (authorization.len <= len || !slice_is_word(slice_make(authorization.data, len), scheme)) {
        return slice_make(NULL, 0);
    }
    while (len < authorization.len && authorization.data[len] == ' ') {
        len++;
    }
    return slice_make(authorization.data + len, authorization.len - len);
}

static void resume(struct auth_wait *wait)
{
    struct api_request *x = LIST_OBJECT(wait, struct api_request, wait);
    x->transport->resume(x);
}

/* After the barrier the refusal is final; before it, the request waits. */
static void refuse_or_wait(struct api_request *x, enum auth_verdict verdict,
                           const struct fault *fault)
{
    struct service *s = x->service;
    if (verdict == AUTH_UNSURE && !x->wait.is_sure) {
        if (!auth_wait_begin(s, &x->wait, x->auth, resume)) {
            api_request_fail(x, HF_BUSY, "too many requests without valid credentials");
        }
        return;
    }
    if (verdict == AUTH_UNSURE && x->wait.error != HF_OK) {
        api_request_fail(x, x->wait.error, NULL); /* no leader: the policy here may be old */
        return;
    }
    if (fault->code == HF_UNAUTHENTICATED && x->authorization.len > 0) {
        auth_failed(s, x->auth);
    }
    api_request_fault(x, fault);
}

/* What this node counts as a request of the tenant; the leader counts commands (S15). */
static bool is_read(const struct api_request *x)
{
    return x->need == NEED_READ || x->need == NEED_ROWS ||
           (x->transport->is_json && (x->need == NEED_OWNER || x->need == NEED_CALLER) &&
            x->method == HTTP_GET);
}

bool auth_admit(struct api_request *x, enum need need)
{
    struct service *s = x->service;
    struct fault fault;
    const char *message;
    x->need = need;
    if (s->auth == NULL || need == NEED_NOTHING) {
        return true;
    }
    x->caller = (struct caller){.expires_ms = UINT64_MAX};
    enum hf_error error = auth_is_ready(s, &message);
    if (error != HF_OK) {
        api_request_fail(x, error, message);
        return false;
    }
    uint8_t basic[AUTH_BASIC_MAX];
    struct slice token = bearer(x->authorization);
    if (token.len == 0) {
        (void)auth_basic(x->authorization, basic, &token);
    }
    struct auth_credentials presented = {.token = token,
                                         .tenant = x->tenant_name,
                                         .is_foreign = token.len == 0 && x->authorization.len > 0};
    enum auth_verdict verdict = auth_identify(s, x->auth, &presented, &x->caller, &fault);
    if (verdict == AUTH_PASSED) {
        verdict = auth_check_need(s, &x->caller, need, &fault);
    }
    if (verdict != AUTH_PASSED) {
        refuse_or_wait(x, verdict, &fault);
        return false;
    }
    struct quota_refusal refusal;
    if (is_read(x) && !auth_takes_read(s, x->caller.id.tenant, &refusal)) {
        api_request_fail_quota(x, &refusal);
        return false;
    }
    x->is_operator = need == NEED_CLUSTER_ADMIN || need == NEED_OPERATE || need == NEED_AUDIT;
    return true;
}

bool auth_may_render(struct api_request *x, char text[AUTH_TEXT])
{
    const struct service *s = x->service;
    if (s->auth == NULL) {
        return true;
    }
    const struct policy *p = service_policy(s);
    struct caller_id who = x->caller.id;
    enum right right = x->need == NEED_AUDIT ? RIGHT_OPERATE : RIGHT_READ;
    bool is_allowed = true;
    if (x->need == NEED_READ) {
        is_allowed = policy_allows(p, who.principal, who.tenant, right, x->name);
        x->is_operator = policy_allows(p, who.principal, who.tenant, RIGHT_OPERATE, x->name);
    } else if (x->need == NEED_ROWS || x->need == NEED_AUDIT) {
        is_allowed = policy_allows_some(p, who.principal, who.tenant, right);
        x->is_operator = policy_allows_tenant(p, who.principal, who.tenant, RIGHT_OPERATE);
    }
    if (!is_allowed) {
        auth_denial(p, who, right, x->need == NEED_READ ? x->name : slice_make(NULL, 0), text);
    }
    return is_allowed;
}
