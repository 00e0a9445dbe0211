/* Times as words of the command line. */
#ifndef HOLDFAST_CLI_WHEN_H
#define HOLDFAST_CLI_WHEN_H

#include "base/buffer.h"

enum { WHEN_TEXT = 32 };

/* In UTC: a duration such as 2h, 14:03[:20] (the last one before now), 2026-11-19[ 14:03[:20]], or RFC
 * 3339. For a query of the HTTP API: the node subtracts durations from its own clock. On failure prints
 * the problem; the exit code is EXIT_USAGE. */
bool when_read(const char *command, const char *flag, const char *text, char out[WHEN_TEXT]);
/* Without printing; `now_ms` is the wall clock. */
bool when_parse(const char *text, uint64_t now_ms, char out[WHEN_TEXT]);

/* Adds "&KEY=TEXT", escaped; nothing if the text is NULL or empty. */
void when_add_text(struct buffer *target, const char *key, const char *text);

#endif
