/* Messages between the engines of two nodes, as bytes. Each begins with the sender's cluster time
 * (S1.2). A snapshot message carries only what it is about; its bytes travel apart (S12.4). */
#ifndef HOLDFAST_REPLICA_MESSAGE_H
#define HOLDFAST_REPLICA_MESSAGE_H

#include <raft.h>

#include "replica/ports.h"

/* Entries of one message at most; libraft sends fewer. */
#define MESSAGE_MAX_ENTRIES 4096

/* Of entries in one message, unless a single one is longer. */
#define MESSAGE_BYTES (1u << 20)

/* Where the entries of an AppendEntries come from: fills `out`, whose bytes are borrowed until the
 * next call; false when the entry is not to be had. */
typedef bool (*message_entry_fn)(void *ctx, uint64_t index, struct replica_entry *out);

/* Returns the bytes in a buffer from raft_malloc that the caller frees, or NULL when an entry is
 * not to be had. `members` is the encoded configuration of a snapshot message. */
void *message_encode(const struct raft_message *message, uint64_t cluster_ms, struct slice members,
                     message_entry_fn entry, void *ctx, size_t *len);

/* The same for an AppendEntries without entries that its receiver does not answer unless it refuses
 * it: it only tells the commit index. */
void *message_encode_commit(const struct raft_message *message, uint64_t cluster_ms, size_t *len);

/* A decoded message owns its memory until it was given to raft_step, see
 * engine_receive.c. */
struct message_in {
    struct raft_message message;
    uint64_t cluster_ms;
    bool is_unanswered; /* made by message_encode_commit */
    struct raft_entry
        *entries; /* from raft_malloc, with one batch for all; NULL if there are none */
};

/* Frees what a decoded message owns and was not given to raft_step. */
void message_drop(struct message_in *in);

/* False when malformed; nothing is owned then. */
bool message_decode(struct slice bytes, uint64_t sender, const char *sender_address,
                    struct message_in *out);

#endif
