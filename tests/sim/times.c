/* Times, long holds and if_token (S16), beside the product: from the headers and commands of the log, and from
 * the events in log order.
 *
 *   - the time of an event is within 100 ms of the clock that the leader's entry has, and that is the leader's;
 *   - since, as cluster time and as shown, is at every event and on every node what it was at the grant, as long
 *     as its row is kept;
 *   - nothing is held past its max_hold, once an entry later than that has come;
 *   - a long hold is reported once, by a rule that it is past; marks are those of reported grants;
 *   - an operator's command with if_token ends no other grant. */
#include "times.h"

#include "book.h"
#include "core/view.h"

enum {
    STEP_MS = 100,    /* S16.1 */
    ROWS = 64,        /* at least LIMIT_WALL_ROWS */
    ALTERNATIVES = 3, /* entries of one index, by several leaders */
    HOLDS = 256,
    RULES = 3,
    LATE_ENTRIES = 20, /* a sweep of the simulator ends only some grants at a time */
    SETTLED_US = 3000000,
};

/* A command entry in some log. */
struct entry_clock {
    uint64_t term;
    uint64_t stamp_ms;
    uint64_t wall_ms;
};
struct entry_clocks {
    struct entry_clock each[ALTERNATIVES];
    uint32_t count;
};

/* A change of the rules; held_ms 0: removed. */
struct alert_change {
    uint64_t index;
    uint64_t term;
    uint32_t rule;
    uint64_t held_ms;
};

/* One name of a grant. */
struct seen_hold {
    uint64_t token;
    int name;
    uint64_t since_ms;
    uint64_t shown_ms; /* 0: unknown yet */
    uint64_t until_ms; /* max_hold; 0: none */
    uint64_t due_index;
    uint64_t reported_index; /* 0: not */
};

static struct {
    struct entry_clocks *headers;
    uint64_t header_count;
    uint64_t rows[ROWS]; /* cluster times at which rows begin, since the state has them */
    int64_t ahead_ms;    /* the wall clock, by the last row */
    uint32_t row_count;
    uint64_t applied; /* entries whose rows are counted */
    uint64_t last_stamp_ms;
    uint64_t is_new_at; /* index of the upgrade; 0: not yet */
    struct seen_hold holds[HOLDS];
    uint32_t hold_count;
    struct alert_change *changes; /* by rising index */
    uint32_t change_count;
} t;

static const char *const prefixes[RULES] = {"", "n1", "n2"};

bool times_are_on(void)
{
    return world.newest_us != 0 && world.now_us > world.newest_us + SETTLED_US;
}

uint64_t times_lease_bits(uint64_t random)
{
    bool has_max_hold = times_are_on() && (random >> 16) % 5 == 0;
    return (random & ~UINT64_C(3)) | 1 | (has_max_hold ? 2 : 0);
}

uint32_t times_max_hold_ms(struct id lease)
{
    return (lease.low & 2) == 0 ? 0 : 200 + (uint32_t)((lease.low >> 24) % 3000);
}

void times_reason(uint64_t if_token, char out[TIMES_REASON])
{
    snprintf(out, TIMES_REASON, "if %llu", ull(if_token));
}

/* ---- the log ---- */

static struct entry_clocks *headers_at(uint64_t index)
{
    if (index >= t.header_count) {
        uint64_t count = index * 2 + 4096;
        t.headers = realloc(t.headers, count * sizeof(*t.headers));
        memset(t.headers + t.header_count, 0, (count - t.header_count) * sizeof(*t.headers));
        t.header_count = count;
    }
    return &t.headers[index];
}

static const struct entry_clock *header_of(const struct sim_node *n, uint64_t index)
{
    const struct entry_clocks *h = headers_at(index);
    for (uint32_t i = 0; i < h->count; i++) {
        if (h->each[i].term == terms_at(&n->memory, index)) {
            return &h->each[i];
        }
    }
    return NULL;
}

static uint32_t rule_of(struct slice prefix)
{
    for (uint32_t i = 0; i < RULES; i++) {
        if (slice_equal(prefix, slice_of(prefixes[i]))) {
            return i;
        }
    }
    violation("a rule of the prefix %.*s, which nobody set", (int)prefix.len,
              (const char *)prefix.data);
}

static void note_command(uint64_t index, uint64_t term, const struct command *c)
{
    struct alert_change change = {.index = index, .term = term};
    if (c->type == COMMAND_ALERT_SET) {
        change.rule = rule_of(c->alert_set.prefix);
        change.held_ms = c->alert_set.held_ms;
    } else if (c->type == COMMAND_ALERT_REMOVE) {
        change.rule = rule_of(c->alert_remove.prefix);
    } else {
        return;
    }
    t.changes = realloc(t.changes, (t.change_count + 1) * sizeof(*t.changes));
    t.changes[t.change_count++] = change;
}

static void note(const struct sim_node *n, uint64_t index, const struct replica_entry *entry)
{
    struct entry_clocks *at = headers_at(index);
    struct reader r = reader_make(entry->bytes);
    struct command command;
    for (uint32_t i = 0; i < at->count; i++) {
        if (at->each[i].term == entry->term) {
            return;
        }
    }
    if (at->count == ALTERNATIVES) {
        memmove(at->each, at->each + 1, sizeof(at->each[0]) * --at->count);
    }
    struct entry_clock *h = &at->each[at->count++];
    (void)read_fixed64(&r); /* format */
    h->term = entry->term;
    h->stamp_ms = read_fixed64(&r);
    h->wall_ms = read_fixed64(&r);
    for (uint64_t count = read_fixed64(&r); count > 0; count--) {
        if (command_decode(read_slice(&r, LIMIT_ENTRY), &command) == HF_OK) {
            note_command(index, entry->term, &command);
        }
    }
    struct replica_status s;
    if (n->replica == NULL) {
        return;
    }
    replica_status(n->replica, node_time(n), &s);
    if (s.is_leader && s.term == entry->term && h->wall_ms != node_time(n).wall_ms) {
        violation(
            "node %d writes the wall clock %llu into entry %llu, its clock shows %llu (S16.1)",
            n->id, ull(h->wall_ms), ull(index), ull(node_time(n).wall_ms));
    }
}

void times_written(const struct sim_node *n, uint64_t first, const struct replica_entry *entries,
                   uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (entries[i].type == REPLICA_COMMAND) {
            note(n, first + i, &entries[i]);
        }
    }
}

/* ---- rows ---- */

static void count_row(const struct entry_clock *h, bool has_rows)
{
    int64_t ahead_ms = (int64_t)(h->wall_ms - h->stamp_ms);
    int64_t step_ms = ahead_ms - t.ahead_ms;
    if (h->stamp_ms <= t.last_stamp_ms) {
        return;
    }
    t.last_stamp_ms = h->stamp_ms;
    if (!has_rows || (t.row_count > 0 && step_ms <= STEP_MS && step_ms >= -STEP_MS)) {
        return;
    }
    if (t.row_count == LIMIT_WALL_ROWS) {
        memmove(t.rows, t.rows + 1, sizeof(t.rows[0]) * --t.row_count);
    }
    t.rows[t.row_count++] = h->stamp_ms;
    t.ahead_ms = ahead_ms;
}

/* Up to the entry of this index; its node has the log up to there. */
static void count_rows(const struct sim_node *n, uint64_t index)
{
    for (; t.applied < index; t.applied++) {
        const struct entry_clock *h = header_of(n, t.applied + 1);
        if (h != NULL) {
            count_row(h, t.is_new_at != 0 && t.applied + 1 > t.is_new_at);
        }
    }
}

/* A time before the oldest row may have been shown by one that was dropped. */
static bool is_kept(uint64_t cluster_ms)
{
    return t.row_count > 0 && t.rows[0] <= cluster_ms;
}

/* ---- grants ---- */

static struct seen_hold *hold_of(uint64_t token, int name)
{
    for (uint32_t i = t.hold_count; i > 0; i--) {
        if (t.holds[i - 1].token == token && t.holds[i - 1].name == name) {
            return &t.holds[i - 1];
        }
    }
    return NULL;
}

/* The oldest is forgotten: there are fewer holders than places. */
static struct seen_hold *hold_add(const struct event *e)
{
    if (t.hold_count == HOLDS) {
        memmove(t.holds, t.holds + 1, sizeof(t.holds[0]) * --t.hold_count);
    }
    struct seen_hold *h = &t.holds[t.hold_count++];
    uint32_t max_hold_ms = times_max_hold_ms(e->lease);
    bool is_client = e->lease.high != 0 && e->lease.high <= CLIENTS;
    *h = (struct seen_hold){.token = e->token,
                            .name = book_number(e->name),
                            .since_ms = e->since_ms,
                            .shown_ms = e->since_wall_ms,
                            .until_ms =
                                is_client && max_hold_ms != 0 ? e->since_ms + max_hold_ms : 0};
    return h;
}

static void drop(struct seen_hold *h)
{
    size_t at = (size_t)(h - t.holds);
    t.hold_count--;
    memmove(h, h + 1, sizeof(*h) * (t.hold_count - at));
}

static void check_since(const struct seen_hold *h, uint64_t since_ms, uint64_t shown_ms, int node)
{
    if (since_ms != h->since_ms) {
        violation("token %llu was granted at %llu; node %d says at %llu (S16.1)", ull(h->token),
                  ull(h->since_ms), node, ull(since_ms));
    }
    if (shown_ms != h->shown_ms && is_kept(h->since_ms)) {
        violation("token %llu was granted at %llu by the wall clock; node %d shows %llu (S16.1)",
                  ull(h->token), ull(h->shown_ms), node, ull(shown_ms));
    }
}

/* Every event of a later entry finds what was due ended. */
static void check_max_hold(struct seen_hold *h, const struct event *e)
{
    if (h->until_ms == 0 || e->at_ms < h->until_ms) {
        return;
    }
    if (h->due_index == 0) {
        h->due_index = e->index;
    } else if (e->index > h->due_index + LATE_ENTRIES) {
        violation("token %llu is held at %llu, its max_hold ended at %llu (S16.3)", ull(h->token),
                  ull(e->at_ms), ull(h->until_ms));
    }
}

static void check_end(const struct seen_hold *h, const struct event *e)
{
    if (e->ended == ENDED_MAX_HOLD && (h->until_ms == 0 || e->at_ms < h->until_ms)) {
        violation("token %llu is ended by max_hold at %llu, which is at %llu (S16.3)",
                  ull(h->token), ull(e->at_ms), ull(h->until_ms));
    }
    world.counts.max_holds += e->ended == ENDED_MAX_HOLD;
}

/* ---- rules ---- */

static bool starts_with(struct slice name, const char *prefix)
{
    return slice_starts_with(name, slice_of(prefix));
}

/* The duration of the rule that counts for the name after all entries before `index`; 0: none. */
static uint64_t rule_for(const struct sim_node *n, uint64_t index, struct slice name,
                         uint32_t *rule)
{
    uint64_t held_ms[RULES] = {0};
    uint64_t best = 0;
    for (uint32_t i = 0; i < t.change_count; i++) {
        const struct alert_change *c = &t.changes[i];
        if (c->index < index && c->term == terms_at(&n->memory, c->index)) {
            held_ms[c->rule] = c->held_ms;
        }
    }
    for (uint32_t i = 0; i < RULES; i++) {
        if (held_ms[i] != 0 && starts_with(name, prefixes[i]) &&
            (best == 0 || strlen(prefixes[i]) > strlen(prefixes[*rule]))) {
            best = held_ms[i];
            *rule = i;
        }
    }
    return best;
}

/* A change in the same entry may come before it, or after it. */
static void check_report(const struct sim_node *n, struct seen_hold *h, const struct event *e)
{
    bool is_right = false;
    for (uint64_t index = e->index; index <= e->index + 1; index++) {
        uint32_t rule = 0;
        uint64_t held_ms = rule_for(n, index, e->name, &rule);
        is_right = is_right || (held_ms != 0 && slice_equal(e->text, slice_of(prefixes[rule])) &&
                                e->since_ms + held_ms <= e->at_ms);
    }
    /* A log that was compacted has forgotten the terms of its changes. */
    bool is_known = t.change_count == 0 || t.changes[0].index > n->memory.base;
    if (is_known && !is_right) {
        violation("token %llu on %.*s is reported at %llu by the rule of \"%.*s\", and is not past "
                  "its rule (S16.2)",
                  ull(h->token), (int)e->name.len, (const char *)e->name.data, ull(e->at_ms),
                  (int)e->text.len, (const char *)e->text.data);
    }
    if (h->reported_index != 0) {
        violation("token %llu is reported at %llu and was at %llu (S16.2)", ull(h->token),
                  ull(e->index), ull(h->reported_index));
    }
    h->reported_index = e->index;
    world.counts.long_held++;
}

/* ---- events ---- */

static bool is_end(const struct event *e)
{
    return e->type == EVENT_RELEASED || e->type == EVENT_EXPIRED || e->type == EVENT_FORCED ||
           e->type == EVENT_REVOKED;
}

static void check_if_token(const struct event *e)
{
    unsigned long long token = 0;
    char text[TIMES_REASON] = "";
    if ((e->type != EVENT_FORCED && e->type != EVENT_REVOKED &&
         e->type != EVENT_REVOKE_REQUESTED) ||
        e->text.len == 0 || e->text.len >= sizeof(text)) {
        return;
    }
    memcpy(text, e->text.data, e->text.len);
    if (sscanf(text, "if %llu", &token) == 1 && token != e->token) {
        violation("token %llu is taken away by a command with if_token %llu (S16.4)", ull(e->token),
                  token);
    }
}

/* The clock of an entry is shown as it is, or by the row of an earlier one at the same cluster time. */
static void check_shown(const struct sim_node *n, const struct event *e)
{
    const struct entry_clock *h = header_of(n, e->index);
    if (h == NULL || h->stamp_ms <= t.last_stamp_ms) {
        return;
    }
    uint64_t off_ms = e->wall_ms > h->wall_ms ? e->wall_ms - h->wall_ms : h->wall_ms - e->wall_ms;
    if (off_ms > STEP_MS) {
        violation("event %llu-%u shows the wall clock %llu, the leader's was %llu (S16.1)",
                  ull(e->index), e->ordinal, ull(e->wall_ms), ull(h->wall_ms));
    }
}

void times_event(const struct sim_node *n, const struct event *e)
{
    count_rows(n, e->index - 1);
    check_shown(n, e);
    check_if_token(e);
    if (e->type == EVENT_UPGRADED && t.is_new_at == 0 && n->replica != NULL &&
        core_version(replica_core(n->replica)) == CORE_VERSION) {
        t.is_new_at = e->index;
    }
    if (t.is_new_at == 0 || e->index <= t.is_new_at) {
        return; /* shown by the row of the upgrade later */
    }
    count_rows(n, e->index);
    int name = book_number(e->name);
    struct seen_hold *h = e->token == 0 || name < 0 ? NULL : hold_of(e->token, name);
    if (e->type == EVENT_GRANTED && name >= 0) {
        h = hold_add(e);
    }
    if (h != NULL && (is_end(e) || e->type == EVENT_GRANTED || e->type == EVENT_LONG_HELD)) {
        check_since(h, e->since_ms, e->since_wall_ms, n->id);
    }
    if (h != NULL && e->type == EVENT_LONG_HELD) {
        check_report(n, h, e);
    } else if (h != NULL && is_end(e)) {
        check_end(h, e);
        drop(h);
    }
    for (uint32_t i = 0; i < t.hold_count; i++) {
        check_max_hold(&t.holds[i], e);
    }
}

/* ---- what nodes show ---- */

struct shown_name {
    const struct sim_node *n;
    int name;
};

static void look_at(void *ctx, const struct grant_view *g)
{
    const struct shown_name *look = ctx;
    const struct sim_node *n = look->n;
    const struct seen_hold *h = hold_of(g->token, look->name);
    if (h == NULL) {
        return;
    }
    check_since(h, g->holder.since_ms, g->holder.since_wall_ms, n->id);
    if (g->hold_until_ms != h->until_ms) {
        violation("node %d shows token %llu until %llu, its max_hold is at %llu (S16.3)", n->id,
                  ull(g->token), ull(g->hold_until_ms), ull(h->until_ms));
    }
    bool is_reported =
        h->reported_index != 0 && h->reported_index <= core_index(replica_core(n->replica));
    if (g->long_held != is_reported) {
        violation("node %d shows token %llu with the mark %d, it was reported at %llu (S16.2)",
                  n->id, ull(g->token), g->long_held, ull(h->reported_index));
    }
}

static void look_past(void *ctx, const struct waiter_view *waiter)
{
    (void)ctx;
    (void)waiter;
}

void times_look(const struct sim_node *n)
{
    const struct core *core = replica_core(n->replica);
    char name[16];
    /* An entry after `applied`, which had no event, may have dropped a row that is not counted yet. */
    if (t.is_new_at == 0 || core_index(core) <= t.is_new_at || core_index(core) > t.applied) {
        return;
    }
    for (uint32_t i = 0; i < 4; i++) {
        struct shown_name look = {n, (int)((world.now_us / 1000 + i) % NAMES)};
        snprintf(name, sizeof(name), "n%d", look.name);
        (void)view_holders_and_waiters(core, 0, slice_of(name), 8, look_at, look_past, &look);
    }
}

/* ---- the operator and the leader ---- */

static void submit(struct sim_node *leader, const struct command *c)
{
    (void)replica_submit(leader->replica, c, (void *)(uintptr_t)1, node_time(leader));
}

static void change_rules(struct sim_node *leader)
{
    struct command c;
    uint32_t rule = (uint32_t)chance_below(RULES);
    bool removes = one_in(4);
    command_init(&c, removes ? COMMAND_ALERT_REMOVE : COMMAND_ALERT_SET);
    if (removes) {
        c.alert_remove.prefix = slice_of(prefixes[rule]);
        c.alert_remove.actor = slice_of("operator");
        c.alert_remove.reason = slice_of("test");
    } else {
        c.alert_set.prefix = slice_of(prefixes[rule]);
        c.alert_set.held_ms = 1000 + chance_below(4000);
        c.alert_set.actor = slice_of("operator");
        c.alert_set.reason = slice_of("test");
    }
    submit(leader, &c);
}

struct found_holds {
    struct sim_node *leader;
    struct command commands[8];
    char names[8][8];
    uint32_t count;
};

static void on_long_held(void *ctx, uint32_t tenant, struct slice name, uint64_t token)
{
    struct found_holds *f = ctx;
    (void)tenant;
    if (f->count == 8 || name.len >= sizeof(f->names[0])) {
        return;
    }
    struct command *c = &f->commands[f->count];
    command_init(c, COMMAND_LONG_HELD);
    memcpy(f->names[f->count], name.data, name.len);
    c->long_held.name = slice_make(f->names[f->count], name.len);
    c->long_held.token = token;
    f->count++;
}

/* One that may not be past its rule, or is reported already. */
static void report_any(struct found_holds *f)
{
    char name[8];
    struct lock_view lock;
    snprintf(name, sizeof(name), "n%u", (unsigned)chance_below(NAMES));
    if (view_lock(replica_core(f->leader->replica), 0, slice_of(name), &lock) && lock.has_holder) {
        on_long_held(f, 0, slice_of(name), lock.first.token);
    }
}

/* As src/node/node_alerts.c; some are sent twice, and a deposed leader may, too. */
static void report(struct sim_node *n)
{
    struct found_holds f = {.leader = n};
    struct replica_status s;
    replica_status(n->replica, node_time(n), &s);
    (void)view_long_held(replica_core(n->replica), s.cluster_ms, 0, 100000, on_long_held, &f);
    report_any(&f);
    for (uint32_t i = 0; i < f.count; i++) {
        submit(n, &f.commands[i]);
        if (one_in(4)) {
            submit(n, &f.commands[i]);
        }
    }
}

static void act(struct happening *h)
{
    (void)h;
    struct sim_node *leader = leader_now();
    happen(150000 + chance_below(300000), act, 0);
    if (!times_are_on() || leader == NULL || leader->failed ||
        leader->paused_until_us > world.now_us) {
        return;
    }
    if (one_in(10)) {
        change_rules(leader);
    }
    report(leader);
    replica_flush(leader->replica, node_time(leader));
    node_after(leader);
}

void times_begin(void)
{
    happen(1000000, act, 0);
}

void times_end(void)
{
    free(t.headers);
    free(t.changes);
    memset(&t, 0, sizeof(t));
}
