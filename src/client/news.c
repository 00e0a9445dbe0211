/* What the engine has to tell: one queue, so that it is told in the order in which it happened. */
#include <stdio.h>
#include <stdlib.h>

#include "client/engine.h"
#include "client/proto.h"

void news_event(struct engine *e, enum hf_event_type type, struct hf_lock *lock,
                int64_t deadline_at_ms, const char *text)
{
    if (lock != NULL && lock->is_gone) {
        return;
    }
    struct news_event *event = client_alloc(sizeof(*event));
    event->news.kind = NEWS_EVENT;
    event->type = type;
    event->deadline_at_ms = deadline_at_ms;
    snprintf(event->text, sizeof(event->text), "%s", text == NULL ? "" : text);
    if (lock != NULL) {
        lock_ref(lock);
        event->lock = lock;
        event->safe_until_ms = lock_safe_until(lock);
    } else {
        event->safe_until_ms = e->session.is_open ? life_safe_until(e->session.life) : 0;
    }
    list_init(&event->news.link);
    list_append(&e->news, &event->news.link);
}

void news_done(struct engine *e, struct hf_call *ticket)
{
    ticket->is_done = true;
    ticket->call = NULL;
    list_append(&e->news, &ticket->news.link);
}

struct news *news_take(struct engine *e)
{
    struct list *link = list_take(&e->news);
    return link == NULL ? NULL : LIST_OBJECT(link, struct news, link);
}

void news_free(struct news *news)
{
    switch (news->kind) {
    case NEWS_EVENT: {
        struct news_event *event = (struct news_event *)news;
        if (event->lock != NULL) {
            lock_unref(event->lock);
        }
        free(event);
        break;
    }
    case NEWS_DONE:
        ticket_free((struct hf_call *)news);
        break;
    case NEWS_LEADER:
    default:
        free(news);
        break;
    }
}

struct hf_call *ticket_new(struct hf_client *client)
{
    struct hf_call *ticket = client_alloc(sizeof(*ticket));
    ticket->client = client;
    ticket->news.kind = NEWS_DONE;
    list_init(&ticket->news.link);
    return ticket;
}

void ticket_free(struct hf_call *ticket)
{
    hf_assert(ticket->call == NULL);
    list_remove(&ticket->news.link);
    if (ticket->lock != NULL) {
        lock_unref(ticket->lock);
    }
    free(ticket->holder);
    free(ticket);
}
