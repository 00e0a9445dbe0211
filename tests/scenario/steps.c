/* The steps of a scenario: which kind each one is, running it, and comparing what is expected. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "words.h"

#define SETTLE_ENTRIES 100000 /* more than that is no settling */

/* Expecting. */

static bool is_failure(const char *phrase)
{
    return strncmp(phrase, "refused ", 8) == 0 || strncmp(phrase, "error ", 6) == 0;
}

static bool failed(const struct facts *got)
{
    for (size_t i = 0; i < got->count; i++) {
        if (is_failure(got->at[i])) {
            return true;
        }
    }
    return false;
}

/* A phrase as facts are written: times in their shortest form, tokens by number, single blanks. */
static const char *normal(struct runner *p, const char *phrase)
{
    const char *text = "";
    bool token_next = false;
    while (*phrase != '\0') {
        size_t len = *phrase == '"' ? strcspn(phrase + 1, "\"") + 2 : strcspn(phrase, " ");
        const char *word = arena_text(&p->step, phrase, len);
        uint64_t number = 0;
        if (span_read(word, &number)) {
            word = span_text(&p->step, number);
        } else if (token_next && !token_read(word, &number) && cast_sent(p, word) != NULL) {
            word = token_text(&p->step, token_named(p, word));
        }
        token_next = strcmp(word, "token") == 0 || strcmp(word, "highest") == 0;
        text = arena_format(&p->step, "%s%s%s", text, *text == '\0' ? "" : " ", word);
        phrase += len;
        phrase += strspn(phrase, " ");
    }
    return text;
}

void expect_facts(struct runner *p, const struct facts *got, const char *expected)
{
    bool failure_expected = false;
    const char *rest = expected == NULL ? "" : expected;
    const char *phrase = NULL;
    while ((phrase = phrase_next(&p->step, &rest)) != NULL) {
        phrase = normal(p, phrase);
        failure_expected |= is_failure(phrase);
        if (!facts_agree(got, phrase)) {
            runner_fail(p, "expected: %s\n    not so:   %s\n    got:      %s", expected, phrase,
                        facts_text(&p->step, got));
        }
    }
    if (!failure_expected && failed(got)) {
        runner_fail(p, "expected: %s\n    got:      %s",
                    expected == NULL ? "that it succeeds" : expected, facts_text(&p->step, got));
    }
}

/* Lists of events and of audit records: `events:` with one item a line below it. */

struct items {
    const char **at;
    size_t count;
    size_t capacity;
};

static struct items items_of(struct runner *p, const struct line *line)
{
    struct items items = {NULL, 0, 0};
    for (const struct line *child = line->children; child != NULL; child = child->next) {
        if (child->is_comment) {
            continue;
        }
        if (items.count == items.capacity) {
            items.at =
                arena_grow(&p->step, items.at, items.count, &items.capacity, sizeof(*items.at));
        }
        items.at[items.count++] = words_fill_in(p, line_joined(&p->step, child));
    }
    return items;
}

/* The first phrase says which, the others what more is true of it. */
static bool item_agrees(struct runner *p, const char *item, const struct facts *got)
{
    const char *phrase = phrase_next(&p->step, &item);
    if (phrase == NULL || strcmp(normal(p, phrase), got->at[0]) != 0) {
        return false;
    }
    while ((phrase = phrase_next(&p->step, &item)) != NULL) {
        if (!facts_agree(got, normal(p, phrase))) {
            return false;
        }
    }
    return true;
}

static const char *list_text(struct runner *p, const struct facts *got, size_t count)
{
    const char *text = count == 0 ? "\n        nothing" : "";
    for (size_t i = 0; i < count && i < 50; i++) {
        text = arena_format(&p->step, "%s\n        %s", text, facts_text(&p->step, &got[i]));
    }
    return text;
}

static void expect_list(struct runner *p, const struct line *line, const char *what,
                        const struct facts *got, size_t count)
{
    struct items items = items_of(p, line);
    for (size_t i = 0; i < items.count || i < count; i++) {
        if (i < items.count && i < count && item_agrees(p, items.at[i], &got[i])) {
            continue;
        }
        runner_fail(p, "%s number %zu: expected: %s\n    got these:%s", what, i + 1,
                    i < items.count ? items.at[i] : "no more", list_text(p, got, count));
    }
}

/* In this order, with others in between. */
static void expect_among(struct runner *p, const struct line *line)
{
    struct items items = items_of(p, line);
    size_t next = 0;
    for (size_t i = 0; i < items.count; i++) {
        while (next < p->event_count && !item_agrees(p, items.at[i], &p->events[next])) {
            next++;
        }
        if (next++ >= p->event_count) {
            runner_fail(p, "expected: %s\n    got these:%s", items.at[i],
                        list_text(p, p->events, p->event_count));
        }
    }
}

static bool run_expectation(struct runner *p, const struct line *line)
{
    uint32_t tenant = 0;
    if (strcmp(line->text, "events:") == 0) {
        expect_list(p, line, "event", p->events, p->event_count);
    } else if (strcmp(line->text, "events include:") == 0) {
        expect_among(p, line);
    } else if (strcmp(line->text, "no events") == 0) {
        if (p->event_count > 0) {
            runner_fail(p, "expected: no events\n    got these:%s",
                        list_text(p, p->events, p->event_count));
        }
    } else if (strcmp(line->text, "audit:") == 0 ||
               sscanf(line->text, "audit of tenant %" SCNu32 ":", &tenant) == 1) {
        size_t count = 0;
        const struct facts *records = look_at_audit(p, tenant, &count);
        expect_list(p, line, "record", records, count);
        tell_list(p, records, count);
    } else {
        return false;
    }
    return true;
}

/* Time. */

/* An entry of nothing but the sweep; what it may end is bounded (S2.1). */
static void sweep_entry(struct runner *p)
{
    memset(p->event_kinds, 0, sizeof(p->event_kinds));
    runner_entry(p, NULL, 0);
    uint32_t sessions = p->event_kinds[EVENT_SESSION_EXPIRED];
    uint32_t locks = p->event_kinds[EVENT_EXPIRED] + p->event_kinds[EVENT_REVOKED] +
                     p->event_kinds[EVENT_WAIT_ENDED];
    if (sessions > LIMIT_SWEEP_SESSIONS || locks > LIMIT_SWEEP_LOCKS) {
        runner_fail(p, "one entry ended %u sessions and %u locks (S2.1)", sessions, locks);
    }
}

static void run_time(struct runner *p, uint64_t clock_ms)
{
    p->clock_ms = clock_ms;
    runner_forget_events(p);
    sweep_entry(p);
}

/* As many entries as it takes until nothing is due. */
static void settle(struct runner *p, struct facts *out)
{
    uint32_t entries = 0;
    uint32_t most_sessions = 0;
    uint32_t most_grants = 0;
    runner_forget_events(p);
    while (core_next_due_ms(p->core) <= core_now_ms(p->core)) {
        if (entries++ == SETTLE_ENTRIES) {
            runner_fail(p, "still not settled after %d entries", SETTLE_ENTRIES);
        }
        sweep_entry(p);
        uint32_t sessions = p->event_kinds[EVENT_SESSION_EXPIRED];
        uint32_t grants = p->event_kinds[EVENT_GRANTED];
        most_sessions = sessions > most_sessions ? sessions : most_sessions;
        most_grants = grants > most_grants ? grants : most_grants;
    }
    fact(out, "ok");
    fact(out, "entries %u", entries);
    fact(out, "sessions per entry %u", most_sessions);
    fact(out, "grants per entry %u", most_grants);
}

static bool run_clock(struct runner *p, struct words *w)
{
    if (words_take(w, "at")) {
        uint64_t clock_ms = words_span(w, "a time");
        words_finish(w);
        if (clock_ms < p->clock_ms) {
            runner_fail(p, "time does not go back; a leader whose clock is behind: the clock says");
        }
        run_time(p, clock_ms);
    } else if (words_take(w, "after")) {
        uint64_t span_ms = words_span(w, "a time span");
        words_finish(w);
        run_time(p, p->clock_ms + span_ms);
    } else if (words_take(w, "the clock says")) {
        uint64_t clock_ms = words_span(w, "a time");
        words_finish(w);
        run_time(p, clock_ms);
    } else if (words_take(w, "the wall clock is ahead by")) {
        p->wall_ahead_ms = words_span(w, "a time span");
        words_finish(w);
        return true;
    } else {
        return false;
    }
    tell_time(p);
    tell_events(p);
    return true;
}

/* Special steps, that are neither commands nor questions. */

static void count_events(struct runner *p, const char *type, struct facts *out)
{
    size_t count = 0;
    size_t len = strlen(type);
    for (size_t i = 0; i < p->event_count; i++) {
        const char *head = p->events[i].at[0];
        count += strncmp(head, type, len) == 0 && (head[len] == ' ' || head[len] == '\0');
    }
    fact(out, "%zu", count);
}

/* How a snapshot is spoiled before it is restored. */
struct damage {
    bool cut;   /* else one byte is changed */
    size_t at;  /* how much is cut off, or which byte is changed, from 1 */
    bool every; /* every place in turn */
};

static struct damage take_damage(struct words *w)
{
    struct damage d = {.cut = words_take(w, "cut")};
    if (d.cut) {
        d.every = words_take(w, "anywhere");
        if (!d.every) {
            words_need(w, "by");
            d.at = (size_t)words_number(w, "a number");
            words_need(w, "bytes");
        }
        return d;
    }
    words_need(w, "with");
    d.every = words_take(w, "any byte");
    if (!d.every) {
        words_need(w, "byte");
        d.at = (size_t)words_number(w, "a number");
    }
    words_need(w, "changed");
    return d;
}

static enum hf_error restore_damaged(struct runner *p, uint8_t *bytes, size_t len, bool cut,
                                     size_t at)
{
    if (at == 0 || at >= len) {
        return HF_OK; /* it would not be damaged */
    }
    if (cut) {
        return runner_restore_fails(p, bytes, len - at);
    }
    bytes[at - 1] ^= 0x40;
    enum hf_error error = runner_restore_fails(p, bytes, len);
    bytes[at - 1] ^= 0x40;
    return error;
}

static void restore_altered(struct runner *p, struct words *w, struct facts *out)
{
    struct damage d = take_damage(w);
    size_t len = 0;
    uint8_t *bytes = runner_snapshot(p, &len);
    size_t first = d.every ? 1 : d.at;
    size_t last = d.every ? len - 1 : d.at;
    enum hf_error error = HF_OK;
    size_t at = first;
    do {
        error = restore_damaged(p, bytes, len, d.cut, at);
    } while (error != HF_OK && ++at <= last);
    free(bytes);
    if (error == HF_OK) {
        fact(out, "ok");
        fact(out, "at %zu", at);
    } else {
        fact(out, "error %s", d.every ? "corrupt" : hf_error_code(error));
    }
}

static void recover(struct runner *p, struct words *w, struct facts *out)
{
    struct slice actor = slice_of(words_plain(w, "who"));
    words_need(w, "because");
    struct slice reason = slice_of(words_quoted(w, "a reason in quotes"));
    runner_forget_events(p);
    p->index++;
    p->ordinal = 0;
    core_begin(p->core, p->index, p->clock_ms, p->clock_ms);
    core_recover(p->core, actor, reason);
    runner_check(p);
    fact(out, "ok");
}

static void begin_with_version(struct runner *p, struct words *w, struct facts *out)
{
    uint32_t version = words_number32(w, "a version");
    if (p->index != 0 || version == 0 || version > CORE_VERSION) {
        runner_fail(p, "a state begins with a version of 1 to %u, before all else", CORE_VERSION);
    }
    runner_begin(p, version);
    fact(out, "ok");
}

static bool run_special(struct runner *p, struct words *w, struct facts *out)
{
    if (words_take(w, "snapshot and restore")) {
        runner_restart(p);
        fact(out, "ok");
    } else if (words_take(w, "restore a snapshot")) {
        restore_altered(p, w, out);
    } else if (words_take(w, "the state begins with version")) {
        begin_with_version(p, w, out);
    } else if (words_take(w, "settle")) {
        settle(p, out);
    } else if (words_take(w, "how many")) {
        count_events(p, words_plain(w, "a kind of event"), out);
    } else if (words_take(w, "recover by")) {
        recover(p, w, out);
    } else {
        return false;
    }
    words_finish(w);
    return true;
}

/* Commands. */

/* The step before the arrow and what is expected behind it. */
static const char *split_at_arrow(struct runner *p, const char *text, const char **expected)
{
    const char *arrow = find_arrow(text);
    *expected = arrow == NULL ? NULL : arrow + 2 + strspn(arrow + 2, " ");
    if (arrow != NULL && **expected == '\0') {
        runner_fail(p, "nothing is expected behind the arrow");
    }
    return arrow == NULL ? text : arena_text(&p->step, text, (size_t)(arrow - text));
}

static void check_and_tell(struct runner *p, struct request_line *request)
{
    p->line = request->line;
    expect_facts(p, &request->got, request->expected);
    tell_step(p, request->text, request->expected, &request->got);
}

/* `together`, or `together at 10s`: an entry that is stamped later than the one before. */
static void take_stamp(struct runner *p, const struct line *line)
{
    struct words w;
    words_split(p, words_fill_in(p, line->text), &w);
    words_need(&w, "together");
    if (words_take(&w, "at")) {
        p->clock_ms = words_span(&w, "a time");
    }
    words_finish(&w);
}

static void run_together(struct runner *p, const struct line *line)
{
    take_stamp(p, line);
    struct items items = items_of(p, line);
    struct request_line *request = arena_alloc(&p->step, sizeof(*request) * (items.count + 1));
    const struct line *child = line->children;
    for (size_t i = 0; i < items.count; i++, child = child->next) {
        while (child->is_comment) {
            child = child->next;
        }
        p->line = child;
        struct words w;
        request[i].line = child;
        request[i].text = split_at_arrow(p, items.at[i], &request[i].expected);
        words_split(p, request[i].text, &w);
        if (!request_parse(p, &w, &request[i])) {
            runner_fail(p, "not a command");
        }
    }
    runner_forget_events(p);
    runner_entry(p, request, (uint32_t)items.count);
    for (size_t i = 0; i < items.count; i++) {
        check_and_tell(p, &request[i]);
    }
    tell_events(p);
}

static void run_plain(struct runner *p, const struct line *line)
{
    const char *expected = NULL;
    const char *text = split_at_arrow(p, words_fill_in(p, line_joined(&p->step, line)), &expected);
    struct words w;
    words_split(p, text, &w);
    if (run_clock(p, &w)) {
        if (expected != NULL) {
            runner_fail(p, "time gives no answer; expect events below it");
        }
        return;
    }
    struct request_line request = {.line = line, .text = text, .expected = expected};
    facts_init(&request.got, &p->step);
    bool is_command = false;
    if (!run_special(p, &w, &request.got) && !look(p, &w, &request.got)) {
        is_command = request_parse(p, &w, &request);
        if (!is_command) {
            runner_fail(p, "do not understand this step");
        }
        runner_forget_events(p);
        runner_entry(p, &request, 1);
    }
    check_and_tell(p, &request);
    if (is_command) {
        tell_events(p);
    }
}

static void run_loop(struct runner *p, const struct line *line)
{
    struct words w;
    words_split(p, line->text, &w);
    words_need(&w, "for");
    const char *name = words_plain(&w, "a variable");
    words_need(&w, "from");
    uint64_t from = words_number(&w, "a number");
    words_need(&w, "to");
    uint64_t to = words_number(&w, "a number");
    words_finish(&w);
    if (p->variable_count == sizeof(p->variables) / sizeof(p->variables[0])) {
        runner_fail(p, "loops are nested too deep");
    }
    struct variable *v = &p->variables[p->variable_count++];
    v->name = arena_text(&p->file, name, strlen(name));
    for (v->value = from; v->value <= to; v->value++) {
        run_lines(p, line->children, true);
    }
    p->variable_count--;
    p->line = line;
    runner_check(p);
}

static void run_step(struct runner *p, const struct line *line)
{
    p->line = line;
    arena_clear(&p->step);
    if (run_expectation(p, line)) {
        return;
    }
    if (strncmp(line->text, "for ", 4) == 0) {
        run_loop(p, line);
    } else if (strncmp(line->text, "together", 8) == 0) {
        run_together(p, line);
    } else {
        run_plain(p, line);
    }
}

void run_lines(struct runner *p, const struct line *first, bool in_loop)
{
    for (const struct line *line = first; line != NULL; line = line->next) {
        if (line->is_comment) {
            tell_comment(p, line);
            continue;
        }
        run_step(p, line);
        if (p->restarts && !in_loop) {
            runner_restart(p);
        }
    }
}
