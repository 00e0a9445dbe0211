/* Arbitrary bytes as a request's body, as metadata, and as a string to write. What is read keeps
 * to its table; compact text is JSON and means to be compact; what is written can be read. */
#include "base/buffer.h"
#include "base/text.h"
#include "wire/json.h"
#include "wire/json_write.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct body {
    struct slice client_id;
    uint64_t ttl_ms;
    int64_t wait_timeout_ms;
    bool reentrant;
    struct json_strings names;
    struct slice metadata;
};

/* Short names, which a fuzzer finds. */
static const struct json_field fields[] = {
    {"c", JSON_FIELD_STRING, false, offsetof(struct body, client_id), 1, 20, 0},
    {"t", JSON_FIELD_UINT, false, offsetof(struct body, ttl_ms), 100, 86400000, 0},
    {"w", JSON_FIELD_INT, false, offsetof(struct body, wait_timeout_ms), -1,
     (int64_t)LIMIT_NUMBER - 1, 0},
    {"r", JSON_FIELD_BOOL, false, offsetof(struct body, reentrant), 0, 0, 0},
    {"n", JSON_FIELD_STRINGS, false, offsetof(struct body, names), 1, 4, 8},
    {"m", JSON_FIELD_ANY, false, offsetof(struct body, metadata), 1, 200, 0},
};
enum { FIELD_COUNT = sizeof(fields) / sizeof(fields[0]) };

static bool is_string(struct slice text, size_t max)
{
    return text.len >= 1 && text.len <= max && text_is_utf8(text) &&
           memchr(text.data, 0, text.len) == NULL;
}

static void check_body(const struct body *body, uint64_t present)
{
    if ((present & 1) != 0) {
        hf_assert(is_string(body->client_id, 20));
    }
    hf_assert((present >> 1 & 1) == 0 || (body->ttl_ms >= 100 && body->ttl_ms <= 86400000));
    hf_assert((present >> 2 & 1) == 0 ||
              (body->wait_timeout_ms >= -1 && body->wait_timeout_ms < (int64_t)LIMIT_NUMBER));
    if ((present >> 4 & 1) != 0) {
        hf_assert(body->names.count >= 1 && body->names.count <= 4);
        for (size_t i = 0; i < body->names.count; i++) {
            hf_assert(is_string(body->names.items[i], 8));
        }
    }
    if ((present >> 5 & 1) != 0) {
        hf_assert(is_string(body->metadata, 200));
    }
}

/* {"m":METADATA} written by us and read again: it stays what it is. */
static void check_metadata(struct slice metadata)
{
    struct buffer out;
    struct json_writer w;
    buffer_init(&out, memory_system(), 1 << 20);
    json_writer_init(&w, &out);
    json_write_open(&w, '{');
    json_put_raw(&w, "m", metadata);
    json_write_close(&w);
    struct json_doc doc;
    struct fault fault;
    struct body body;
    uint64_t present;
    hf_assert(json_doc_open(&doc, memory_system(), buffer_bytes(&out), &fault) == HF_OK);
    hf_assert(json_doc_read(&doc, fields, FIELD_COUNT, &body, &present, &fault) == HF_OK);
    hf_assert(present == 1u << 5 && slice_equal(body.metadata, metadata));
    json_doc_close(&doc);
    buffer_close(&out);
}

static void check_read(struct slice text)
{
    struct json_doc doc;
    struct fault fault = {HF_OK, ""};
    struct body body;
    uint64_t present = 0;
    enum hf_error error = json_doc_open(&doc, memory_system(), text, &fault);
    if (error == HF_OK) {
        error = json_doc_read(&doc, fields, FIELD_COUNT, &body, &present, &fault);
        if (error == HF_OK) {
            check_body(&body, present);
            if ((present >> 5 & 1) != 0) {
                check_metadata(body.metadata);
            }
        }
        json_doc_close(&doc);
    }
    hf_assert(error == fault.code && (error == HF_OK || strlen(fault.text) > 0));
    hf_assert(error == HF_OK || hf_error_http_status(error) / 100 == 4);
}

static void check_write(struct slice text)
{
    static const struct json_field field = {"s", JSON_FIELD_STRING, true, 0, 0, 1 << 20, 0};
    struct buffer out;
    struct json_writer w;
    buffer_init(&out, memory_system(), 1 << 20);
    json_writer_init(&w, &out);
    json_write_open(&w, '{');
    json_put_string(&w, "s", text);
    json_write_close(&w);
    hf_assert(json_writer_done(&w) && text_is_utf8(buffer_bytes(&out)));
    struct json_doc doc;
    struct fault fault;
    struct slice back;
    uint64_t present;
    enum hf_error error = json_doc_open(&doc, memory_system(), buffer_bytes(&out), &fault);
    bool has_nul = text.len > 0 && memchr(text.data, 0, text.len) != NULL;
    hf_assert(error == (has_nul ? HF_JSON_NUL : HF_OK));
    if (error == HF_OK) {
        hf_assert(json_doc_read(&doc, &field, 1, &back, &present, &fault) == HF_OK);
        hf_assert(slice_equal(back, text) == text_is_utf8(text));
        json_doc_close(&doc);
    }
    buffer_close(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    check_read(slice_make(data, size));
    check_write(slice_make(data, size));
    return 0;
}
