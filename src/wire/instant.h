/* Moments that people write: "2026-11-19T14:03:00Z", or "2h" for two hours ago. */
#ifndef HOLDFAST_WIRE_INSTANT_H
#define HOLDFAST_WIRE_INSTANT_H

#include "base/slice.h"

/* RFC 3339 (a space may replace the T), from the year 1970, or numbers with the units ms, s, m, h, d,
 * as "1h30m": that long before `now_ms`, at least 0. False: neither; `*wall_ms` is unchanged. */
bool instant_parse(struct slice text, uint64_t now_ms, uint64_t *wall_ms);

#define INSTANT_FORMS "a time such as 2026-11-19T14:03:00Z, or a duration such as 2h"

#endif
