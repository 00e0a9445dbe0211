/* Reads and writes protobuf messages by protobuf-c descriptors, in one pass each.
 *
 * protobuf-c itself needs two passes, does not check UTF-8, and reads the string "a\0b" as "a".
 * Supported types: string, bytes, bool, int32, int64, uint32, uint64, enum, message; repeated
 * string, bytes and message; oneof. A double is written only: no request has one. */
#ifndef HOLDFAST_SERVICE_GRPC_MESSAGE_H
#define HOLDFAST_SERVICE_GRPC_MESSAGE_H

#include <protobuf-c/protobuf-c.h>

#include "base/buffer.h"
#include "base/bump.h"

/* The message is allocated in the arena. NULL: no valid message of that type, a string is not UTF-8
 * or contains NUL, or the arena is at its limit. Unknown fields are ignored. */
ProtobufCMessage *message_read(const ProtobufCMessageDescriptor *type, struct slice bytes,
                               struct bump *arena);

/* False: the buffer is at its limit and has a part of the message. */
bool message_write(const ProtobufCMessage *message, struct buffer *out);

/* From the front of `bytes`. False: too few. */
bool message_take_long_varint(struct slice *bytes, uint64_t *out);

static inline bool message_take_varint(struct slice *bytes, uint64_t *out)
{
    if (bytes->len == 0 || bytes->data[0] >= 0x80) {
        return message_take_long_varint(bytes, out);
    }
    *out = bytes->data[0];
    *bytes = slice_make(bytes->data + 1, bytes->len - 1);
    return true;
}

static inline bool message_take_bytes(struct slice *bytes, uint64_t len, struct slice *out)
{
    if (len > bytes->len) {
        return false;
    }
    *out = slice_make(bytes->data, (size_t)len);
    *bytes = slice_make(bytes->data + len, bytes->len - (size_t)len);
    return true;
}

#endif
