/* Replaces a data folder atomically. */
#ifndef HOLDFAST_SERVER_FOLDER_SWAP_H
#define HOLDFAST_SERVER_FOLDER_SWAP_H

#include <stdbool.h>

enum { FOLDER_PATH = 4096 };

/* Makes `fresh`, on the same file system, the folder `data`, and renames the old one to `backup`.
 * `data` is a complete folder at all times. The new files get the owner of the old folder. On
 * failure, prints the problem to stderr; `data` is unchanged. */
bool folder_swap(const char *data, const char *fresh, const char *backup);

#endif
