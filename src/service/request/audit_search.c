/* See audit_search.h. */
#include "service/request/audit_search.h"

#include <inttypes.h>
#include <stdio.h>

#include "service/request/event_search.h"
#include "service/request/operator.h"

enum {
    SEARCH_MS = 5000,               /* then a page ends, although it is empty */
    CLOCK_SLACK_MS = 24 * 3600000u, /* the wall clock of later records may be that much earlier */
    ACTIONS_TEXT = 512,             /* the names of all actions */
};

struct audit_search {
    struct search_work work;
    struct audit_query query;
    render_fn render;
    struct audit_found found;
    struct audit_view *records; /* query.limit */
    uint32_t head;              /* of the circular `records`, while reading the state backwards */
    uint64_t began_ms;          /* boot time */
    uint64_t least;             /* oldest first: lowest number */
    uint64_t first;             /* number of the oldest record in the state */
    uint64_t first_index;       /* its entry */
    uint64_t first_ms;          /* its wall clock */
    uint64_t last;
    size_t size;
    uint8_t texts[]; /* of `query` */
};

static void search_free(struct api_request *x, struct search_work *work)
{
    struct audit_search *a = LIST_OBJECT(work, struct audit_search, work);
    memory_free(x->service->memory, a->records, a->query.limit * sizeof(*a->records));
    memory_free(x->service->memory, a, a->size);
}

static struct audit_search *search_of(const struct api_request *x)
{
    hf_assert(x->work != NULL && x->work->free == search_free);
    return LIST_OBJECT(x->work, struct audit_search, work);
}

const struct audit_found *audit_search_found(const struct api_request *x)
{
    return &search_of(x)->found;
}

bool audit_cursor_parse(struct slice text, struct audit_query *out)
{
    if (event_position_parse(text, &out->position)) {
        out->from = AUDIT_FROM_POSITION;
        return true;
    }
    uint64_t number = 0;
    for (size_t i = 0; i < text.len; i++) {
        unsigned digit = text.data[i] - (unsigned)'0';
        if (digit > 9 || number >= LIMIT_NUMBER) {
            return false;
        }
        number = number * 10 + digit;
    }
    out->from = number == 0 ? AUDIT_FROM_START : AUDIT_FROM_NUMBER;
    out->number = number;
    return text.len > 0 && number < LIMIT_NUMBER;
}

static bool passes(const struct api_request *x, const struct audit_query *q,
                   const struct audit_view *a)
{
    bool is_named = q->match == SCAN_ANY_NAME ||
                    (q->match == SCAN_PREFIX ? slice_starts_with(a->resource, q->name)
                                             : slice_equal(a->resource, q->name));
    return is_named && a->tenant == x->caller.id.tenant &&
           (q->actor.len == 0 || slice_equal(a->actor, q->actor)) &&
           (q->action.len == 0 || slice_equal(a->action, q->action)) && a->wall_ms >= q->since_ms &&
           (q->until_ms == 0 || a->wall_ms < q->until_ms) && operator_may_see(x, a);
}

/* ---- the state ---- */

struct state_reader {
    struct api_request *x;
    struct audit_search *a;
    uint64_t from; /* numbers: at least this */
    uint64_t to;   /* ... and below this */
};

static void on_bounds(void *ctx, const struct audit_view *record)
{
    struct audit_search *a = ctx;
    if (a->first == 0) {
        a->first = record->number;
        a->first_index = record->index;
        a->first_ms = record->wall_ms;
    }
    a->last = record->number;
}

static void read_bounds(struct api_request *x, struct audit_search *a)
{
    a->first = a->last = 0;
    (void)view_audit(service_core(x->service), x->caller.id.tenant, 0, UINT32_MAX, on_bounds, a);
    a->found.complete_since_ms = a->first <= 1 ? 0 : a->first_ms;
}

static void set_next_number(struct audit_search *a, uint64_t number)
{
    (void)snprintf(a->found.next, sizeof(a->found.next), "%" PRIu64, number);
}

/* Oldest first, until the page is full; the next one is that of the cursor. */
static void on_older(void *ctx, const struct audit_view *record)
{
    struct state_reader *r = ctx;
    struct audit_search *a = r->a;
    if (record->number < r->from || a->found.next[0] != '\0' || !passes(r->x, &a->query, record)) {
        return;
    }
    if (a->found.count == a->query.limit) {
        set_next_number(a, record->number);
    } else {
        a->records[a->found.count++] = *record;
    }
}

/* Keeps the last ones. */
static void on_newer(void *ctx, const struct audit_view *record)
{
    struct state_reader *r = ctx;
    struct audit_search *a = r->a;
    if (record->number >= r->to || !passes(r->x, &a->query, record)) {
        return;
    }
    a->records[a->head] = *record;
    a->head = (a->head + 1) % a->query.limit;
    a->found.count += a->found.count < a->query.limit;
}

static void read_state(struct api_request *x, struct audit_search *a)
{
    const struct audit_query *q = &a->query;
    struct state_reader reader = {
        .x = x,
        .a = a,
        .from = a->least,
        .to = q->from == AUDIT_FROM_NUMBER && q->newest_first ? q->number : UINT64_MAX};
    (void)view_audit(service_core(x->service), x->caller.id.tenant, reader.from, UINT32_MAX,
                     q->newest_first ? on_newer : on_older, &reader);
}

/* The circular array in order, newest first. */
static void order_newest(const struct memory *memory, struct audit_search *a)
{
    uint32_t limit = a->query.limit;
    uint32_t count = a->found.count;
    uint32_t oldest = (a->head + limit - count) % limit;
    struct audit_view *from = memory_alloc(memory, limit * sizeof(*from));
    memcpy(from, a->records, limit * sizeof(*from));
    for (uint32_t i = 0; i < count; i++) {
        a->records[count - 1 - i] = from[(oldest + i) % limit];
    }
    memory_free(memory, from, limit * sizeof(*from));
}

/* ---- the event log ---- */

static void answer(struct api_request *x)
{
    struct audit_search *a = search_of(x);
    a->found.records = a->records;
    api_request_answer_json(x, 200, a->render);
}

static void on_page(struct api_request *x, const struct event_page *page, enum hf_error error,
                    const char *why);

static void without_log(struct api_request *x, struct audit_search *a, enum hf_error error,
                        const char *why);

static void scan(struct api_request *x, struct audit_search *a)
{
    const struct audit_query *q = &a->query;
    if (x->service->gateway.scan_events == NULL) {
        without_log(x, a, HF_EVENT_LOG, NULL);
        return;
    }
    struct event_scan scan = {
        .kinds = SCAN_AUDIT,
        .tenant = x->caller.id.tenant,
        .match = q->match,
        .name = q->name,
        .actor = q->actor,
        .action = q->action,
        .since_ms = q->since_ms,
        .until_ms = q->until_ms,
        .newest_first = q->newest_first,
        .limit = q->limit,
        .is_continued = q->from == AUDIT_FROM_POSITION,
        .after = q->position,
    };
    uint64_t before_ms = a->first_ms + CLOCK_SLACK_MS;
    if (scan.until_ms == 0 || scan.until_ms > before_ms) {
        scan.until_ms = before_ms; /* the rest is in the state */
    }
    event_search_begin(x, &scan, on_page);
}

/* From the log: those that the state does not have. */
static void take_page(struct api_request *x, struct audit_search *a, const struct event_page *page,
                      bool *is_past)
{
    for (uint32_t i = 0; i < page->count; i++) {
        const struct audit_view *record = &page->records[i].audit;
        bool is_in_state = a->first != 0 && record->number >= a->first;
        *is_past |= is_in_state;
        if (!is_in_state && passes(x, &a->query, record) && record->number >= a->least) {
            a->records[a->found.count++] = *record;
        }
    }
    uint64_t log_ms = page->complete_from_begin ? 0 : page->complete_since_ms;
    if (log_ms < a->found.complete_since_ms) {
        a->found.complete_since_ms = log_ms;
    }
}

/* The state has these, whatever is wrong with the log. */
static void without_log(struct api_request *x, struct audit_search *a, enum hf_error error,
                        const char *why)
{
    if (a->query.from == AUDIT_FROM_POSITION || error != HF_EVENT_LOG) {
        api_request_fail(x, error, why);
        return;
    }
    if (!a->query.newest_first) {
        read_state(x, a);
    }
    answer(x);
}

static void on_page(struct api_request *x, const struct event_page *page, enum hf_error error,
                    const char *why)
{
    struct audit_search *a = search_of(x);
    struct audit_query *q = &a->query;
    bool is_past = false;
    read_bounds(x, a); /* it may have advanced */
    if (page == NULL) {
        without_log(x, a, error, why);
        return;
    }
    take_page(x, a, page, &is_past);
    bool is_end = !page->more || (is_past && !q->newest_first);
    if (!is_end && a->found.count == 0 && service_boot_ms(x->service) - a->began_ms < SEARCH_MS) {
        q->from = AUDIT_FROM_POSITION;
        q->position = page->next;
        scan(x, a);
        return;
    }
    if (!is_end) {
        event_position_format(page->next, a->found.next);
    } else if (!q->newest_first) {
        q->from = AUDIT_FROM_START;
        read_state(x, a);
    }
    answer(x);
}

/* Whether the log can have records that the state does not. */
static bool needs_log(const struct audit_search *a)
{
    const struct audit_query *q = &a->query;
    return q->from == AUDIT_FROM_POSITION ||
           (a->least < a->first && a->first > 1 && q->since_ms < a->first_ms + CLOCK_SLACK_MS);
}

static void begin(struct api_request *x)
{
    struct audit_search *a = search_of(x);
    struct audit_query *q = &a->query;
    read_bounds(x, a);
    if (q->newest_first && q->from != AUDIT_FROM_POSITION) {
        read_state(x, a);
        order_newest(x->service->memory, a);
        if (a->found.count == q->limit) {
            set_next_number(a, a->records[a->found.count - 1].number);
            answer(x);
            return;
        }
        bool has_earlier = needs_log(a);
        q->from = AUDIT_FROM_POSITION;
        q->position = (struct event_position){a->first_index, EVENT_AUDIT, UINT32_MAX};
        if (!has_earlier) {
            answer(x);
        } else if (a->found.count > 0) {
            event_position_format(q->position, a->found.next);
            answer(x);
        } else {
            scan(x, a);
        }
    } else if (needs_log(a)) {
        scan(x, a);
    } else {
        read_state(x, a);
        answer(x);
    }
}

static void to_upper(uint8_t *text, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        text[i] = text[i] >= 'a' && text[i] <= 'z' ? (uint8_t)(text[i] - 0x20) : text[i];
    }
}

static void refuse_action(struct api_request *x)
{
    char text[ACTIONS_TEXT];
    const char *name;
    size_t len = (size_t)snprintf(text, sizeof(text), "action: must be one of");
    for (unsigned i = 0; (name = view_audit_action(i)) != NULL; i++) {
        len += (size_t)snprintf(text + len, sizeof(text) - len, "%s %s", i == 0 ? "" : ",", name);
        hf_assert(len < sizeof(text));
    }
    api_request_fail(x, HF_FIELD_RANGE, text);
}

bool audit_query_check(struct api_request *x, const struct audit_query *query)
{
    uint8_t action[AUDIT_ACTION_MAX];
    hf_assert(query->action.len <= sizeof(action));
    if (query->action.len > 0) {
        memcpy(action, query->action.data, query->action.len);
        to_upper(action, query->action.len);
        if (!view_is_audit_action(slice_make(action, query->action.len))) {
            refuse_action(x);
            return false;
        }
    }
    return true;
}

static struct slice keep(uint8_t **at, struct slice text)
{
    struct slice kept = slice_make(*at, text.len);
    if (text.len > 0) {
        memcpy(*at, text.data, text.len);
    }
    *at += text.len;
    return kept;
}

void audit_search_begin(struct api_request *x, const struct audit_query *query, render_fn render)
{
    struct service *s = x->service;
    size_t size =
        sizeof(struct audit_search) + query->name.len + query->actor.len + query->action.len;
    hf_assert(x->work == NULL && query->limit >= 1 && query->limit <= LIMIT_PAGE_MAX);
    struct audit_search *a = memory_alloc(s->memory, size);
    *a = (struct audit_search){.work = {.free = search_free},
                               .query = *query,
                               .render = render,
                               .began_ms = service_boot_ms(s),
                               .size = size};
    a->least = query->from == AUDIT_FROM_NUMBER && !query->newest_first ? query->number : 0;
    uint8_t *at = a->texts;
    a->query.name = keep(&at, query->name);
    a->query.actor = keep(&at, query->actor);
    a->query.action = keep(&at, query->action);
    to_upper(at - query->action.len, query->action.len);
    a->records = memory_alloc(s->memory, query->limit * sizeof(*a->records));
    x->work = &a->work;
    api_request_read_first(x, begin);
}
