/* The list of base, under the name by which this room knows it. */
#ifndef HOLDFAST_SERVICE_LIST_H
#define HOLDFAST_SERVICE_LIST_H

#include "base/list.h"

#endif
