/* See options.h. */
#include "client/options.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/text.h"
#include "client/client.h"
#include "wire/json_write.h"

enum { HOST_TEXT = 256, PROGRAM_TEXT = 64 };

struct identity {
    char host[HOST_TEXT];
    char program[PROGRAM_TEXT];
    long pid;
};

static void identity_read(struct identity *identity)
{
    FILE *file = fopen("/proc/self/comm", "re");
    snprintf(identity->program, sizeof(identity->program), "?");
    if (file != NULL) {
        if (fgets(identity->program, sizeof(identity->program), file) != NULL) {
            identity->program[strcspn(identity->program, "\n")] = '\0';
        }
        fclose(file);
    }
    if (gethostname(identity->host, sizeof(identity->host)) != 0) {
        snprintf(identity->host, sizeof(identity->host), "?");
    }
    identity->host[sizeof(identity->host) - 1] = '\0';
    identity->pid = (long)getpid();
}

static void default_metadata(const struct identity *identity, char *out, size_t size)
{
    struct buffer json;
    struct json_writer w;
    buffer_init(&json, memory_system(), size - 1);
    json_writer_init(&w, &json);
    json_write_open(&w, '{');
    json_put_text(&w, "host", identity->host);
    json_put_u64(&w, "pid", (uint64_t)identity->pid);
    json_put_text(&w, "program", identity->program);
    json_write_close(&w);
    struct slice text = buffer_bytes(&json);
    snprintf(out, size, "%.*s", (int)text.len, (const char *)text.data);
    buffer_close(&json);
}

static void default_client_id(const struct identity *identity, char *out, size_t size)
{
    snprintf(out, size, "%.150s/%ld/%s", identity->host, identity->pid, identity->program);
    if (!text_is_plain(slice_of(out))) {
        snprintf(out, size, "%ld", identity->pid); /* a program's name may be anything */
    }
}

static bool is_ttl(uint32_t ttl_ms)
{
    return ttl_ms >= LIMIT_TTL_MIN_MS && ttl_ms <= LIMIT_TTL_MAX_MS;
}

static int check_metadata(const char *text)
{
    if (text != NULL && (strlen(text) > LIMIT_METADATA || !text_is_utf8(slice_of(text)))) {
        return error_set(HF_ERR_INVALID, "metadata is at most 4,096 bytes of UTF-8");
    }
    return 0;
}

static int options_check(const struct hf_options *o)
{
    if (o->client_id != NULL && (o->client_id[0] == '\0' || strlen(o->client_id) > LIMIT_CLIENT ||
                                 !text_is_plain(slice_of(o->client_id)))) {
        return error_set(HF_ERR_INVALID,
                         "client_id is 1 to 255 bytes of UTF-8 without control characters");
    }
    if (o->session_ttl_ms != 0 && !is_ttl(o->session_ttl_ms)) {
        return error_set(HF_ERR_INVALID, "session_ttl_ms is out of range (100 ms to 24 h)");
    }
    if (o->linger_ms > LIMIT_LINGER_MAX_MS) {
        return error_set(HF_ERR_INVALID, "linger_ms is more than 24 h");
    }
    return check_metadata(o->metadata);
}

int options_read(const struct hf_options *given, struct hf_options *whole,
                 struct client_engine_options *out)
{
    memset(whole, 0, sizeof(*whole));
    if (given != NULL) {
        if (given->size < sizeof(size_t)) {
            return error_set(HF_ERR_INVALID, "hf_options.size is not set: begin with HF_OPTIONS");
        }
        memcpy(whole, given, given->size < sizeof(*whole) ? given->size : sizeof(*whole));
    }
    int error = options_check(whole);
    if (error != 0) {
        return error;
    }
    struct identity identity;
    memset(out, 0, sizeof(*out));
    identity_read(&identity);
    if (whole->client_id != NULL) {
        snprintf(out->client_id, sizeof(out->client_id), "%s", whole->client_id);
    } else {
        default_client_id(&identity, out->client_id, sizeof(out->client_id));
    }
    if (whole->metadata != NULL) {
        snprintf(out->metadata, sizeof(out->metadata), "%s", whole->metadata);
    } else {
        default_metadata(&identity, out->metadata, sizeof(out->metadata));
    }
    out->session_ttl_ms = whole->session_ttl_ms == 0 ? 30000 : whole->session_ttl_ms;
    out->linger_ms = whole->linger_ms;
    out->call_timeout_ms = whole->call_timeout_ms == 0 ? 5000 : whole->call_timeout_ms;
    out->connect_timeout_ms = whole->connect_timeout_ms == 0 ? 1000 : whole->connect_timeout_ms;
    out->any_node = whole->any_node;
    return 0;
}

struct security *options_security(const struct hf_options *o)
{
    static const char *const protocols[] = {"h2", NULL};
    struct security_files files = {o->ca,          o->cert,       o->key,
                                   o->server_name, o->token_file, o->tenant};
    char problem[SECURITY_PROBLEM];
    struct security *security = security_load(&files, protocols, problem);
    if (security == NULL) {
        (void)error_set(HF_ERR_INVALID, "%s", problem);
    }
    return security;
}

const char *options_endpoints(const char *given)
{
    if (given == NULL || given[0] == '\0') {
        given = getenv("HOLDFAST_ENDPOINTS");
    }
    return given == NULL || given[0] == '\0' ? "127.0.0.1:4653" : given;
}

static int check_names(const char *const *names, size_t count)
{
    if (names == NULL || count == 0 || count > LIMIT_MULTILOCK_NAMES) {
        return error_set(HF_ERR_INVALID, "1 to 64 names are taken together");
    }
    for (size_t i = 0; i < count; i++) {
        if (names[i] == NULL || !text_is_name(slice_of(names[i]))) {
            return error_set(HF_ERR_INVALID,
                             "a name is 1 to 512 bytes of UTF-8 without control characters and "
                             "without an empty, '.' or '..' segment between slashes");
        }
    }
    return 0;
}

static int check_mode(struct hf_lock_options *o, size_t count)
{
    if ((unsigned)o->mode > HF_SEMAPHORE || (unsigned)o->tier > HF_EFFICIENCY) {
        return error_set(HF_ERR_INVALID, "there is no such mode or tier");
    }
    if (count > 1 && o->mode != HF_EXCLUSIVE) {
        return error_set(HF_ERR_INVALID, "several names are taken exclusively only");
    }
    if (o->mode != HF_SEMAPHORE) {
        return o->limit == 0 && o->permits == 0
                   ? 0
                   : error_set(HF_ERR_INVALID, "limit and permits are for semaphores");
    }
    if (o->limit == 0 || o->limit > LIMIT_HOLDERS) {
        return error_set(HF_ERR_INVALID, "a semaphore needs a limit of 1 to 10,000");
    }
    o->permits = o->permits == 0 ? 1 : o->permits;
    return 0;
}

int options_read_lock(const struct hf_lock_options *given, const char *const *names, size_t count,
                      struct hf_lock_options *whole)
{
    memset(whole, 0, sizeof(*whole));
    if (given != NULL) {
        if (given->size < sizeof(size_t)) {
            return error_set(HF_ERR_INVALID,
                             "hf_lock_options.size is not set: begin with HF_LOCK_OPTIONS");
        }
        memcpy(whole, given, given->size < sizeof(*whole) ? given->size : sizeof(*whole));
    }
    if (whole->ttl_ms != 0 && !is_ttl(whole->ttl_ms)) {
        return error_set(HF_ERR_INVALID, "ttl_ms is out of range (100 ms to 24 h)");
    }
    if (whole->lock_delay_ms > LIMIT_DELAY_MAX_MS) {
        return error_set(HF_ERR_INVALID, "lock_delay_ms is more than 24 h");
    }
    if (whole->max_hold_ms != 0 &&
        (whole->max_hold_ms < LIMIT_TTL_MIN_MS || whole->max_hold_ms > LIMIT_HELD_MAX_MS)) {
        return error_set(HF_ERR_INVALID, "max_hold_ms is out of range (100 ms to 31 days)");
    }
    if (whole->wait_ms < HF_WAIT_FOREVER) {
        return error_set(HF_ERR_INVALID, "wait_ms is -1 (without limit), 0 (try) or more");
    }
    if (whole->trace != NULL && whole->trace[0] != '\0' &&
        !text_is_traceparent(slice_of(whole->trace))) {
        return error_set(HF_ERR_INVALID, "trace is not a W3C traceparent");
    }
    int error = check_mode(whole, count);
    error = error != 0 ? error : check_names(names, count);
    return error != 0 ? error : check_metadata(whole->metadata);
}
