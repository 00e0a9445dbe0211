/* Checks settings that are each valid alone. */
#ifndef HOLDFAST_SERVER_CONFIG_CHECK_H
#define HOLDFAST_SERVER_CONFIG_CHECK_H

#include "server/config.h"

/* Fills in the derived members. On failure, appends a line for each problem. */
bool config_check(struct config *config, struct buffer *problems);

#endif
