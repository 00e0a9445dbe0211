/* A page of a search. See event_scan.h.
 *
 * The scan walks over units: segments, and within those that may have a match, blocks. A unit outside the
 * page is passed over, but the entries that it covers are noted, so that a gap on either side is found.
 * A gap has the position event_position_end_of(gap.to): a page may end before or after it. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "events/event_scan.h"
#include "events/reader.h"

enum { WRITTEN_WAIT_MS = 500 };

struct hit {
    struct event_record record; /* `payload`: only the length is valid */
    uint32_t offset;            /* of the payload in `texts` */
};

struct searching {
    struct event_log *log;
    const struct event_scan *scan;
    struct event_page *page;
    uint32_t name_hash;
    bool has_edge; /* the entries up to (newest first: after) `edge` were examined */
    uint64_t edge;
    uint64_t edge_ms;
    bool is_full; /* stop: something remains */
    uint64_t work;
    struct hit *hits;
    uint32_t hit_capacity;
    uint8_t *texts;
    uint32_t text_capacity;
    uint32_t text_bytes;
    struct event_reader reader;
};

/* Whether the position is still to be examined. */
static bool is_ahead(const struct searching *s, struct event_position p)
{
    const struct event_scan *scan = s->scan;
    if (!scan->is_continued) {
        return true;
    }
    return scan->newest_first ? event_position_after(scan->after, p)
                              : event_position_after(p, scan->after);
}

static void examined(struct searching *s, struct event_position p)
{
    if (is_ahead(s, p)) {
        s->page->next = p;
    }
}

/* ---- filters ---- */

static bool is_in_time(const struct event_scan *scan, uint64_t wall_ms)
{
    return wall_ms >= scan->since_ms && (scan->until_ms == 0 || wall_ms < scan->until_ms);
}

static bool may_have(const struct searching *s, const struct event_range *range)
{
    const struct event_scan *scan = s->scan;
    return range->records > 0 && range->max_ms >= scan->since_ms &&
           (scan->until_ms == 0 || range->min_ms < scan->until_ms);
}

static bool same_word(struct slice a, struct slice b)
{
    for (size_t i = 0; i < a.len && a.len == b.len; i++) {
        uint8_t x = a.data[i];
        uint8_t y = b.data[i];
        x = x >= 'A' && x <= 'Z' ? (uint8_t)(x | 0x20) : x;
        y = y >= 'A' && y <= 'Z' ? (uint8_t)(y | 0x20) : y;
        if (x != y) {
            return false;
        }
    }
    return a.len == b.len;
}

static bool matches_text(const struct event_scan *scan, uint32_t tenant, struct slice name,
                         struct slice actor)
{
    if ((!scan->all_tenants && tenant != scan->tenant) ||
        (scan->match == SCAN_EXACT_NAME && !slice_equal(name, scan->name)) ||
        (scan->match == SCAN_PREFIX && !slice_starts_with(name, scan->name))) {
        return false;
    }
    return scan->actor.len == 0 || slice_equal(actor, scan->actor);
}

/* Without decoding. */
static bool may_match(const struct searching *s, const struct event_record *r)
{
    const struct event_scan *scan = s->scan;
    uint32_t kind = r->kind == LOGGED_EVENT ? SCAN_EVENTS : SCAN_AUDIT;
    return (scan->kinds & kind) != 0 && is_in_time(scan, r->wall_ms) &&
           (scan->match != SCAN_EXACT_NAME || r->name_hash == s->name_hash) &&
           (r->kind != LOGGED_EVENT || scan->types == 0 || (scan->types >> r->type & 1) != 0);
}

static bool matches(const struct event_scan *scan, const struct logged_event *e)
{
    if (e->kind == LOGGED_AUDIT) {
        return matches_text(scan, e->audit.tenant, e->audit.resource, e->audit.actor) &&
               (scan->action.len == 0 || same_word(e->audit.action, scan->action));
    }
    return matches_text(scan, e->event.tenant, e->event.name, e->event.actor) &&
           (scan->token == 0 || e->event.token == scan->token) &&
           (scan->client.len == 0 || slice_equal(e->event.client, scan->client));
}

/* ---- results ---- */

static bool has_space(const struct searching *s, const struct event_record *r)
{
    return s->page->count < s->scan->limit &&
           (s->page->count == 0 || s->text_bytes + r->payload.len <= EVENT_SCAN_BYTES);
}

static void add_hit(struct searching *s, const struct event_record *r)
{
    const struct memory *memory = s->log->memory;
    if (s->page->count == s->hit_capacity) {
        uint32_t capacity = s->hit_capacity == 0 ? 64 : s->hit_capacity * 2;
        s->hits = memory_grow(memory, s->hits, s->hit_capacity * sizeof(*s->hits),
                              capacity * sizeof(*s->hits));
        s->hit_capacity = capacity;
    }
    uint32_t len = (uint32_t)r->payload.len;
    if (s->text_bytes + len > s->text_capacity) {
        uint32_t capacity = s->text_capacity == 0 ? 32 << 10 : s->text_capacity * 2;
        s->texts = memory_grow(memory, s->texts, s->text_capacity, capacity);
        s->text_capacity = capacity;
    }
    memcpy(s->texts + s->text_bytes, r->payload.data, len);
    s->hits[s->page->count++] = (struct hit){*r, s->text_bytes};
    s->text_bytes += len;
}

/* False: the page is full, and must end before the gap. */
static bool add_gap(struct searching *s, uint64_t from, uint64_t from_ms, uint64_t to,
                    uint64_t to_ms)
{
    const struct event_scan *scan = s->scan;
    struct event_page *page = s->page;
    struct event_position position = event_position_end_of(to);
    if (!is_ahead(s, position)) {
        return true;
    }
    bool is_relevant = (to_ms == 0 || to_ms >= scan->since_ms) &&
                       (scan->until_ms == 0 || from_ms < scan->until_ms);
    if (is_relevant) {
        if (page->gap_count == EVENT_SCAN_GAPS) {
            s->is_full = true;
            return false;
        }
        page->gaps[page->gap_count++] = (struct event_gap){from, to, from_ms, to_ms};
    }
    examined(s, position);
    return true;
}

/* A unit that covers (from, to] is next. False: the page is full. */
static bool join(struct searching *s, uint64_t from, uint64_t from_ms, uint64_t to, uint64_t to_ms)
{
    bool is_joined = true;
    if (s->scan->newest_first) {
        if (s->has_edge && to < s->edge) {
            is_joined = add_gap(s, to, to_ms, s->edge, s->edge_ms);
        }
    } else if (s->has_edge && from > s->edge) {
        is_joined = add_gap(s, s->edge, s->edge_ms, from, from_ms);
    }
    if (is_joined) {
        s->has_edge = true;
        s->edge = s->scan->newest_first ? from : to;
        s->edge_ms = s->scan->newest_first ? from_ms : to_ms;
    }
    return is_joined;
}

/* The unit has nothing for this page, or its records were examined. */
static void pass(struct searching *s, const struct event_range *range)
{
    examined(s, s->scan->newest_first ? range->first : range->last);
}

static bool is_needed(const struct searching *s, const struct event_range *range)
{
    return is_ahead(s, s->scan->newest_first ? range->first : range->last);
}

/* ---- blocks ---- */

static void examine_record(struct searching *s, uint32_t i)
{
    struct event_record record = event_reader_record(&s->reader, i);
    struct logged_event decoded;
    if (!is_ahead(s, record.position)) {
        return;
    }
    if (may_match(s, &record) && event_record_decode(&record, &decoded) &&
        matches(s->scan, &decoded)) {
        if (!has_space(s, &record)) {
            s->is_full = true;
            return;
        }
        add_hit(s, &record);
    }
    s->page->next = record.position;
}

static bool examine_block(struct searching *s, uint32_t i, struct problem *problem)
{
    struct event_reader *r = &s->reader;
    const struct event_block *block = &r->index.blocks[i];
    const struct event_range *range = &block->range;
    bool is_wanted = is_needed(s, range);
    bool is_read = is_wanted && may_have(s, range) &&
                   (s->scan->match != SCAN_EXACT_NAME || s->name_hash == 0 ||
                    event_block_may_have(block, s->name_hash));
    uint64_t to = range->to;
    uint64_t to_ms = range->to_ms;
    if (is_read) {
        if (s->work + r->work >= EVENT_SCAN_EXAMINED) {
            s->is_full = true;
            return true;
        }
        if (!event_reader_load(r, i, block->offset, problem)) {
            return false;
        }
        to = r->to == 0 ? range->from : r->to;
        to_ms = r->to == 0 ? range->from_ms : r->to_ms;
    }
    if (!join(s, range->from, range->from_ms, to, to_ms)) {
        return true;
    }
    for (uint32_t k = 0; is_read && k < r->count && !s->is_full; k++) {
        examine_record(s, s->scan->newest_first ? r->count - 1 - k : k);
    }
    if (is_wanted && !s->is_full) {
        pass(s, range);
    }
    return true;
}

static bool examine_blocks(struct searching *s, struct problem *problem)
{
    uint32_t count = s->reader.index.count;
    for (uint32_t k = 0; k < count && !s->is_full; k++) {
        if (!examine_block(s, s->scan->newest_first ? count - 1 - k : k, problem)) {
            return false;
        }
    }
    return true;
}

/* ---- segments ---- */

/* Continues behind the end of the log: entries that were removed since are a gap. */
static void begin_edge(struct searching *s, const struct event_segment *segment)
{
    const struct event_scan *scan = s->scan;
    if (!s->has_edge && scan->is_continued && !scan->newest_first &&
        segment->range.from > scan->after.index) {
        s->has_edge = true;
        s->edge = scan->after.index;
        s->edge_ms = 0;
    }
}

static bool examine_segment(struct searching *s, const struct event_segment *segment,
                            struct problem *problem)
{
    const struct event_range *range = &segment->range;
    begin_edge(s, segment);
    bool is_wanted = is_needed(s, range);
    if (!is_wanted || !may_have(s, range)) {
        if (join(s, range->from, range->from_ms, range->to, range->to_ms) && is_wanted) {
            pass(s, range);
        }
        return true;
    }
    s->reader.work = 0;
    enum event_reading reading = event_reader_open(&s->reader, segment->number, false, problem);
    bool is_good = reading != EVENT_READING_FAILED;
    if (reading == EVENT_READING_DONE && s->reader.segment.number == segment->number) {
        is_good = examine_blocks(s, problem);
    } /* else it was removed just now */
    s->work += s->reader.work;
    return is_good;
}

static bool examine(struct searching *s, struct problem *problem)
{
    bool backward = s->scan->newest_first;
    uint64_t number = backward ? UINT64_MAX : 0;
    struct event_segment segment = {.number = 0};
    while (!s->is_full && event_files_find(s->log, number, backward, 0, &segment, NULL)) {
        if (backward && number == UINT64_MAX) {
            s->has_edge = true;
            s->edge = segment.range.to;
            s->edge_ms = segment.range.to_ms;
        }
        if (!examine_segment(s, &segment, problem)) {
            return false;
        }
        if (backward && segment.number == 0) {
            break;
        }
        number = backward ? segment.number - 1 : segment.number + 1;
    }
    if (!s->is_full && !backward && s->has_edge && s->edge < segment.range.to) {
        /* The newest block is damaged. */
        (void)add_gap(s, s->edge, s->edge_ms, segment.range.to, segment.range.to_ms);
    }
    return true;
}

/* ---- the page ---- */

static bool is_written(struct event_log *log, uint64_t index)
{
    return log->files.covered >= index;
}

static void await_written(struct event_log *log, uint64_t index)
{
    struct event_files *f = &log->files;
    struct timespec until;
    pthread_mutex_lock(&f->lock);
    bool is_done = is_written(log, index) || log->options.by_hand;
    pthread_mutex_unlock(&f->lock);
    if (is_done) {
        return;
    }
    event_log_deadline(WRITTEN_WAIT_MS, &until);
    pthread_mutex_lock(&log->lock);
    log->shared.is_urgent = true;
    pthread_mutex_unlock(&log->lock);
    pthread_cond_signal(&log->wake);
    pthread_mutex_lock(&f->lock);
    int result = 0;
    while (result == 0 && !is_written(log, index)) {
        result = pthread_cond_timedwait(&f->changed, &f->lock, &until);
    }
    pthread_mutex_unlock(&f->lock);
}

static void fill_state(struct searching *s)
{
    struct event_log_stats stats;
    event_log_stats(s->log, &stats);
    s->page->complete_since_ms = stats.complete_since_ms;
    s->page->complete_from_begin = stats.first_index == 0 && stats.gaps == 0;
}

/* One block: the records, then their texts. */
static void fill_block(struct searching *s)
{
    struct event_page *page = s->page;
    if (page->count == 0) {
        return;
    }
    size_t records = page->count * sizeof(struct logged_event);
    page->block_size = records + s->text_bytes;
    page->block = memory_alloc(s->log->memory, page->block_size);
    struct logged_event *out = page->block;
    uint8_t *texts = (uint8_t *)page->block + records;
    memcpy(texts, s->texts, s->text_bytes);
    for (uint32_t i = 0; i < page->count; i++) {
        struct event_record record = s->hits[i].record;
        record.payload = slice_make(texts + s->hits[i].offset, record.payload.len);
        bool is_valid = event_record_decode(&record, &out[i]);
        hf_assert(is_valid);
    }
    page->records = out;
}

static void free_searching(struct searching *s)
{
    const struct memory *memory = s->log->memory;
    event_reader_close(&s->reader);
    if (s->hit_capacity > 0) {
        memory_free(memory, s->hits, s->hit_capacity * sizeof(*s->hits));
    }
    if (s->text_capacity > 0) {
        memory_free(memory, s->texts, s->text_capacity);
    }
    memory_free(memory, s, sizeof(*s));
}

static struct searching *new_searching(struct event_log *log, const struct event_scan *scan,
                                       struct event_page *page)
{
    struct searching *s = memory_alloc(log->memory, sizeof(*s));
    s->log = log;
    s->scan = scan;
    s->page = page;
    s->name_hash = event_name_hash(scan->name);
    s->has_edge = s->is_full = false;
    s->edge = s->edge_ms = s->work = 0;
    s->hits = NULL;
    s->texts = NULL;
    s->hit_capacity = s->text_capacity = s->text_bytes = 0;
    event_reader_init(&s->reader, log);
    return s;
}

enum hf_error event_scan_page(struct event_log *log, const struct event_scan *scan,
                              struct event_page *out, struct problem *problem)
{
    hf_assert(scan->limit >= 1 && scan->limit <= EVENT_SCAN_RECORDS);
    *out =
        (struct event_page){.next = scan->is_continued ? scan->after : (struct event_position){0}};
    await_written(log, scan->written_to);
    struct event_log_stats before;
    event_log_stats(log, &before);
    out->read_to = before.last_index; /* what is written meanwhile may be in the page or not */
    struct searching *s = new_searching(log, scan, out);
    bool is_read = examine(s, problem);
    if (is_read) {
        out->more = s->is_full;
        fill_state(s);
        fill_block(s);
    }
    free_searching(s);
    return is_read ? HF_OK : HF_EVENT_LOG;
}

void event_page_close(struct event_log *log, struct event_page *page)
{
    if (page->block != NULL) {
        memory_free(log->memory, page->block, page->block_size);
        page->block = NULL;
    }
}
