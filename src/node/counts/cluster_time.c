/* See cluster_time.h. */
#include "node/counts/cluster_time.h"

#include <string.h>

#include "base/panic.h"

enum { WINDOW_US = 5000000 };

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static void begin_term(struct cluster_time *c, uint64_t from_ms, int64_t behind_us,
                       uint64_t boot_us)
{
    if (c->count == CLUSTER_TIME_TERMS) {
        memmove(c->terms, c->terms + 1, sizeof(c->terms[0]) * (CLUSTER_TIME_TERMS - 1));
        c->count--;
    }
    c->terms[c->count++] = (struct cluster_time_term){from_ms, behind_us};
    c->window_us = boot_us;
    c->windows[1] = behind_us;
    c->has_window = false;
}

void cluster_time_note(struct cluster_time *c, uint64_t term, uint64_t from_ms, uint64_t cluster_ms,
                       uint64_t boot_us)
{
    int64_t behind_us = (int64_t)boot_us - (int64_t)(cluster_ms * 1000);
    if (cluster_ms == 0) {
        return; /* no leader was heard */
    }
    if (c->count == 0 || term != c->term) {
        c->first_us = c->count == 0 ? behind_us : c->first_us;
        c->term = term;
        begin_term(c, from_ms != 0 ? from_ms : cluster_ms, behind_us, boot_us);
        return;
    }
    struct cluster_time_term *now = &c->terms[c->count - 1];
    now->behind_us = smaller(now->behind_us, behind_us);
    if (c->count == 1 && !c->has_window) { /* the delay of the first messages */
        c->first_us = now->behind_us;
    }
    if (boot_us - c->window_us >= WINDOW_US) {
        c->windows[0] = c->windows[1];
        c->has_window = true;
        c->windows[1] = behind_us;
        c->window_us = boot_us;
    }
    c->windows[1] = smaller(c->windows[1], behind_us);
}

int64_t cluster_time_behind_us(const struct cluster_time *c)
{
    if (c->count == 0) {
        return 0;
    }
    int64_t now_us = c->has_window ? smaller(c->windows[0], c->windows[1]) : c->windows[1];
    return now_us - c->first_us;
}

/* The newest term that began before `end_ms`. */
static const struct cluster_time_term *term_before(const struct cluster_time *c, uint64_t end_ms)
{
    uint32_t i = c->count - 1;
    while (i > 0 && c->terms[i].from_ms >= end_ms) {
        i--;
    }
    return &c->terms[i];
}

uint64_t cluster_time_lost_us(const struct cluster_time *c, uint64_t from_ms, uint64_t to_ms)
{
    hf_assert(from_ms <= to_ms);
    if (c->count == 0) {
        return 0;
    }
    int64_t lost_us = term_before(c, to_ms + 1)->behind_us - term_before(c, from_ms)->behind_us;
    return lost_us > 0 ? (uint64_t)lost_us : 0;
}
