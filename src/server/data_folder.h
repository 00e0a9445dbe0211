/* The permissions of the data folder. It contains every lock name and lease id, and later whoever may
 * change it is the cluster: only the user of the node may read or write it. */
#ifndef HOLDFAST_SERVER_DATA_FOLDER_H
#define HOLDFAST_SERVER_DATA_FOLDER_H

#include <stdbool.h>

#include "base/journal.h"

enum { DATA_FOLDER_PROBLEM = 8192 };

/* Before the node opens the folder. Earlier versions and operators made folders with mode 0755 and
 * the like: permissions of others are removed from what belongs to us, with a line in the log.
 * False: somebody else owns the folder or a file in it, or its permissions cannot be changed;
 * `problem` has the reason and the remedy. A folder that does not exist yet is fine: storage
 * creates it with mode 0700. */
bool data_folder_restrict(const char *path, const struct journal *journal,
                          char problem[DATA_FOLDER_PROBLEM]);

#endif
