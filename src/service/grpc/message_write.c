/* The writer of message.h. An embedded message's length is known after it is written: one byte is
 * left for it; a longer one moves the message up. */
#include "service/grpc/message.h"

#include "base/codec.h"

enum { VARINT_MAX = 10, TAG_MAX = 5, STEP = 256 };

/* Bytes up to `at` are written; they are committed when more space is reserved. */
struct output {
    struct buffer *buffer;
    uint8_t *start; /* of the reserved space */
    uint8_t *at;
    uint8_t *end;
};

static bool reserve(struct output *o, size_t len)
{
    if (o->at != NULL) {
        buffer_commit(o->buffer, (size_t)(o->at - o->start));
    }
    size_t size = len + STEP <= buffer_space(o->buffer) ? len + STEP : len;
    o->start = buffer_reserve(o->buffer, size);
    o->at = o->start;
    o->end = o->start == NULL ? NULL : o->start + size;
    return o->start != NULL;
}

static inline bool has_space(struct output *o, size_t len)
{
    return (size_t)(o->end - o->at) >= len || reserve(o, len);
}

static inline void put_varint(struct output *o, uint64_t value)
{
    while (value >= 0x80) {
        *o->at++ = (uint8_t)(value | 0x80);
        value >>= 7;
    }
    *o->at++ = (uint8_t)value;
}

static bool put_bytes(struct output *o, uint32_t number, const void *data, size_t len)
{
    if (!has_space(o, TAG_MAX + VARINT_MAX + len)) {
        return false;
    }
    put_varint(o, (uint64_t)number << 3 | 2);
    put_varint(o, len);
    if (len > 0) {
        memcpy(o->at, data, len);
        o->at += len;
    }
    return true;
}

static bool put_number(struct output *o, uint32_t number, uint64_t value)
{
    if (!has_space(o, TAG_MAX + VARINT_MAX)) {
        return false;
    }
    put_varint(o, (uint64_t)number << 3);
    put_varint(o, value);
    return true;
}

static bool put_double(struct output *o, uint32_t number, const double *value)
{
    if (!has_space(o, TAG_MAX + 8)) {
        return false;
    }
    uint64_t bits;
    memcpy(&bits, value, 8);
    bits = little_endian(bits);
    put_varint(o, (uint64_t)number << 3 | 1);
    memcpy(o->at, &bits, 8);
    o->at += 8;
    return true;
}

static bool put_fields(struct output *o, const ProtobufCMessage *message);

static bool put_message(struct output *o, uint32_t number, const ProtobufCMessage *message)
{
    if (!has_space(o, TAG_MAX + 1)) {
        return false;
    }
    put_varint(o, (uint64_t)number << 3 | 2);
    o->at++; /* for the length */
    size_t before = buffer_len(o->buffer) + (size_t)(o->at - o->start);
    if (!put_fields(o, message) || !has_space(o, VARINT_MAX)) {
        return false;
    }
    size_t len = buffer_len(o->buffer) + (size_t)(o->at - o->start) - before;
    uint8_t *first = o->at - len;
    size_t extra = 0;
    for (size_t rest = len >> 7; rest > 0; rest >>= 7) {
        extra++;
    }
    if (extra > 0) {
        memmove(first + extra, first, len);
    }
    struct output length = {.at = first - 1};
    put_varint(&length, len);
    o->at += extra;
    return true;
}

/* A negative number of 32 bits is sign-extended to 64. */
static uint64_t number_of(const ProtobufCFieldDescriptor *field, const void *member)
{
    switch (field->type) {
    case PROTOBUF_C_TYPE_BOOL:
        return *(const protobuf_c_boolean *)member != 0;
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_ENUM:
        return (uint64_t)(int64_t) * (const int32_t *)member;
    case PROTOBUF_C_TYPE_UINT32:
        return *(const uint32_t *)member;
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_UINT64:
        return *(const uint64_t *)member;
    default:
        hf_panic(__FILE__, __LINE__, "a message has a field of an unsupported type");
    }
}

/* Not written, unless set in a oneof. */
static bool is_default(const ProtobufCFieldDescriptor *field, const void *member)
{
    switch (field->type) {
    case PROTOBUF_C_TYPE_STRING: {
        const char *text = *(char *const *)member;
        return text == NULL || text[0] == '\0';
    }
    case PROTOBUF_C_TYPE_BYTES:
        return ((const ProtobufCBinaryData *)member)->len == 0;
    case PROTOBUF_C_TYPE_MESSAGE:
        return *(ProtobufCMessage *const *)member == NULL;
    case PROTOBUF_C_TYPE_DOUBLE:
        return *(const double *)member == 0;
    default:
        return number_of(field, member) == 0;
    }
}

static bool put_member(struct output *o, const ProtobufCFieldDescriptor *field, const void *member)
{
    switch (field->type) {
    case PROTOBUF_C_TYPE_STRING: {
        const char *text = *(char *const *)member;
        return put_bytes(o, field->id, text, text == NULL ? 0 : strlen(text));
    }
    case PROTOBUF_C_TYPE_BYTES: {
        const ProtobufCBinaryData *bytes = member;
        return put_bytes(o, field->id, bytes->data, bytes->len);
    }
    case PROTOBUF_C_TYPE_MESSAGE: {
        const ProtobufCMessage *message = *(ProtobufCMessage *const *)member;
        return message == NULL || put_message(o, field->id, message);
    }
    case PROTOBUF_C_TYPE_DOUBLE:
        return put_double(o, field->id, member);
    default:
        return put_number(o, field->id, number_of(field, member));
    }
}

static bool put_repeated(struct output *o, const ProtobufCFieldDescriptor *field,
                         const void *member, size_t count)
{
    size_t size =
        field->type == PROTOBUF_C_TYPE_BYTES ? sizeof(ProtobufCBinaryData) : sizeof(void *);
    const char *items = *(char *const *)member;
    hf_assert(count == 0 || field->type == PROTOBUF_C_TYPE_STRING ||
              field->type == PROTOBUF_C_TYPE_BYTES || field->type == PROTOBUF_C_TYPE_MESSAGE);
    for (size_t i = 0; i < count; i++) {
        if (!put_member(o, field, items + i * size)) {
            return false;
        }
    }
    return true;
}

static bool put_fields(struct output *o, const ProtobufCMessage *message)
{
    const ProtobufCMessageDescriptor *type = message->descriptor;
    const ProtobufCFieldDescriptor *end = type->fields + type->n_fields;
    for (const ProtobufCFieldDescriptor *field = type->fields; field < end; field++) {
        const void *member = (const char *)message + field->offset;
        const void *quantifier = (const char *)message + field->quantifier_offset;
        bool is_written = true;
        if (field->label == PROTOBUF_C_LABEL_REPEATED) {
            is_written = put_repeated(o, field, member, *(const size_t *)quantifier);
        } else if ((field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) != 0
                       ? *(const uint32_t *)quantifier == field->id
                       : !is_default(field, member)) {
            is_written = put_member(o, field, member);
        }
        if (!is_written) {
            return false;
        }
    }
    return true;
}

bool message_write(const ProtobufCMessage *message, struct buffer *out)
{
    struct output o = {.buffer = out};
    if (!put_fields(&o, message)) {
        return false;
    }
    if (o.at != NULL) {
        buffer_commit(out, (size_t)(o.at - o.start));
    }
    return true;
}
