/* See json_keys.h. */
#include "wire/json_keys.h"

#include <stdlib.h>

#include "wire/json_scan.h"

struct json_keys_block {
    struct json_keys_block *next;
    size_t size;
};

void json_keys_open(struct json_keys *k, const struct memory *memory)
{
    k->at = k->short_keys;
    k->count = 0;
    k->capacity = JSON_KEYS_SHORT;
    k->memory = memory;
    k->decoded = NULL;
}

void json_keys_close(struct json_keys *k)
{
    if (k->at != k->short_keys) {
        memory_free(k->memory, k->at, k->capacity * sizeof(k->at[0]));
    }
    while (k->decoded != NULL) {
        struct json_keys_block *block = k->decoded;
        k->decoded = block->next;
        memory_free(k->memory, block, block->size);
    }
}

size_t json_keys_begin(const struct json_keys *k)
{
    return k->count;
}

static struct slice decode(struct json_keys *k, struct slice key)
{
    size_t size = sizeof(struct json_keys_block) + key.len;
    struct json_keys_block *block = memory_alloc(k->memory, size);
    *block = (struct json_keys_block){k->decoded, size};
    k->decoded = block;
    uint8_t *text = (uint8_t *)(block + 1);
    return slice_make(text, json_scan_unescape(key, text));
}

static void grow(struct json_keys *k)
{
    struct slice *larger = memory_alloc(k->memory, 2 * k->capacity * sizeof(k->at[0]));
    memcpy(larger, k->at, k->count * sizeof(k->at[0]));
    if (k->at != k->short_keys) {
        memory_free(k->memory, k->at, k->capacity * sizeof(k->at[0]));
    }
    k->at = larger;
    k->capacity *= 2;
}

bool json_keys_add(struct json_keys *k, size_t first, struct slice key, bool has_escapes)
{
    if (has_escapes) {
        key = decode(k, key);
    }
    if (k->count - first < JSON_KEYS_SHORT) {
        for (size_t i = first; i < k->count; i++) {
            if (slice_equal(k->at[i], key)) {
                return false;
            }
        }
    }
    if (k->count == k->capacity) {
        grow(k);
    }
    k->at[k->count++] = key;
    return true;
}

static int compare(const void *left, const void *right)
{
    const struct slice *a = left;
    const struct slice *b = right;
    if (a->len != b->len) {
        return a->len < b->len ? -1 : 1;
    }
    return a->len == 0 ? 0 : memcmp(a->data, b->data, a->len);
}

bool json_keys_end(struct json_keys *k, size_t first, struct slice *twice)
{
    size_t count = k->count - first;
    k->count = first;
    if (count <= JSON_KEYS_SHORT) {
        return true;
    }
    struct slice *keys = k->at + first;
    qsort(keys, count, sizeof(keys[0]), compare);
    for (size_t i = 1; i < count; i++) {
        if (slice_equal(keys[i - 1], keys[i])) {
            *twice = keys[i];
            return false;
        }
    }
    return true;
}
