/* Lines of the log about commands that took long (slow-request), with the time in each part:
 *
 *   queued   from the arrival at this node to the log entry, or until it was sent to the leader
 *   commit   from the entry to its commit by a majority
 *   apply    from the commit to the result
 *   leader   instead of the last two, if another node leads: until its answer
 *
 * The leader also logs the commands that other nodes sent to it. The wait for a lock is no part: an acquire
 * that waits is answered here when it is queued. */
#include <stdio.h>

#include "node/node_state.h"

enum { LINES_A_SECOND = 10, FIELDS_MAX = 16, ID_TEXT = 33 };

void node_slow_entry(struct node *n, const struct replica_applying *entry)
{
    n->slow.proposed_us = entry == NULL ? 0 : entry->proposed_us;
    n->slow.committed_us = entry == NULL ? 0 : entry->committed_us;
}

/* A slow disk makes every request slow. */
static bool is_over_limit(struct node_slow *s, uint64_t now_us)
{
    if (now_us > s->second_us + 1000000) {
        s->second_us = now_us;
        s->lines = 0;
    }
    s->omitted += s->lines == LINES_A_SECOND;
    return s->lines == LINES_A_SECOND;
}

struct slow_line {
    struct journal_field fields[FIELDS_MAX];
    size_t count;
    char lease[ID_TEXT];
};

static void put(struct slow_line *l, struct journal_field field)
{
    hf_assert(l->count < FIELDS_MAX);
    l->fields[l->count++] = field;
}

static void put_slice(struct slow_line *l, const char *name, struct slice text)
{
    if (text.len > 0) {
        put(l, JOURNAL_SLICE(name, text));
    }
}

static void put_lease(struct slow_line *l, struct id id)
{
    if (!id_is_zero(id)) {
        (void)snprintf(l->lease, sizeof(l->lease), "%016llx%016llx", (unsigned long long)id.high,
                       (unsigned long long)id.low);
        put(l, JOURNAL_TEXT("leaseId", l->lease));
    }
}

static void put_holder(struct slow_line *l, struct slice name, struct slice client)
{
    put_slice(l, "resource", name);
    put_slice(l, "clientId", client);
}

static void put_command(struct slow_line *l, const struct command *c)
{
    put(l, JOURNAL_TEXT("command", command_name(c->type)));
    switch (c->type) {
    case COMMAND_ACQUIRE:
        put_holder(l, c->acquire.names.at[0], c->acquire.client);
        put_slice(l, "ownerId", c->acquire.owner);
        put_lease(l, c->acquire.lease);
        put_slice(l, "trace", c->acquire.trace);
        break;
    case COMMAND_RELEASE:
        put_holder(l, c->release.name, c->release.client);
        put_lease(l, c->release.lease);
        break;
    case COMMAND_RENEW:
        put_holder(l, c->renew.name, c->renew.client);
        put_lease(l, c->renew.lease);
        break;
    case COMMAND_SESSION_OPEN:
        put_slice(l, "clientId", c->session_open.client);
        break;
    case COMMAND_PROCLAIM:
        put_holder(l, c->proclaim.name, c->proclaim.client);
        break;
    case COMMAND_FENCE_CHECK:
        put_slice(l, "resource", c->fence_check.resource);
        break;
    case COMMAND_FORCE_UNLOCK:
        put_slice(l, "resource", c->force_unlock.name);
        break;
    case COMMAND_REVOKE:
        put_slice(l, "resource", c->revoke.name);
        break;
    default:
        break;
    }
}

static uint64_t between_ms(uint64_t from_us, uint64_t to_us)
{
    return to_us > from_us ? (to_us - from_us) / 1000 : 0;
}

static void put_times(struct slow_line *l, const struct node_slow *s,
                      const struct forward_slow *slow, uint64_t now_us)
{
    bool was_sent = slow->sent_us != 0;
    put(l, JOURNAL_SECONDS("seconds", slow->took_ms));
    if (s->command != NULL && s->proposed_us != 0 && slow->leader == 0) {
        put(l, JOURNAL_SECONDS("queuedSeconds", between_ms(slow->begun_us, s->proposed_us)));
        put(l, JOURNAL_SECONDS("commitSeconds", between_ms(s->proposed_us, s->committed_us)));
        put(l, JOURNAL_SECONDS("applySeconds", between_ms(s->committed_us, now_us)));
        return;
    }
    put(l, JOURNAL_SECONDS("queuedSeconds",
                           between_ms(slow->begun_us, was_sent ? slow->sent_us : now_us)));
    if (slow->leader != 0) {
        put(l, JOURNAL_SECONDS("leaderSeconds", between_ms(slow->sent_us, now_us)));
        put(l, JOURNAL_NUMBER("leader", slow->leader));
    }
}

void node_on_slow(void *ctx, const struct forward_slow *slow)
{
    struct node *n = ctx;
    struct node_slow *s = &n->slow;
    const struct journal *j = n->options.journal;
    struct slow_line l = {.count = 0};
    struct command decoded;
    const struct command *command = s->command;
    uint64_t now_us = node_boot_us();
    if (!j->wants(j->ctx, JOURNAL_WARN, JOURNAL_CLIENT) || is_over_limit(s, now_us)) {
        return;
    }
    if (command == NULL && slow->command.len > 0 &&
        command_decode(slow->command, &decoded) == HF_OK) {
        command = &decoded;
    }
    if (command != NULL) {
        put_command(&l, command);
    }
    put_times(&l, s, slow, now_us);
    if (slow->peer != 0) {
        put(&l, JOURNAL_NUMBER("from", slow->peer));
    }
    if (slow->error != HF_OK) {
        put(&l, JOURNAL_TEXT("error", hf_error_code(slow->error)));
    }
    if (s->omitted > 0) {
        put(&l, JOURNAL_NUMBER("omitted", s->omitted));
    }
    s->omitted = 0;
    s->lines++;
    j->write(j->ctx, JOURNAL_WARN, JOURNAL_CLIENT, "slow_request", l.fields, l.count);
}
