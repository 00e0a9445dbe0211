/* The locks that this client believes to hold, compared with those that the service lists (C3.6, C3.7
 * of docs/CLIENTS.md).
 *
 *   NONE ──keep-alive with the numbers, its answer differs──▶ LISTING ──last page──▶ NONE
 *    ▲                                                          │  ▲
 *    │                                                          └──┘ keep-alive with the cursor
 *    └──── another answer than the expected one, or the end of the stream
 *
 * A lock that no page lists is not declared lost: it is confirmed by a renewal, whose answer has the
 * reason of the loss. Locks that were acquired after the first keep-alive are not looked at. */
#include <stdio.h>
#include <stdlib.h>

#include "client/engine.h"
#include "client/proto.h"

struct keepalive held_next(struct client_engine *e, uint64_t number)
{
    struct held_listing *listing = &e->session.listing;
    struct keepalive k = {.number = number};
    if (listing->cursor[0] != '\0') { /* the next page of the list */
        listing->expected = number;
        k.is_compared = true;
        k.held_count = listing->begun.held_count;
        k.held_xor = listing->begun.held_xor;
    } else if (listing->expected == 0) {
        k.is_compared = true;
        for (struct list *at = e->locks.next; at != &e->locks; at = at->next) {
            struct hf_lock *lock = LIST_OBJECT(at, struct hf_lock, link);
            if (lock->counted_in == 0) {
                lock->counted_in = number;
            }
            k.held_count++;
            k.held_xor ^= lock->token;
        }
    }
    return k;
}

static int compare_tokens(const void *a, const void *b)
{
    uint64_t left = *(const uint64_t *)a;
    uint64_t right = *(const uint64_t *)b;
    return (left > right) - (left < right);
}

static void mark_listed(struct client_engine *e, const Holdfast__V1__SessionResponse__Alive *m)
{
    uint64_t *tokens = client_alloc((m->n_locks + 1) * sizeof(*tokens));
    for (size_t i = 0; i < m->n_locks; i++) {
        tokens[i] = m->locks[i]->fence_token;
    }
    qsort(tokens, m->n_locks, sizeof(*tokens), compare_tokens);
    for (struct list *at = e->locks.next; at != &e->locks; at = at->next) {
        struct hf_lock *lock = LIST_OBJECT(at, struct hf_lock, link);
        if (bsearch(&lock->token, tokens, m->n_locks, sizeof(*tokens), compare_tokens) != NULL) {
            lock->listed_in = e->session.listing.begun.number;
        }
    }
    free(tokens);
}

static void check_unlisted(struct client_engine *e)
{
    uint64_t begun = e->session.listing.begun.number;
    for (struct list *at = e->locks.next; at != &e->locks; at = at->next) {
        struct hf_lock *lock = LIST_OBJECT(at, struct hf_lock, link);
        if (lock->counted_in != 0 && lock->counted_in <= begun && lock->listed_in != begun) {
            list_append(&e->to_check, &lock->check_link);
        }
    }
}

void held_forget(struct client_session *s)
{
    s->listing = (struct held_listing){.expected = 0};
}

void held_answer(struct client_engine *e, const struct keepalive *sent,
                 const Holdfast__V1__SessionResponse__Alive *m)
{
    struct held_listing *listing = &e->session.listing;
    if (listing->expected == 0 && m->differs && sent->is_compared) {
        listing->begun = *sent;
        listing->expected = m->number;
    }
    if (listing->expected == 0 || m->number < listing->expected) {
        return;
    }
    if (m->number > listing->expected || !m->differs ||
        strlen(m->next_cursor) >= sizeof(listing->cursor)) {
        held_forget(&e->session); /* incomplete: the next keep-alive compares again */
        return;
    }
    mark_listed(e, m);
    if (m->next_cursor[0] == '\0') {
        check_unlisted(e);
        held_forget(&e->session);
    } else {
        snprintf(listing->cursor, sizeof(listing->cursor), "%s", m->next_cursor);
    }
}
