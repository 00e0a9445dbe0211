/* Detects that the event loop was blocked for more than a second (S1.5). A keep-alive that arrived
 * meanwhile is read before the batch gets its time stamp. Pure: the caller passes the time. */
#ifndef HOLDFAST_NODE_STALL_H
#define HOLDFAST_NODE_STALL_H

#include <stdbool.h>
#include <stdint.h>

enum {
    STALL_US = 1000000,
    STALL_TURNS = 200, /* the most turns of reading first */
};

struct stall {
    uint64_t turn_us; /* boot time at which the last turn began */
    bool reading;     /* before anything is decided */
    uint32_t turns;   /* turns since reading began */
    uint64_t bytes;   /* read when the last turn began */
};

/* Whether the last turn began more than a second ago, or sockets are still read first. */
bool stall_is_late(const struct stall *s, uint64_t now_us);

/* `bytes_read`: from sockets so far. Reading first ends when a whole turn has read nothing. Returns
 * whether this turn reads only. */
bool stall_begin_turn(struct stall *s, uint64_t now_us, uint64_t bytes_read);

/* Whether the turn may seal a batch. Not after a pause of more than a second within it: the next
 * turn then reads the sockets first. */
bool stall_may_seal(const struct stall *s, uint64_t now_us);

#endif
