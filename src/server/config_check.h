/* Whether settings that are each fine also fit together. */
#ifndef HOLDFAST_SERVER_CONFIG_CHECK_H
#define HOLDFAST_SERVER_CONFIG_CHECK_H

#include "server/config.h"

/* Fills in the members and what follows from them; appends a line for each problem. */
bool config_check(struct config *config, struct buffer *problems);

#endif
