/* The files of the dashboard (src/server/dashboard/), which the program carries. */
#ifndef HOLDFAST_SERVER_DASHBOARD_H
#define HOLDFAST_SERVER_DASHBOARD_H

#include "service/service.h"

/* The file served at `path`: "/", or "/dashboard/NAME". False: none. */
bool dashboard_asset(struct slice path, struct service_asset *out);

#endif
