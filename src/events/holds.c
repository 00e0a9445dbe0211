/* See holds.h. */
#include "events/holds.h"

#define BIT(type) (UINT64_C(1) << (type))
#define ENDS (BIT(EVENT_RELEASED) | BIT(EVENT_EXPIRED) | BIT(EVENT_FORCED) | BIT(EVENT_REVOKED))
#define GRANTS BIT(EVENT_GRANTED)

/* The wall clock of a grant and of its event are the same, except for entries
 * of older versions. */
enum { GRANT_SLACK_MS = 1000 };

void holds_open(struct holds *h, const struct memory *memory, const struct holds_query *query)
{
    hf_assert(query->limit >= 1 && query->limit <= HOLDS_MAX && query->name.len > 0);
    hf_assert(!query->is_at || (!query->is_continued && query->since_ms == 0));
    *h = (struct holds){.memory = memory,
                        .query = *query,
                        .phase = query->is_at ? HOLDS_FORWARD : HOLDS_SCAN,
                        .is_started = query->is_continued,
                        .position = query->after};
}

/* ---- rows ---- */

static void row_free(struct holds *h, struct past_hold *row)
{
    if (row->texts_size > 0) {
        memory_free(h->memory, row->texts, row->texts_size);
    }
}

static void rows_free(struct holds *h, struct past_hold *rows, uint32_t count, uint32_t space)
{
    for (uint32_t i = 0; i < count; i++) {
        row_free(h, &rows[i]);
    }
    if (space > 0) {
        memory_free(h->memory, rows, space * sizeof(*rows));
    }
}

void holds_close(struct holds *h)
{
    rows_free(h, h->rows, h->count, h->space);
    rows_free(h, h->held, h->held_count, h->held_space);
    if (h->has_previous) {
        row_free(h, &h->previous);
    }
    *h = (struct holds){.memory = h->memory};
}

static struct past_hold *row_add(struct holds *h, struct past_hold **rows, uint32_t *count,
                                 uint32_t *space)
{
    if (*count == *space) {
        uint32_t larger = *space == 0 ? 8 : *space * 2;
        *rows = memory_grow(h->memory, *rows, *space * sizeof(**rows), larger * sizeof(**rows));
        *space = larger;
    }
    struct past_hold *row = &(*rows)[(*count)++];
    *row = (struct past_hold){.state = HOLD_CURRENT};
    return row;
}

/* Its texts are borrowed; the row gets a copy. */
static void row_keep_texts(struct holds *h, struct past_hold *row)
{
    struct slice *texts[] = {&row->client, &row->owner, &row->actor, &row->reason, &row->trace};
    enum { TEXTS = sizeof(texts) / sizeof(texts[0]) };
    size_t len = 0;
    for (unsigned i = 0; i < TEXTS; i++) {
        len += texts[i]->len;
    }
    row->texts_size = len;
    row->texts = len == 0 ? NULL : memory_alloc(h->memory, len);
    uint8_t *at = row->texts;
    for (unsigned i = 0; i < TEXTS; i++) {
        if (texts[i]->len > 0) {
            memcpy(at, texts[i]->data, texts[i]->len);
        }
        *texts[i] = slice_make(at, texts[i]->len);
        at = texts[i]->len == 0 ? at : at + texts[i]->len;
    }
}

static void row_remove(struct holds *h, uint32_t row)
{
    hf_assert(row < h->count);
    row_free(h, &h->rows[row]);
    h->count--;
    memmove(&h->rows[row], &h->rows[row + 1], (h->count - row) * sizeof(h->rows[row]));
}

static struct past_hold *find(struct past_hold *rows, uint32_t count, uint64_t token)
{
    for (uint32_t i = count; i > 0; i--) {
        if (rows[i - 1].token == token) {
            return &rows[i - 1];
        }
    }
    return NULL;
}

void holds_present(struct holds *h, enum tier tier, const struct grant_view *grant,
                   uint64_t acquired_ms, uint64_t cluster_ms)
{
    const struct holder_view *holder = &grant->holder;
    hf_assert(!h->has_page);
    if (h->held_count == HOLDS_MAX) {
        h->is_cut = true;
        return;
    }
    struct past_hold *row = row_add(h, &h->held, &h->held_count, &h->held_space);
    bool is_timed = holder->since_ms != 0 && holder->since_ms <= cluster_ms;
    *row = (struct past_hold){
        .state = HOLD_CURRENT,
        .tier = tier,
        .mode = holder->mode,
        .slot = grant->slot,
        .parts = grant->parts,
        .token = grant->token,
        .acquired_ms = acquired_ms,
        .held_ms = is_timed ? cluster_ms - holder->since_ms : UINT64_MAX,
        .waited_ms = UINT64_MAX,
        .session = grant->session,
        .lease = grant->lease,
        .client = holder->client,
        .owner = holder->owner,
        .trace = holder->trace,
    };
    row_keep_texts(h, row);
}

static void row_from_event(struct holds *h, struct past_hold *row, const struct event *e)
{
    bool is_grant = e->type == EVENT_GRANTED;
    *row = (struct past_hold){
        .state = is_grant ? HOLD_UNKNOWN : HOLD_ENDED,
        .tier = (enum tier)e->tier,
        .mode = e->mode,
        .ended = e->ended,
        .slot = e->slot,
        .parts = e->parts,
        .token = e->token,
        .acquired_ms = is_grant ? e->wall_ms : e->since_wall_ms,
        .ended_ms = is_grant ? 0 : e->wall_ms,
        .held_ms = is_grant || e->since_ms == 0 || e->since_ms > e->at_ms ? UINT64_MAX
                                                                          : e->at_ms - e->since_ms,
        .waited_ms = is_grant ? e->waited_ms : UINT64_MAX,
        .session = e->session,
        .lease = e->lease,
        .client = e->client,
        .owner = e->owner,
        .actor = e->actor,
        .reason = is_grant ? slice_make(NULL, 0) : e->text,
        .trace = e->trace,
    };
    row_keep_texts(h, row);
}

static void learn_from_grant(struct past_hold *row, const struct event *e)
{
    row->waited_ms = e->waited_ms;
    if (row->acquired_ms == 0) { /* the end is of a version that did not have it */
        row->acquired_ms = e->wall_ms;
        row->held_ms = row->state == HOLD_ENDED && row->ended_ms >= e->wall_ms
                           ? row->ended_ms - e->wall_ms
                           : row->held_ms;
    }
}

/* ---- searches ---- */

static void enter(struct holds *h, enum holds_phase phase)
{
    h->phase = phase;
    h->is_started = false;
}

static struct event_scan search(const struct holds *h, uint64_t types)
{
    return (struct event_scan){
        .kinds = SCAN_EVENTS,
        .tenant = h->query.tenant,
        .match = SCAN_EXACT_NAME,
        .name = h->query.name,
        .types = types,
        .limit = 1,
        .is_continued = h->is_started,
        .after = h->position,
    };
}

/* Current holders come first, on the first page. */
static void finish_list(struct holds *h)
{
    if (h->query.is_continued) {
        return;
    }
    struct past_hold *ended = h->rows;
    uint32_t count = h->count;
    uint32_t space = h->space;
    h->rows = NULL;
    h->count = h->space = 0;
    for (uint32_t i = h->held_count; i > 0; i--) { /* the latest first */
        struct past_hold *row = &h->held[i - 1];
        if (h->query.until_ms != 0 && row->acquired_ms >= h->query.until_ms) {
            row_free(h, row);
        } else {
            *row_add(h, &h->rows, &h->count, &h->space) = *row;
        }
    }
    for (uint32_t i = 0; i < count; i++) {
        *row_add(h, &h->rows, &h->count, &h->space) = ended[i];
    }
    rows_free(h, ended, 0, space);
    h->held_count = 0;
}

static bool is_exclusive(enum mode mode)
{
    return mode == MODE_EXCLUSIVE || mode == MODE_ELECTION;
}

static bool covers(const struct holds *h, uint64_t wall_ms)
{
    return h->has_page && (h->complete_from_begin || wall_ms >= h->complete_since_ms);
}

/* Everything newer than `at` was examined, or enough of it. */
static void finish_forward(struct holds *h)
{
    for (uint32_t i = 0; i < h->held_count; i++) {
        struct past_hold *row = &h->held[i];
        if (row->acquired_ms > h->query.at_ms || find(h->rows, h->count, row->token) != NULL) {
            row_free(h, row);
        } else if (h->count == h->query.limit) {
            h->is_cut = true;
            row_free(h, row);
        } else {
            *row_add(h, &h->rows, &h->count, &h->space) = *row;
        }
    }
    h->held_count = 0;
    for (uint32_t i = 0; i < h->count; i++) {
        h->is_certain |= is_exclusive(h->rows[i].mode) && h->rows[i].acquired_ms != 0;
    }
    h->is_certain |= h->is_decided && !h->is_doubtful && covers(h, h->query.at_ms);
    enter(h, h->count == 0 ? HOLDS_BEFORE : HOLDS_DETAIL);
}

static bool needs_detail(const struct past_hold *row)
{
    return row->waited_ms == UINT64_MAX && row->acquired_ms != 0;
}

/* The row after the last is the previous hold. */
static struct past_hold *row_at(struct holds *h, uint32_t row)
{
    return row < h->count                       ? &h->rows[row]
           : row == h->count && h->has_previous ? &h->previous
                                                : NULL;
}

static struct past_hold *detail_row(struct holds *h)
{
    struct past_hold *row = row_at(h, h->row);
    while (h->details < HOLDS_DETAILS && row != NULL && !needs_detail(row)) {
        row = row_at(h, ++h->row);
        h->is_started = false;
    }
    return h->details < HOLDS_DETAILS ? row : NULL;
}

static bool next_detail(struct holds *h, struct event_scan *out)
{
    const struct past_hold *row = detail_row(h);
    if (row == NULL) {
        enter(h, HOLDS_DONE);
        return false;
    }
    *out = search(h, GRANTS);
    out->token = row->token;
    out->since_ms = row->acquired_ms > GRANT_SLACK_MS ? row->acquired_ms - GRANT_SLACK_MS : 0;
    out->until_ms = row->acquired_ms + GRANT_SLACK_MS + 1;
    return true;
}

/* The first row whose end an earlier page may have. */
static bool next_resolve(struct holds *h, struct event_scan *out)
{
    while (h->row < h->count && !h->rows[h->row].is_new) {
        h->row++;
    }
    if (h->row == h->count) {
        finish_list(h);
        h->row = 0;
        enter(h, HOLDS_DETAIL);
        return next_detail(h, out);
    }
    *out = search(h, ENDS);
    out->token = h->rows[h->row].token;
    out->since_ms = h->rows[h->row].acquired_ms;
    return true;
}

bool holds_next(struct holds *h, struct event_scan *out)
{
    switch (h->phase) {
    case HOLDS_SCAN:
        *out = search(h, GRANTS | ENDS);
        out->newest_first = true;
        out->since_ms = h->query.since_ms;
        out->limit = h->query.limit - h->count;
        return true;
    case HOLDS_RESOLVE:
        return next_resolve(h, out);
    case HOLDS_FORWARD:
        *out = search(h, GRANTS | ENDS);
        out->since_ms = h->query.at_ms;
        out->limit = HOLDS_MAX;
        return true;
    case HOLDS_BEFORE:
        *out = search(h, GRANTS | ENDS);
        out->newest_first = true;
        out->until_ms = h->query.at_ms + 1;
        return true;
    case HOLDS_DETAIL:
        return next_detail(h, out);
    case HOLDS_DONE:
        break;
    }
    return false;
}

/* ---- pages ---- */

static void take_list(struct holds *h, const struct event *e)
{
    struct past_hold *row = find(h->rows, h->count, e->token);
    uint64_t until_ms = h->query.until_ms == 0 ? UINT64_MAX : h->query.until_ms;
    if (e->type == EVENT_GRANTED) {
        row = row == NULL ? find(h->held, h->held_count, e->token) : row;
        if (row != NULL) {
            learn_from_grant(row, e);
            return;
        }
        if (e->wall_ms >= until_ms || (h->is_cut && e->tier == TIER_CORRECTNESS) ||
            (h->query.is_continued && e->tier == TIER_CORRECTNESS && covers(h, e->wall_ms))) {
            return; /* an earlier page has it */
        }
        row = row_add(h, &h->rows, &h->count, &h->space);
        row_from_event(h, row, e);
        row->is_new = h->query.is_continued;
        return;
    }
    if (row == NULL && e->since_wall_ms < until_ms) {
        row_from_event(h, row_add(h, &h->rows, &h->count, &h->space), e);
    }
}

static void take_forward(struct holds *h, const struct event *e)
{
    if (h->is_decided || e->wall_ms <= h->query.at_ms) {
        return;
    }
    if (e->type == EVENT_GRANTED) {
        h->is_decided = is_exclusive(e->mode); /* all earlier holds have ended */
        h->decided = e->index;
    } else if (e->since_wall_ms > h->query.at_ms || find(h->rows, h->count, e->token) != NULL) {
        return;
    } else if (e->since_wall_ms == 0 && !is_exclusive(e->mode)) {
        h->is_doubtful = true; /* by an old version: acquired before or after? */
    } else if (h->count == h->query.limit) {
        h->is_cut = true;
    } else {
        row_from_event(h, row_add(h, &h->rows, &h->count, &h->space), e);
    }
}

static void take_before(struct holds *h, const struct event *e)
{
    if (!h->has_previous) {
        h->has_previous = true;
        h->before = e->index;
        row_from_event(h, &h->previous, e);
    }
}

static void take_event(struct holds *h, const struct event *e)
{
    if (e->index > h->query.index || e->wall_ms > h->query.now_ms) {
        if (h->phase != HOLDS_RESOLVE && h->phase != HOLDS_DETAIL) {
            return;
        }
    }
    switch (h->phase) {
    case HOLDS_SCAN:
        take_list(h, e);
        break;
    case HOLDS_RESOLVE: /* an earlier page has it */
        row_remove(h, h->row);
        break;
    case HOLDS_FORWARD:
        take_forward(h, e);
        break;
    case HOLDS_BEFORE:
        take_before(h, e);
        break;
    case HOLDS_DETAIL:
        if (e->token == row_at(h, h->row)->token) {
            learn_from_grant(row_at(h, h->row), e);
        }
        break;
    case HOLDS_DONE:
        break;
    }
}

/* Nothing behind the events that decide matters. */
static bool is_relevant(const struct holds *h, const struct event_gap *gap)
{
    switch (h->phase) {
    case HOLDS_SCAN:
        return true;
    case HOLDS_FORWARD:
        return !h->is_decided || gap->from < h->decided;
    case HOLDS_BEFORE:
        return !h->has_previous || gap->to > h->before;
    case HOLDS_RESOLVE:
    case HOLDS_DETAIL:
    case HOLDS_DONE:
        break;
    }
    return false;
}

static void take_gaps(struct holds *h, const struct event_page *page)
{
    for (uint32_t i = 0; i < page->gap_count; i++) {
        const struct event_gap *gap = &page->gaps[i];
        const struct event_gap *last = h->gap_count == 0 ? NULL : &h->gaps[h->gap_count - 1];
        bool is_known = last != NULL && last->from == gap->from && last->to == gap->to;
        if (!is_relevant(h, gap)) {
            continue;
        }
        h->is_broken = true;
        if (!is_known && h->gap_count < HOLDS_GAPS) {
            h->gaps[h->gap_count++] = *gap;
        }
    }
}

/* Nobody held it, if a whole part of the log reaches from the hold before to
 * what decided. */
static void finish_before(struct holds *h)
{
    const struct past_hold *last = h->has_previous ? &h->previous : NULL;
    if (last != NULL && last->state == HOLD_UNKNOWN && last->tier == TIER_EFFICIENCY) {
        h->is_certain = false; /* it may have been held until its leader was lost */
    } else if (last != NULL && last->state == HOLD_ENDED) {
        h->is_certain |= h->is_decided && !h->is_broken && !h->is_doubtful;
    }
    enter(h, HOLDS_DETAIL);
}

static void after_row(struct holds *h, const struct event_page *page)
{
    if (page->count > 0 || !page->more) {
        if (h->phase == HOLDS_RESOLVE && page->count == 0) {
            h->rows[h->row].is_new = false;
        }
        if (h->phase == HOLDS_DETAIL) {
            h->row++;
            h->details++;
        }
        h->is_started = false;
    }
}

void holds_take(struct holds *h, const struct event_page *page)
{
    enum holds_phase phase = h->phase;
    hf_assert(phase != HOLDS_DONE);
    h->has_page = true;
    h->complete_since_ms = page->complete_since_ms;
    h->complete_from_begin = page->complete_from_begin;
    h->is_started = true;
    h->position = page->next;
    for (uint32_t i = 0; i < page->count; i++) {
        hf_assert(page->records[i].kind == LOGGED_EVENT);
        take_event(h, &page->records[i].event);
    }
    take_gaps(h, page);
    if (phase == HOLDS_SCAN) {
        h->more = page->more;
        h->next = page->next;
        if (!page->more || h->count >= h->query.limit) {
            h->row = 0;
            enter(h, HOLDS_RESOLVE);
        }
    } else if (phase == HOLDS_FORWARD) {
        h->is_decided |= !page->more;
        if (h->is_decided) {
            finish_forward(h);
        }
    } else if (phase == HOLDS_BEFORE) {
        if (h->has_previous || !page->more) {
            finish_before(h);
        }
    } else {
        after_row(h, page);
    }
}

void holds_stop(struct holds *h)
{
    if (h->phase == HOLDS_FORWARD) {
        finish_forward(h);
    } else if (h->phase == HOLDS_SCAN || h->phase == HOLDS_RESOLVE) {
        for (uint32_t i = h->count; i > 0; i--) {
            if (h->rows[i - 1].is_new) { /* an earlier page may have it */
                row_remove(h, i - 1);
            }
        }
        finish_list(h);
    }
    enter(h, HOLDS_DONE);
}

enum holds_answer holds_answer(const struct holds *h)
{
    hf_assert(h->query.is_at);
    return h->count > 0 ? HOLDS_HELD : h->is_certain ? HOLDS_FREE : HOLDS_UNKNOWN;
}
