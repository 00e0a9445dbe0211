/* Errors as Redis replies. */
#include "service/resp/conn.h"

const char *resp_error_code(enum hf_error error)
{
    switch (error) {
    case HF_UNAVAILABLE:
        return "CLUSTERDOWN"; /* nothing was done; Redis clients retry */
    case HF_BUSY:
        return "TRYAGAIN";
    case HF_DISK_FULL:
        return "MISCONF";
    case HF_STATE_FULL:
    case HF_QUOTA:
        return "OOM";
    case HF_DENIED:
        return "NOPERM";
    case HF_UNAUTHENTICATED:
        return "NOAUTH";
    case HF_POLICY_STALE:
        return "CLUSTERDOWN";
    case HF_OUTCOME_UNKNOWN:
        return "OUTCOMEUNKNOWN";
    case HF_WRONG_TIER:
        return "WRONGTIER";
    default:
        return "ERR";
    }
}

static const char *words(enum hf_error error)
{
    switch (error) {
    case HF_OUTCOME_UNKNOWN:
        return "the command may have been applied: check the key (GET, TTL) before you continue";
    case HF_STATE_FULL:
        return "state_full: the state has reached its limit (state-max), nothing was done; delete "
               "keys, or raise state-max on all nodes";
    case HF_INVALID_METADATA:
        return "a value or a message is too long (resp-value-max; messages have at most 4,096 "
               "bytes)";
    default:
        return hf_error_text(error);
    }
}

void resp_put_error(struct resp_writer *w, enum hf_error error)
{
    const char *code = resp_error_code(error);
    if (strcmp(code, "ERR") == 0) {
        resp_error(w, code, "%s: %s", hf_error_code(error), words(error));
    } else {
        resp_error(w, code, "%s", words(error));
    }
}

void resp_put_quota(struct resp_writer *w, const struct resp_conn *conn,
                    const struct quota_refusal *refusal)
{
    char text[AUTH_TEXT];
    auth_quota_text(service_policy(conn->service), conn->caller.id.tenant, refusal, text);
    resp_error(w, "OOM", "%s", text);
}

void resp_conn_fail_quota(struct resp_conn *conn, const struct quota_refusal *refusal)
{
    struct resp_writer w = resp_conn_writer(conn);
    resp_put_quota(&w, conn, refusal);
    resp_shared(conn)->errors++;
}

void resp_conn_fail(struct resp_conn *conn, enum hf_error error)
{
    struct resp_writer w = resp_conn_writer(conn);
    resp_put_error(&w, error);
    resp_shared(conn)->errors++;
}
