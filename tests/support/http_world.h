/* A service with clients, for tests: bytes in, bytes out, and JSON looked at by its paths. To be
 * included after base_testing.h. */
#ifndef HOLDFAST_TESTS_HTTP_WORLD_H
#define HOLDFAST_TESTS_HTTP_WORLD_H

#include "fake_gateway.h"
#include "service/http/http_api.h"

enum { WORLD_CLIENTS = 64 };

struct http_world;

struct http_client {
    struct http_world *world;
    struct http_conn *conn; /* NULL: closed */
    bool is_deaf;           /* takes nothing */
    bool is_readied;        /* `ready` was called since */
    uint8_t *got;           /* what was received and not looked at yet */
    size_t got_len;
    size_t got_size;
};

struct reply {
    int status; /* 0: there is none (yet) */
    char *head; /* both with a NUL; free with reply_free */
    char *body;
    size_t body_len;
};

struct http_world {
    struct fake_gateway gateway;
    struct service *service;
    const struct memory *memory;
    const char *address; /* "IP:PORT" of the next client; NULL: unknown */
    struct http_client clients[WORLD_CLIENTS];
};

void world_open(struct http_world *w, const struct memory *memory,
                const struct service_options *more);
void world_close(struct http_world *w);
/* Until nothing moves any more; time stands still. */
void world_run(struct http_world *w);
/* Time passes, and the service runs whenever it wants to. */
void world_pass(struct http_world *w, uint64_t ms);

struct http_client *world_client(struct http_world *w, bool is_operator);
/* Bytes from the client, and what follows from them. */
void client_send(struct http_client *c, const char *text);
void client_send_bytes(struct http_client *c, const void *data, size_t len);
/* The same, but nobody acts on what was submitted yet. */
void client_send_only(struct http_client *c, const void *data, size_t len);
void client_close(struct http_client *c);

/* The first complete answer that was received, taken out. */
struct reply client_reply(struct http_client *c);
void reply_free(struct reply *r);
/* A request with a body, and its answer. */
struct reply client_request_to(struct http_client *c, const char *method, const char *target,
                               const char *body);
/* The text that a stream has brought, taken out, with its chunks put together. */
char *client_stream(struct http_client *c);

/* Fails the test unless the body has all of `expected`: words PATH=JSON separated by spaces, where
 * PATH is member.member[.index]; PATH=* is anything but null, PATH=- is nothing or null. JSON holds
 * no spaces. */
void expect_json(const char *body, const char *expected);
/* The number, or the text (to be freed), at a path. */
uint64_t json_number_at(const char *body, const char *path);
char *json_text_at(const char *body, const char *path);

/* client_request_to, the status and expect_json in one. */
void expect(struct http_client *c, const char *method, const char *target, const char *body,
            int status, const char *expected);

#endif
