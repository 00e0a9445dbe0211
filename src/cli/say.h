/* What the command tells a person on stderr: lines that begin with `holdfast:`. */
#ifndef HOLDFAST_CLI_SAY_H
#define HOLDFAST_CLI_SAY_H

/* A line. What came from elsewhere loses its control characters: it must not move the cursor. */
void cli_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
