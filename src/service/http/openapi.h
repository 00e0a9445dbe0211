/* docs/openapi.yaml, embedded at build time. */
#ifndef HOLDFAST_SERVICE_HTTP_OPENAPI_H
#define HOLDFAST_SERVICE_HTTP_OPENAPI_H

#include <stddef.h>

extern const unsigned char openapi_yaml[];
extern const size_t openapi_yaml_len;

#endif
