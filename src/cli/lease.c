/* See lease.h. */
#include "cli/lease.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/limits.h"
#include "cli/exits.h"
#include "cli/say.h"
#include "client/deadline.h"
#include "transport/clock.h"

enum { PAUSE_MS = 100 };

bool lease_read(const char *command, const char *text, struct lease *out)
{
    char *end = NULL;
    if (text == NULL) {
        text = getenv("HOLDFAST_LEASE");
    }
    if (text == NULL || text[0] == '\0') {
        cli_say("%s: LEASE is missing: give the HOLDFAST_LEASE that `holdfast acquire` printed, as "
                "an argument or in the environment",
                command);
        return false;
    }
    if (strncmp(text, "hf1.", 4) == 0 && text[4] >= '1' && text[4] <= '9') {
        out->token = strtoull(text + 4, &end, 10);
    }
    size_t len = end != NULL && *end == '.' ? strlen(end + 1) : 0;
    if (len == 0 || len >= LEASE_ID_TEXT || out->token >= LIMIT_NUMBER ||
        strspn(end + 1, "0123456789abcdef-") != len) {
        cli_say("%s: \"%s\" is not a lease of `holdfast acquire`; one looks like hf1.TOKEN.ID",
                command, text);
        return false;
    }
    (void)snprintf(out->id, sizeof(out->id), "%s", end + 1);
    return true;
}

void lease_put(const struct lease *l, struct json_writer *w)
{
    json_put_u64(w, "fencing_token", l->token);
    json_put_text(w, "lease_id", l->id);
}

int64_t lease_until_ms(int64_t sent_ms, const struct json_t *answer)
{
    struct life life = {sent_ms, (int64_t)json_tree_u64(json_tree_get(answer, "expires_in_ms"), 0)};
    return life.ttl_ms > 0 ? life_safe_until(life) : sent_ms;
}

int lease_call(struct api *api, const struct cli_request *request, struct api_answer *answer)
{
    uint64_t timeout_ms = api->timeout_ms;
    int64_t deadline_ms = clock_boot_ms() + (int64_t)timeout_ms;
    int code;
    api->is_quiet = true;
    for (;;) {
        code = api_call(api, request, answer);
        int64_t left_ms = deadline_ms - clock_boot_ms();
        if (code == 0 || !api->may_be_executed || left_ms <= PAUSE_MS) {
            break;
        }
        api->timeout_ms = (uint64_t)left_ms;
        struct timespec pause = {0, PAUSE_MS * 1000000L};
        (void)nanosleep(&pause, NULL);
    }
    api->timeout_ms = timeout_ms;
    return code;
}

int lease_fail(const struct api *api, const char *what, int code)
{
    char problem[1400];
    if (code == EXIT_UNREACHABLE && api->status == 0) {
        api_problem(api, problem, sizeof(problem));
        cli_say("%s: %s; `holdfast status` shows the state of the cluster", what, problem);
        return code;
    }
    cli_say("%s: %s", what, api->message);
    switch (api->status) {
    case 400:
        return EXIT_USAGE;
    case 401:
    case 403:
        return EXIT_DENIED;
    case 404: /* session_not_found */
    case 410: /* session_expired */
        return EXIT_LOST;
    default:
        return code;
    }
}

/* One request about a lease; `done` is the member of the answer that is true after success. */
static int call_by_lease(struct api *api, const struct lease *l, const char *target,
                         uint64_t ttl_ms, bool has_id, const char *done, struct api_answer *answer)
{
    char text[512];
    char id[33];
    struct buffer body;
    struct json_writer w;
    buffer_init(&body, memory_system(), sizeof(text));
    json_writer_init(&w, &body);
    json_write_open(&w, '{');
    lease_put(l, &w);
    if (ttl_ms != 0) {
        json_put_u64(&w, "ttl_ms", ttl_ms);
    }
    if (has_id) {
        api_request_id(id);
        json_put_text(&w, "request_id", id);
    }
    json_write_close(&w);
    struct cli_request request = {"POST", target, buffer_bytes(&body), API_REPEAT};
    int code = lease_call(api, &request, answer);
    buffer_close(&body);
    if (code == 0 && !json_tree_true(json_tree_get(answer->tree, done))) {
        code = EXIT_LOST;
    }
    return code;
}

/* Without a request id: each attempt may be applied, and counts from the sending of the first. */
int lease_renew(struct api *api, const struct lease *l, uint64_t ttl_ms, int64_t *until_ms,
                struct api_answer *answer)
{
    int64_t sent_ms = clock_boot_ms();
    int code = call_by_lease(api, l, "/api/v1/multilock/renew", ttl_ms, false, "renewed", answer);
    if (code == 0) {
        *until_ms = lease_until_ms(sent_ms, answer->tree);
    }
    return code;
}

int lease_release(struct api *api, const struct lease *l, struct api_answer *answer)
{
    int code = call_by_lease(api, l, "/api/v1/multilock/release", 0, true, "released", answer);
    if (code == EXIT_LOST && slice_equal(json_tree_text(json_tree_get(answer->tree, "reason")),
                                         slice_of("already_released"))) {
        return 0;
    }
    return code;
}

void lease_client(const char *given, const char *request_id, char out[LEASE_CLIENT])
{
    char actor[256];
    if (given != NULL) {
        (void)snprintf(out, LEASE_CLIENT, "%s", given);
        return;
    }
    api_actor(actor, sizeof(actor));
    if (request_id != NULL) {
        (void)snprintf(out, LEASE_CLIENT, "%.200s", actor);
    } else {
        (void)snprintf(out, LEASE_CLIENT, "%.200s/%d", actor, (int)getppid());
    }
}

void lease_put_metadata(const char *request_id, struct json_writer *w)
{
    char actor[256];
    api_actor(actor, sizeof(actor));
    json_put_open(w, "metadata", '{');
    json_put_text(w, "user", actor);
    if (request_id == NULL) {
        json_put_u64(w, "pid", (uint64_t)getppid());
    }
    json_write_close(w);
}

/* ---- output ---- */

void shell_put(const char *name, const char *value)
{
    printf("%s='", name);
    for (const char *at = value; *at != '\0'; at++) {
        if (*at == '\'') {
            fputs("'\\''", stdout);
        } else {
            (void)putchar(*at);
        }
    }
    printf("'\n");
}

void shell_put_until(const char *name, int64_t until_ms)
{
    char text[32];
    (void)snprintf(text, sizeof(text), "%" PRId64 ".%03d", until_ms / 1000, (int)(until_ms % 1000));
    shell_put(name, text);
}

void shell_put_failure(int code)
{
    printf("(exit %d)\n", code);
    (void)fflush(stdout);
}

bool shell_flush(void)
{
    return fflush(stdout) == 0 && ferror(stdout) == 0;
}
