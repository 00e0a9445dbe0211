/* The reader of message.h. */
#include "service/grpc/message.h"

#include "base/text.h"

enum { DEPTH_MAX = 8, FIRST_ITEMS = 4 };

enum wire_type { WIRE_VARINT = 0, WIRE_FIXED64 = 1, WIRE_BYTES = 2, WIRE_FIXED32 = 5 };

bool message_take_long_varint(struct slice *bytes, uint64_t *out)
{
    uint64_t value = 0;
    for (unsigned i = 0; i < 10 && i < bytes->len; i++) {
        value |= (uint64_t)(bytes->data[i] & 0x7f) << (7 * i);
        if (bytes->data[i] < 0x80) {
            *bytes = slice_make(bytes->data + i + 1, bytes->len - i - 1);
            *out = value;
            return true;
        }
    }
    return false;
}

/* One field as in the bytes. */
struct wire_value {
    enum wire_type type;
    uint64_t number;
    struct slice bytes;
};

static bool take_value(struct slice *bytes, unsigned type, struct wire_value *out)
{
    uint64_t len;
    out->type = (enum wire_type)type;
    switch (type) {
    case WIRE_VARINT:
        return message_take_varint(bytes, &out->number);
    case WIRE_FIXED64:
        return message_take_bytes(bytes, 8, &out->bytes);
    case WIRE_BYTES:
        return message_take_varint(bytes, &len) && message_take_bytes(bytes, len, &out->bytes);
    case WIRE_FIXED32:
        return message_take_bytes(bytes, 4, &out->bytes);
    default:
        return false;
    }
}

static bool read_fields(const ProtobufCMessageDescriptor *type, struct slice bytes,
                        struct bump *arena, unsigned depth, ProtobufCMessage *out);

static bool read_string(struct slice text, struct bump *arena, char **out)
{
    if ((text.len > 0 && memchr(text.data, 0, text.len) != NULL) || !text_is_utf8(text)) {
        return false;
    }
    char *copy = bump_take(arena, text.len + 1);
    if (copy == NULL) {
        return false;
    }
    if (text.len > 0) {
        memcpy(copy, text.data, text.len);
    }
    copy[text.len] = '\0';
    *out = copy;
    return true;
}

static bool read_bytes(struct slice bytes, struct bump *arena, ProtobufCBinaryData *out)
{
    uint8_t *copy = bump_take(arena, bytes.len + 1);
    if (copy == NULL) {
        return false;
    }
    if (bytes.len > 0) {
        memcpy(copy, bytes.data, bytes.len);
    }
    *out = (ProtobufCBinaryData){.len = bytes.len, .data = copy};
    return true;
}

/* A message that occurs twice is merged, as protobuf requires. */
static bool read_message(const ProtobufCMessageDescriptor *type, struct slice bytes,
                         struct bump *arena, unsigned depth, ProtobufCMessage **out)
{
    ProtobufCMessage *message = *out;
    if (message == NULL) {
        message = bump_take(arena, type->sizeof_message);
        if (message == NULL) {
            return false;
        }
        protobuf_c_message_init(type, message);
    }
    *out = message;
    return depth < DEPTH_MAX && read_fields(type, bytes, arena, depth + 1, message);
}

static bool read_member(const ProtobufCFieldDescriptor *field, const struct wire_value *value,
                        struct bump *arena, unsigned depth, void *member)
{
    bool has_bytes = field->type == PROTOBUF_C_TYPE_STRING ||
                     field->type == PROTOBUF_C_TYPE_BYTES || field->type == PROTOBUF_C_TYPE_MESSAGE;
    if (value->type != (has_bytes ? WIRE_BYTES : WIRE_VARINT)) {
        return false;
    }
    switch (field->type) {
    case PROTOBUF_C_TYPE_STRING:
        return read_string(value->bytes, arena, member);
    case PROTOBUF_C_TYPE_BYTES:
        return read_bytes(value->bytes, arena, member);
    case PROTOBUF_C_TYPE_MESSAGE:
        return read_message(field->descriptor, value->bytes, arena, depth, member);
    case PROTOBUF_C_TYPE_BOOL:
        *(protobuf_c_boolean *)member = value->number != 0;
        return true;
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_ENUM:
        *(uint32_t *)member = (uint32_t)value->number;
        return true;
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_UINT64:
        *(uint64_t *)member = value->number;
        return true;
    default:
        hf_panic(__FILE__, __LINE__, "a message has a field of an unsupported type");
    }
}

/* Zeroed. The array has space for FIRST_ITEMS, then for powers of two. */
static void *add_item(const ProtobufCFieldDescriptor *field, struct bump *arena, void *member,
                      size_t *count)
{
    size_t size =
        field->type == PROTOBUF_C_TYPE_BYTES ? sizeof(ProtobufCBinaryData) : sizeof(void *);
    char **items = member;
    bool is_full = *count == 0 || (*count >= FIRST_ITEMS && (*count & (*count - 1)) == 0);
    if (is_full) {
        char *larger = bump_take(arena, size * (*count == 0 ? FIRST_ITEMS : 2 * *count));
        if (larger == NULL) {
            return NULL;
        }
        if (*count > 0) {
            memcpy(larger, *items, size * *count);
        }
        *items = larger;
    }
    return memset(*items + size * (*count)++, 0, size);
}

static bool read_field(const ProtobufCFieldDescriptor *field, const struct wire_value *value,
                       struct bump *arena, unsigned depth, ProtobufCMessage *out)
{
    void *member = (char *)out + field->offset;
    void *quantifier = (char *)out + field->quantifier_offset;
    if (field->label == PROTOBUF_C_LABEL_REPEATED) {
        member = add_item(field, arena, member, quantifier);
        if (member == NULL) {
            return false;
        }
    } else if ((field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) != 0) {
        uint32_t *which = quantifier;
        if (*which != field->id && field->type == PROTOBUF_C_TYPE_MESSAGE) {
            *(void **)member = NULL; /* the last one of a oneof replaces the others */
        }
        *which = field->id;
    }
    return read_member(field, value, arena, depth, member);
}

static bool read_fields(const ProtobufCMessageDescriptor *type, struct slice bytes,
                        struct bump *arena, unsigned depth, ProtobufCMessage *out)
{
    unsigned next = 0; /* encoders write the fields in the order of their numbers */
    while (bytes.len > 0) {
        uint64_t tag;
        struct wire_value value;
        if (!message_take_varint(&bytes, &tag) || tag >> 3 == 0 || tag > UINT32_MAX ||
            !take_value(&bytes, (unsigned)(tag & 7), &value)) {
            return false;
        }
        unsigned number = (unsigned)(tag >> 3);
        while (next < type->n_fields && type->fields[next].id < number) {
            next++;
        }
        const ProtobufCFieldDescriptor *field =
            next < type->n_fields && type->fields[next].id == number
                ? &type->fields[next]
                : protobuf_c_message_descriptor_get_field(type, number);
        if (field != NULL && !read_field(field, &value, arena, depth, out)) {
            return false;
        }
    }
    return true;
}

ProtobufCMessage *message_read(const ProtobufCMessageDescriptor *type, struct slice bytes,
                               struct bump *arena)
{
    ProtobufCMessage *message = NULL;
    return read_message(type, bytes, arena, 0, &message) ? message : NULL;
}
