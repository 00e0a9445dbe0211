/* See facts.h. */
#include "facts.h"

#include <inttypes.h>
#include <string.h>

#include "base/limits.h"

#define TOKEN_SCALE 1024u

void facts_init(struct facts *facts, struct arena *arena)
{
    *facts = (struct facts){.arena = arena};
}

void fact(struct facts *facts, const char *format, ...)
{
    if (facts->count == facts->capacity) {
        facts->at =
            arena_grow(facts->arena, facts->at, facts->count, &facts->capacity, sizeof(*facts->at));
    }
    va_list arguments;
    va_start(arguments, format);
    facts->at[facts->count++] = arena_vformat(facts->arena, format, arguments);
    va_end(arguments);
}

bool facts_have(const struct facts *facts, const char *phrase)
{
    for (size_t i = 0; i < facts->count; i++) {
        if (strcmp(facts->at[i], phrase) == 0) {
            return true;
        }
    }
    return false;
}

const char *facts_text(struct arena *arena, const struct facts *facts)
{
    const char *text = "";
    for (size_t i = 0; i < facts->count; i++) {
        text = arena_format(arena, "%s%s%s", text, i == 0 ? "" : ", ", facts->at[i]);
    }
    return text;
}

/* Whether a fact begins with these words. */
static bool begins_with(const char *text, const char *words, size_t len)
{
    return strncmp(text, words, len) == 0 && (text[len] == '\0' || text[len] == ' ');
}

static bool any_begins_with(const struct facts *facts, const char *words)
{
    for (size_t i = 0; i < facts->count; i++) {
        if (begins_with(facts->at[i], words, strlen(words))) {
            return true;
        }
    }
    return false;
}

static bool read_amount(const char *text, uint64_t *out)
{
    return number_read(text, out) || span_read(text, out);
}

/* "KEY at most N" is true when some fact is "KEY n" with n <= N. */
static bool compares(const struct facts *facts, const char *phrase, const char *relation,
                     bool at_most)
{
    uint64_t bound = 0;
    size_t key_len = (size_t)(relation - phrase);
    if (!read_amount(relation + strlen(" at most "), &bound) &&
        !read_amount(relation + strlen(" at least "), &bound)) {
        return false;
    }
    for (size_t i = 0; i < facts->count; i++) {
        uint64_t value = 0;
        const char *text = facts->at[i];
        if (begins_with(text, phrase, key_len) && text[key_len] == ' ' &&
            read_amount(text + key_len + 1, &value) &&
            (at_most ? value <= bound : value >= bound)) {
            return true;
        }
    }
    return false;
}

bool facts_agree(const struct facts *facts, const char *phrase)
{
    if (strncmp(phrase, "no ", 3) == 0) {
        return !any_begins_with(facts, phrase + 3);
    }
    if (strncmp(phrase, "not ", 4) == 0) {
        return !any_begins_with(facts, phrase + 4);
    }
    const char *at_most = strstr(phrase, " at most ");
    if (at_most != NULL) {
        return compares(facts, phrase, at_most, true);
    }
    const char *at_least = strstr(phrase, " at least ");
    if (at_least != NULL) {
        return compares(facts, phrase, at_least, false);
    }
    return facts_have(facts, phrase);
}

const char *phrase_next(struct arena *arena, const char **text)
{
    const char *at = *text + strspn(*text, " ,");
    if (*at == '\0') {
        return NULL;
    }
    const char *end = at;
    bool quoted = false;
    while (*end != '\0' && (quoted || *end != ',')) {
        quoted ^= *end == '"';
        end++;
    }
    *text = end;
    while (end > at && end[-1] == ' ') {
        end--;
    }
    return arena_text(arena, at, (size_t)(end - at));
}

/* Time spans, numbers, tokens. */

static const struct {
    const char *name;
    uint64_t ms;
} units[] = {{"h", 3600000}, {"m", 60000}, {"s", 1000}, {"ms", 1}};

#define UNITS (sizeof(units) / sizeof(units[0]))

const char *span_text(struct arena *arena, uint64_t ms)
{
    if (ms == 0) {
        return "0s";
    }
    if (ms == UINT64_MAX) {
        return "never";
    }
    size_t unit = 0;
    while (ms % units[unit].ms != 0) {
        unit++;
    }
    return arena_format(arena, "%" PRIu64 "%s", ms / units[unit].ms, units[unit].name);
}

static bool digits_read(const char **text, uint64_t *out)
{
    const char *at = *text;
    uint64_t value = 0;
    while (*at >= '0' && *at <= '9' && value < LIMIT_NUMBER) {
        value = value * 10 + (uint64_t)(*at++ - '0');
    }
    if (at == *text) {
        return false;
    }
    *text = at;
    *out = value;
    return true;
}

bool number_read(const char *text, uint64_t *out)
{
    return digits_read(&text, out) && *text == '\0';
}

/* The unit at the start of the text; UNITS when it is none. */
static size_t unit_read(const char **text)
{
    size_t len = strspn(*text, "abcdefghijklmnopqrstuvwxyz");
    size_t unit = 0;
    while (unit < UNITS &&
           !(strlen(units[unit].name) == len && strncmp(*text, units[unit].name, len) == 0)) {
        unit++;
    }
    *text += len;
    return unit;
}

bool span_read(const char *text, uint64_t *ms)
{
    uint64_t sum = 0;
    do {
        uint64_t value = 0;
        if (!digits_read(&text, &value)) {
            return false;
        }
        size_t unit = unit_read(&text);
        if (unit == UNITS) {
            return false;
        }
        sum += value * units[unit].ms;
    } while (*text != '\0');
    *ms = sum;
    return true;
}

const char *token_text(struct arena *arena, uint64_t token)
{
    if (token % TOKEN_SCALE == 0) {
        return arena_format(arena, "%" PRIu64, token / TOKEN_SCALE);
    }
    return arena_format(arena, "%" PRIu64 "+%" PRIu64, token / TOKEN_SCALE, token % TOKEN_SCALE);
}

bool token_read(const char *text, uint64_t *out)
{
    uint64_t counter = 0;
    uint64_t rest = 0;
    if (!digits_read(&text, &counter)) {
        return false;
    }
    if (*text == '+') {
        text++;
        if (!digits_read(&text, &rest) || rest >= TOKEN_SCALE) {
            return false;
        }
    }
    *out = counter * TOKEN_SCALE + rest;
    return *text == '\0';
}
