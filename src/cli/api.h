/* Requests to the endpoints in turn, until one answers or the timeout expires. Answers are JSON
 * trees. An error is printed and becomes the exit code. */
#ifndef HOLDFAST_CLI_API_H
#define HOLDFAST_CLI_API_H

#include "cli/http.h"
#include "cli/options.h"
#include "wire/json_tree.h"
#include "wire/json_write.h"

enum { API_ENDPOINTS = 32, API_ANSWER_MAX = 64 << 20, API_TARGET = 4096 };

struct api {
    char endpoints[API_ENDPOINTS][HTTP_ENDPOINT];
    char problems[API_ENDPOINTS][HTTP_PROBLEM]; /* of the last attempt; "": none */
    bool has_said[API_ENDPOINTS];               /* the problem is the message of a 503 */
    unsigned count;
    unsigned current; /* the last that answered */
    uint64_t timeout_ms;
    bool is_quiet; /* api_call prints nothing; see api_problem */

    /* About the last call. */
    int status;           /* of the refusal; 0: there was none */
    char message[256];    /* of the refusal */
    bool may_be_executed; /* an endpoint received the request and sent no answer, or 504 */
};

/* On failure prints the problem; the exit code is EXIT_USAGE. */
bool api_init(struct api *api, const struct cli_common *common);

enum api_repeat {
    API_REPEAT, /* may be sent twice: a read, or with a request_id */
    API_ONCE,   /* another endpoint only if this one certainly did nothing */
};

struct cli_request {
    const char *method;
    const char *target;
    struct slice body; /* JSON or empty */
    enum api_repeat repeat;
};

struct api_answer {
    struct buffer text;
    struct json_t *tree; /* not NULL after a call that returned 0 */
};

/* 0: status 200, and the caller closes the answer. Else prints the problem and returns the exit
 * code; there is nothing to close. */
int api_call(struct api *api, const struct cli_request *request, struct api_answer *answer);
int api_get(struct api *api, const char *target, struct api_answer *answer);
void api_answer_close(struct api_answer *answer);

/* 0: a head with status 200, and the caller closes `http`. Else as api_call. */
int api_stream(struct api *api, const char *target, struct http *http);

/* Reads all pages of a list by `next_cursor`. `target` must have a query. `items` are those of the
 * array `key` of all pages; valid until api_pages_close. */
struct api_pages {
    struct json_t **trees;
    size_t tree_count;
    const struct json_t **items;
    size_t count;
};
int api_pages_read(struct api *api, const char *target, const char *key, struct api_pages *pages);
/* The same, until there are `most` items; 0: all. */
int api_pages_read_some(struct api *api, const char *target, const char *key, uint64_t most,
                        struct api_pages *pages);
void api_pages_close(struct api_pages *pages);
/* {"KEY":[...]}, to stdout. */
void api_pages_print_json(const struct api_pages *pages, const char *key);
/* {"KEY":[...],"complete_since":TIME}; null if the time is empty. */
void api_pages_print_json_since(const struct api_pages *pages, const char *key,
                                struct slice complete_since);

/* Advice after "no endpoint answered". */
#define API_NOBODY_THERE                                                                 \
    "is the cluster running? `holdfast dev` starts one on this machine; --endpoints or " \
    "HOLDFAST_ENDPOINTS select another"
/* "no endpoint answered: tried ...", or "no endpoint can serve the request now: ..." after a
 * 503. */
void api_problem(const struct api *api, char *out, size_t size);

/* As received, with a newline at its end. */
void api_print_json(const struct api_answer *answer);

/* Default actor of audit records: USER@HOST. */
void api_actor(char *out, size_t size);
/* 32 random hexadecimal digits. */
void api_request_id(char out[33]);

#endif
