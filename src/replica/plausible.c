/* See plausible.h. */
#include "replica/plausible.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/panic.h"
#include "core/entry.h"
#include "replica/engine.h"

#define TERM_SLACK (UINT64_C(1) << 32)
#define TERM_MOST (UINT64_C(1) << 48) /* for a node without a log to compare with */

#define TIME_SLACK_MS 10000
#define WINDOW_MS 60000
#define FALL_MS 1000 /* the most by which the line falls in a window */
#define DRIFT 1000   /* S1.6: one part in this many */
#define FORGET_MS 60000
#define SETTLE_MS 2000
#define TIME_MOST_MS (UINT64_C(1) << 45) /* 1,100 years */
#define TIME_AWAY_MS (UINT64_C(1) << 39) /* 17 years, where time is beyond that already */

typedef unsigned long long ull;

static const char *refuse(struct plausible *p, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static const char *refuse(struct plausible *p, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(p->refusal, sizeof(p->refusal), format, arguments);
    va_end(arguments);
    return p->refusal;
}

void plausible_init(struct plausible *p, uint64_t term, uint64_t now_ms)
{
    *p = (struct plausible){.start_term = term, .start_ms = now_ms};
}

static uint64_t term_of(const struct raft_message *m)
{
    switch (m->type) {
    case RAFT_APPEND_ENTRIES:
        return m->append_entries.term;
    case RAFT_APPEND_ENTRIES_RESULT:
        return m->append_entries_result.term;
    case RAFT_REQUEST_VOTE:
        return m->request_vote.term;
    case RAFT_REQUEST_VOTE_RESULT:
        return m->request_vote_result.term;
    case RAFT_INSTALL_SNAPSHOT:
        return m->install_snapshot.term;
    case RAFT_TIMEOUT_NOW:
        return m->timeout_now.term;
    }
    return 0;
}

static const char *check_term(struct plausible *p, const struct engine *e,
                              const struct raft_message *m, uint64_t now_ms)
{
    uint64_t term = term_of(m);
    hf_assert(now_ms >= p->start_ms);
    uint64_t ours = raft_current_term((struct raft *)(uintptr_t)&e->raft);
    uint64_t most = p->start_term + TERM_SLACK + (now_ms - p->start_ms);
    if (entries_last(&e->log) == 0 && most < TERM_MOST) {
        most = TERM_MOST;
    }
    if (term == 0 || (term > ours && term > most)) {
        return refuse(p,
                      "node %llu names term %llu, and this node is in term %llu: terms do not rise "
                      "that fast",
                      (ull)m->server_id, (ull)term, (ull)ours);
    }
    return NULL;
}

/* The first message may be late, or of an older version, whose first message as a leader carries an
 * earlier time. */
static bool is_settling(const struct plausible *p, uint64_t now_ms)
{
    hf_assert(p->has_line && now_ms >= p->since_ms);
    return now_ms - p->since_ms < SETTLE_MS;
}

static void note_time(struct plausible *p, uint64_t cluster_ms, uint64_t now_ms)
{
    int64_t offset = (int64_t)cluster_ms - (int64_t)now_ms;
    hf_assert(now_ms >= p->heard_ms && p->heard_ms >= p->window_ms);
    if (!p->has_line || now_ms - p->heard_ms > FORGET_MS) {
        p->has_line = true;
        p->line_ms = offset;
        p->since_ms = now_ms;
        p->window_ms = now_ms;
        p->has_best = false;
    }
    if (offset > p->line_ms && is_settling(p, now_ms)) {
        p->line_ms = offset;
    }
    if (now_ms - p->window_ms > WINDOW_MS) {
        int64_t highest = p->line_ms + (int64_t)(now_ms - p->window_ms) / DRIFT + 1;
        int64_t lowest = p->line_ms - FALL_MS;
        int64_t best = p->has_best ? p->best_ms : p->line_ms;
        p->line_ms = best > highest ? highest : best < lowest ? lowest : best;
        p->window_ms = now_ms;
        p->has_best = false;
    }
    if (!p->has_best || offset > p->best_ms) {
        p->best_ms = offset;
        p->has_best = true;
    }
    p->heard_ms = now_ms;
}

static uint64_t latest_ms(const struct plausible *p, const struct engine *e, uint64_t now_ms)
{
    if (p->has_line && now_ms - p->heard_ms <= FORGET_MS && !is_settling(p, now_ms)) {
        int64_t drift = (int64_t)(now_ms - p->window_ms) / DRIFT;
        int64_t latest = (int64_t)now_ms + p->line_ms + drift + TIME_SLACK_MS;
        return latest > 0 ? (uint64_t)latest : 0;
    }
    uint64_t away = e->cluster_ms + TIME_AWAY_MS;
    return away > TIME_MOST_MS ? away : TIME_MOST_MS;
}

static const char *refuse_time(struct plausible *p, const struct raft_message *m, uint64_t ms,
                               uint64_t latest)
{
    hf_assert(ms > latest);
    return refuse(p,
                  "node %llu says that cluster time is %llu ms, which is %llu ms later than it can "
                  "be by this node's clock",
                  (ull)m->server_id, (ull)ms, (ull)(ms - latest));
}

/* Of the entry committed here at `index`; 0: none, or no longer in the log. */
static uint64_t committed_term(const struct engine *e, uint64_t index)
{
    if (index == 0 || index > e->committed) {
        return 0;
    }
    if (index == e->snapshot.index) {
        return e->snapshot.term;
    }
    const struct entry_slot *s = entries_at(&e->log, index);
    return s == NULL ? 0 : s->term;
}

static const char *check_committed(struct plausible *p, const struct engine *e,
                                   const struct raft_message *m, uint64_t index, uint64_t term)
{
    uint64_t ours = committed_term(e, index);
    if (ours == 0 || ours == term) {
        return NULL;
    }
    return refuse(p,
                  "node %llu contradicts what is committed: entry %llu is of term %llu here and of "
                  "term %llu there; one of the two has lost or changed data",
                  (ull)m->server_id, (ull)index, (ull)ours, (ull)term);
}

static const char *refuse_order(struct plausible *p, const struct raft_message *m)
{
    return refuse(p, "node %llu sends terms and indexes of entries that no log can have",
                  (ull)m->server_id);
}

static const char *check_entry(struct plausible *p, const struct raft_message *m, uint64_t index,
                               const struct raft_entry *entry, uint64_t latest)
{
    struct slice bytes = slice_make(entry->buf.base, entry->buf.len);
    if (entry->type == RAFT_COMMAND) {
        struct entry_header header;
        enum hf_error error = entry_check(bytes, &header);
        if (error == HF_VERSION) {
            return refuse(p,
                          "entry %llu of node %llu cannot be decoded by this version of Holdfast: "
                          "if that node runs a newer one, start this node with it, too",
                          (ull)index, (ull)m->server_id);
        }
        if (error == HF_OK) {
            return header.time_ms > latest ? refuse_time(p, m, header.time_ms, latest) : NULL;
        }
    } else if (entry->type != RAFT_CHANGE || members_check(bytes)) {
        return NULL;
    }
    return refuse(p, "entry %llu of node %llu cannot be decoded", (ull)index, (ull)m->server_id);
}

static const char *check_append(struct plausible *p, const struct engine *e,
                                const struct raft_message *m, uint64_t latest)
{
    const struct raft_append_entries *a = &m->append_entries;
    uint64_t term = a->prev_log_term;
    bool is_acted_on = a->term >= raft_current_term((struct raft *)(uintptr_t)&e->raft);
    if ((a->prev_log_index == 0) != (term == 0) || term > a->term ||
        a->prev_log_index >= LIMIT_NUMBER - MESSAGE_MAX_ENTRIES ||
        (a->prev_log_index == 0 && a->n_entries > 0 && a->entries[0].type != RAFT_CHANGE)) {
        return refuse_order(p, m);
    }
    const char *refusal = is_acted_on ? check_committed(p, e, m, a->prev_log_index, term) : NULL;
    for (unsigned i = 0; i < a->n_entries && refusal == NULL; i++) {
        const struct raft_entry *entry = &a->entries[i];
        uint64_t index = a->prev_log_index + 1 + i;
        if (entry->term == 0 || entry->term < term || entry->term > a->term) {
            return refuse_order(p, m);
        }
        term = entry->term;
        if (is_acted_on) {
            refusal = check_committed(p, e, m, index, term);
            refusal = refusal != NULL ? refusal : check_entry(p, m, index, entry, latest);
        }
    }
    return refusal;
}

static const char *check_snapshot(struct plausible *p, const struct engine *e,
                                  const struct raft_message *m)
{
    const struct raft_install_snapshot *s = &m->install_snapshot;
    if (s->last_term == 0 || s->last_term > s->term || s->last_index >= LIMIT_NUMBER ||
        s->conf_index == 0 || s->conf_index > s->last_index) {
        return refuse_order(p, m);
    }
    return check_committed(p, e, m, s->last_index, s->last_term);
}

static const char *check_from_leader(struct plausible *p, const struct engine *e,
                                     const struct message_in *in, uint64_t now_ms)
{
    const struct raft_message *m = &in->message;
    bool is_present = term_of(m) >= raft_current_term((struct raft *)(uintptr_t)&e->raft);
    uint64_t latest = latest_ms(p, e, now_ms);
    const char *refusal = NULL;
    if (is_present && in->cluster_ms > latest) {
        refusal = refuse_time(p, m, in->cluster_ms, latest);
    }
    if (refusal == NULL) {
        refusal = m->type == RAFT_APPEND_ENTRIES ? check_append(p, e, m, latest)
                                                 : check_snapshot(p, e, m);
    }
    if (refusal == NULL && is_present) {
        note_time(p, in->cluster_ms, now_ms);
    }
    return refusal;
}

static const char *check_vote_request(struct plausible *p, const struct raft_message *m)
{
    const struct raft_request_vote *v = &m->request_vote;
    bool is_sound = v->candidate_id == m->server_id && v->last_log_term <= v->term &&
                    (v->last_log_index == 0) == (v->last_log_term == 0) &&
                    v->last_log_index < LIMIT_NUMBER;
    return is_sound ? NULL : refuse_order(p, m);
}

/* A vote is granted in the term for which it was requested. */
static const char *check_vote(struct plausible *p, const struct engine *e,
                              const struct raft_message *m)
{
    const struct raft_request_vote_result *v = &m->request_vote_result;
    uint64_t ours = raft_current_term((struct raft *)(uintptr_t)&e->raft);
    if (v->vote_granted && v->term > ours + 1) {
        return refuse(
            p, "node %llu gives its vote in term %llu, for which this node did not request votes",
            (ull)m->server_id, (ull)v->term);
    }
    return NULL;
}

const char *plausible_check(struct plausible *p, const struct engine *e,
                            const struct message_in *in, uint64_t now_ms)
{
    const struct raft_message *m = &in->message;
    const char *refusal = check_term(p, e, m, now_ms);
    if (engine_is_leader(e)) {
        note_time(p, e->cluster_ms, now_ms); /* our time is a leader's */
    }
    if (refusal != NULL) {
        return refusal;
    }
    switch (m->type) {
    case RAFT_APPEND_ENTRIES:
    case RAFT_INSTALL_SNAPSHOT:
        return check_from_leader(p, e, in, now_ms);
    case RAFT_REQUEST_VOTE:
        return check_vote_request(p, m);
    case RAFT_REQUEST_VOTE_RESULT:
        return check_vote(p, e, m);
    case RAFT_APPEND_ENTRIES_RESULT: /* libraft bounds its index, and does not always set it */
    case RAFT_TIMEOUT_NOW:           /* libraft compares it with its own log */
        break;
    }
    return NULL;
}
