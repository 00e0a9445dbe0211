/* `holdfast session open|renew|close`: one life for the locks of several steps of a script. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "cli/commands.h"
#include "cli/exits.h"
#include "cli/lease.h"
#include "cli/say.h"
#include "transport/clock.h"

struct session_settings {
    struct cli_common common;
    uint64_t ttl_ms;
    const char *client;
    const char *request_id;
};

const struct flag session_options[] = {
    {"ttl", 't',
     FLAG_DURATION_IN(struct session_settings, ttl_ms, LIMIT_TTL_MIN_MS, LIMIT_TTL_MAX_MS),
     "DURATION", "open: time from the last renewal to the end of the session (default: 30s)"},
    {"client", 0, FLAG_TEXT_SET(struct session_settings, client), "ID",
     "open: client id shown to others (default: USER@HOST/PID, with the PID of the calling "
     "process)"},
    {"request-id", 0, FLAG_TEXT_SET(struct session_settings, request_id), "ID",
     "open: repeat with the same ID after a crash of the script to get the same session"},
    CLI_COMMON_OPTIONS(struct session_settings),
    FLAGS_END,
};

static void print(const struct session_settings *o, const struct api_answer *answer,
                  int64_t until_ms)
{
    char id[LEASE_ID_TEXT];
    struct slice text = json_tree_text(json_tree_get(answer->tree, "session_id"));
    if (o->common.json) {
        api_print_json(answer);
        return;
    }
    (void)snprintf(id, sizeof(id), "%.*s", (int)text.len, (const char *)text.data);
    shell_put("HOLDFAST_SESSION", id);
    shell_put_until("HOLDFAST_SESSION_UNTIL", until_ms);
    printf("export HOLDFAST_SESSION HOLDFAST_SESSION_UNTIL\n");
}

static int open_session(const struct session_settings *o, struct api *api)
{
    char client[LEASE_CLIENT];
    char id[33];
    struct buffer body;
    struct json_writer w;
    struct api_answer answer;
    lease_client(o->client, o->request_id, client);
    api_request_id(id);
    buffer_init(&body, memory_system(), 8192);
    json_writer_init(&w, &body);
    json_write_open(&w, '{');
    json_put_text(&w, "client_id", client);
    json_put_u64(&w, "ttl_ms", o->ttl_ms);
    json_put_text(&w, "request_id", o->request_id != NULL ? o->request_id : id);
    lease_put_metadata(o->request_id, &w);
    json_write_close(&w);
    struct cli_request request = {"POST", "/api/v1/sessions", buffer_bytes(&body), API_REPEAT};
    int64_t sent_ms = clock_boot_ms();
    int code = lease_call(api, &request, &answer);
    buffer_close(&body);
    if (code != 0) {
        return lease_fail(api, "session open", code);
    }
    print(o, &answer, lease_until_ms(sent_ms, answer.tree));
    api_answer_close(&answer);
    return 0;
}

/* NULL: none; the problem is printed. */
static const char *session_id(const struct flag_words *words)
{
    const char *id = words->count > 1 ? words->items[1] : getenv("HOLDFAST_SESSION");
    if (id == NULL || id[0] == '\0' || strlen(id) >= LEASE_ID_TEXT ||
        strspn(id, "0123456789abcdef-") != strlen(id)) {
        cli_say("session: SESSION is missing or is no session id: give the HOLDFAST_SESSION that "
                "`holdfast session open` printed, as an argument or in the environment");
        return NULL;
    }
    return id;
}

static int fail_ended(const struct api *api, int code)
{
    code = lease_fail(api, "session", code);
    if (code == EXIT_LOST) {
        cli_say("the session has ended, and its locks with it; other clients may hold them now, so "
                "stop what they protect");
    }
    return code;
}

static int renew_session(const struct session_settings *o, struct api *api, const char *id)
{
    char target[128];
    struct api_answer answer;
    (void)snprintf(target, sizeof(target), "/api/v1/sessions/%s/keepalive", id);
    struct cli_request request = {"POST", target, slice_make(NULL, 0), API_REPEAT};
    int64_t sent_ms = clock_boot_ms();
    int code = lease_call(api, &request, &answer);
    if (code != 0) {
        return fail_ended(api, code);
    }
    print(o, &answer, lease_until_ms(sent_ms, answer.tree));
    api_answer_close(&answer);
    return 0;
}

static int close_session(const struct session_settings *o, struct api *api, const char *id)
{
    char target[128];
    struct api_answer answer;
    (void)snprintf(target, sizeof(target), "/api/v1/sessions/%s", id);
    struct cli_request request = {"DELETE", target, slice_make(NULL, 0), API_REPEAT};
    int code = lease_call(api, &request, &answer);
    if (code != 0) {
        return fail_ended(api, code);
    }
    if (o->common.json) {
        api_print_json(&answer);
    }
    api_answer_close(&answer);
    return 0;
}

static int run(const struct session_settings *o, struct api *api, const struct flag_words *words)
{
    const char *action = words->items[0];
    const char *id = NULL;
    if (strcmp(action, "open") == 0) {
        return cli_words_check("session", words, 1, 1) ? open_session(o, api) : EXIT_USAGE;
    }
    bool renews = strcmp(action, "renew") == 0;
    if (!renews && strcmp(action, "close") != 0) {
        cli_say("session: \"%s\" is not open, renew or close", action);
        return EXIT_USAGE;
    }
    id = session_id(words);
    if (id == NULL) {
        return EXIT_USAGE;
    }
    return renews ? renew_session(o, api, id) : close_session(o, api, id);
}

int session_main(int count, char **arguments)
{
    struct session_settings o = {.common = CLI_COMMON_DEFAULT, .ttl_ms = LEASE_TTL_MS};
    struct flag_words words;
    struct api api;
    int code = EXIT_USAGE;
    bool closes = false;
    if (flags_read("session", session_options, FLAGS_ANY_ORDER, count, arguments, &o, &words) &&
        cli_words_check("session", &words, 1, 2) && api_init(&api, &o.common)) {
        closes = strcmp(words.items[0], "close") == 0;
        code = run(&o, &api, &words);
    }
    if (code != 0 && !o.common.json && !closes) {
        shell_put_failure(code);
    }
    return code;
}
