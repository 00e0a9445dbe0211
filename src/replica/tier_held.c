/* See tier_held.h. */
#include "replica/tier_held.h"

#include "base/panic.h"

/* Tokens are consecutive. */
static struct held **bucket_of(struct held_table *t, uint64_t token)
{
    return &t->buckets[token % HELD_BUCKETS];
}

struct held *held_find(const struct held_table *t, uint64_t token)
{
    struct held *h = t->buckets[token % HELD_BUCKETS];
    while (h != NULL && h->token != token) {
        h = h->next;
    }
    return h;
}

struct held *held_add(struct held_table *t, uint64_t token)
{
    hf_assert(token != 0 && held_find(t, token) == NULL);
    struct held **bucket = bucket_of(t, token);
    struct held *h = memory_alloc(t->memory, sizeof(*h));
    *h = (struct held){.token = token, .next = *bucket};
    *bucket = h;
    t->count++;
    return h;
}

void held_take(struct held_table *t, struct held *h)
{
    struct held **at = bucket_of(t, h->token);
    while (*at != h) {
        hf_assert(*at != NULL);
        at = &(*at)->next;
    }
    hf_assert(t->count > 0);
    *at = h->next;
    t->count--;
}

struct held *held_take_any(struct held_table *t)
{
    for (unsigned i = 0; t->count > 0 && i < HELD_BUCKETS; i++) {
        struct held *h = t->buckets[i];
        if (h != NULL) {
            held_take(t, h);
            return h;
        }
    }
    return NULL;
}

void held_free(struct held_table *t, struct held *h)
{
    struct held_item *item = held_item_take(h);
    while (item != NULL) {
        held_item_free(t, item);
        item = held_item_take(h);
    }
    memory_free(t->memory, h, sizeof(*h));
}

static struct held_item *item_add(struct held_table *t, struct held *h, size_t bytes)
{
    size_t size = sizeof(struct held_item) + bytes;
    struct held_item *item = memory_alloc(t->memory, size);
    memset(item, 0, size);
    item->size = size;
    hf_assert((h->first == NULL) == (h->last == NULL));
    if (h->last != NULL) {
        h->last->next = item;
    } else {
        h->first = item;
    }
    h->last = item;
    return item;
}

/* The result has no pointer to anything that the next command could change. */
void held_result(struct held_table *t, struct held *h, void *cookie, const struct result *result)
{
    hf_assert(cookie != NULL);
    struct held_item *item = item_add(t, h, 0);
    item->cookie = cookie;
    item->result = *result;
    item->result.has_holder = false;
    item->result.holder = (struct holder_view){.mode = result->holder.mode};
    item->result.reserved_for = slice_make(NULL, 0);
    item->result.name = slice_make(NULL, 0);
}

static void copy(struct held_item *item, size_t *at, struct slice *text)
{
    if (text->len > 0) {
        memcpy(item->bytes + *at, text->data, text->len);
        text->data = item->bytes + *at;
        *at += text->len;
    }
}

void held_event(struct held_table *t, struct held *h, const struct event *event)
{
    size_t at = 0;
    size_t bytes =
        event->name.len + event->client.len + event->owner.len + event->actor.len + event->text.len;
    struct held_item *item = item_add(t, h, bytes);
    item->event = *event;
    copy(item, &at, &item->event.name);
    copy(item, &at, &item->event.client);
    copy(item, &at, &item->event.owner);
    copy(item, &at, &item->event.actor);
    copy(item, &at, &item->event.text);
    hf_assert(at == bytes);
}

struct held_item *held_item_take(struct held *h)
{
    struct held_item *item = h->first;
    if (item != NULL) {
        h->first = item->next;
        h->last = h->first == NULL ? NULL : h->last;
    }
    return item;
}

void held_item_free(struct held_table *t, struct held_item *item)
{
    memory_free(t->memory, item, item->size);
}
