/* Asking the service: the endpoints in turn, until one answers or the time is over; answers as
 * trees; errors as a sentence that says what to do next, and as an exit code. */
#ifndef HOLDFAST_CLI_API_H
#define HOLDFAST_CLI_API_H

#include "cli/http.h"
#include "cli/options.h"
#include "wire/json_tree.h"
#include "wire/json_write.h"

enum { API_ENDPOINTS = 32, API_ANSWER_MAX = 64 << 20, API_TARGET = 4096 };

struct api {
    char endpoints[API_ENDPOINTS][HTTP_ENDPOINT];
    char problems[API_ENDPOINTS][HTTP_PROBLEM]; /* of the last attempt at each; "": none */
    bool has_said[API_ENDPOINTS];               /* ... in its own words */
    unsigned count;
    unsigned current; /* the one that answered last */
    uint64_t timeout_ms;
    bool is_quiet; /* api_call says nothing; the caller asks api_problem */
};

/* False: it has said what is wrong with the endpoints; EXIT_USAGE. */
bool api_init(struct api *api, const struct cli_common *common);

enum api_repeat {
    API_REPEAT, /* asking twice does no harm: a read, or it has a request_id */
    API_ONCE,   /* ask another endpoint only where this one certainly did nothing */
};

struct api_request {
    const char *method;
    const char *target;
    struct slice body; /* JSON, may be empty */
    enum api_repeat repeat;
};

struct api_answer {
    struct buffer text;
    struct json_t *tree; /* never NULL after a call that returned 0 */
};

/* 0: a status of 200, and the caller closes the answer. Else it has said why, and it is the exit
 * code; then there is nothing to close. */
int api_call(struct api *api, const struct api_request *request, struct api_answer *answer);
int api_get(struct api *api, const char *target, struct api_answer *answer);
void api_answer_close(struct api_answer *answer);

/* Opens a stream: 0 when the head has come with a status of 200; the caller closes `http`. Waits
 * until `deadline_ms` for that. */
int api_stream(struct api *api, const char *target, struct http *http);

/* Follows `next_cursor`: `target` ends with what a query needs before "cursor=". Each item of the
 * array `key` of each page is given to `item`; the trees live in `pages` until pages_close. */
struct api_pages {
    struct json_t **trees;
    size_t tree_count;
    const struct json_t **items;
    size_t count;
};
int api_pages_read(struct api *api, const char *target, const char *key, struct api_pages *pages);
void api_pages_close(struct api_pages *pages);
/* {"KEY":[...]} on stdout. */
void api_pages_print_json(const struct api_pages *pages, const char *key);

/* What to do when no endpoint answered. */
#define API_NOBODY_THERE                                                            \
    "is the cluster up? `holdfast dev` starts one on this machine, --endpoints or " \
    "HOLDFAST_ENDPOINTS name another"
/* "no endpoint answered: tried ..." into `out`; "no endpoint can do it now: ..." where one said so.
 */
void api_problem(const struct api *api, char *out, size_t size);

/* The answer as it came, with a line's end. */
void api_print_json(const struct api_answer *answer);

/* Who asks, for the audit trail: USER@HOST. */
void api_actor(char *out, size_t size);
/* 32 hexadecimal digits that nobody else has. */
void api_request_id(char out[33]);

#endif
