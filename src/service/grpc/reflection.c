/* Server reflection, for tools like grpcurl. The files are embedded as one FileDescriptorSet,
 * searched without decoding by a few field numbers. */
#include <grpc/reflection/v1alpha/reflection.pb-c.h>

#include "service/grpc/descriptors.h"
#include "service/grpc/rpc.h"

typedef Grpc__Reflection__V1alpha__ServerReflectionRequest ReflectionRequest;
typedef Grpc__Reflection__V1alpha__ServerReflectionResponse ReflectionResponse;

/* Field numbers of descriptor.proto. */
enum {
    SET_FILE = 1,
    FILE_NAME = 1,
    FILE_PACKAGE = 2,
    FILE_MESSAGE = 4,
    FILE_ENUM = 5,
    FILE_SERVICE = 6,
    MESSAGE_FIELD = 2,
    MESSAGE_NESTED = 3,
    MESSAGE_ENUM = 4,
    MESSAGE_ONEOF = 8,
    ENUM_VALUE = 2,
    SERVICE_METHOD = 2,
    ANY_NAME = 1,
    SERVICES_MAX = 16,
};

static struct slice text_field(struct slice message, uint64_t number)
{
    struct slice value;
    uint64_t field;
    while (rpc_next_piece(&message, &field, &value)) {
        if (field == number && value.data != NULL) {
            return value;
        }
    }
    return slice_make(NULL, 0);
}

/* The rest of `symbol` after `name` and a dot; "" if equal. False: no match. */
static bool cut_name(struct slice symbol, struct slice name, struct slice *rest)
{
    if (!slice_starts_with(symbol, name)) {
        return false;
    }
    if (symbol.len == name.len) {
        *rest = slice_make(NULL, 0);
        return true;
    }
    *rest = slice_make(symbol.data + name.len + 1, symbol.len - name.len - 1);
    return symbol.data[name.len] == '.';
}

static bool has_child(struct slice message, uint64_t number, struct slice symbol)
{
    struct slice child;
    uint64_t field;
    while (rpc_next_piece(&message, &field, &child)) {
        if (field == number && child.data != NULL &&
            slice_equal(text_field(child, ANY_NAME), symbol)) {
            return true;
        }
    }
    return false;
}

static bool message_has(struct slice message, struct slice symbol)
{
    if (has_child(message, MESSAGE_FIELD, symbol) || has_child(message, MESSAGE_ENUM, symbol) ||
        has_child(message, MESSAGE_ONEOF, symbol)) {
        return true;
    }
    struct slice child;
    struct slice rest;
    uint64_t field;
    while (rpc_next_piece(&message, &field, &child)) {
        /* Holdfast's messages nest one level deep. */
        if (field == MESSAGE_NESTED && child.data != NULL &&
            cut_name(symbol, text_field(child, ANY_NAME), &rest) &&
            (rest.len == 0 || has_child(child, MESSAGE_FIELD, rest))) {
            return true;
        }
    }
    return false;
}

static bool file_has(struct slice file, struct slice symbol)
{
    struct slice rest;
    struct slice child;
    uint64_t field;
    if (!cut_name(symbol, text_field(file, FILE_PACKAGE), &rest) || rest.len == 0) {
        return false;
    }
    while (rpc_next_piece(&file, &field, &child)) {
        struct slice inner;
        bool is_named = child.data != NULL &&
                        (field == FILE_MESSAGE || field == FILE_ENUM || field == FILE_SERVICE);
        if (!is_named || !cut_name(rest, text_field(child, ANY_NAME), &inner)) {
            continue;
        }
        if (inner.len == 0 || (field == FILE_MESSAGE && message_has(child, inner)) ||
            (field == FILE_SERVICE && has_child(child, SERVICE_METHOD, inner)) ||
            (field == FILE_ENUM && has_child(child, ENUM_VALUE, inner))) {
            return true;
        }
    }
    return false;
}

static bool find_file(struct slice wanted, bool by_name, struct slice *out)
{
    struct slice set = slice_make(rpc_descriptors, rpc_descriptors_len);
    struct slice file;
    uint64_t field;
    while (rpc_next_piece(&set, &field, &file)) {
        if (field == SET_FILE && file.data != NULL &&
            (by_name ? slice_equal(text_field(file, FILE_NAME), wanted) : file_has(file, wanted))) {
            *out = file;
            return true;
        }
    }
    return false;
}

static void put_error(struct api_request *x, ReflectionResponse *out, const char *message)
{
    Grpc__Reflection__V1alpha__ErrorResponse error =
        GRPC__REFLECTION__V1ALPHA__ERROR_RESPONSE__INIT;
    error.error_code = GRPC_NOT_FOUND;
    error.error_message = (char *)(uintptr_t)message;
    out->message_response_case =
        GRPC__REFLECTION__V1ALPHA__SERVER_REFLECTION_RESPONSE__MESSAGE_RESPONSE_ERROR_RESPONSE;
    out->error_response = &error;
    rpc_send(x, &out->base);
}

static void put_file(struct api_request *x, ReflectionResponse *out, const char *wanted,
                     bool by_name)
{
    struct slice file;
    if (!find_file(slice_of(wanted), by_name, &file)) {
        put_error(x, out, by_name ? "there is no such file" : "no file has this symbol");
        return;
    }
    ProtobufCBinaryData data = {file.len, (uint8_t *)(uintptr_t)file.data};
    Grpc__Reflection__V1alpha__FileDescriptorResponse files =
        GRPC__REFLECTION__V1ALPHA__FILE_DESCRIPTOR_RESPONSE__INIT;
    files.n_file_descriptor_proto = 1;
    files.file_descriptor_proto = &data;
    out->message_response_case =
        GRPC__REFLECTION__V1ALPHA__SERVER_REFLECTION_RESPONSE__MESSAGE_RESPONSE_FILE_DESCRIPTOR_RESPONSE;
    out->file_descriptor_response = &files;
    rpc_send(x, &out->base);
}

/* Services of the method table, each once; those without a descriptor file are omitted. */
static void put_services(struct api_request *x, ReflectionResponse *out)
{
    struct service *s = x->service;
    Grpc__Reflection__V1alpha__ServiceResponse rows[SERVICES_MAX];
    Grpc__Reflection__V1alpha__ServiceResponse *list[SERVICES_MAX];
    Grpc__Reflection__V1alpha__ListServiceResponse services =
        GRPC__REFLECTION__V1ALPHA__LIST_SERVICE_RESPONSE__INIT;
    size_t count;
    const struct rpc_method *methods = rpc_methods(&count);
    struct slice last = slice_make(NULL, 0);
    services.service = list;
    for (size_t i = 0; i < count; i++) {
        const char *path = methods[i].path + 1;
        struct slice name = slice_make(path, (size_t)(strchr(path, '/') - path));
        struct slice file;
        if (slice_equal(name, last) || !find_file(name, false, &file)) {
            continue;
        }
        last = name;
        hf_assert(services.n_service < SERVICES_MAX);
        Grpc__Reflection__V1alpha__ServiceResponse *row = &rows[services.n_service];
        grpc__reflection__v1alpha__service_response__init(row);
        row->name = rpc_string(s, name);
        list[services.n_service++] = row;
    }
    out->message_response_case =
        GRPC__REFLECTION__V1ALPHA__SERVER_REFLECTION_RESPONSE__MESSAGE_RESPONSE_LIST_SERVICES_RESPONSE;
    out->list_services_response = &services;
    rpc_send(x, &out->base);
}

void rpc_reflection(struct api_request *x, const void *message)
{
    const ReflectionRequest *m = message;
    ReflectionResponse out = GRPC__REFLECTION__V1ALPHA__SERVER_REFLECTION_RESPONSE__INIT;
    out.valid_host = m->host;
    out.original_request = (ReflectionRequest *)(uintptr_t)m;
    if (!stream_of(x)->http2.is_begun) {
        rpc_stream(x);
    }
    switch (m->message_request_case) {
    case GRPC__REFLECTION__V1ALPHA__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_FILE_BY_FILENAME:
        put_file(x, &out, m->file_by_filename, true);
        break;
    case GRPC__REFLECTION__V1ALPHA__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_FILE_CONTAINING_SYMBOL:
        put_file(x, &out, m->file_containing_symbol, false);
        break;
    case GRPC__REFLECTION__V1ALPHA__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_LIST_SERVICES:
        put_services(x, &out);
        break;
    default:
        put_error(x, &out, "there are no extensions here");
        break;
    }
}

void rpc_reflection_end(struct api_request *x)
{
    rpc_finish(x, HF_OK, NULL);
}

void rpc_reflection_drain(struct api_request *x)
{
    rpc_finish(x, HF_UNAVAILABLE, "the node is stopping; use another node");
}
