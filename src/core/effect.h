/* The two lists of a transaction (S13): checks of key versions, and effects on keys.
 *
 * Commands carry them as packed bytes. Most lists have one or two elements and the largest has 64:
 * arrays would make every command as large as the largest. A caller packs into its own buffer; a
 * reader unpacks element by element. */
#ifndef HOLDFAST_CORE_EFFECT_H
#define HOLDFAST_CORE_EFFECT_H

#include "base/codec.h"
#include "base/error.h"
#include "base/limits.h"

/* The version of a key when it was read. All zero: the key was absent. Two versions of one key are
 * equal only if nothing readable of it changed in between, even if it was removed and created
 * again: tokens are never reused. Take it from view_key and pass it back; only key.c interprets its
 * fields. */
struct key_version {
    uint64_t number;
    uint32_t changes;
    uint64_t deadline_ms;
};

static inline bool key_version_equal(struct key_version a, struct key_version b)
{
    return a.number == b.number && a.changes == b.changes && a.deadline_ms == b.deadline_ms;
}

/* The key `name` still has this version. */
struct key_check {
    struct slice name;
    struct key_version version;
};

enum effect_kind {
    EFFECT_NONE,
    EFFECT_PUT,     /* sets the value; acquires the name if it is free, as an acquire does */
    EFFECT_EXPIRE,  /* sets a TTL that starts now; 0: releases at once */
    EFFECT_DROP,    /* releases, or forces; removes a counter */
    EFFECT_COUNTER, /* sets the counter, creating it if needed; keeps its deadline */
    EFFECT_PUBLISH, /* only emits an event */
    EFFECT_COUNT
};

enum {
    EFFECT_HASH = 1,   /* PUT: the value is a hash, not a string, for TYPE */
    EFFECT_FORCED = 2, /* DROP: as force-unlock, with the command's actor and reason */
    EFFECT_NOW = 4,    /* DROP, forced: no lock-delay follows (S6.5) */
    /* Since version 4 of the state machine. */
    EFFECT_TTL = 8,      /* COUNTER: sets a TTL that starts now */
    EFFECT_PERSIST = 16, /* COUNTER: removes the deadline */
    EFFECT_FLAGS = 31
};

/* No key is changed twice in one transaction; PUBLISH may occur several times. */
struct effect {
    enum effect_kind kind;
    uint32_t flags;
    struct slice name;  /* PUBLISH: the channel, plain text */
    struct slice value; /* PUT: the value; PUBLISH: the message; any bytes, at most LIMIT_VALUE */
    struct id lease;    /* PUT: drawn by the node, for the lock if one is acquired */
    uint32_t ttl_ms;    /* PUT: 0 keeps that of a present key; EXPIRE; COUNTER with EFFECT_TTL */
    int64_t number;     /* COUNTER */
};

/* A list of either kind. The bytes belong to the caller, or to the buffer that the command was
 * decoded from. */
struct packed {
    uint32_t count;
    struct slice bytes;
};

/* Appends elements to a list in a buffer of the caller. */
struct packer {
    struct writer out;
    uint8_t *buffer;
    uint32_t count;
};

static inline struct packer packer_make(void *buffer, size_t size)
{
    return (struct packer){writer_make(buffer, size), (uint8_t *)buffer, 0};
}

/* False when the buffer or the list is full; the list is then unchanged. */
bool pack_check(struct packer *p, const struct key_check *check);
bool pack_effect(struct packer *p, const struct effect *effect);
struct packed packer_list(const struct packer *p);

/* Iterates over a list: while (unpack_check(&r, &check)). Ends at the end of the bytes or at the
 * first malformed element; the reader is bad in the second case. */
static inline struct reader packed_reader(const struct packed *list)
{
    return reader_make(list->bytes);
}
bool unpack_check(struct reader *r, struct key_check *out);
bool unpack_effect(struct reader *r, struct effect *out);

/* The rules that need no state. `*forced` becomes true when an effect drops by force. */
enum hf_error checks_check(const struct packed *checks);
enum hf_error effects_check(const struct packed *effects, bool *forced);

/* The first version of the state machine that supports all of them (core.h). */
uint32_t effects_since(const struct packed *effects);

#endif
