/* See words.h. */
#include "words.h"

#include <inttypes.h>
#include <string.h>

/* What stands in {braces}: a variable of a loop, or "x*9". NULL: neither, it stays as it is. */
static const char *filling(struct runner *p, const char *inside, size_t len)
{
    for (size_t i = p->variable_count; i > 0; i--) {
        const struct variable *v = &p->variables[i - 1];
        if (strlen(v->name) == len && strncmp(v->name, inside, len) == 0) {
            return arena_format(&p->step, "%" PRIu64, v->value);
        }
    }
    uint64_t times = 0;
    if (len > 2 && inside[1] == '*' &&
        number_read(arena_text(&p->step, inside + 2, len - 2), &times) && times <= 100000) {
        char *text = arena_alloc(&p->step, times + 1);
        memset(text, inside[0], times);
        return text;
    }
    return NULL;
}

const char *words_fill_in(struct runner *p, const char *text)
{
    const char *done = "";
    for (;;) {
        const char *open = strchr(text, '{');
        const char *close = open == NULL ? NULL : strchr(open, '}');
        if (close == NULL) {
            return *done == '\0' ? text : arena_format(&p->step, "%s%s", done, text);
        }
        const char *fill = filling(p, open + 1, (size_t)(close - open - 1));
        int before = (int)(open - text);
        if (fill == NULL) {
            before = (int)(close + 1 - text);
            fill = "";
        }
        done = arena_format(&p->step, "%s%.*s%s", done, before, text, fill);
        text = close + 1;
    }
}

static void word_add(struct words *w, size_t *capacity, const char *text, bool quoted)
{
    if (w->count == *capacity) {
        w->at = arena_grow(&w->runner->step, w->at, w->count, capacity, sizeof(*w->at));
    }
    w->at[w->count++] = (struct word){text, quoted};
}

/* name{1..3} is name1, name2, name3. */
static void word_add_range(struct words *w, size_t *capacity, const char *text, bool quoted)
{
    struct arena *arena = &w->runner->step;
    const char *open = strchr(text, '{');
    const char *dots = open == NULL ? NULL : strstr(open, "..");
    const char *close = dots == NULL ? NULL : strchr(dots, '}');
    uint64_t from = 0;
    uint64_t to = 0;
    if (close == NULL ||
        !number_read(arena_text(arena, open + 1, (size_t)(dots - open - 1)), &from) ||
        !number_read(arena_text(arena, dots + 2, (size_t)(close - dots - 2)), &to)) {
        word_add(w, capacity, text, quoted);
        return;
    }
    for (uint64_t i = from; i <= to; i++) {
        word_add(w, capacity,
                 arena_format(arena, "%.*s%" PRIu64 "%s", (int)(open - text), text, i, close + 1),
                 quoted);
    }
}

void words_split(struct runner *p, const char *text, struct words *out)
{
    *out = (struct words){.runner = p};
    size_t capacity = 0;
    for (;;) {
        text += strspn(text, " ,");
        if (*text == '\0') {
            return;
        }
        bool quoted = *text == '"';
        size_t len = quoted ? strcspn(text + 1, "\"") : strcspn(text, " ,");
        if (quoted && text[1 + len] == '\0') {
            runner_fail(p, "a quote is opened and not closed");
        }
        const char *word = arena_text(&p->step, quoted ? text + 1 : text, len);
        word_add_range(out, &capacity, word, quoted);
        text += quoted ? len + 2 : len;
    }
}

bool words_left(const struct words *w)
{
    return w->next < w->count;
}

static bool word_is(const struct word *word, const char *text, size_t len)
{
    return !word->quoted && strlen(word->text) == len && strncmp(word->text, text, len) == 0;
}

bool words_take(struct words *w, const char *what)
{
    size_t at = w->next;
    while (*what != '\0') {
        size_t len = strcspn(what, " ");
        if (at == w->count || !word_is(&w->at[at], what, len)) {
            return false;
        }
        at++;
        what += len;
        what += strspn(what, " ");
    }
    w->next = at;
    return true;
}

static _Noreturn void fail_expecting(const struct words *w, const char *what)
{
    if (words_left(w)) {
        const char *quote = w->at[w->next].quoted ? "\"" : "";
        runner_fail(w->runner, "expected %s here: %s%s%s", what, quote, w->at[w->next].text, quote);
    }
    runner_fail(w->runner, "expected %s at the end of this", what);
}

void words_need(struct words *w, const char *what)
{
    if (!words_take(w, what)) {
        fail_expecting(w, arena_format(&w->runner->step, "the word \"%s\"", what));
    }
}

bool words_next_is_quoted(const struct words *w)
{
    return words_left(w) && w->at[w->next].quoted;
}

const char *words_any(struct words *w, const char *what)
{
    if (!words_left(w)) {
        fail_expecting(w, what);
    }
    return w->at[w->next++].text;
}

const char *words_plain(struct words *w, const char *what)
{
    if (words_next_is_quoted(w)) {
        fail_expecting(w, what);
    }
    return words_any(w, what);
}

const char *words_quoted(struct words *w, const char *what)
{
    if (!words_next_is_quoted(w)) {
        fail_expecting(w, what);
    }
    return words_any(w, what);
}

uint64_t words_number(struct words *w, const char *what)
{
    uint64_t value = 0;
    if (!words_left(w) || !number_read(w->at[w->next].text, &value)) {
        fail_expecting(w, what);
    }
    w->next++;
    return value;
}

uint64_t words_span(struct words *w, const char *what)
{
    uint64_t ms = 0;
    if (!words_left(w) || !span_read(w->at[w->next].text, &ms)) {
        fail_expecting(w, what);
    }
    w->next++;
    return ms;
}

static uint32_t narrow(const struct words *w, uint64_t value)
{
    if (value > UINT32_MAX) {
        runner_fail(w->runner, "%" PRIu64 " is too large here", value);
    }
    return (uint32_t)value;
}

uint32_t words_number32(struct words *w, const char *what)
{
    return narrow(w, words_number(w, what));
}

uint32_t words_span32(struct words *w, const char *what)
{
    return narrow(w, words_span(w, what));
}

void words_finish(const struct words *w)
{
    if (words_left(w)) {
        const char *quote = w->at[w->next].quoted ? "\"" : "";
        runner_fail(w->runner, "do not understand: %s%s%s", quote, w->at[w->next].text, quote);
    }
}
