/* The two lists of a transaction (S13): what its keys must be, and what shall become of them.
 *
 * They travel as packed bytes, since most have one or two elements and the largest has 64: as
 * arrays they would make every command as large as the largest. Whoever puts one together packs
 * into a buffer of its own; whoever looks at one unpacks element by element. */
#ifndef HOLDFAST_CORE_EFFECT_H
#define HOLDFAST_CORE_EFFECT_H

#include "base/codec.h"
#include "base/error.h"
#include "base/limits.h"

/* Which state of a key it was that somebody read. All zero: the key was absent. Two versions of one
 * key are equal only when nothing that can be read of it has changed in between, however often it
 * came and went: tokens are never given twice. Take it from view_key and hand it back; what is in
 * it is nobody's business but key.c's. */
struct key_version {
    uint64_t number;
    uint32_t changes;
    uint64_t deadline_ms;
};

static inline bool key_version_equal(struct key_version a, struct key_version b)
{
    return a.number == b.number && a.changes == b.changes && a.deadline_ms == b.deadline_ms;
}

/* The key `name` is as it was when it had this version. */
struct key_check {
    struct slice name;
    struct key_version version;
};

enum effect_kind {
    EFFECT_NONE,
    EFFECT_PUT,     /* sets the value; takes the name if it is free, as an acquire does */
    EFFECT_EXPIRE,  /* a new TTL from now on; 0: released at once */
    EFFECT_DROP,    /* released, or forced; a counter is removed */
    EFFECT_COUNTER, /* sets the counter, which is made if it is not there; it keeps its deadline */
    EFFECT_PUBLISH, /* an event and nothing else */
    EFFECT_COUNT
};

enum {
    EFFECT_HASH = 1,   /* PUT: the value is a hash and no string, for TYPE */
    EFFECT_FORCED = 2, /* DROP: as force-unlock does, with the command's actor and reason */
    EFFECT_NOW = 4,    /* DROP, forced: no lock-delay follows (S6.5) */
    /* Since version 4 of the state machine: */
    EFFECT_TTL = 8,      /* COUNTER: a new TTL from now on */
    EFFECT_PERSIST = 16, /* COUNTER: no deadline any more */
    EFFECT_FLAGS = 31
};

/* No key is changed twice in one transaction; PUBLISH may come as often as there is room. */
struct effect {
    enum effect_kind kind;
    uint32_t flags;
    struct slice name;  /* PUBLISH: the channel, plain text */
    struct slice value; /* PUT: the value; PUBLISH: the message; any bytes, at most LIMIT_VALUE */
    struct id lease;    /* PUT: drawn at the edge, for the lock if one is taken */
    uint32_t ttl_ms;    /* PUT: 0 keeps that of a present key; EXPIRE; COUNTER with EFFECT_TTL */
    int64_t number;     /* COUNTER */
};

/* A list of either kind. The bytes are the caller's, or those that the command was decoded from. */
struct packed {
    uint32_t count;
    struct slice bytes;
};

/* Puts a list together in a buffer of the caller, which it grows into from the front. */
struct packer {
    struct writer out;
    uint8_t *buffer;
    uint32_t count;
};

static inline struct packer packer_make(void *buffer, size_t size)
{
    return (struct packer){writer_make(buffer, size), (uint8_t *)buffer, 0};
}

/* False when there is no room in the buffer or no more are allowed; the list is as before. */
bool pack_check(struct packer *p, const struct key_check *check);
bool pack_effect(struct packer *p, const struct effect *effect);
struct packed packer_list(const struct packer *p);

/* Goes through a list: while (unpack_check(&r, &check)). It ends at the end of the bytes, and at
 * the first that are no element; the reader is bad then. */
static inline struct reader packed_reader(const struct packed *list)
{
    return reader_make(list->bytes);
}
bool unpack_check(struct reader *r, struct key_check *out);
bool unpack_effect(struct reader *r, struct effect *out);

/* The rules that need no state. `*forced` says whether something is dropped by force. */
enum hf_error checks_check(const struct packed *checks);
enum hf_error effects_check(const struct packed *effects, bool *forced);

/* The first version of the state machine that knows all of them (core.h). */
uint32_t effects_since(const struct packed *effects);

#endif
