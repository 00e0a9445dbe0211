/* See number.h. */
#include "service/resp/number.h"

#include "base/limits.h"

bool resp_parse_number(struct slice text, int64_t *out)
{
    size_t at = 0;
    bool is_negative = text.len > 0 && text.data[0] == '-';
    at += is_negative;
    if (at == text.len || text.len - at > 19 ||
        (text.data[at] == '0' && (text.len - at > 1 || is_negative))) {
        return false;
    }
    uint64_t value = 0;
    for (; at < text.len; at++) {
        if (text.data[at] < '0' || text.data[at] > '9') {
            return false;
        }
        value = value * 10 + (uint64_t)(text.data[at] - '0');
    }
    if (value > (uint64_t)INT64_MAX + is_negative) {
        return false;
    }
    *out = is_negative ? (int64_t)(~value + 1) : (int64_t)value;
    return true;
}

/* One pattern element against one byte; *at moves behind the element. */
static bool matches_one(struct slice pattern, size_t *at, uint8_t c)
{
    uint8_t p = pattern.data[*at];
    if (p == '\\' && *at + 1 < pattern.len) {
        (*at) += 2;
        return pattern.data[*at - 1] == c;
    }
    if (p != '[') {
        (*at)++;
        return p == '?' || p == c;
    }
    size_t i = *at + 1;
    bool is_not = i < pattern.len && pattern.data[i] == '^';
    bool is_in = false;
    i += is_not;
    while (i < pattern.len && pattern.data[i] != ']') {
        if (pattern.data[i] == '\\' && i + 1 < pattern.len) {
            i++;
        }
        uint8_t low = pattern.data[i];
        uint8_t high = low;
        if (i + 2 < pattern.len && pattern.data[i + 1] == '-') {
            high = pattern.data[i + 2];
            i += 2;
        }
        if (low > high) {
            uint8_t swap = low;
            low = high;
            high = swap;
        }
        is_in = is_in || (c >= low && c <= high);
        i++;
    }
    *at = i < pattern.len ? i + 1 : i;
    return is_in != is_not;
}

/* Backtracks to the last star only: earlier stars need no second try. The step limit stops hostile
 * patterns. */
bool resp_matches(struct slice pattern, struct slice text)
{
    uint32_t steps = 0;
    size_t p = 0;
    size_t t = 0;
    size_t star = SIZE_MAX;
    size_t star_text = 0;
    while (t < text.len) {
        size_t next = p;
        if (++steps > LIMIT_RESP_MATCH) {
            return false;
        }
        if (p < pattern.len && pattern.data[p] == '*') {
            star = p++;
            star_text = t;
        } else if (p < pattern.len && matches_one(pattern, &next, text.data[t])) {
            p = next;
            t++;
        } else if (star != SIZE_MAX) {
            p = star + 1;
            t = ++star_text;
        } else {
            return false;
        }
    }
    while (p < pattern.len && pattern.data[p] == '*') {
        p++;
    }
    return p == pattern.len;
}
