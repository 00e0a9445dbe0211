/* Request targets of HTTP/1.1 and HTTP/2: percent-decoding, the verb at the end of a path, the
 * query. */
#ifndef HOLDFAST_WIRE_URI_H
#define HOLDFAST_WIRE_URI_H

#include "base/limits.h"
#include "wire/fault.h"

/* `out` has space for raw.len bytes. A '+' stays a '+'. The result is UTF-8 without NUL; on an
 * error `*text` is untouched. */
enum hf_error uri_decode(struct slice raw, uint8_t *out, struct slice *text);

/* In a path '/' and '%2F' are equivalent. HF_INVALID_NAME if it is not valid. */
enum hf_error uri_decode_name(struct slice raw, uint8_t out[LIMIT_NAME], struct slice *name);

/* Splits NAME/VERB at its last '/'. The verb is not decoded: an escape in it, or an escaped slash
 * before it, makes it a different word. False when there is no '/'; then nothing is changed. */
bool uri_cut_verb(struct slice raw, struct slice *name, struct slice *verb);

struct uri_parameter {
    struct slice key;
    struct slice value; /* empty when there is no '=' */
};

struct uri_query {
    unsigned count;
    struct uri_parameter parameters[LIMIT_HTTP_PARAMETERS];
};

/* Decodes KEY=VALUE&... into `out`, which has space for raw.len bytes and which the slices point
 * into. '+' is a space, as in forms. Duplicate keys are refused. */
enum hf_error uri_query_parse(struct slice raw, uint8_t *out, struct uri_query *query,
                              struct fault *fault);

/* False: absent, and `*value` is untouched. */
bool uri_query_text(const struct uri_query *query, const char *key, struct slice *value);

/* From min to max; when absent, HF_OK and `*value` is untouched. */
enum hf_error uri_query_number(const struct uri_query *query, const char *key, uint64_t min,
                               uint64_t max, uint64_t *value, struct fault *fault);

/* HF_FIELD_UNKNOWN when a parameter is not in the list, which ends with NULL. */
enum hf_error uri_query_known(const struct uri_query *query, const char *const *known,
                              struct fault *fault);

#endif
