/* A handle as text, "hf1.TOKEN.LEASE", for release or renewal by another process. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "client/client.h"

int hf_lock_export(const hf_lock *lock, char *out, size_t size)
{
    char text[HF_HANDLE_SIZE];
    int error = hf_lock_check(lock);
    if (error != 0) {
        return error;
    }
    int len = snprintf(text, sizeof(text), "hf1.%" PRIu64 ".%s", lock->token, lock->lease);
    if (out == NULL || (size_t)len >= size) {
        return error_set(HF_ERR_INVALID, "an exported handle takes HF_HANDLE_SIZE bytes");
    }
    snprintf(out, size, "%s", text);
    return 0;
}

static bool is_lease(const char *text)
{
    size_t len = strlen(text);
    return len > 0 && len < ID_TEXT && strspn(text, "0123456789abcdef-") == len;
}

static int read_handle(const char *handle, uint64_t *token, char lease[ID_TEXT])
{
    char *end = NULL;
    if (handle != NULL && strncmp(handle, "hf1.", 4) == 0 && handle[4] >= '1' && handle[4] <= '9') {
        *token = strtoull(handle + 4, &end, 10);
    }
    if (end == NULL || *end != '.' || *token >= LIMIT_NUMBER || !is_lease(end + 1)) {
        return error_set(HF_ERR_INVALID, "this is no handle of hf_lock_export");
    }
    snprintf(lease, ID_TEXT, "%s", end + 1);
    return 0;
}

static int by_handle(hf_client *c, enum call_kind kind, const char *handle, uint32_t ttl_ms,
                     int64_t *expires_in_ms)
{
    uint64_t token = 0;
    char lease[ID_TEXT];
    int64_t left_ms = 0;
    int error = read_handle(handle, &token, lease);
    error = error != 0 ? error : client_enter(c, true);
    if (error != 0) {
        return error;
    }
    struct hf_call *ticket = ticket_new(c);
    client_engine_by_handle(&c->client_engine, kind, token, lease, ttl_ms, ticket, client_now_ms());
    error = client_wait(c, ticket, NULL, &left_ms);
    client_leave(c);
    if (error == 0 && expires_in_ms != NULL) {
        *expires_in_ms = left_ms;
    }
    return error;
}

int hf_release_exported(hf_client *c, const char *handle)
{
    return by_handle(c, CALL_RELEASE, handle, 0, NULL);
}

int hf_renew_exported(hf_client *c, const char *handle, uint32_t ttl_ms, int64_t *expires_in_ms)
{
    return by_handle(c, CALL_RENEW, handle, ttl_ms, expires_in_ms);
}
