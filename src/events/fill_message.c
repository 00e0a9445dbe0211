/* See event_fill.h and fill_message.h. */
#include "events/fill_message.h"

enum { FILL_RECORD_MAX = EVENT_BYTES_MAX + 64, FILL_HEAD_MAX = 40 };
_Static_assert((int)AUDIT_BYTES_MAX <= (int)EVENT_BYTES_MAX, "any record fits");

static void write_position(struct writer *w, struct event_position at)
{
    write_u64(w, at.index);
    write_u64(w, at.ordinal);
    write_u64(w, at.sub);
}

static struct event_position read_position(struct reader *r)
{
    struct event_position at;
    at.index = read_u64(r);
    at.ordinal = read_u32(r);
    at.sub = read_u32(r);
    return at;
}

size_t fill_request_encode(const struct fill_request *request, uint8_t at[FILL_REQUEST_BYTES])
{
    struct writer w = writer_make(at, FILL_REQUEST_BYTES);
    write_position(&w, request->after);
    write_u64(&w, request->to);
    hf_assert(!w.full);
    return (size_t)(w.at - at);
}

bool fill_request_decode(struct slice bytes, struct fill_request *out)
{
    struct reader r = reader_make(bytes);
    out->after = read_position(&r);
    out->to = read_u64(&r);
    return reader_done(&r) && out->to > 0 && out->after.index <= out->to;
}

struct event_scan fill_request_scan(const struct fill_request *request)
{
    return (struct event_scan){.kinds = SCAN_EVENTS | SCAN_AUDIT,
                               .all_tenants = true,
                               .limit = FILL_PAGE,
                               .is_continued = true,
                               .after = request->after};
}

/* ---- the answer ---- */

static uint64_t index_of(const struct logged_event *record)
{
    return record->kind == LOGGED_AUDIT ? record->audit.index : record->event.index;
}

static void append_record(const struct logged_event *record, uint32_t version, struct buffer *out)
{
    uint8_t payload[EVENT_BYTES_MAX];
    uint8_t bytes[FILL_RECORD_MAX];
    size_t len = record->kind == LOGGED_EVENT ? event_encode(&record->event, version, payload)
                                              : audit_encode(&record->audit, payload);
    struct writer w = writer_make(bytes, sizeof(bytes));
    hf_assert(len > 0);
    write_u8(&w, (uint8_t)record->kind);
    write_u64(&w, record->id.index);
    write_u64(&w, record->id.ordinal);
    write_slice(&w, slice_make(payload, len));
    hf_assert(!w.full);
    (void)buffer_append(out, bytes, (size_t)(w.at - bytes));
}

static const struct event_gap *first_gap(const struct fill_request *request,
                                         const struct event_page *page)
{
    for (uint32_t i = 0; i < page->gap_count; i++) {
        if (page->gaps[i].to > request->after.index) {
            return &page->gaps[i];
        }
    }
    return NULL;
}

static bool is_sent(const struct logged_event *record)
{
    return record->kind == LOGGED_AUDIT || record->event.tier == TIER_CORRECTNESS;
}

/* The last entry of which nothing follows the position. */
static uint64_t whole_before(struct event_position at)
{
    return event_position_after(event_position_end_of(at.index), at) ? at.index - 1 : at.index;
}

bool fill_answer_encode(const struct fill_request *request, const struct event_page *page,
                        uint32_t version, struct buffer *out, uint64_t *continues)
{
    const struct event_gap *gap = first_gap(request, page);
    uint64_t limit = gap != NULL && gap->from < request->to ? gap->from : request->to;
    bool is_cut = page->more && page->next.index <= limit;
    uint64_t covered = is_cut ? whole_before(page->next) : page->read_to;
    covered = covered < limit ? covered : limit;
    *continues = gap != NULL && gap->to < request->to ? gap->to : UINT64_MAX;
    if (!is_cut && !event_position_after(event_position_end_of(covered), request->after)) {
        return false;
    }
    uint8_t head[FILL_HEAD_MAX];
    struct writer w = writer_make(head, sizeof(head));
    write_u64(&w, covered);
    write_position(&w, is_cut ? page->next : event_position_end_of(covered));
    hf_assert(!w.full);
    (void)buffer_append(out, head, (size_t)(w.at - head));
    for (uint32_t i = 0; i < page->count; i++) {
        if (is_sent(&page->records[i]) && index_of(&page->records[i]) <= limit) {
            append_record(&page->records[i], version, out);
        }
    }
    return true;
}

bool fill_answer_decode(struct slice bytes, struct fill_answer *out)
{
    struct reader r = reader_make(bytes);
    out->covered = read_u64(&r);
    out->next = read_position(&r);
    size_t left = reader_left(&r);
    out->records = slice_make(bytes.data + (bytes.len - left), left);
    return !r.bad;
}

bool fill_record_take(struct slice *rest, struct fill_record *out)
{
    struct reader r = reader_make(*rest);
    uint8_t kind = read_u8(&r);
    out->id.index = read_u64(&r);
    out->id.ordinal = read_u32(&r);
    out->payload = read_slice(&r, EVENT_BYTES_MAX);
    if (r.bad || (kind != LOGGED_EVENT && kind != LOGGED_AUDIT)) {
        return false;
    }
    out->kind = (enum logged_kind)kind;
    size_t left = reader_left(&r);
    *rest = slice_make(rest->data + (rest->len - left), left);
    return true;
}
