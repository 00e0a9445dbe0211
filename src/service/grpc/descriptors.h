/* The descriptors of proto/, embedded at build time. */
#ifndef HOLDFAST_SERVICE_GRPC_DESCRIPTORS_H
#define HOLDFAST_SERVICE_GRPC_DESCRIPTORS_H

#include <stddef.h>

extern const unsigned char rpc_descriptors[];
extern const size_t rpc_descriptors_len;

#endif
