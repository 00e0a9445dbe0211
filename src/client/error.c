/* Error texts; the last error of each thread. */
#include <holdfast.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "client/client.h"

#define ERROR_LIST(X)                                                                              \
    X(HF_ERR_HELD, "held", "another client holds it")                                              \
    X(HF_ERR_TIMEOUT, "timeout", "it was not free in time")                                        \
    X(HF_ERR_UNREACHABLE, "unreachable", "no endpoint answered in time; nothing was done")         \
    X(HF_ERR_LOST, "lost", "the lock is no longer held")                                           \
    X(HF_ERR_DENIED, "denied", "not allowed")                                                      \
    X(HF_ERR_INVALID, "invalid", "an argument is wrong")                                           \
    X(HF_ERR_DELAYED, "delayed", "the last holder ended uncleanly; free when the lock-delay ends") \
    X(HF_ERR_DEADLOCK, "deadlock", "waiting for it would cause a deadlock")                        \
    X(HF_ERR_ALREADY_HELD, "already_held", "this owner holds it already")                          \
    X(HF_ERR_MISMATCH, "mismatch", "the name is in use in another mode, limit or tier")            \
    X(HF_ERR_LIMIT, "limit", "a limit of the service was reached")                                 \
    X(HF_ERR_NOT_OWNER, "not_owner", "the token is not that of the current holder")                \
    X(HF_ERR_UNKNOWN, "unknown", "no answer came in time; it may have been done")                  \
    X(HF_ERR_CANCELLED, "cancelled", "the call was cancelled")                                     \
    X(HF_ERR_STALE, "stale", "a newer token was used on this resource")                            \
    X(HF_ERR_MEMORY, "memory", "out of memory")                                                    \
    X(HF_ERR_SYSTEM, "system", "a system call failed")                                             \
    X(HF_ERR_PROTOCOL, "protocol", "the other end does not speak Holdfast's gRPC")

const char *hf_error_name(int error)
{
    switch (error) {
    case 0:
        return "ok";
#define X(symbol, name, message) \
    case symbol:                 \
        return name;
        ERROR_LIST(X)
#undef X
    default:
        return "?";
    }
}

const char *hf_error_message(int error)
{
    switch (error) {
    case 0:
        return "done";
#define X(symbol, name, message) \
    case symbol:                 \
        return message;
        ERROR_LIST(X)
#undef X
    default:
        return "there is no such error";
    }
}

const char *hf_version(void)
{
    return HOLDFAST_VERSION;
}

static _Thread_local char last_text[ERROR_TEXT];
static _Thread_local struct hf_holder last_holder;
static _Thread_local bool has_holder;

int error_set(int error, const char *format, ...)
{
    if (error == 0) {
        return 0;
    }
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(last_text, sizeof(last_text), format, arguments);
    va_end(arguments);
    has_holder = false;
    return error;
}

void error_set_holder(const struct hf_holder *holder)
{
    has_holder = holder != NULL;
    if (has_holder) {
        last_holder = *holder;
    }
}

const char *hf_last_error(void)
{
    return last_text;
}

int hf_last_holder(struct hf_holder *out)
{
    if (out == NULL || out->size < sizeof(size_t)) {
        return error_set(HF_ERR_INVALID, "hf_holder.size is not set");
    }
    if (!has_holder) {
        return HF_ERR_NOT_OWNER;
    }
    size_t size = out->size < sizeof(last_holder) ? out->size : sizeof(last_holder);
    size_t kept = out->size;
    memcpy(out, &last_holder, size);
    out->size = kept;
    return 0;
}
