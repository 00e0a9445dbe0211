/* The two lists of a transaction (S13): checks of key versions, and effects on keys. Commands carry
 * them as packed bytes: with arrays, every command would have the size of the longest list. The
 * caller packs into its own buffer. */
#ifndef HOLDFAST_CORE_EFFECT_H
#define HOLDFAST_CORE_EFFECT_H

#include "base/codec.h"
#include "base/error.h"
#include "base/limits.h"

/* The version of a key when it was read; all zero: absent. Two versions of one key are equal only
 * if nothing readable changed in between, even if it was removed and created again: tokens are
 * never reused. Take it from view_key; only key.c interprets it. */
struct key_version {
    uint64_t number;
    uint32_t changes;
    uint64_t deadline_ms;
};

static inline bool key_version_equal(struct key_version a, struct key_version b)
{
    return a.number == b.number && a.changes == b.changes && a.deadline_ms == b.deadline_ms;
}

/* `name` still has this version. */
struct key_check {
    struct slice name;
    struct key_version version;
};

enum effect_kind {
    EFFECT_NONE,
    EFFECT_PUT,     /* sets the value; acquires a free name as acquire does */
    EFFECT_EXPIRE,  /* sets a TTL from now; 0: releases */
    EFFECT_DROP,    /* releases or forces; removes a counter */
    EFFECT_COUNTER, /* sets or creates a counter; keeps its deadline */
    EFFECT_PUBLISH, /* only an event */
    EFFECT_COUNT
};

enum {
    EFFECT_HASH = 1,   /* PUT: the value is a hash, for TYPE */
    EFFECT_FORCED = 2, /* DROP: force-unlock with the command's actor and reason */
    EFFECT_NOW = 4,    /* DROP, forced: no lock-delay follows (S6.5) */
    /* Since version 4 of the state. */
    EFFECT_TTL = 8,      /* COUNTER: sets a TTL from now */
    EFFECT_PERSIST = 16, /* COUNTER: no deadline */
    /* Since version 8. */
    EFFECT_VALUE = 32, /* PUT on a free name: makes a value, not a lock (S13.9) */
    /* Since version 9. */
    EFFECT_LIST = 64,        /* PUT: the value is a list, for TYPE */
    EFFECT_SORTED_SET = 128, /* PUT: the value is a sorted set, for TYPE */
    EFFECT_SET = EFFECT_NOW, /* PUT: the value is a set, for TYPE; there are 8 bits only */
    /* At most one; none: a string. */
    EFFECT_TYPES = EFFECT_HASH | EFFECT_LIST | EFFECT_SORTED_SET | EFFECT_SET,
};

/* No key is changed twice in one transaction; PUBLISH may repeat. */
struct effect {
    enum effect_kind kind;
    uint32_t flags;
    struct slice name;  /* PUBLISH: the channel, text */
    struct slice value; /* PUT: value; PUBLISH: message; any bytes, see limits.h */
    struct id lease;    /* PUT: drawn by the node, for an acquired lock */
    uint64_t ttl_ms; /* PUT: 0 keeps a present key's; EXPIRE; COUNTER with EFFECT_TTL. Of a key also
                         * TTL_NONE (core/command.h) */
    int64_t number;  /* COUNTER */
};

/* The bytes belong to the caller, or to the buffer of the decoded command. */
struct packed {
    uint32_t count;
    struct slice bytes;
};

/* Appends to a list in the caller's buffer. */
struct packer {
    struct writer out;
    uint8_t *buffer;
    uint32_t count;
};

static inline struct packer packer_make(void *buffer, size_t size)
{
    return (struct packer){writer_make(buffer, size), (uint8_t *)buffer, 0};
}

/* False: buffer or list is full; the list is unchanged. */
bool pack_check(struct packer *p, const struct key_check *check);
bool pack_effect(struct packer *p, const struct effect *effect);
struct packed packer_list(const struct packer *p);

/* while (unpack_check(&r, &check)): ends at the end, or at the first malformed element; then the
 * reader is bad. */
static inline struct reader packed_reader(const struct packed *list)
{
    return reader_make(list->bytes);
}
bool unpack_check(struct reader *r, struct key_check *out);
bool unpack_effect(struct reader *r, struct effect *out);

/* The rules that need no state. Sets `*forced` when an effect drops by force. */
enum hf_error checks_check(const struct packed *checks);
enum hf_error effects_check(const struct packed *effects, bool *forced);

/* The first version of the state that supports all of them (core.h). */
uint32_t effects_since(const struct packed *effects);

#endif
