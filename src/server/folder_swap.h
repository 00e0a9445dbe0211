/* A finished folder takes another one's place, in one step. */
#ifndef HOLDFAST_SERVER_FOLDER_SWAP_H
#define HOLDFAST_SERVER_FOLDER_SWAP_H

#include <stdbool.h>

enum { FOLDER_PATH = 4096 };

/* `fresh`, beside `data`, becomes `data`; what was there becomes `backup`. At no moment, whatever
 * fails, is there no folder or half a folder at `data`. The files get the owner of the old ones.
 * False: what is wrong was said on stderr, and `data` is as it was. */
bool folder_swap(const char *data, const char *fresh, const char *backup);

#endif
