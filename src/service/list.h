/* The linked list of base/, under the service's own path. */
#ifndef HOLDFAST_SERVICE_LIST_H
#define HOLDFAST_SERVICE_LIST_H

#include "base/list.h"

#endif
