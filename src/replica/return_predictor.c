/* See return_predictor.h. */
#include "replica/return_predictor.h"

#include "base/panic.h"

enum {
    DECAY = 8,            /* the weight of a batch falls by an eighth with each later one */
    INITIAL_ANSWERS = 64, /* counted as answered and returned at the start */
    MOST_DIVIDEND = 3,    /* where three of four return, all are expected */
    MOST_DIVISOR = 4,
};

static uint32_t hash_of_text(struct slice text)
{
    uint32_t hash = 2166136261u; /* FNV-1a */
    for (size_t i = 0; i < text.len; i++) {
        hash = (hash ^ text.data[i]) * 16777619u;
    }
    return text.len == 0 ? 0 : hash ^ hash >> 12;
}

static uint32_t hash_of_id(struct id id)
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
    return id_is_zero(session) ? hash_of_text(client) : hash_of_id(session);
}

uint32_t client_hash_of_command(const struct command *command)
{
    return client_hash(command->session, client_of(command));
}

void return_predictor_init(struct return_predictor *p)
{
    *p = (struct return_predictor){.answered_decayed = INITIAL_ANSWERS,
                                   .returned_decayed = INITIAL_ANSWERS};
}

void return_predictor_begin_batch(struct return_predictor *p)
{
    hf_assert(p->returned <= p->answered);
    if (p->answered > 0) {
        p->answered_decayed += (uint64_t)p->answered * DECAY - p->answered_decayed / DECAY;
        p->returned_decayed += (uint64_t)p->returned * DECAY - p->returned_decayed / DECAY;
    }
    if (p->returned < p->answered) { /* else all slots are 0 */
        memset(p->awaited, 0, sizeof(p->awaited));
    }
    p->answered = 0;
    p->returned = 0;
}

void return_predictor_note_answer(struct return_predictor *p, uint32_t hash)
{
    uint16_t *slot = &p->awaited[hash % RETURN_SLOTS];
    if (*slot < UINT16_MAX) {
        (*slot)++;
        p->answered++;
    }
}

void return_predictor_note_request(struct return_predictor *p, uint32_t hash)
{
    uint16_t *slot = &p->awaited[hash % RETURN_SLOTS];
    if (*slot > 0) {
        hf_assert(p->returned < p->answered);
        (*slot)--;
        p->returned++;
    }
}

bool return_predictor_forget(struct return_predictor *p, uint32_t hash)
{
    uint16_t *slot = &p->awaited[hash % RETURN_SLOTS];
    if (*slot == 0) {
        return false;
    }
    hf_assert(p->answered > p->returned);
    (*slot)--;
    p->answered--;
    return true;
}

uint32_t return_predictor_expected(const struct return_predictor *p)
{
    uint64_t answered = p->answered_decayed;
    hf_assert(answered > 0 && p->returned_decayed <= answered);
    if (p->returned_decayed * MOST_DIVISOR >= answered * MOST_DIVIDEND) {
        return p->answered;
    }
    return (uint32_t)((p->answered * p->returned_decayed + answered / 2) / answered);
}
