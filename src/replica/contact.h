/* When each follower last answered, and until when that is a majority (S10.1). */
#ifndef HOLDFAST_REPLICA_CONTACT_H
#define HOLDFAST_REPLICA_CONTACT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/limits.h"

struct contact {
    struct {
        uint64_t id;
        uint64_t at_us; /* when this node sent the message that was answered */
        uint64_t heard_us;
    } peers[LIMIT_NODES];
    uint32_t count;
    uint64_t until_us;      /* a majority is certain until then */
    uint64_t members_index; /* ... for the members of that entry */
};

void contact_reset(struct contact *c);
/* `at_us`: send time of the newest message that the peer has answered. */
void contact_note(struct contact *c, uint64_t peer, uint64_t at_us);
/* An answer of a noted peer is received now. This time does not count for the majority: the answer
 * may have waited in our socket. */
void contact_hear(struct contact *c, uint64_t peer, uint64_t now_us);
/* 0: no answer in this leadership. */
uint64_t contact_heard_us(const struct contact *c, uint64_t id);
/* The members of entry `index` are in force: other results become invalid. */
void contact_members(struct contact *c, uint64_t index);
/* `self` is one of the voters and always counts. */
bool contact_is_majority(struct contact *c, const uint64_t *voters, uint32_t count, uint64_t self,
                         uint64_t within_us, uint64_t now_us);

#endif
