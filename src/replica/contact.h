/* When each follower last answered the leader, and until when those answers make a majority
 * (S10.1). */
#ifndef HOLDFAST_REPLICA_CONTACT_H
#define HOLDFAST_REPLICA_CONTACT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/limits.h"

struct contact {
    struct {
        uint64_t id;
        uint64_t at_us;    /* when this node sent the message that the peer answered */
        uint64_t heard_us; /* when its last answer was received */
    } peers[LIMIT_NODES];
    uint32_t count;
    uint64_t until_us;      /* a majority is certain until then; computed again after that */
    uint64_t members_index; /* ... for the members of that entry */
};

/* A new leadership begins: no peer has answered. */
void contact_reset(struct contact *c);
/* `at_us`: the send time of the newest message that the peer has answered. */
void contact_note(struct contact *c, uint64_t peer, uint64_t at_us);
/* An answer of a peer that was noted before is received now. It does not count for the majority,
 * because it may have waited in our socket. */
void contact_hear(struct contact *c, uint64_t peer, uint64_t now_us);
/* When the last answer of the peer was received; 0: none in this leadership. */
uint64_t contact_heard_us(const struct contact *c, uint64_t id);
/* The members in force are those of entry `index`: a result for other members is no longer
 * valid. */
void contact_members(struct contact *c, uint64_t index);
/* `voters` are all voters; `self` is one of them and always counts. */
bool contact_is_majority(struct contact *c, const uint64_t *voters, uint32_t count, uint64_t self,
                         uint64_t within_us, uint64_t now_us);

#endif
