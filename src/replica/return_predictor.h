/* Predicts how many clients send their next request right after they are answered; batch.c keeps a
 * batch open for that many.
 *
 * A client with one outstanding request sends the next one as soon as it has its answer. Waiting
 * for independent clients only adds latency, and the arrival rate can be the same. So the predictor
 * counts how many of the clients that one batch answers return before the next batch is answered.
 *
 * Clients are indexed by a hash of the session id or the client name; 0: neither. A collision
 * merges clients, which costs microseconds, not correctness. */
#ifndef HOLDFAST_REPLICA_RETURN_PREDICTOR_H
#define HOLDFAST_REPLICA_RETURN_PREDICTOR_H

#include "core/command.h"

#define RETURN_SLOTS 4096u

struct return_predictor {
    uint16_t awaited[RETURN_SLOTS]; /* answered by the last batch, not back yet */
    uint32_t answered;              /* by the last batch */
    uint32_t returned;              /* of those */
    uint64_t answered_decayed;      /* the same two, exponentially decayed over earlier batches */
    uint64_t returned_decayed;
};

/* 0: the command names no client. */
uint32_t client_hash_of_command(const struct command *command);
uint32_t client_hash(struct id session, struct slice client);

/* The initial prediction: all clients return. */
void return_predictor_init(struct return_predictor *p);
/* Before the answers of a batch are noted. A client of the batch before that is not back counts as
 * not returned. */
void return_predictor_begin_batch(struct return_predictor *p);
void return_predictor_note_answer(struct return_predictor *p, uint32_t hash);
void return_predictor_note_request(struct return_predictor *p, uint32_t hash);
/* The client's next request enters no batch. True: it was awaited, and counts as not answered. */
bool return_predictor_forget(struct return_predictor *p, uint32_t hash);
/* Of the clients that the last batch answered. Where most return, all: the others are only late,
 * and a larger batch is worth the wait. */
uint32_t return_predictor_expected(const struct return_predictor *p);

#endif
