/* Denied calls in the audit trail: at most one record a principal and minute, with their number. The
 * state machine adds up what several nodes note in the same minute. */
#include <stdio.h>

#include "base/text.h"
#include "service/auth/state.h"

struct auth_denied {
    struct list link; /* in auth_state.denials */
    struct service *service;
    struct caller_id who;
    uint32_t count;                  /* not noted yet */
    uint32_t sent;                   /* in flight */
    uint64_t due_ms;                 /* boot time: not noted earlier */
    struct pending_request *pending; /* the note in flight; NULL: none */
    char reason[AUTH_TEXT];          /* of the first that is not noted yet */
};

static struct auth_denied *find(struct auth_state *a, struct caller_id who)
{
    for (struct list *link = a->denials.next; link != &a->denials; link = link->next) {
        struct auth_denied *d = LIST_OBJECT(link, struct auth_denied, link);
        if (caller_is(d->who, who)) {
            return d;
        }
    }
    return NULL;
}

static struct auth_denied *make(struct service *s, struct caller_id who)
{
    struct auth_state *a = s->auth;
    if (a->denial_count == AUTH_DENIALS_MAX) {
        return NULL;
    }
    struct auth_denied *d = memory_alloc(s->memory, sizeof(*d));
    *d = (struct auth_denied){.service = s, .who = who};
    list_init(&d->link);
    list_append(&a->denials, &d->link);
    a->denial_count++;
    return d;
}

static void drop(struct auth_denied *d)
{
    list_remove(&d->link);
    d->service->auth->denial_count--;
    memory_free(d->service->memory, d, sizeof(*d));
}

void auth_denied(struct service *s, struct caller_id who, const char *text)
{
    struct auth_state *a = s->auth;
    if (a == NULL || who.principal == 0) {
        return;
    }
    s->denied++;
    struct auth_denied *d = find(a, who);
    d = d != NULL ? d : make(s, who);
    if (d == NULL) {
        return; /* counted by the metric only */
    }
    if (d->count == 0) {
        bool is_plain = text != NULL && text_is_plain(slice_of(text));
        (void)snprintf(d->reason, sizeof(d->reason), "%s", is_plain ? text : "a call was denied");
    }
    d->count += d->count < UINT32_MAX;
    a->denied_due_ms = d->due_ms < a->denied_due_ms ? d->due_ms : a->denied_due_ms;
}

static void on_noted(void *owner, enum hf_error error, const struct result *result)
{
    struct auth_denied *d = owner;
    (void)result;
    (void)pending_settle(d->pending);
    d->pending = NULL;
    if (error != HF_OK && error != HF_OUTCOME_UNKNOWN) {
        d->count += d->sent; /* no leader: with the next note */
    }
    d->sent = 0;
}

static void note(struct auth_denied *d, uint64_t now_ms)
{
    struct service *s = d->service;
    struct command c;
    uint8_t text[PRINCIPAL_TEXT];
    struct slice actor = policy_principal_text(service_policy(s), d->who.principal, text);
    command_init(&c, COMMAND_NOTE);
    caller_sign(&c, d->who);
    c.note.action = NOTE_DENIED;
    c.note.name = slice_of("*");
    c.note.actor = actor.len > 0 ? actor : slice_of("(removed)");
    c.note.reason = slice_of(d->reason);
    c.note.count = d->count;
    d->sent = d->count;
    d->count = 0;
    d->due_ms = now_ms + LIMIT_DENIED_MS;
    d->pending = pending_submit(s, &c, false, on_noted, d);
}

void auth_denied_run(struct service *s, uint64_t now_ms)
{
    struct auth_state *a = s->auth;
    struct list *next;
    if (now_ms < a->denied_due_ms) {
        return;
    }
    a->denied_due_ms = UINT64_MAX;
    for (struct list *link = a->denials.next; link != &a->denials; link = next) {
        struct auth_denied *d = LIST_OBJECT(link, struct auth_denied, link);
        next = link->next;
        if (now_ms >= d->due_ms && d->pending == NULL && d->count == 0) {
            drop(d);
            continue;
        }
        if (now_ms >= d->due_ms && d->pending == NULL) {
            note(d, now_ms);
        } else if (now_ms >= d->due_ms) {
            d->due_ms = now_ms + LIMIT_DENIED_MS; /* its note has no answer for so long */
        }
        a->denied_due_ms = d->due_ms < a->denied_due_ms ? d->due_ms : a->denied_due_ms;
    }
}

void auth_denied_close(struct service *s)
{
    struct auth_state *a = s->auth;
    while (!list_is_empty(&a->denials)) {
        drop(LIST_OBJECT(a->denials.next, struct auth_denied, link));
    }
}
