/* Finds keys that occur twice in one object of JSON, also if one of them is written with escapes.
 *
 * The keys of all open objects are a stack. A key of a small object is compared with all before it.
 * A large object is sorted when it ends, so that its time is not quadratic: a body has up to 1 MiB. */
#ifndef HOLDFAST_WIRE_JSON_KEYS_H
#define HOLDFAST_WIRE_JSON_KEYS_H

#include "base/memory.h"
#include "base/slice.h"

enum { JSON_KEYS_SHORT = 32 };

struct json_keys_block;

struct json_keys {
    struct slice *at;
    size_t count;
    size_t capacity;
    const struct memory *memory;
    struct json_keys_block *decoded; /* memory of keys that had escapes */
    struct slice short_keys[JSON_KEYS_SHORT];
};

void json_keys_open(struct json_keys *k, const struct memory *memory);
void json_keys_close(struct json_keys *k);

/* An object begins. Pass the result to the two functions below. */
size_t json_keys_begin(const struct json_keys *k);
/* The key is as in the text, which must stay valid. False: the object has it already. */
bool json_keys_add(struct json_keys *k, size_t first, struct slice key, bool has_escapes);
/* The object ends. False: it has a key twice, which is `*twice`. */
bool json_keys_end(struct json_keys *k, size_t first, struct slice *twice);

#endif
