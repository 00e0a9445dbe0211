/* gRPC messages: durations, allocation that does not fail. */
#ifndef HOLDFAST_CLIENT_PROTO_H
#define HOLDFAST_CLIENT_PROTO_H

#include <google/protobuf/duration.pb-c.h>
#include <holdfast/v1/admin.pb-c.h>
#include <holdfast/v1/election.pb-c.h>
#include <holdfast/v1/lock.pb-c.h>
#include <stdlib.h>

#include "base/panic.h"
#include "base/slice.h"

typedef Holdfast__V1__SessionRequest SessionRequest;
typedef Holdfast__V1__SessionResponse SessionResponse;
typedef Google__Protobuf__Duration Duration;

static inline void *client_alloc(size_t size)
{
    void *block = calloc(1, size);
    if (block == NULL) {
        hf_panic(__FILE__, __LINE__, "out of memory");
    }
    return block;
}

static inline char *client_copy(const char *text)
{
    size_t size = strlen(text) + 1;
    char *copy = client_alloc(size);
    memcpy(copy, text, size);
    return copy;
}

/* protobuf-c's strings are not const, but packing does not write to them. */
static inline char *proto_text(const char *text)
{
    return (char *)(uintptr_t)text;
}

static inline Duration duration_of(int64_t ms)
{
    Duration d = GOOGLE__PROTOBUF__DURATION__INIT;
    d.seconds = ms / 1000;
    d.nanos = (int32_t)(ms % 1000) * 1000000;
    return d;
}

/* Cuts false values to a maximum above all times of the service. */
static inline int64_t seconds_ms(int64_t seconds, int32_t nanos)
{
    const int64_t most = INT64_C(1) << 53;
    if (seconds > most / 1000 || seconds < -most / 1000) {
        return seconds > 0 ? most : -most;
    }
    return seconds * 1000 + nanos / 1000000;
}

/* Rounded down; `absent`: none. */
static inline int64_t duration_ms(const Duration *d, int64_t absent)
{
    return d == NULL ? absent : seconds_ms(d->seconds, d->nanos);
}

/* The caller frees the result with free(). */
static inline uint8_t *proto_pack(const ProtobufCMessage *message, size_t *len)
{
    size_t size = protobuf_c_message_get_packed_size(message);
    uint8_t *bytes = client_alloc(size == 0 ? 1 : size);
    *len = protobuf_c_message_pack(message, bytes);
    return bytes;
}

#endif
