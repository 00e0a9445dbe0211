/* Numbers and words in requests of the Redis protocol. */
#ifndef HOLDFAST_SERVICE_RESP_NUMBER_H
#define HOLDFAST_SERVICE_RESP_NUMBER_H

#include "base/slice.h"

struct service;

/* A whole number as Redis reads it: no space, no plus, no leading zeros. */
bool resp_parse_number(struct slice text, int64_t *out);
/* The same word, in letters of either size; `word` is in capitals. Here, since a SET is compared
 * with a dozen of them, nearly all of another length or another first letter. */
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
/* Redis's glob: * ? [a-z] [^a] and a backslash; within LIMIT_RESP_MATCH steps, else it does not. */
bool resp_matches(struct slice pattern, struct slice text);

/* A TTL as a client says it: a number, in units of so many milliseconds; a time from now on, or
 * (is_absolute) one of the wall clock. */
struct resp_time {
    struct slice text;
    uint64_t unit_ms;
    bool is_absolute;
};
/* As milliseconds from now on, within what a lock, or a counter, may live. NULL: fine; otherwise a
 * sentence. */
const char *resp_ttl_ms(const struct service *s, struct resp_time time, uint32_t *ttl_ms);
const char *resp_counter_ttl_ms(const struct service *s, struct resp_time time, uint32_t *ttl_ms);

#endif
