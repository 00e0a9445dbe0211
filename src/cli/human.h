/* Readable times and durations. */
#ifndef HOLDFAST_CLI_HUMAN_H
#define HOLDFAST_CLI_HUMAN_H

#include "base/slice.h"

enum { HUMAN_TEXT = 32 };

/* "2026-11-15T12:00:03.123Z": "2026-11-15 12:00:03Z"; any other text: "-". */
const char *human_time(struct slice rfc3339, char out[HUMAN_TEXT]);
/* "2026-11-15T12:00:03.123Z" in ms since 1970; 0: any other text. */
uint64_t human_wall_ms(struct slice rfc3339);
/* "850ms", "23s", "4m10s", "3h02m", "2d04h". */
const char *human_span(uint64_t ms, char out[HUMAN_TEXT]);
/* "in 23s"; UINT64_MAX: "never". */
const char *human_left(uint64_t ms, char out[HUMAN_TEXT]);

#endif
