/* Sends a request to the endpoints in turn, see api.h. */
#include "cli/api.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "cli/exits.h"
#include "cli/say.h"
#include "transport/clock.h"

#define DEFAULT_ENDPOINT "127.0.0.1:4653"
#define NO_LEADER "it sees no leader, or it is busy"

enum { CONNECT_MS = 1000, ATTEMPT_MIN_MS = 1000, PAUSE_MS = 100, REFUSAL_MAX = 16 << 10 };

bool api_init(struct api *api, const struct cli_common *common)
{
    const char *list = common->endpoints != NULL ? common->endpoints : getenv("HOLDFAST_ENDPOINTS");
    if (list == NULL || list[0] == '\0') {
        list = DEFAULT_ENDPOINT;
    }
    memset(api, 0, sizeof(*api));
    api->timeout_ms = common->timeout_ms;
    while (*list != '\0') {
        size_t len = strcspn(list, ", ");
        if (len >= HTTP_ENDPOINT || api->count == API_ENDPOINTS) {
            cli_say("--endpoints: at most %d endpoints are allowed, each shorter than %d bytes",
                    API_ENDPOINTS, HTTP_ENDPOINT);
            return false;
        }
        if (len > 0) {
            (void)snprintf(api->endpoints[api->count++], HTTP_ENDPOINT, "%.*s", (int)len, list);
        }
        list += len;
        list += strspn(list, ", ");
    }
    if (api->count == 0) {
        cli_say("--endpoints: the list is empty; write HOST:PORT,HOST:PORT");
    }
    return api->count > 0 && http_secure(&common->security);
}

static bool has_any_refused(const struct api *api)
{
    for (unsigned i = 0; i < api->count; i++) {
        if (api->has_said[i]) {
            return true;
        }
    }
    return false;
}

void api_problem(const struct api *api, char *out, size_t size)
{
    size_t len = (size_t)snprintf(out, size, "%s: tried ",
                                  has_any_refused(api) ? "no endpoint can serve the request now"
                                                       : "no endpoint answered");
    for (unsigned i = 0; i < api->count && len < size; i++) {
        len += (size_t)snprintf(out + len, size - len, "%s%s (%s)", i == 0 ? "" : ", ",
                                api->endpoints[i],
                                api->problems[i][0] != '\0' ? api->problems[i] : "not tried");
    }
}

static int fail_unreachable(const struct api *api)
{
    char text[1400];
    if (!api->is_quiet) {
        api_problem(api, text, sizeof(text));
        cli_say("%s; %s", text,
                has_any_refused(api) ? "`holdfast status` shows which nodes are unreachable"
                                     : API_NOBODY_THERE);
    }
    return EXIT_UNREACHABLE;
}

enum attempt {
    ATTEMPT_ANSWERED,
    ATTEMPT_NOTHING_DONE, /* not connected, or 503: try another */
    ATTEMPT_UNKNOWN,      /* sent, no answer */
};

/* Keeps the message of a 503 for api_problem. */
static void keep_refusal(struct api *api, unsigned index, struct http *h, int64_t deadline_ms)
{
    struct buffer text;
    struct fault fault;
    enum http_state state;
    buffer_init(&text, memory_system(), REFUSAL_MAX);
    do {
        state = http_read_body(h, &text, deadline_ms);
    } while (state == HTTP_MORE);
    struct json_t *tree = state == HTTP_DONE ? json_tree_parse(buffer_bytes(&text), &fault) : NULL;
    struct slice words = json_tree_text(json_tree_get(json_tree_get(tree, "error"), "message"));
    if (words.len == 0 || slice_equal(words, slice_of(hf_error_text(HF_UNAVAILABLE)))) {
        words = slice_of(NO_LEADER);
    }
    (void)snprintf(api->problems[index], HTTP_PROBLEM, "%.*s", (int)words.len,
                   (const char *)words.data);
    api->has_said[index] = true;
    json_tree_free(tree);
    buffer_close(&text);
}

static enum attempt attempt(struct api *api, unsigned index, const struct cli_request *request,
                            int64_t deadline_ms, struct http *h)
{
    int64_t now_ms = clock_boot_ms();
    int64_t connect_ms = now_ms + CONNECT_MS < deadline_ms ? now_ms + CONNECT_MS : deadline_ms;
    enum attempt outcome = ATTEMPT_NOTHING_DONE;
    if (http_open(h, api->endpoints[index], connect_ms)) {
        outcome = ATTEMPT_UNKNOWN;
        if (http_send(h, request->method, request->target, request->body, deadline_ms) &&
            http_read_head(h, deadline_ms)) {
            outcome = h->status == 503 ? ATTEMPT_NOTHING_DONE : ATTEMPT_ANSWERED;
        }
    }
    /* An earlier 503 explains more than a later timeout. */
    if (h->status == 503) {
        keep_refusal(api, index, h, deadline_ms);
    } else if (!api->has_said[index]) {
        (void)snprintf(api->problems[index], HTTP_PROBLEM, "%s", h->problem);
    }
    return outcome;
}

/* An equal share of the time left: an endpoint that hangs does not use all of it. */
static int64_t share(int64_t deadline_ms, unsigned endpoints_left)
{
    int64_t now_ms = clock_boot_ms();
    int64_t part_ms = (deadline_ms - now_ms) / (endpoints_left > 0 ? endpoints_left : 1);
    part_ms = part_ms > ATTEMPT_MIN_MS ? part_ms : ATTEMPT_MIN_MS;
    return now_ms + part_ms < deadline_ms ? now_ms + part_ms : deadline_ms;
}

/* 0: `h` has the head of an answer; else the exit code. After a 503 tries all again until the
 * deadline: an election takes less than a second. */
static int try_all(struct api *api, const struct cli_request *request, int64_t deadline_ms,
                   struct http *h)
{
    for (;;) {
        bool was_answered = false;
        for (unsigned i = 0; i < api->count; i++) {
            unsigned index = (api->current + i) % api->count;
            enum attempt outcome =
                attempt(api, index, request, share(deadline_ms, api->count - i), h);
            if (outcome == ATTEMPT_ANSWERED) {
                api->current = index;
                return 0;
            }
            was_answered |= h->status != 0;
            api->may_be_executed |= outcome == ATTEMPT_UNKNOWN;
            http_close(h);
            if (outcome == ATTEMPT_UNKNOWN && request->repeat == API_ONCE) {
                cli_say("%s received the request and sent no answer (%s): the request may have "
                        "been executed; check the state before you repeat it",
                        api->endpoints[index], api->problems[index]);
                return EXIT_UNREACHABLE;
            }
        }
        if (!was_answered || clock_boot_ms() + PAUSE_MS >= deadline_ms) {
            return fail_unreachable(api);
        }
        struct timespec pause = {0, PAUSE_MS * 1000000L};
        (void)nanosleep(&pause, NULL);
    }
}

static int read_answer(const struct api *api, struct http *h, struct api_answer *answer,
                       int64_t deadline_ms)
{
    enum http_state state;
    struct fault fault;
    do {
        state = http_read_body(h, &answer->text, deadline_ms);
    } while (state == HTTP_MORE);
    if (state == HTTP_BROKEN) {
        if (!api->is_quiet) {
            cli_say("the answer of %s is incomplete: %s; try again", h->authority, h->problem);
        }
        return EXIT_UNREACHABLE;
    }
    answer->tree = json_tree_parse(buffer_bytes(&answer->text), &fault);
    if (answer->tree == NULL) {
        cli_say("the server at %s is not a Holdfast node (status %d, %s)", h->authority, h->status,
                fault.text);
        return EXIT_UNREACHABLE;
    }
    return 0;
}

/* {"error":{"code":...,"message":...}} */
static int fail_refused(struct api *api, int status, const struct json_t *tree)
{
    const struct json_t *error = json_tree_get(tree, "error");
    struct slice code = json_tree_text(json_tree_get(error, "code"));
    struct slice message = json_tree_text(json_tree_get(error, "message"));
    (void)snprintf(api->problems[api->current], HTTP_PROBLEM, "%.*s", (int)message.len,
                   (const char *)message.data);
    (void)snprintf(api->message, sizeof(api->message), "%.*s (%.*s)", (int)message.len,
                   (const char *)message.data, (int)code.len, (const char *)code.data);
    api->status = status;
    api->may_be_executed |= status == 504;
    if (!api->is_quiet) {
        cli_say("%.*s (%.*s)", (int)message.len, (const char *)message.data, (int)code.len,
                (const char *)code.data);
    }
    return status == 403                    ? EXIT_DENIED
           : status == 503 || status == 504 ? EXIT_UNREACHABLE
                                            : EXIT_FAILED;
}

int api_call(struct api *api, const struct cli_request *request, struct api_answer *answer)
{
    struct http h;
    int64_t deadline_ms = clock_boot_ms() + (int64_t)api->timeout_ms;
    api->status = 0;
    api->may_be_executed = false;
    int code = try_all(api, request, deadline_ms, &h);
    if (code != 0) {
        return code;
    }
    *answer = (struct api_answer){.tree = NULL};
    buffer_init(&answer->text, memory_system(), API_ANSWER_MAX);
    code = read_answer(api, &h, answer, deadline_ms);
    api->may_be_executed |= code != 0;
    if (code == 0 && h.status != 200) {
        code = fail_refused(api, h.status, answer->tree);
    }
    http_close(&h);
    if (code != 0) {
        api_answer_close(answer);
    }
    return code;
}

int api_get(struct api *api, const char *target, struct api_answer *answer)
{
    struct cli_request request = {"GET", target, slice_make(NULL, 0), API_REPEAT};
    return api_call(api, &request, answer);
}

int api_stream(struct api *api, const char *target, struct http *http)
{
    struct cli_request request = {"GET", target, slice_make(NULL, 0), API_REPEAT};
    int64_t deadline_ms = clock_boot_ms() + (int64_t)api->timeout_ms;
    int code = try_all(api, &request, deadline_ms, http);
    if (code != 0 || http->status == 200) {
        return code;
    }
    struct api_answer answer = {.tree = NULL};
    buffer_init(&answer.text, memory_system(), API_ANSWER_MAX);
    code = read_answer(api, http, &answer, deadline_ms);
    if (code == 0) {
        code = fail_refused(api, http->status, answer.tree);
    }
    api_answer_close(&answer);
    http_close(http);
    return code;
}

void api_answer_close(struct api_answer *answer)
{
    json_tree_free(answer->tree);
    answer->tree = NULL;
    buffer_close(&answer->text);
}
