/* Small sorted sets as the value of a key without an owner (S13.11): members with a score.
 *
 * A member is the 8 bytes of its score, its length and its bytes (base/codec.h). Members are sorted by
 * score, then by their bytes, so a set has one encoding. It has at most resp_value_max bytes: every
 * search is linear. */
#include "service/resp/conn.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "base/codec.h"
#include "service/resp/number.h"

static const char not_a_number[] = "value is not an integer or out of range";
static const char not_a_float[] = "value is not a valid float";

struct member {
    double score;
    struct slice name;
    size_t at;  /* where it begins */
    size_t end; /* where the next one begins */
};

static bool next_member(struct slice set, size_t at, struct member *out)
{
    if (at >= set.len) {
        return false;
    }
    struct reader r = reader_make(slice_make(set.data + at, set.len - at));
    uint64_t bits = read_fixed64(&r);
    memcpy(&out->score, &bits, sizeof(bits));
    out->name = read_slice(&r, SIZE_MAX);
    out->at = at;
    out->end = set.len - reader_left(&r);
    return !r.bad;
}

static bool find_member(struct slice set, struct slice name, struct member *out)
{
    for (size_t at = 0; next_member(set, at, out); at = out->end) {
        if (slice_equal(out->name, name)) {
            return true;
        }
    }
    return false;
}

static int64_t count_members(struct slice set)
{
    struct member m;
    int64_t count = 0;
    for (size_t at = 0; next_member(set, at, &m); at = m.end) {
        count++;
    }
    return count;
}

static int compare_names(struct slice a, struct slice b)
{
    size_t shorter = a.len < b.len ? a.len : b.len;
    int order = shorter == 0 ? 0 : memcmp(a.data, b.data, shorter);
    return order != 0 ? order : (a.len > b.len) - (a.len < b.len);
}

/* As Redis reads it, hexadecimal and "inf" included; not NaN. */
static bool read_double(struct keyspace *k, struct slice text, double *out)
{
    const char *start = bump_text(&k->arena, text);
    char *end;
    if (text.len == 0 || isspace(text.data[0])) {
        return false;
    }
    errno = 0;
    *out = strtod(start, &end);
    bool is_outside = errno == ERANGE && (isinf(*out) || *out == 0);
    return end == start + text.len && !is_outside && !isnan(*out);
}

/* ---- a set that is changed ---- */

/* A copy with space for more, in memory of the run. */
struct draft {
    const struct service *service;
    uint8_t *bytes;
    size_t len;
    size_t size;
};

static bool draft_begin(struct keyspace *k, struct slice set, size_t more, struct draft *d,
                        const struct key_sink *to)
{
    size_t size = set.len + more;
    d->size = size < resp_value_max(k->service) ? size : resp_value_max(k->service);
    d->size = d->size > set.len ? d->size : set.len;
    d->len = set.len;
    d->service = k->service;
    d->bytes = bump_take(&k->arena, d->size > 0 ? d->size : 1);
    if (d->bytes == NULL) {
        to->error(to->ctx, "ERR", "the transaction takes too much memory");
        return false;
    }
    if (set.len > 0) {
        memcpy(d->bytes, set.data, set.len);
    }
    return true;
}

static struct slice draft_set(const struct draft *d)
{
    return slice_make(d->bytes, d->len);
}

static void draft_cut(struct draft *d, size_t at, size_t end)
{
    memmove(d->bytes + at, d->bytes + end, d->len - end);
    d->len -= end - at;
}

enum { MEMBER_HEAD = 18 }; /* the most before the name */

/* The name is not in the set. False: too long; the error was sent. */
static bool draft_add(struct draft *d, double score, struct slice name, const struct key_sink *to)
{
    uint8_t head[MEMBER_HEAD];
    struct writer w = writer_make(head, sizeof(head));
    struct member m;
    uint64_t bits;
    size_t at = 0;
    score = score == 0 ? 0 : score; /* no -0: a set has one encoding */
    memcpy(&bits, &score, sizeof(bits));
    write_fixed64(&w, bits);
    write_u64(&w, name.len);
    size_t head_len = (size_t)(w.at - head);
    if (d->len + head_len + name.len > d->size) {
        resp_value_too_long(d->service, "limit_value: the members of a sorted set take", to);
        return false;
    }
    while (next_member(draft_set(d), at, &m) &&
           (m.score < score || (m.score == score && compare_names(m.name, name) < 0))) {
        at = m.end;
    }
    size_t len = head_len + name.len;
    memmove(d->bytes + at + len, d->bytes + at, d->len - at);
    memcpy(d->bytes + at, head, head_len);
    if (name.len > 0) {
        memcpy(d->bytes + at + head_len, name.data, name.len);
    }
    d->len += len;
    return true;
}

/* ---- reading ---- */

static struct key *open_set(struct keyspace *k, struct slice name, const struct key_sink *to,
                            struct slice *set)
{
    return keyspace_typed(k, name, KEY_SORTED_SET, to, set);
}

static void put_double(const struct key_sink *to, double value)
{
    resp_double(resp_sink_writer(to), value);
}

/* ZSCORE, ZMSCORE */
void key_zscore(struct keyspace *k, const struct slice *args, uint32_t count,
                const struct key_sink *to)
{
    struct slice set;
    struct member m;
    if (open_set(k, args[1], to, &set) == NULL) {
        return;
    }
    if (resp_is_word(args[0], "ZMSCORE")) {
        to->array(to->ctx, count - 2);
    }
    for (uint32_t i = 2; i < count; i++) {
        if (find_member(set, args[i], &m)) {
            put_double(to, m.score);
        } else {
            to->null(to->ctx);
        }
    }
}

void key_zcard(struct keyspace *k, const struct slice *args, uint32_t count,
               const struct key_sink *to)
{
    (void)count;
    struct slice set;
    if (open_set(k, args[1], to, &set) != NULL) {
        to->integer(to->ctx, count_members(set));
    }
}

/* ZRANK, ZREVRANK */
void key_zrank(struct keyspace *k, const struct slice *args, uint32_t count,
               const struct key_sink *to)
{
    (void)count;
    struct slice set;
    struct member m;
    int64_t rank = 0;
    bool is_found = false;
    if (open_set(k, args[1], to, &set) == NULL) {
        return;
    }
    for (size_t at = 0; !is_found && next_member(set, at, &m); at = m.end) {
        is_found = slice_equal(m.name, args[2]);
        rank += !is_found;
    }
    if (!is_found) {
        to->null(to->ctx);
    } else if (resp_is_word(args[0], "ZREVRANK")) {
        to->integer(to->ctx, count_members(set) - 1 - rank);
    } else {
        to->integer(to->ctx, rank);
    }
}

/* ---- ranges ---- */

/* One end of a range of names. */
struct name_bound {
    enum { BOUND_FIRST, BOUND_NAME, BOUND_LAST } kind; /* "-", a name, "+" */
    bool is_open;                                      /* the name itself is outside */
    struct slice name;
};

struct range {
    enum { BY_RANK, BY_SCORE, BY_NAME } by;
    int64_t start; /* BY_RANK */
    int64_t end;
    double min; /* BY_SCORE */
    double max;
    bool min_is_open;
    bool max_is_open;
    struct name_bound first; /* BY_NAME */
    struct name_bound last;
    bool is_reverse;
    int64_t offset; /* LIMIT; negative: nothing is left */
    int64_t limit;  /* negative: none */
};

/* As Redis reads the end of a range: of "" it makes 0. */
static bool read_bound(struct keyspace *k, struct slice text, double *out, bool *is_open)
{
    *is_open = text.len > 0 && text.data[0] == '(';
    const char *start = bump_text(&k->arena, slice_make(text.data + *is_open, text.len - *is_open));
    char *end;
    *out = strtod(start, &end);
    return *end == '\0' && !isnan(*out);
}

static bool read_scores(struct keyspace *k, struct slice min, struct slice max, struct range *range,
                        const struct key_sink *to)
{
    range->by = BY_SCORE;
    if (!read_bound(k, min, &range->min, &range->min_is_open) ||
        !read_bound(k, max, &range->max, &range->max_is_open)) {
        to->error(to->ctx, "ERR", "min or max is not a float");
        return false;
    }
    return true;
}

static bool read_name_bound(struct slice text, struct name_bound *out)
{
    uint8_t first = text.len > 0 ? text.data[0] : 0;
    *out = (struct name_bound){.kind = first == '-'   ? BOUND_FIRST
                                       : first == '+' ? BOUND_LAST
                                                      : BOUND_NAME,
                               .is_open = first == '('};
    if (out->kind == BOUND_NAME && (first == '(' || first == '[')) {
        out->name = slice_make(text.data + 1, text.len - 1);
        return true;
    }
    return out->kind != BOUND_NAME && text.len == 1;
}

static bool read_names(struct slice min, struct slice max, struct range *range,
                       const struct key_sink *to)
{
    range->by = BY_NAME;
    if (!read_name_bound(min, &range->first) || !read_name_bound(max, &range->last)) {
        to->error(to->ctx, "ERR", "min or max not valid string range item");
        return false;
    }
    return true;
}

static bool read_ranks(struct slice start, struct slice end, struct range *range,
                       const struct key_sink *to)
{
    range->by = BY_RANK;
    if (!resp_parse_number(start, &range->start) || !resp_parse_number(end, &range->end)) {
        to->error(to->ctx, "ERR", not_a_number);
        return false;
    }
    return true;
}

/* How the name lies to the bound: negative before it. */
static int compare_bound(struct slice name, const struct name_bound *bound)
{
    return bound->kind == BOUND_FIRST  ? 1
           : bound->kind == BOUND_LAST ? -1
                                       : compare_names(name, bound->name);
}

static bool is_in(const struct range *range, const struct member *m, int64_t rank)
{
    int first;
    int last;
    switch (range->by) {
    case BY_RANK:
        return rank >= range->start && rank <= range->end;
    case BY_SCORE:
        return (range->min_is_open ? m->score > range->min : m->score >= range->min) &&
               (range->max_is_open ? m->score < range->max : m->score <= range->max);
    case BY_NAME:
        first = compare_bound(m->name, &range->first);
        last = compare_bound(m->name, &range->last);
        return (first > 0 || (first == 0 && !range->first.is_open)) &&
               (last < 0 || (last == 0 && !range->last.is_open));
    }
    return false;
}

/* The members in the range: all in [at, end) of the set, since it is sorted. */
struct range_part {
    size_t at;
    size_t end;
    int64_t count;
};

/* Negative ranks count from the end, and REV from there as well. */
static void settle_ranks(struct range *range, struct slice set)
{
    int64_t count = count_members(set);
    int64_t start = range->start >= 0       ? range->start
                    : range->start < -count ? 0
                                            : range->start + count;
    int64_t end = range->end >= 0 ? range->end : range->end < -count ? -1 : range->end + count;
    end = end < count ? end : count - 1;
    range->start = range->is_reverse ? count - 1 - end : start;
    range->end = range->is_reverse ? count - 1 - start : end;
}

static struct range_part find_part(struct slice set, struct range *range)
{
    struct range_part part = {0, 0, 0};
    struct member m;
    int64_t rank = 0;
    if (range->by == BY_RANK) {
        settle_ranks(range, set);
    }
    for (size_t at = 0; next_member(set, at, &m); at = m.end, rank++) {
        if (is_in(range, &m, rank)) {
            part.at = part.count == 0 ? m.at : part.at;
            part.end = m.end;
            part.count++;
        }
    }
    return part;
}

static void put_member(struct resp_writer *w, const struct member *m, bool with_score,
                       bool is_nested)
{
    if (with_score && is_nested) {
        resp_array(w, 2);
    }
    resp_bulk(w, m->name);
    if (with_score) {
        resp_double(w, m->score);
    }
}

/* Some members, from the first or from the last. */
static bool put_part(struct keyspace *k, struct slice set, const struct range *range,
                     struct range_part part, bool with_scores, const struct key_sink *to)
{
    struct resp_writer *w = resp_sink_writer(to);
    int64_t left = range->offset < 0 || range->offset > part.count ? 0 : part.count - range->offset;
    int64_t shown = range->limit >= 0 && range->limit < left ? range->limit : left;
    int64_t skipped = range->is_reverse ? left - shown : range->offset;
    bool is_nested = w->protocol == 3;
    struct member m;
    struct member *all = NULL;
    if (range->is_reverse && shown > 0) {
        all = bump_take(&k->arena, (size_t)shown * sizeof(*all));
        if (all == NULL) {
            to->error(to->ctx, "ERR", "the transaction takes too much memory");
            return false;
        }
    }
    to->array(to->ctx, (uint32_t)(with_scores && !is_nested ? 2 * shown : shown));
    size_t at = part.at;
    for (int64_t i = 0; shown > 0 && i < skipped + shown && next_member(set, at, &m); i++) {
        at = m.end;
        if (i >= skipped && range->is_reverse) {
            all[i - skipped] = m;
        } else if (i >= skipped) {
            put_member(w, &m, with_scores, is_nested);
        }
    }
    for (int64_t i = shown; range->is_reverse && i > 0; i--) {
        put_member(w, &all[i - 1], with_scores, is_nested);
    }
    return true;
}

/* Which of the commands it is, and what its options say. */
struct range_request {
    bool has_by; /* by the name of the command */
    bool has_direction;
    bool with_scores;
    bool has_limit;
    struct range range;
};

static bool read_range_options(const struct slice *args, uint32_t count,
                               struct range_request *request, const struct key_sink *to)
{
    struct range *range = &request->range;
    for (uint32_t i = 4; i < count; i++) {
        if (resp_is_word(args[i], "WITHSCORES")) {
            request->with_scores = true;
        } else if (resp_is_word(args[i], "LIMIT") && i + 2 < count) {
            if (!resp_parse_number(args[i + 1], &range->offset) ||
                !resp_parse_number(args[i + 2], &range->limit)) {
                to->error(to->ctx, "ERR", not_a_number);
                return false;
            }
            i += 2;
        } else if (!request->has_direction && resp_is_word(args[i], "REV")) {
            range->is_reverse = true;
            request->has_direction = true;
        } else if (!request->has_by && resp_is_word(args[i], "BYSCORE")) {
            range->by = BY_SCORE;
            request->has_by = true;
        } else if (!request->has_by && resp_is_word(args[i], "BYLEX")) {
            range->by = BY_NAME;
            request->has_by = true;
        } else {
            to->error(to->ctx, "ERR", "syntax error");
            return false;
        }
    }
    if (range->limit != -1 && range->by == BY_RANK) {
        to->error(to->ctx, "ERR",
                  "syntax error, LIMIT is only supported in combination with either BYSCORE or "
                  "BYLEX");
        return false;
    }
    if (request->with_scores && range->by == BY_NAME) {
        to->error(to->ctx, "ERR",
                  "syntax error, WITHSCORES not supported in combination with BYLEX");
        return false;
    }
    return true;
}

/* ZRANGE, ZREVRANGE, ZRANGEBYSCORE, ZREVRANGEBYSCORE */
void key_zrange(struct keyspace *k, const struct slice *args, uint32_t count,
                const struct key_sink *to)
{
    struct range_request request = {.range = {.limit = -1}};
    struct range *range = &request.range;
    struct slice set;
    request.has_by = !resp_is_word(args[0], "ZRANGE");
    request.has_direction = request.has_by;
    bool is_by_score = request.has_by && !resp_is_word(args[0], "ZREVRANGE");
    range->is_reverse = request.has_by && !resp_is_word(args[0], "ZRANGEBYSCORE");
    range->by = is_by_score ? BY_SCORE : BY_RANK;
    if (!read_range_options(args, count, &request, to)) {
        return;
    }
    bool is_swapped = range->is_reverse && range->by != BY_RANK;
    struct slice min = args[is_swapped ? 3 : 2];
    struct slice max = args[is_swapped ? 2 : 3];
    bool is_read = range->by == BY_RANK    ? read_ranks(min, max, range, to)
                   : range->by == BY_SCORE ? read_scores(k, min, max, range, to)
                                           : read_names(min, max, range, to);
    if (is_read && open_set(k, args[1], to, &set) != NULL) {
        struct range_part part = find_part(set, range);
        (void)put_part(k, set, range, part, request.with_scores, to);
    }
}

void key_zcount(struct keyspace *k, const struct slice *args, uint32_t count,
                const struct key_sink *to)
{
    (void)count;
    struct range range = {.limit = -1};
    struct slice set;
    if (read_scores(k, args[2], args[3], &range, to) && open_set(k, args[1], to, &set) != NULL) {
        to->integer(to->ctx, find_part(set, &range).count);
    }
}

static bool cut_part(struct keyspace *k, struct key *key, struct slice set, struct range_part part,
                     const struct key_sink *to)
{
    struct draft d;
    if (part.count == 0) {
        return true;
    }
    if (!draft_begin(k, set, 0, &d, to)) {
        return false;
    }
    draft_cut(&d, part.at, part.end);
    key_put_shared(k, key, KEY_SORTED_SET, draft_set(&d));
    return true;
}

/* ZREMRANGEBYSCORE, ZREMRANGEBYRANK */
void key_zremrange(struct keyspace *k, const struct slice *args, uint32_t count,
                   const struct key_sink *to)
{
    (void)count;
    struct range range = {.limit = -1};
    struct slice set;
    bool is_read = resp_is_word(args[0], "ZREMRANGEBYRANK")
                       ? read_ranks(args[2], args[3], &range, to)
                       : read_scores(k, args[2], args[3], &range, to);
    struct key *key = is_read ? open_set(k, args[1], to, &set) : NULL;
    if (key == NULL) {
        return;
    }
    struct range_part part = find_part(set, &range);
    if (cut_part(k, key, set, part, to)) {
        to->integer(to->ctx, part.count);
    }
}

/* ZPOPMIN, ZPOPMAX: key [count] */
void key_zpop(struct keyspace *k, const struct slice *args, uint32_t count,
              const struct key_sink *to)
{
    struct range range = {.limit = -1, .is_reverse = resp_is_word(args[0], "ZPOPMAX")};
    struct slice set;
    int64_t n = 1;
    if (count > 3) {
        to->error(to->ctx, "ERR", "syntax error");
        return;
    }
    if (count == 3 && (!resp_parse_number(args[2], &n) || n < 0)) {
        to->error(to->ctx, "ERR", "value is out of range, must be positive");
        return;
    }
    struct key *key = open_set(k, args[1], to, &set);
    if (key == NULL) {
        return;
    }
    range.end = n - 1;
    struct range_part part = n == 0 ? (struct range_part){0, 0, 0} : find_part(set, &range);
    struct resp_writer *w = resp_sink_writer(to);
    struct member m;
    if (count == 3) {
        if (put_part(k, set, &range, part, true, to)) {
            (void)cut_part(k, key, set, part, to);
        }
    } else if (part.count == 0) {
        to->array(to->ctx, 0);
    } else if (next_member(set, part.at, &m) && cut_part(k, key, set, part, to)) {
        to->array(to->ctx, 2);
        put_member(w, &m, true, false);
    }
}

/* ---- changes ---- */

void key_zrem(struct keyspace *k, const struct slice *args, uint32_t count,
              const struct key_sink *to)
{
    struct slice set;
    struct draft d;
    struct member m;
    int64_t gone = 0;
    struct key *key = open_set(k, args[1], to, &set);
    if (key == NULL || !draft_begin(k, set, 0, &d, to)) {
        return;
    }
    for (uint32_t i = 2; i < count; i++) {
        if (find_member(draft_set(&d), args[i], &m)) {
            draft_cut(&d, m.at, m.end);
            gone++;
        }
    }
    if (gone > 0) {
        key_put_shared(k, key, KEY_SORTED_SET, draft_set(&d));
    }
    to->integer(to->ctx, gone);
}

struct add_request {
    bool nx;
    bool xx;
    bool gt;
    bool lt;
    bool changed; /* CH: counts changed members, too */
    bool incr;
    const struct slice *pairs; /* score, member */
    uint32_t count;            /* of pairs */
};

/* False: the error was sent. */
static bool read_add(const struct slice *args, uint32_t count, struct add_request *request,
                     const struct key_sink *to)
{
    uint32_t i = 2;
    bool is_option = true;
    while (is_option && i < count) {
        bool *option = resp_is_word(args[i], "NX")     ? &request->nx
                       : resp_is_word(args[i], "XX")   ? &request->xx
                       : resp_is_word(args[i], "GT")   ? &request->gt
                       : resp_is_word(args[i], "LT")   ? &request->lt
                       : resp_is_word(args[i], "CH")   ? &request->changed
                       : resp_is_word(args[i], "INCR") ? &request->incr
                                                       : NULL;
        is_option = option != NULL;
        if (is_option) {
            *option = true;
            i++;
        }
    }
    request->pairs = args + i;
    request->count = (count - i) / 2;
    const char *problem = NULL;
    if (request->count == 0 || (count - i) % 2 != 0) {
        problem = "syntax error";
    } else if (request->nx && request->xx) {
        problem = "XX and NX options at the same time are not compatible";
    } else if ((request->nx && (request->gt || request->lt)) || (request->gt && request->lt)) {
        problem = "GT, LT, and/or NX options at the same time are not compatible";
    } else if (request->incr && request->count > 1) {
        problem = "INCR option supports a single increment-element pair";
    }
    if (problem != NULL) {
        to->error(to->ctx, "ERR", problem);
    }
    return problem == NULL;
}

struct added {
    bool is_new;
    bool is_changed;
    bool is_done; /* no option forbade it */
    double score;
};

/* False: the error was sent. */
static bool add_one(struct draft *d, const struct add_request *request, double score,
                    struct slice name, struct added *out, const struct key_sink *to)
{
    struct member m;
    bool is_there = find_member(draft_set(d), name, &m);
    *out = (struct added){.score = score};
    if (!is_there) {
        out->is_new = out->is_done = !request->xx;
        return !out->is_new || draft_add(d, score, name, to);
    }
    if (request->nx) {
        return true;
    }
    out->score = request->incr ? m.score + score : score;
    if (isnan(out->score)) {
        to->error(to->ctx, "ERR", "resulting score is not a number (NaN)");
        return false;
    }
    if ((request->gt && out->score <= m.score) || (request->lt && out->score >= m.score)) {
        return true;
    }
    out->is_done = true;
    out->is_changed = out->score != m.score;
    if (!out->is_changed) {
        return true;
    }
    draft_cut(d, m.at, m.end);
    return draft_add(d, out->score, name, to);
}

/* The sets of most calls are small: the scores are read twice instead of being kept. */
static bool are_scores(struct keyspace *k, const struct add_request *request,
                       const struct key_sink *to)
{
    double score;
    for (uint32_t i = 0; i < request->count; i++) {
        if (!read_double(k, request->pairs[2 * i], &score)) {
            to->error(to->ctx, "ERR", not_a_float);
            return false;
        }
    }
    return true;
}

static void add_all(struct keyspace *k, struct slice name, const struct add_request *request,
                    const struct key_sink *to)
{
    struct slice set;
    struct draft d;
    struct added added = {.is_done = false};
    int64_t count = 0;
    bool is_changed = false;
    size_t more = 0;
    if (!are_scores(k, request, to)) {
        return;
    }
    struct key *key = open_set(k, name, to, &set);
    if (key == NULL || !key_may_change(k, key, to)) {
        return;
    }
    for (uint32_t i = 0; i < request->count; i++) {
        more += MEMBER_HEAD + request->pairs[2 * i + 1].len;
    }
    if (!draft_begin(k, set, more, &d, to)) {
        return;
    }
    for (uint32_t i = 0; i < request->count; i++) {
        double score = 0;
        (void)read_double(k, request->pairs[2 * i], &score);
        if (!add_one(&d, request, score, request->pairs[2 * i + 1], &added, to)) {
            return;
        }
        count += added.is_new || (request->changed && added.is_changed);
        is_changed = is_changed || added.is_new || added.is_changed;
    }
    if (is_changed) {
        key_put_shared(k, key, KEY_SORTED_SET, draft_set(&d));
    }
    if (!request->incr) {
        to->integer(to->ctx, count);
    } else if (added.is_done) {
        put_double(to, added.score);
    } else {
        to->null(to->ctx);
    }
}

void key_zadd(struct keyspace *k, const struct slice *args, uint32_t count,
              const struct key_sink *to)
{
    struct add_request request = {.nx = false};
    if (read_add(args, count, &request, to)) {
        add_all(k, args[1], &request, to);
    }
}

void key_zincrby(struct keyspace *k, const struct slice *args, uint32_t count,
                 const struct key_sink *to)
{
    (void)count;
    struct add_request request = {.incr = true, .pairs = args + 2, .count = 1};
    add_all(k, args[1], &request, to);
}
