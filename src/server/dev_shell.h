/* Commands that `holdfast dev` prints to be typed in a shell. */
#ifndef HOLDFAST_SERVER_DEV_SHELL_H
#define HOLDFAST_SERVER_DEV_SHELL_H

#include <stdbool.h>

#include "server/dev_cluster.h"

enum { DEV_WORD = 4 * DEV_PATH + 64 };
/* One word of a shell, quoted if necessary. */
void dev_shell_word(const char *text, char word[DEV_WORD]);
/* The word that runs this program in any folder: "holdfast" if PATH leads to it, else its path. */
void dev_program_word(char word[DEV_WORD]);
/* Whether a shell would find that program. */
bool dev_is_in_path(const char *name);

#endif
