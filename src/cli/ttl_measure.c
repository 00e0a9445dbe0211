/* See ttl_measure.h. */
#include "cli/ttl_measure.h"

#include <stdlib.h>
#include <string.h>

#include "base/limits.h"

enum {
    NOISE_MS = 50,      /* a deadline that moves less was not renewed */
    PAUSE_MIN_MS = 100, /* between two reads of the lists */
    PAUSE_MAX_MS = 1000,
    GAPS_FOR_MEDIAN = 3,
};

bool ttl_measure_init(struct ttl_measure *m)
{
    *m = (struct ttl_measure){.leases = calloc(TTL_LEASES, sizeof(*m->leases))};
    return m->leases != NULL;
}

void ttl_measure_close(struct ttl_measure *m)
{
    free(m->leases);
    m->leases = NULL;
}

static struct ttl_lease *find(struct ttl_measure *m, uint64_t id)
{
    for (size_t i = 0; i < m->count; i++) {
        if (m->leases[i].id == id) {
            return &m->leases[i];
        }
    }
    return NULL;
}

void ttl_measure_see(struct ttl_measure *m, uint64_t id, uint64_t expires_wall_ms, uint64_t left_ms,
                     int64_t now_ms)
{
    struct ttl_lease *l = find(m, id);
    if (l == NULL && m->count == TTL_LEASES) {
        m->omitted++;
        return;
    }
    if (l == NULL) {
        l = &m->leases[m->count++];
        *l = (struct ttl_lease){.id = id, .least_left_ms = UINT64_MAX};
    } else if (expires_wall_ms > l->expires_wall_ms + NOISE_MS &&
               (int64_t)left_ms > (int64_t)l->left_ms - (now_ms - l->seen_ms) + NOISE_MS) {
        uint64_t gap_ms = expires_wall_ms - l->expires_wall_ms;
        l->gaps[l->renewals++ % TTL_GAPS] = gap_ms < UINT32_MAX ? (uint32_t)gap_ms : UINT32_MAX;
    }
    l->expires_wall_ms = expires_wall_ms;
    l->seen_ms = now_ms;
    l->left_ms = left_ms;
    l->most_left_ms = left_ms > l->most_left_ms ? left_ms : l->most_left_ms;
    l->least_left_ms = left_ms < l->least_left_ms ? left_ms : l->least_left_ms;
}

uint64_t ttl_measure_pause_ms(const struct ttl_measure *m)
{
    uint64_t pause_ms = m->count < PAUSE_MAX_MS ? m->count : PAUSE_MAX_MS; /* 1 ms for each lease */
    for (size_t i = 0; i < m->count; i++) {
        uint64_t eighth_ms = m->leases[i].most_left_ms / 8;
        pause_ms = eighth_ms < pause_ms ? eighth_ms : pause_ms;
    }
    return pause_ms < PAUSE_MIN_MS ? PAUSE_MIN_MS : pause_ms;
}

/* ---- values ---- */

bool ttl_values_init(struct ttl_values *v)
{
    *v = (struct ttl_values){.items = malloc(TTL_VALUES * sizeof(*v->items))};
    return v->items != NULL;
}

void ttl_values_close(struct ttl_values *v)
{
    free(v->items);
    v->items = NULL;
}

void ttl_values_add(struct ttl_values *v, uint64_t value)
{
    if (v->count < TTL_VALUES) {
        v->items[v->count++] = value;
    }
}

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a;
    uint64_t y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

void ttl_values_sort(struct ttl_values *v)
{
    qsort(v->items, v->count, sizeof(*v->items), compare);
}

uint64_t ttl_values_quantile(const struct ttl_values *v, uint32_t per_mille)
{
    if (v->count == 0) {
        return 0;
    }
    size_t rank = (v->count * per_mille + 999) / 1000;
    return v->items[rank == 0 ? 0 : rank - 1];
}

/* ---- what the leases show ---- */

static uint64_t median_of(const struct ttl_lease *l, size_t count)
{
    uint64_t sorted[TTL_GAPS];
    for (size_t i = 0; i < count; i++) {
        sorted[i] = l->gaps[i];
    }
    qsort(sorted, count, sizeof(*sorted), compare);
    return sorted[count / 2];
}

static void add_lease(const struct ttl_lease *l, struct ttl_values *gaps, struct ttl_values *late)
{
    size_t count = l->renewals < TTL_GAPS ? l->renewals : TTL_GAPS;
    uint64_t median_ms = count >= GAPS_FOR_MEDIAN ? median_of(l, count) : 0;
    for (size_t i = 0; i < count; i++) {
        ttl_values_add(gaps, l->gaps[i]);
        if (count >= GAPS_FOR_MEDIAN) {
            ttl_values_add(late, l->gaps[i] > median_ms ? l->gaps[i] - median_ms : 0);
        }
    }
}

void ttl_measure_sum(const struct ttl_measure *m, struct ttl_values *gaps, struct ttl_values *late,
                     struct ttl_kinds *kinds)
{
    *kinds = (struct ttl_kinds){.ttl_min_ms = UINT64_MAX};
    for (size_t i = 0; i < m->count; i++) {
        const struct ttl_lease *l = &m->leases[i];
        add_lease(l, gaps, late);
        kinds->renewed += l->renewals > 0;
        kinds->not_renewed += l->renewals == 0 && l->least_left_ms < l->most_left_ms / 2;
        kinds->ttl_min_ms =
            l->most_left_ms < kinds->ttl_min_ms ? l->most_left_ms : kinds->ttl_min_ms;
        kinds->ttl_max_ms =
            l->most_left_ms > kinds->ttl_max_ms ? l->most_left_ms : kinds->ttl_max_ms;
    }
    ttl_values_sort(gaps);
    ttl_values_sort(late);
}

/* ---- the rule ---- */

uint64_t ttl_rule_ms(uint64_t late_ms, uint64_t outage_ms, uint64_t round_trip_ms)
{
    uint64_t survive_ms = late_ms + outage_ms + TTL_RETRY_MS + round_trip_ms;
    return survive_ms + survive_ms / 2; /* two thirds of the TTL are left when a renewal is due */
}

uint64_t ttl_rounded_ms(uint64_t ttl_ms)
{
    static const uint32_t seconds[] = {1,   2,   3,   5,   10,  15,   20,   30,   45,    60,
                                       120, 180, 300, 600, 900, 1800, 3600, 7200, 21600, 43200};
    for (size_t i = 0; i < sizeof(seconds) / sizeof(seconds[0]); i++) {
        if (ttl_ms <= seconds[i] * UINT64_C(1000)) {
            return seconds[i] * UINT64_C(1000);
        }
    }
    return LIMIT_TTL_MAX_MS;
}
