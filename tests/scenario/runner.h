/* The runner: one scenario on its way, with the core that it runs on and the cast, that is who its
 * names mean. */
#ifndef SCENARIO_RUNNER_H
#define SCENARIO_RUNNER_H

#include <setjmp.h>

#include "core/core.h"
#include "facts.h"
#include "scenario_file.h"

/* ---- the cast: what the names of a scenario stand for ---- */

/* One acquire that was granted or queued: what its client knows of it. */
struct hold {
    const char *actor;
    const struct slice *names;
    uint32_t name_count;
    struct id lease;
    uint64_t token;      /* 0 while it waits */
    uint64_t attachment; /* the latest */
};

/* An id; all come from one counter, so that ties are broken in the order of their first mention. */
struct drawn {
    const char *name;
    struct hold *hold; /* of a lease id */
};

struct actor_session {
    const char *name;
    struct id id;
    uint64_t stream; /* the number of the latest */
};

/* A command that can be sent again by its label. */
struct sent {
    const char *label;
    struct slice bytes;
    struct hold *hold;
};

/* The version that a key had when it was noted. */
struct noted {
    const char *label;
    struct key_version version;
};

struct cast {
    struct noted *noted;
    size_t noted_count, noted_capacity;
    struct drawn *drawn;
    struct actor_session *sessions;
    struct hold **holds;
    struct sent *sent;
    size_t drawn_count, session_count, hold_count, sent_count;
    size_t drawn_capacity, session_capacity, hold_capacity, sent_capacity;
};

/* ---- one scenario ---- */

struct variable {
    const char *name;
    uint64_t value;
};

/* What the wall clock shows at cluster time 0. */
#define WALL_MS UINT64_C(1700000000000)

struct runner {
    const char *path;
    const struct line *line; /* being run */
    jmp_buf stop;
    const char *failure;
    bool tell;     /* print it as a text */
    bool restarts; /* a snapshot and a restore after each step */
    struct arena file;
    struct arena step;     /* emptied before each step */
    struct arena happened; /* the events of the last step */
    struct cast cast;
    struct variable variables[4];
    size_t variable_count;
    uint64_t loop_steps; /* steps run in loops */

    struct core *core;
    uint64_t hash_key;
    uint64_t index;
    uint64_t clock_ms;      /* stamps the next entry */
    uint64_t wall_ahead_ms; /* its wall clock is WALL_MS, clock_ms and this */
    uint8_t *entry;         /* LIMIT_ENTRY bytes */
    uint32_t ordinal;       /* of the next event in the entry */
    struct facts *events;
    const char *sentences; /* --tell: the events in sentences */
    bool was_comment;      /* --tell: the last line was narration */
    size_t event_count;
    size_t event_capacity;
    uint32_t event_kinds[EVENT_COUNT]; /* of the entry at hand */
    uint8_t *last;                     /* the last command, for `again` */
    size_t last_len;
    size_t last_capacity;
    struct hold *last_hold;
};

/* Ends the scenario with its place and this message. */
_Noreturn void runner_fail(struct runner *p, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Runs a whole scenario; NULL, or what went wrong. `*bytes` and `*len` become the final snapshot,
 * which the caller frees. The message is the caller's to free as well. */
struct run_options {
    bool tell;
    bool restarts;
    uint64_t hash_key;
};
char *run(const char *path, const struct run_options *options, uint8_t **bytes, size_t *len);

/* ---- cast.c ---- */

struct id cast_draw(struct runner *p, const char *name, struct hold *hold);
const struct drawn *cast_drawn(const struct runner *p, struct id id);
struct actor_session *cast_session(struct runner *p, const char *name); /* NULL: has none */
struct actor_session *cast_open(struct runner *p, const char *name, struct id id);
struct hold *cast_hold_of(struct runner *p, const char *actor, struct slice name); /* or NULL */
void cast_add_hold(struct runner *p, struct hold *hold);
const struct sent *cast_sent(struct runner *p, const char *label); /* or NULL */
void cast_remember(struct runner *p, const char *label, const struct command *command,
                   struct hold *hold);

/* ---- apply.c: entries, events, snapshots ---- */

/* A command on its way: what to send and what is expected of it. */
struct request_line {
    const struct line *line;
    const char *text;     /* the step */
    const char *expected; /* NULL: that it succeeds */
    struct command command;
    struct hold *hold; /* of an acquire */
    const char *label;
    struct facts got;
};

void runner_open(struct runner *p);
/* Again from nothing, with a state of that version. */
void runner_begin(struct runner *p, uint32_t version);
/* Applies one entry with these commands, describes the answers, and checks what always holds. */
void runner_entry(struct runner *p, struct request_line *request, uint32_t count);
void runner_forget_events(struct runner *p);
void runner_check(struct runner *p);
/* Writes a snapshot, reads it into a core with another hash key, checks that this one writes the
 * same bytes, and goes on with it. */
void runner_restart(struct runner *p);
/* The bytes are malloc'ed. */
uint8_t *runner_snapshot(struct runner *p, size_t *len);
/* Tries to restore altered bytes; HF_OK when that worked. */
enum hf_error runner_restore_fails(struct runner *p, const uint8_t *bytes, size_t len);

/* ---- describe.c: the core's answers as facts ---- */

void describe_result(struct runner *p, const struct command *command, const struct result *r,
                     struct facts *out);
void describe_event(struct runner *p, const struct event *e, struct facts *out);
const char *slice_text(struct arena *arena, struct slice slice);

/* ---- look.c: show, list, sessions, audit, stats ---- */

struct words;
/* False when the words are no question to the state. */
bool look(struct runner *p, struct words *w, struct facts *out);
/* The audit trail, a list of facts for each record. */
struct facts *look_at_audit(struct runner *p, uint32_t tenant, size_t *count);

/* ---- request.c: commands from words ---- */

/* False when the words are no command. */
bool request_parse(struct runner *p, struct words *w, struct request_line *out);
/* What every command may have: true when the next words were such an option. */
bool request_common_option(struct words *w, struct request_line *out);

/* ---- key.c: transactions, and what a name is as a key ---- */

void request_transact(struct words *w, const char *actor, struct request_line *out);
/* `note "k" as v1`, `show key "k"`: false when the words are neither. */
bool look_at_key(struct runner *p, struct words *w, struct facts *out);

/* A token by its number or by the label of the acquire that got it. */
uint64_t token_named(struct runner *p, const char *text);

/* ---- policy.c ---- */

void request_policy_change(struct words *w, const char *actor, struct request_line *out);

/* ---- times.c ---- */
void request_alert_set(struct words *w, const char *actor, struct request_line *out);
void request_alert_remove(struct words *w, const char *actor, struct request_line *out);
void request_long_held(struct words *w, struct request_line *out);
void request_sink_position(struct words *w, struct request_line *out);
bool look_at_times(struct runner *p, struct words *w, struct facts *out);

/* ---- steps.c ---- */

void run_lines(struct runner *p, const struct line *first, bool in_loop);
/* Fails unless the facts are as expected. */
void expect_facts(struct runner *p, const struct facts *got, const char *expected);

/* ---- tell.c ---- */

void tell_comment(struct runner *p, const struct line *line);
void tell_step(struct runner *p, const char *text, const char *expected, const struct facts *got);
/* Adds the event to what tell_events will print. */
void tell_event(struct runner *p, const struct event *e);
void tell_events(struct runner *p);
void tell_list(struct runner *p, const struct facts *list, size_t count);
void tell_time(struct runner *p);

#endif
