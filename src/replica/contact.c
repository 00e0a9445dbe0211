/* See contact.h. */
#include "replica/contact.h"

#include <string.h>

#include "base/panic.h"

void contact_reset(struct contact *c)
{
    memset(c, 0, sizeof(*c));
}

void contact_note(struct contact *c, uint64_t peer, uint64_t at_us)
{
    hf_assert(peer != 0 && c->count <= LIMIT_NODES);
    uint32_t i = 0;
    while (i < c->count && c->peers[i].id != peer) {
        i++;
    }
    if (i == LIMIT_NODES) {
        return; /* more than there can be members: not counted */
    }
    if (i == c->count) {
        c->count++;
        c->peers[i].id = peer;
        c->peers[i].at_us = 0;
        c->peers[i].heard_us = 0;
    }
    c->peers[i].at_us = at_us > c->peers[i].at_us ? at_us : c->peers[i].at_us;
}

void contact_members(struct contact *c, uint64_t index)
{
    if (c->members_index != index) {
        c->members_index = index;
        c->until_us = 0;
    }
}

void contact_hear(struct contact *c, uint64_t peer, uint64_t now_us)
{
    for (uint32_t i = 0; i < c->count; i++) {
        if (c->peers[i].id == peer) {
            c->peers[i].heard_us = now_us;
        }
    }
}

uint64_t contact_heard_us(const struct contact *c, uint64_t id)
{
    for (uint32_t i = 0; i < c->count; i++) {
        if (c->peers[i].id == id) {
            return c->peers[i].heard_us;
        }
    }
    return 0;
}

/* Send time of the last answered message; 0: none in this leadership. */
static uint64_t last_us(const struct contact *c, uint64_t id)
{
    for (uint32_t i = 0; i < c->count; i++) {
        if (c->peers[i].id == id) {
            return c->peers[i].at_us;
        }
    }
    return 0;
}

/* The latest time since which more than half of the voters have answered. */
static uint64_t majority_at(const struct contact *c, const uint64_t *voters, uint32_t count,
                            uint64_t self, uint64_t now_us)
{
    uint64_t latest_us = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint64_t at_us = voters[i] == self ? now_us : last_us(c, voters[i]);
        uint32_t not_before = 0;
        for (uint32_t j = 0; j < count; j++) {
            uint64_t other_us = voters[j] == self ? now_us : last_us(c, voters[j]);
            not_before += other_us >= at_us;
        }
        if (not_before > count / 2 && at_us > latest_us) {
            latest_us = at_us;
        }
    }
    return latest_us;
}

bool contact_is_majority(struct contact *c, const uint64_t *voters, uint32_t count, uint64_t self,
                         uint64_t within_us, uint64_t now_us)
{
    hf_assert(count > 0 && count <= LIMIT_NODES);
    hf_assert(self != 0 && within_us > 0);
    if (now_us > c->until_us) {
        uint64_t at_us = majority_at(c, voters, count, self, now_us);
        c->until_us = at_us == 0 ? 0 : at_us + within_us;
    }
    return c->until_us != 0 && now_us <= c->until_us;
}
