/* Messages on stderr, after `holdfast:`. */
#ifndef HOLDFAST_CLI_SAY_H
#define HOLDFAST_CLI_SAY_H

/* One line. Control characters become '?': a name cannot move the cursor. */
void cli_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
