/* The valid contents of a name, a client id, a request id. */
#ifndef HOLDFAST_BASE_TEXT_H
#define HOLDFAST_BASE_TEXT_H

#include "base/slice.h"

/* Valid UTF-8 (no surrogates, no longer form, nothing past U+10FFFF). */
bool text_is_utf8(struct slice text);
/* The same, and no control characters (C0, DEL, C1). */
bool text_is_plain(struct slice text);
/* Plain, 1 to LIMIT_NAME bytes, no empty, "." or ".." segment between slashes. */
bool text_is_name(struct slice text);
/* A W3C traceparent of 55 characters: 2, 32, 16 and 2 lower-case hexadecimal digits with hyphens in
 * between; the version is not ff, and neither id is all zeros. */
bool text_is_traceparent(struct slice text);
/* 1 to LIMIT_REQUEST_ID characters from '!' to '~'. */
bool text_is_request_id(struct slice text);

#define TEXT_U64 20 /* most digits of a number */
/* Writes the decimal digits to `out`, without a NUL; returns how many. */
size_t text_put_u64(uint8_t out[TEXT_U64], uint64_t value);

#endif
