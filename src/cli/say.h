/* Messages on stderr: lines that begin with `holdfast:`. */
#ifndef HOLDFAST_CLI_SAY_H
#define HOLDFAST_CLI_SAY_H

/* Prints one line. Control characters become '?', so that a name cannot move the cursor. */
void cli_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
