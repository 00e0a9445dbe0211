/* A service with clients of the Redis protocol, for tests: lines in, bytes out. To be included
 * after base_testing.h. */
#ifndef HOLDFAST_TESTS_RESP_WORLD_H
#define HOLDFAST_TESTS_RESP_WORLD_H

#include "fake_gateway.h"
#include "service/resp/api.h"

enum { RESP_CLIENTS = 16 };

struct resp_client {
    struct resp_world *world;
    struct resp_conn *conn; /* NULL: closed */
    bool is_deaf;           /* takes nothing */
    bool is_readied;        /* `ready` was called since */
    char *got;              /* what was received and not looked at yet, with a NUL */
    size_t got_len;
    size_t got_size;
};

struct resp_world {
    struct fake_gateway gateway;
    struct service *service;
    struct resp_client clients[RESP_CLIENTS];
};

void resp_world_open(struct resp_world *w, const struct memory *memory,
                     const struct service_options *more);
void resp_world_close(struct resp_world *w);
/* Until nothing moves any more; time stands still. */
void resp_world_run(struct resp_world *w);
/* Time passes, and the service runs whenever it wants to. */
void resp_world_pass(struct resp_world *w, uint64_t ms);

struct resp_client *resp_world_client(struct resp_world *w);
void resp_client_close(struct resp_client *c);

/* Bytes from the client, and what follows from them. */
void resp_send_bytes(struct resp_client *c, const void *data, size_t len);
/* The same, but nobody acts on what was submitted yet. */
void resp_send_only(struct resp_client *c, const char *text);
/* A line of words, with its end. */
void resp_say(struct resp_client *c, const char *line);
/* Fails the test unless exactly this was received, where "|" stands for CR LF; forgets it. */
void resp_expect(struct resp_client *c, const char *expected);
/* ... unless it begins with this. */
void resp_expect_start(struct resp_client *c, const char *expected);
/* resp_say and resp_expect in one. */
void resp_request(struct resp_client *c, const char *line, const char *expected);

#endif
