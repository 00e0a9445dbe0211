/* See return_predictor.h. */
#include "replica/return_predictor.h"

#include "base/panic.h"

enum {
    FADES = 8,   /* what a batch counts for falls by an eighth with each one after it */
    BELIEF = 64, /* in how many answers, to begin with */
    MOST = 3,    /* where three of four come back, the others are on their way */
    MOST_OF = 4,
};

static uint32_t who_of_text(struct slice text)
{
    uint32_t hash = 2166136261u; /* FNV-1a */
    for (size_t i = 0; i < text.len; i++) {
        hash = (hash ^ text.data[i]) * 16777619u;
    }
    return text.len == 0 ? 0 : hash ^ hash >> 12;
}

static uint32_t who_of_id(struct id id)
{
    uint64_t bits = id.high ^ id.low;
    return (uint32_t)(bits ^ bits >> 32);
}

static struct slice client_of(const struct command *command)
{
    switch (command->type) {
    case COMMAND_SESSION_OPEN:
        return command->session_open.client;
    case COMMAND_ACQUIRE:
        return command->acquire.client;
    case COMMAND_RELEASE:
        return command->release.client;
    case COMMAND_RENEW:
        return command->renew.client;
    case COMMAND_PROCLAIM:
        return command->proclaim.client;
    case COMMAND_TRANSACT:
        return command->transact.client;
    default:
        return slice_make(NULL, 0);
    }
}

uint32_t client_hash(struct id session, struct slice client)
{
    return id_is_zero(session) ? who_of_text(client) : who_of_id(session);
}

uint32_t client_hash_of_command(const struct command *command)
{
    return client_hash(command->session, client_of(command));
}

void return_predictor_init(struct predictor *c)
{
    *c = (struct predictor){.answered_before = BELIEF, .returned_before = BELIEF};
}

void return_predictor_begin_batch(struct predictor *c)
{
    hf_assert(c->returned <= c->answered);
    if (c->answered > 0) {
        c->answered_before += (uint64_t)c->answered * FADES - c->answered_before / FADES;
        c->returned_before += (uint64_t)c->returned * FADES - c->returned_before / FADES;
    }
    if (c->returned < c->answered) { /* else all places are 0 */
        memset(c->away, 0, sizeof(c->away));
    }
    c->answered = 0;
    c->returned = 0;
}

void return_predictor_note_answer(struct predictor *c, uint32_t who)
{
    uint16_t *place = &c->away[who % NODE_WAITERS_PLACES];
    if (*place < UINT16_MAX) {
        (*place)++;
        c->answered++;
    }
}

void return_predictor_note_request(struct predictor *c, uint32_t who)
{
    uint16_t *place = &c->away[who % NODE_WAITERS_PLACES];
    if (*place > 0) {
        (*place)--;
        c->returned++;
    }
}

uint32_t return_predictor_expected(const struct predictor *c)
{
    uint64_t of = c->answered_before;
    if (c->returned_before * MOST_OF >= of * MOST) {
        return c->answered;
    }
    return (uint32_t)((c->answered * c->returned_before + of / 2) / of);
}
