/* How many of those whom a batch answers ask again at once: batch.c waits for so many, no more.
 *
 * Clients that do one thing after the other come back as soon as they are answered, and a batch is
 * larger if it waits for them. Where requests come as they come (many users, a little each) those
 * who were answered are not about to ask again: who waits for them waits for strangers, and those
 * come evenly, so the waiting never ends before its time. Counting arrivals does not tell the two
 * apart, because strangers fill the places; so each is known by his session or his client's name.
 *
 * Places are by hash: two who share one are taken for each other, which costs a few microseconds.
 * So are those whom nothing tells apart: the threads of one session, readers. */
#ifndef HOLDFAST_REPLICA_RETURN_PREDICTOR_H
#define HOLDFAST_REPLICA_RETURN_PREDICTOR_H

#include "core/command.h"

#define NODE_WAITERS_PLACES 4096u

struct predictor {
    uint16_t away[NODE_WAITERS_PLACES]; /* whom the last batch answered and who is not back yet */
    uint32_t answered;                  /* by the last batch */
    uint32_t returned;                  /* of those, before the next batch is answered */
    /* The same of the batches before, each counting for less than the one after it. */
    uint64_t answered_before;
    uint64_t returned_before;
};

/* Whose command it is; 0: nothing tells. */
uint32_t client_hash_of_command(const struct command *command);
uint32_t client_hash(struct id session, struct slice client);

/* At first it is believed that everybody comes back. */
void return_predictor_init(struct predictor *c);
/* A batch is about to be answered; whoever of the last one is not back now, is late. */
void return_predictor_begin_batch(struct predictor *c);
void return_predictor_note_answer(struct predictor *c, uint32_t who);
/* Somebody asks. */
void return_predictor_note_request(struct predictor *c, uint32_t who);
/* How many of those whom the last batch answered will probably be back soon: all where most are,
 * since on a busy machine some are late now and then, and a batch of nearly all of them pays. */
uint32_t return_predictor_expected(const struct predictor *c);

#endif
