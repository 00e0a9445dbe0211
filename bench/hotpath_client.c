/* Clients of HTTP/1.1 and of the Redis protocol; see hotpath_client.h. */
#include "hotpath_client.h"

#include <stdio.h>
#include <string.h>

#include "base/panic.h"

enum { REQUEST_BYTES = 1024, TOKEN_BYTES = 24 };

static struct {
    char request[REQUEST_BYTES];
    char token[TOKEN_BYTES]; /* HTTP: the fencing token in the last answer; "": none */
} clients[HOTPATH_CLIENTS];

const char *hotpath_secret = "";

static struct slice request_of(unsigned client, int len)
{
    hf_assert(len > 0 && len < REQUEST_BYTES);
    return slice_make(clients[client].request, (size_t)len);
}

static struct slice open_nothing(unsigned client)
{
    (void)client;
    return slice_make(NULL, 0);
}

static void close_nothing(unsigned client)
{
    (void)client;
}

/* The answer as text; `word` must be in it. Returns what follows the word. */
static const char *text_after(struct slice answer, const char *word)
{
    static char text[4096];
    hf_assert(answer.len > 0 && answer.len < sizeof(text));
    memcpy(text, answer.data, answer.len);
    text[answer.len] = '\0';
    const char *at = strstr(text, word);
    hf_assert(at != NULL);
    return at + strlen(word);
}

/* ---- HTTP/1.1 ---- */

static struct slice http_request(unsigned client, const char *name, const char *verb,
                                 const char *more)
{
    char body[200];
    char authorization[100] = "";
    if (hotpath_secret[0] != '\0') {
        snprintf(authorization, sizeof(authorization), "Authorization: Bearer %s\r\n",
                 hotpath_secret);
    }
    int len = snprintf(body, sizeof(body), "{\"client_id\":\"worker-%u\"%s}", client, more);
    len = snprintf(clients[client].request, REQUEST_BYTES,
                   "POST /api/v1/locks/%s/%s HTTP/1.1\r\nHost: localhost:4653\r\n"
                   "%sContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
                   name, verb, authorization, len, body);
    return request_of(client, len);
}

static struct slice http_acquire(unsigned client, const char *name)
{
    clients[client].token[0] = '\0';
    return http_request(client, name, "acquire", ",\"ttl_ms\":30000");
}

static struct slice http_release(unsigned client, const char *name)
{
    char more[64];
    snprintf(more, sizeof(more), ",\"fencing_token\":%s", clients[client].token);
    return http_request(client, name, "release", more);
}

static void http_take(unsigned client, struct slice answer)
{
    char *token = clients[client].token;
    if (token[0] != '\0') {
        (void)text_after(answer, "\"released\":true");
        return;
    }
    const char *at = text_after(answer, "\"fencing_token\":");
    size_t len = strcspn(at, ",}");
    hf_assert(len > 0 && len < TOKEN_BYTES);
    memcpy(token, at, len);
    token[len] = '\0';
}

const struct hotpath_protocol hotpath_http = {
    .name = "http",
    .open = open_nothing,
    .acquire = http_acquire,
    .release = http_release,
    .take = http_take,
    .close = close_nothing,
};

/* ---- the Redis protocol: SET NX PX, and the script that Redis recommends for the release ---- */

static struct slice resp_open(unsigned client)
{
    if (hotpath_secret[0] == '\0') {
        return open_nothing(client);
    }
    int len = snprintf(clients[client].request, REQUEST_BYTES,
                       "*3\r\n$4\r\nAUTH\r\n$13\r\ndefault/bench\r\n$%zu\r\n%s\r\n",
                       strlen(hotpath_secret), hotpath_secret);
    return request_of(client, len);
}

static struct slice resp_acquire(unsigned client, const char *name)
{
    char value[32];
    int value_len = snprintf(value, sizeof(value), "worker-%u", client);
    int len = snprintf(clients[client].request, REQUEST_BYTES,
                       "*6\r\n$3\r\nSET\r\n$%zu\r\n%s\r\n$%d\r\n%s\r\n"
                       "$2\r\nNX\r\n$2\r\nPX\r\n$5\r\n30000\r\n",
                       strlen(name), name, value_len, value);
    return request_of(client, len);
}

static struct slice resp_release(unsigned client, const char *name)
{
    static const char script[] = "if redis.call('get',KEYS[1]) == ARGV[1] then "
                                 "return redis.call('del',KEYS[1]) else return 0 end";
    char value[32];
    int value_len = snprintf(value, sizeof(value), "worker-%u", client);
    int len = snprintf(clients[client].request, REQUEST_BYTES,
                       "*5\r\n$4\r\nEVAL\r\n$%zu\r\n%s\r\n$1\r\n1\r\n$%zu\r\n%s\r\n$%d\r\n%s\r\n",
                       sizeof(script) - 1, script, strlen(name), name, value_len, value);
    return request_of(client, len);
}

static void resp_take(unsigned client, struct slice answer)
{
    bool was_release = clients[client].request[1] == '5';
    (void)text_after(answer, was_release ? ":1\r\n" : "+OK\r\n");
}

const struct hotpath_protocol hotpath_resp = {
    .name = "resp",
    .is_redis = true,
    .open = resp_open,
    .acquire = resp_acquire,
    .release = resp_release,
    .take = resp_take,
    .close = close_nothing,
};
