/* See endpoints.h. */
#include "client/endpoints.h"

#include <stdio.h>
#include <string.h>

#include "base/panic.h"
#include "client/deadline.h"

static bool endpoint_parse(struct endpoint *p, const char *text, size_t len)
{
    memset(p, 0, sizeof(*p));
    if (len >= sizeof(p->text) || !host_port_parse(text, len, NULL, &p->address)) {
        return false;
    }
    memcpy(p->text, text, len);
    return true;
}

static int find(const struct endpoints *e, const char *text)
{
    for (unsigned i = 0; i < e->count; i++) {
        if (strcmp(e->at[i].text, text) == 0) {
            return (int)i;
        }
    }
    return -1;
}

const char *endpoints_init(struct endpoints *e, const char *list, uint64_t seed)
{
    memset(e, 0, sizeof(*e));
    e->leader = -1;
    e->random = seed | 1;
    for (const char *at = list;;) {
        at += strspn(at, " ");
        size_t len = strcspn(at, ",");
        size_t used = len;
        while (used > 0 && at[used - 1] == ' ') {
            used--;
        }
        struct endpoint p;
        if (!endpoint_parse(&p, at, used)) {
            return "an endpoint is HOST:PORT or [IPV6]:PORT, several are separated by commas";
        }
        if (find(e, p.text) < 0) {
            if (e->count == ENDPOINT_MAX) {
                return "there are more than 32 endpoints";
            }
            e->at[e->count++] = p;
        }
        if (at[len] == '\0') {
            return NULL;
        }
        at += len + 1;
    }
}

int endpoints_learn_leader(struct endpoints *e, const char *text)
{
    struct endpoint p;
    int which = find(e, text);
    if (which < 0 && e->count < ENDPOINT_MAX && endpoint_parse(&p, text, strlen(text))) {
        which = (int)e->count;
        e->at[e->count++] = p;
    }
    e->leader = which;
    return which;
}

void endpoints_learn(struct endpoints *e, const char *text)
{
    struct endpoint p;
    if (find(e, text) < 0 && e->count < ENDPOINT_MAX && endpoint_parse(&p, text, strlen(text)) &&
        strcmp(p.address.host, "0.0.0.0") != 0 && strcmp(p.address.host, "::") != 0 &&
        strcmp(p.address.host, "*") != 0) {
        e->at[e->count++] = p;
    }
}

bool endpoints_may_try(const struct endpoints *e, int which, int64_t now_ms)
{
    const struct endpoint *p = &e->at[which];
    return p->circuit != CIRCUIT_HALF_OPEN && now_ms >= p->not_before_ms;
}

static bool is_better(const struct endpoint *a, const struct endpoint *b)
{
    return a->failures != b->failures ? a->failures < b->failures : a->tried < b->tried;
}

int endpoints_pick(struct endpoints *e, int avoid, int64_t now_ms, int64_t *next_ms)
{
    if (e->leader >= 0 && e->leader != avoid && endpoints_may_try(e, e->leader, now_ms)) {
        return e->leader;
    }
    int best = -1;
    *next_ms = NEVER_MS;
    for (int i = 0; i < (int)e->count; i++) {
        const struct endpoint *p = &e->at[i];
        if (i == avoid || p->circuit == CIRCUIT_HALF_OPEN) {
            continue;
        }
        if (now_ms < p->not_before_ms) {
            *next_ms = p->not_before_ms < *next_ms ? p->not_before_ms : *next_ms;
        } else if (best < 0 || is_better(p, &e->at[best])) {
            best = i;
        }
    }
    return best;
}

void endpoints_begun(struct endpoints *e, int which)
{
    struct endpoint *p = &e->at[which];
    p->tried = ++e->attempts;
    if (p->circuit == CIRCUIT_OPEN) {
        p->circuit = CIRCUIT_HALF_OPEN;
    }
}

void endpoints_succeeded(struct endpoints *e, int which)
{
    struct endpoint *p = &e->at[which];
    p->circuit = CIRCUIT_CLOSED;
    p->failures = 0;
    p->not_before_ms = 0;
    p->why[0] = '\0';
}

void endpoints_failed(struct endpoints *e, int which, const char *why, int64_t now_ms)
{
    struct endpoint *p = &e->at[which];
    snprintf(p->why, sizeof(p->why), "%s", why);
    p->failures++;
    int64_t wait_ms = ENDPOINT_RETRY_MS;
    p->circuit = CIRCUIT_CLOSED;
    if (p->failures >= ENDPOINT_OPENS_AFTER) {
        unsigned doublings = p->failures - ENDPOINT_OPENS_AFTER;
        p->circuit = CIRCUIT_OPEN;
        wait_ms = ENDPOINT_OPEN_MAX_MS;
        if (doublings < 8 && (ENDPOINT_OPEN_MS << doublings) < wait_ms) {
            wait_ms = ENDPOINT_OPEN_MS << doublings;
        }
    }
    p->not_before_ms = now_ms + endpoints_jitter(e, wait_ms);
    if (e->leader == which) {
        e->leader = -1; /* it may no longer lead */
    }
}

bool endpoints_all_open(const struct endpoints *e)
{
    for (unsigned i = 0; i < e->count; i++) {
        if (e->at[i].circuit == CIRCUIT_CLOSED) {
            return false;
        }
    }
    return true;
}

void endpoints_describe(const struct endpoints *e, char *out, size_t size)
{
    size_t len = 0;
    out[0] = '\0';
    for (unsigned i = 0; i < e->count && len < size; i++) {
        const struct endpoint *p = &e->at[i];
        int more = snprintf(out + len, size - len, "%s%s%s%s%s", i == 0 ? "" : ", ", p->text,
                            p->why[0] == '\0' ? "" : " (", p->why, p->why[0] == '\0' ? "" : ")");
        hf_assert(more >= 0);
        len += (size_t)more;
    }
}

int64_t endpoints_jitter(struct endpoints *e, int64_t base_ms)
{
    /* xorshift64: sufficient to spread retries. */
    e->random ^= e->random << 13;
    e->random ^= e->random >> 7;
    e->random ^= e->random << 17;
    int64_t half = base_ms / 2;
    return half + (int64_t)(e->random % (uint64_t)(base_ms - half + 1));
}
