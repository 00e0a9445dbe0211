/* A request's way from a client to the leader and back, through the node that the client is
 * connected to. Every step takes time, and may never arrive. */
#ifndef HOLDFAST_TESTS_SIM_CALLS_H
#define HOLDFAST_TESTS_SIM_CALLS_H

#include "base/tier.h"
#include "world.h"

enum answer_kind {
    ANSWER_RESULT,
    ANSWER_UNAVAILABLE, /* surely nothing was done (S8.4) */
    ANSWER_UNKNOWN,
    ANSWER_READ,    /* `token` is the holder's */
    ANSWER_GRANTED, /* a wait is over: an event, not an answer to a request */
    ANSWER_WAIT_ENDED,
    ANSWER_BROKEN, /* the connection */
};

struct sim_answer {
    enum answer_kind kind;
    int client;
    int lane;
    uint64_t attempt; /* of that lane; an older one is for something that was given up */
    struct id lease;
    enum hf_error error;
    enum outcome outcome;
    enum reason reason;
    enum ended ended;
    bool replayed;
    bool accepted;
    bool alive; /* keep-alive */
    uint64_t token;
    uint64_t attachment;
    bool by_tier;   /* the leader's tier EFFICIENCY answered it */
    uint64_t epoch; /* of that leader (S10.2); 0: an event of the log */
};

/* Sends it to `node`, for that tier; a fence check is about `name`. */
void call_send(int client, int lane, uint64_t attempt, int node, enum tier tier,
               const struct command *command, uint32_t name);
/* Looks a name up after a barrier. */
void call_read(int client, int lane, uint64_t attempt, int node, uint32_t name);
void *calls_nobody(void); /* the cookie of a command that nobody waits for */
void calls_end(void);

/* clients.c: what comes back. */
bool clients_are_stopping(void);
void client_hears(const struct sim_answer *answer);
int client_entry(int client, uint32_t *life); /* the node that it is connected to */

#endif
