/* What is not told yet, see tier_held.h. */
#include "replica/tier_held.h"

#include "base/panic.h"

bool held_has(const struct held_list *list, uint64_t token)
{
    for (const struct held_item *i = list->last; i != NULL; i = i->prev) {
        if (i->token == token) {
            return true;
        }
    }
    return false;
}

static struct held_item *item_add(struct held_list *list, uint64_t token, size_t bytes)
{
    size_t size = sizeof(struct held_item) + bytes;
    struct held_item *item = memory_alloc(list->memory, size);
    memset(item, 0, size);
    item->token = token;
    item->size = size;
    item->prev = list->last;
    if (list->last != NULL) {
        list->last->next = item;
    } else {
        list->first = item;
    }
    list->last = item;
    return item;
}

/* A grant's answer points to nothing that the next command could change. */
void held_result(struct held_list *list, void *cookie, const struct result *result)
{
    hf_assert(cookie != NULL);
    struct held_item *item = item_add(list, result->token, 0);
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

void held_event(struct held_list *list, const struct event *event)
{
    size_t at = 0;
    size_t bytes =
        event->name.len + event->client.len + event->owner.len + event->actor.len + event->text.len;
    struct held_item *item = item_add(list, event->token, bytes);
    item->event = *event;
    copy(item, &at, &item->event.name);
    copy(item, &at, &item->event.client);
    copy(item, &at, &item->event.owner);
    copy(item, &at, &item->event.actor);
    copy(item, &at, &item->event.text);
}

struct held_item *held_take(struct held_list *list, uint64_t token)
{
    struct held_item *item = list->first;
    while (item != NULL && token != 0 && item->token != token) {
        item = item->next;
    }
    if (item == NULL) {
        return NULL;
    }
    if (item->prev != NULL) {
        item->prev->next = item->next;
    } else {
        list->first = item->next;
    }
    if (item->next != NULL) {
        item->next->prev = item->prev;
    } else {
        list->last = item->prev;
    }
    return item;
}

void held_free(struct held_list *list, struct held_item *item)
{
    memory_free(list->memory, item, item->size);
}
