/* One queue: notifications are delivered in the order of the events. */
#include <stdio.h>
#include <stdlib.h>

#include "client/engine.h"
#include "client/proto.h"

void notification_event(struct client_engine *e, enum hf_event_type type, struct hf_lock *lock,
                        int64_t deadline_at_ms, const char *text)
{
    if (lock != NULL && lock->is_gone) {
        return;
    }
    struct notification_event *event = client_alloc(sizeof(*event));
    event->notification.kind = NOTIFICATION_EVENT;
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
    list_init(&event->notification.link);
    list_append(&e->notifications, &event->notification.link);
}

void notification_done(struct client_engine *e, struct hf_call *ticket)
{
    ticket->is_done = true;
    ticket->call = NULL;
    list_append(&e->notifications, &ticket->notification.link);
}

struct notification *notification_take(struct client_engine *e)
{
    struct list *link = list_take(&e->notifications);
    return link == NULL ? NULL : LIST_OBJECT(link, struct notification, link);
}

void notification_free(struct notification *notification)
{
    switch (notification->kind) {
    case NOTIFICATION_EVENT: {
        struct notification_event *event = (struct notification_event *)notification;
        if (event->lock != NULL) {
            lock_unref(event->lock);
        }
        free(event);
        break;
    }
    case NOTIFICATION_DONE:
        ticket_free((struct hf_call *)notification);
        break;
    case NOTIFICATION_LEADER:
    default:
        free(notification);
        break;
    }
}

struct hf_call *ticket_new(struct hf_client *client)
{
    struct hf_call *ticket = client_alloc(sizeof(*ticket));
    ticket->client = client;
    ticket->notification.kind = NOTIFICATION_DONE;
    list_init(&ticket->notification.link);
    return ticket;
}

void ticket_free(struct hf_call *ticket)
{
    hf_assert(ticket->call == NULL);
    list_remove(&ticket->notification.link);
    if (ticket->lock != NULL) {
        lock_unref(ticket->lock);
    }
    free(ticket->holder);
    free(ticket);
}
