/* Keeps copies of events until both sides' can be compared. */
#include "driver.h"

#include <stdlib.h>

#include "base/panic.h"

enum { BLOCK = 1 << 16 };

static struct slice keep(struct recorder *r, struct slice bytes)
{
    if (bytes.len == 0) {
        return slice_make(NULL, 0);
    }
    hf_assert(bytes.len <= BLOCK);
    if (r->block_at == r->block_count || r->byte_at + bytes.len > BLOCK) {
        r->block_at += r->block_at < r->block_count;
        r->byte_at = 0;
    }
    if (r->block_at == r->block_count) {
        r->blocks = realloc(r->blocks, (r->block_count + 1) * sizeof(*r->blocks));
        hf_assert(r->blocks != NULL);
        r->blocks[r->block_count] = malloc(BLOCK);
        hf_assert(r->blocks[r->block_count] != NULL);
        r->block_count++;
    }
    uint8_t *copy = r->blocks[r->block_at] + r->byte_at;
    memcpy(copy, bytes.data, bytes.len);
    r->byte_at += bytes.len;
    return slice_make(copy, bytes.len);
}

void recorder_event(void *recorder, const struct event *event)
{
    struct recorder *r = recorder;
    if (r->count == r->size) {
        r->size = r->size == 0 ? 64 : r->size * 2;
        r->events = realloc(r->events, r->size * sizeof(*r->events));
        hf_assert(r->events != NULL);
    }
    struct event *copy = &r->events[r->count++];
    *copy = *event;
    copy->name = keep(r, event->name);
    copy->client = keep(r, event->client);
    copy->owner = keep(r, event->owner);
    copy->actor = keep(r, event->actor);
    copy->text = keep(r, event->text);
    copy->trace = keep(r, event->trace);
}

void recorder_clear(struct recorder *r)
{
    r->count = 0;
    r->block_at = 0;
    r->byte_at = 0;
}

void recorder_close(struct recorder *r)
{
    for (size_t i = 0; i < r->block_count; i++) {
        free(r->blocks[i]);
    }
    free(r->blocks);
    free(r->events);
    memset(r, 0, sizeof(*r));
}
