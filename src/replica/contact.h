/* When a leader was last answered by each of its followers, and until when that makes a majority
 * (S10.1). */
#ifndef HOLDFAST_REPLICA_CONTACT_H
#define HOLDFAST_REPLICA_CONTACT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/limits.h"

struct contact {
    struct {
        uint64_t id;
        uint64_t at_us;    /* when we sent what it answered */
        uint64_t heard_us; /* when its last answer was received */
    } peers[LIMIT_NODES];
    uint32_t count;
    uint64_t until_us; /* a majority was surely there until then; found anew when that is over */
    uint64_t members_index; /* ... of the members of that entry */
};

/* A new leadership: nobody has answered. */
void contact_reset(struct contact *c);
/* `at_us`: when the newest message was sent that the peer has answered. */
void contact_note(struct contact *c, uint64_t peer, uint64_t at_us);
/* Of a peer that was noted: an answer of it is received now. It makes no majority, because an answer
 * may have waited in our socket. */
void contact_hear(struct contact *c, uint64_t peer, uint64_t now_us);
/* When the last answer of the peer was received; 0: none in this leadership. */
uint64_t contact_heard_us(const struct contact *c, uint64_t id);
/* The members in force are those of entry `index`: what was found for others no longer counts. */
void contact_members(struct contact *c, uint64_t index);
/* `voters` are all of them, `self` is one that always answers. */
bool contact_is_majority(struct contact *c, const uint64_t *voters, uint32_t count, uint64_t self,
                         uint64_t within_us, uint64_t now_us);

#endif
