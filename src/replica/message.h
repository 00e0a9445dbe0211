/* Messages between engines. Each begins with the sender's cluster time (S1.2). A snapshot is only
 * described; it is transferred separately (S12.4). */
#ifndef HOLDFAST_REPLICA_MESSAGE_H
#define HOLDFAST_REPLICA_MESSAGE_H

#include <raft.h>

#include "replica/ports.h"

/* Entries in one message; libraft sends fewer. */
#define MESSAGE_MAX_ENTRIES 4096

/* Bytes of entries in one message, unless a single entry is longer. */
#define MESSAGE_BYTES (1u << 20)

/* The source of entries; the bytes are borrowed until the next call. False: not available. */
typedef bool (*message_entry_fn)(void *ctx, uint64_t index, struct replica_entry *out);

/* Returns a buffer from raft_malloc that the caller frees; NULL: an entry is not available.
 * `members` is the encoded configuration of a snapshot. */
void *message_encode(const struct raft_message *message, uint64_t cluster_ms, struct slice members,
                     message_entry_fn entry, void *ctx, size_t *len);

/* An AppendEntries without entries that carries the commit index. Only a refusal answers it. */
void *message_encode_commit(const struct raft_message *message, uint64_t cluster_ms, size_t *len);

/* Owns its memory until it is passed to raft_step. */
struct message_in {
    struct raft_message message;
    uint64_t cluster_ms;
    bool is_unanswered;
    struct raft_entry *entries; /* from raft_malloc, in one batch; NULL: none */
};

/* Frees a message that was not passed to raft_step. */
void message_drop(struct message_in *in);

/* False when malformed; then the caller owns nothing. */
bool message_decode(struct slice bytes, uint64_t sender, const char *sender_address,
                    struct message_in *out);

#endif
