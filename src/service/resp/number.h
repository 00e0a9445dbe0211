/* Numbers, words and patterns in requests. */
#ifndef HOLDFAST_SERVICE_RESP_NUMBER_H
#define HOLDFAST_SERVICE_RESP_NUMBER_H

#include "base/slice.h"

struct service;

/* Like Redis: no space, plus or leading zeros. */
bool resp_parse_number(struct slice text, int64_t *out);
/* Ignores case; `word` is upper case. Inline: most words differ in length or first letter. */
static inline bool resp_is_word(struct slice text, const char *word)
{
    if (text.len != strlen(word)) {
        return false;
    }
    for (size_t i = 0; i < text.len; i++) {
        uint8_t c = text.data[i];
        if ((c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c) != word[i]) {
            return false;
        }
    }
    return true;
}
/* Redis's glob: * ? [a-z] [^a] and a backslash. No match after LIMIT_RESP_MATCH steps. */
bool resp_matches(struct slice pattern, struct slice text);

/* A client's TTL in units of `unit_ms`, relative or wall-clock time (is_absolute). */
struct resp_time {
    struct slice text;
    uint64_t unit_ms;
    bool is_absolute;
    struct slice command; /* its name, for an error */
};
/* ttl.c: milliseconds from now, within the limits of a key or counter. Returns NULL, or a sentence
 * about the error, valid until the next call. */
const char *resp_ttl_ms(const struct service *s, struct resp_time time, uint64_t *ttl_ms);
const char *resp_counter_ttl_ms(const struct service *s, struct resp_time time, uint64_t *ttl_ms);

#endif
