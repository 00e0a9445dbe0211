/* See peer_refusals.h. */
#include "node/peers/peer_refusals.h"

#include <stdio.h>
#include <string.h>

static void address_of(const char *remote, char address[PEER_ADDRESS_MAX + 1])
{
    const char *colon = strrchr(remote, ':');
    size_t len = colon == NULL ? strlen(remote) : (size_t)(colon - remote);
    snprintf(address, PEER_ADDRESS_MAX + 1, "%.*s", (int)len, remote);
}

/* Free, or without a refusal for the longest interval. */
static bool is_unused(const struct peer_refusal *refusal, uint64_t now_ms)
{
    return refusal->address[0] == '\0' ||
           (refusal->count == 0 && now_ms - refusal->last_ms >= PEER_REFUSAL_MAX_MS);
}

static struct peer_refusal *find(struct peer_refusals *r, const char *remote, uint64_t now_ms)
{
    char address[PEER_ADDRESS_MAX + 1];
    struct peer_refusal *found = &r->at[PEER_REFUSALS];
    address_of(remote, address);
    for (uint32_t i = 0; i < PEER_REFUSALS; i++) {
        if (strcmp(r->at[i].address, address) == 0) {
            found = &r->at[i];
            break;
        }
        if (found == &r->at[PEER_REFUSALS] && is_unused(&r->at[i], now_ms)) {
            found = &r->at[i];
        }
    }
    bool is_shared = found == &r->at[PEER_REFUSALS];
    if (is_unused(found, now_ms)) {
        *found = (struct peer_refusal){.next_ms = now_ms, .interval_ms = PEER_REFUSAL_MIN_MS};
        memcpy(found->address, is_shared ? "other-addresses" : address,
               is_shared ? sizeof("other-addresses") : sizeof(address));
    }
    return found;
}

void peer_refusals_add(struct peer_refusals *r, const char *remote, uint64_t peer,
                       const char *reason, uint64_t now_ms)
{
    struct peer_refusal *refusal = find(r, remote, now_ms);
    refusal->count++;
    refusal->last_ms = now_ms;
    refusal->peer = peer;
    snprintf(refusal->reason, sizeof(refusal->reason), "%s", reason);
}

bool peer_refusals_next(struct peer_refusals *r, uint64_t now_ms, struct peer_refusal *out)
{
    for (uint32_t i = 0; i <= PEER_REFUSALS; i++) {
        struct peer_refusal *refusal = &r->at[i];
        if (refusal->count > 0 && now_ms >= refusal->next_ms) {
            *out = *refusal;
            refusal->count = 0;
            refusal->next_ms = now_ms + refusal->interval_ms;
            uint64_t doubled = 2 * refusal->interval_ms;
            refusal->interval_ms = doubled < PEER_REFUSAL_MAX_MS ? doubled : PEER_REFUSAL_MAX_MS;
            return true;
        }
    }
    return false;
}
