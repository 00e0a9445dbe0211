/* The matcher of pattern.h: backtracking, by recursion where there are alternatives. */
#include "script/pattern.h"

#include <ctype.h>

static const char *match(struct pattern *m, const char *s, const char *p);

/* Records an invalid pattern or an exhausted budget; then all matches fail. */
static const char *fail(struct pattern *m, const char *error)
{
    if (m->error == NULL) {
        m->error = error;
    }
    return NULL;
}

static bool has_failed(const struct pattern *m)
{
    return m->error != NULL || m->is_exhausted;
}

static bool spend(struct pattern *m)
{
    if (m->steps_left == 0) {
        m->is_exhausted = true;
        return false;
    }
    m->steps_left--;
    return true;
}

/* ---- single characters ---- */

/* Returns the end of the class that begins at `p`, or NULL. */
static const char *class_end(struct pattern *m, const char *p)
{
    char first = *p++;
    if (first == '%') {
        return p < m->end ? p + 1 : fail(m, "malformed pattern (ends with '%')");
    }
    if (first != '[') {
        return p;
    }
    if (p < m->end && *p == '^') {
        p++;
    }
    /* The first character may be a "]". */
    do {
        if (p == m->end) {
            return fail(m, "malformed pattern (missing ']')");
        }
        if (*p++ == '%') {
            if (p == m->end) {
                return fail(m, "malformed pattern (missing ']')");
            }
            p++;
        }
    } while (p == m->end || *p != ']');
    return p + 1;
}

static bool is_in_class(int c, int class)
{
    int is_in;
    switch (tolower(class)) {
    case 'a':
        is_in = isalpha(c);
        break;
    case 'c':
        is_in = iscntrl(c);
        break;
    case 'd':
        is_in = isdigit(c);
        break;
    case 'l':
        is_in = islower(c);
        break;
    case 'p':
        is_in = ispunct(c);
        break;
    case 's':
        is_in = isspace(c);
        break;
    case 'u':
        is_in = isupper(c);
        break;
    case 'w':
        is_in = isalnum(c);
        break;
    case 'x':
        is_in = isxdigit(c);
        break;
    case 'z':
        is_in = c == 0;
        break;
    default:
        return class == c;
    }
    return isupper(class) ? !is_in : is_in != 0;
}

/* `p` is at the "[", `last` at the "]" that ends it. */
static bool is_in_set(struct pattern *m, int c, const char *p, const char *last)
{
    bool found = true;
    if (p[1] == '^') {
        found = false;
        p++;
    }
    while (++p < last) {
        if (!spend(m)) {
            return false;
        }
        if (*p == '%') {
            p++;
            if (is_in_class(c, (unsigned char)*p)) {
                return found;
            }
        } else if (p[1] == '-' && p + 2 < last) {
            p += 2;
            if ((unsigned char)p[-2] <= c && c <= (unsigned char)*p) {
                return found;
            }
        } else if ((unsigned char)*p == c) {
            return found;
        }
    }
    return !found;
}

/* Whether the character at `s` belongs to the class from `p` to `after`. */
static bool matches_one(struct pattern *m, const char *s, const char *p, const char *after)
{
    if (s == m->subject_end || !spend(m)) {
        return false;
    }
    int c = (unsigned char)*s;
    switch (*p) {
    case '.':
        return true;
    case '%':
        return is_in_class(c, (unsigned char)p[1]);
    case '[':
        return is_in_set(m, c, p, after - 1);
    default:
        return (unsigned char)*p == c;
    }
}

/* ---- repetition ---- */

static const char *match_longest(struct pattern *m, const char *s, const char *p, const char *after)
{
    ptrdiff_t count = 0;
    while (matches_one(m, s + count, p, after)) {
        count++;
    }
    for (; count >= 0 && !has_failed(m); count--) {
        const char *end = match(m, s + count, after + 1);
        if (end != NULL) {
            return end;
        }
    }
    return NULL;
}

static const char *match_shortest(struct pattern *m, const char *s, const char *p,
                                  const char *after)
{
    while (!has_failed(m)) {
        const char *end = match(m, s, after + 1);
        if (end != NULL) {
            return end;
        }
        if (!matches_one(m, s, p, after)) {
            return NULL;
        }
        s++;
    }
    return NULL;
}

/* ---- captures, "%b", "%f" and "%1" ---- */

static const char *capture_begin(struct pattern *m, const char *s, const char *p, ptrdiff_t len)
{
    if (m->capture_count == PATTERN_CAPTURES) {
        return fail(m, "too many captures");
    }
    m->captures[m->capture_count++] = (struct pattern_capture){s, len};
    const char *end = match(m, s, p);
    if (end == NULL) {
        m->capture_count--;
    }
    return end;
}

static const char *capture_end(struct pattern *m, const char *s, const char *p)
{
    int i = m->capture_count - 1;
    while (i >= 0 && m->captures[i].len != CAPTURE_OPEN) {
        i--;
    }
    if (i < 0) {
        return fail(m, "invalid pattern capture");
    }
    m->captures[i].len = s - m->captures[i].start;
    const char *end = match(m, s, p);
    if (end == NULL) {
        m->captures[i].len = CAPTURE_OPEN;
    }
    return end;
}

/* "%bxy" at `s`, `p` after the b. */
static const char *match_balance(struct pattern *m, const char *s, const char *p)
{
    if (m->end - p < 2) {
        return fail(m, "unbalanced pattern");
    }
    if (s == m->subject_end || *s != p[0]) {
        return NULL;
    }
    int depth = 1;
    while (++s < m->subject_end && spend(m)) {
        if (*s == p[1]) {
            if (--depth == 0) {
                return s + 1;
            }
        } else if (*s == p[0]) {
            depth++;
        }
    }
    return NULL;
}

/* "%f[set]" at `s`, `p` at the set: between a character outside and one inside. */
static bool is_frontier(struct pattern *m, const char *s, const char *p, const char *after)
{
    int before = s == m->subject ? 0 : (unsigned char)s[-1];
    int behind = s == m->subject_end ? 0 : (unsigned char)*s;
    return !is_in_set(m, before, p, after - 1) && is_in_set(m, behind, p, after - 1);
}

static const char *match_again(struct pattern *m, const char *s, int digit)
{
    int i = digit - '1';
    if (i < 0 || i >= m->capture_count || m->captures[i].len == CAPTURE_OPEN) {
        return fail(m, "invalid capture index");
    }
    ptrdiff_t len = m->captures[i].len;
    if (len == CAPTURE_POSITION || m->subject_end - s < len) {
        return NULL;
    }
    uint64_t cost = (uint64_t)len / 16;
    if (cost >= m->steps_left) {
        m->is_exhausted = true;
        return NULL;
    }
    m->steps_left -= cost;
    return memcmp(m->captures[i].start, s, (size_t)len) == 0 ? s + len : NULL;
}

/* Matches an item that begins with "%" and is no class. Returns where to continue, with `*p` moved
 * after the item; NULL ends the match. Sets `*is_class` if it is a class. */
static const char *match_escape(struct pattern *m, const char *s, const char **p, bool *is_class)
{
    const char *at = *p + 1; /* after the "%" */
    *is_class = false;
    if (at < m->end && *at == 'b') {
        const char *end = match_balance(m, s, at + 1);
        *p = at + 3;
        return end;
    }
    if (at < m->end && *at == 'f') {
        at++;
        if (at == m->end || *at != '[') {
            return fail(m, "missing '[' after '%f' in pattern");
        }
        const char *after = class_end(m, at);
        *p = after;
        return after != NULL && is_frontier(m, s, at, after) ? s : NULL;
    }
    if (at < m->end && isdigit((unsigned char)*at)) {
        *p = at + 1;
        return match_again(m, s, *at);
    }
    *is_class = true;
    return s;
}

/* ---- the pattern ---- */

/* Matches one class with its quantifier. If no alternatives are left, the loop of `match` continues
 * with `*p` and the result. Otherwise sets `*is_over`, and the result is final. */
static const char *match_class(struct pattern *m, const char *s, const char **p, bool *is_over)
{
    const char *from = *p;
    const char *after = class_end(m, from);
    *is_over = true;
    if (after == NULL) {
        return NULL;
    }
    char how = after < m->end ? *after : '\0';
    if (how == '*') {
        return match_longest(m, s, from, after);
    }
    if (how == '-') {
        return match_shortest(m, s, from, after);
    }
    bool does = matches_one(m, s, from, after);
    if (how == '+') {
        return does ? match_longest(m, s + 1, from, after) : NULL;
    }
    if (how == '?') {
        const char *end = does ? match(m, s + 1, after + 1) : NULL;
        if (end != NULL || has_failed(m)) {
            return end;
        }
        *is_over = false;
        *p = after + 1;
        return s;
    }
    *is_over = !does;
    *p = after;
    return does ? s + 1 : NULL;
}

static const char *match_rest(struct pattern *m, const char *s, const char *p)
{
    while (s != NULL && p != m->end) {
        if (has_failed(m) || !spend(m)) {
            return NULL;
        }
        if (*p == '(') {
            bool is_position = p + 1 < m->end && p[1] == ')';
            return is_position ? capture_begin(m, s, p + 2, CAPTURE_POSITION)
                               : capture_begin(m, s, p + 1, CAPTURE_OPEN);
        }
        if (*p == ')') {
            return capture_end(m, s, p + 1);
        }
        if (*p == '$' && p + 1 == m->end) {
            return s == m->subject_end ? s : NULL;
        }
        bool is_class = true;
        if (*p == '%') {
            s = match_escape(m, s, &p, &is_class);
        }
        if (is_class) {
            bool is_over;
            s = match_class(m, s, &p, &is_over);
            if (is_over) {
                return s;
            }
        }
    }
    return s;
}

static const char *match(struct pattern *m, const char *s, const char *p)
{
    if (m->depth == PATTERN_DEPTH) {
        return fail(m, "pattern too complex");
    }
    m->depth++;
    const char *end = match_rest(m, s, p);
    m->depth--;
    return has_failed(m) ? NULL : end;
}

const char *pattern_match(struct pattern *m, const char *at, const char *p)
{
    m->capture_count = 0;
    m->depth = 0;
    m->error = NULL;
    m->is_exhausted = false;
    return match(m, at, p);
}

bool pattern_is_special(struct slice pattern)
{
    for (size_t i = 0; i < pattern.len; i++) {
        if (memchr("^$*+?.([%-", pattern.data[i], 10) != NULL) {
            return true;
        }
    }
    return false;
}
