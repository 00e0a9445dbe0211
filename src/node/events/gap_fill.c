/* See gap_fill.h. */
#include "node/events/gap_fill.h"

#include "base/panic.h"

enum fill_state { FILL_LOOKING, FILL_REQUESTED, FILL_WRITING, FILL_RESTING, FILL_CLOSING };

/* A request of another node that is being answered. */
struct fill_serve {
    struct gap_fill *owner;
    bool is_used;
    uint64_t peer, link, number;
    struct fill_request request;
    struct gateway_scan_call call;
};

struct gap_fill {
    struct gap_fill_options options;
    bool is_stopped;
    enum fill_state state;
    uint64_t due_ms;
    struct event_gap gap;
    struct event_fill *fill; /* NULL while looking */
    struct fill_request next;
    uint64_t number; /* of the request in flight, or of the last one */
    uint64_t peers[LIMIT_NODES];
    uint32_t peer_count;
    uint32_t peer; /* in use */
    uint32_t tried;
    uint64_t continues;      /* the least entry behind which a peer has some; UINT64_MAX: none */
    uint32_t continues_peer; /* that one */
    uint64_t noted_to;       /* the end of the last gap that no peer had, which is logged */
    bool is_stuck;           /* the newest gap cannot be filled for now */
    uint64_t filled;
    /* Of the thread while `is_working`. */
    uv_work_t work;
    bool is_working;
    bool is_fine;
    uint8_t *answer;
    size_t answer_len;
    struct problem problem;
    struct fill_serve serves[FILL_SERVES];
};

struct gap_fill *gap_fill_new(const struct gap_fill_options *options)
{
    struct gap_fill *f = memory_alloc(options->memory, sizeof(*f));
    memset(f, 0, sizeof(*f));
    f->options = *options;
    f->number = FILL_NUMBER;
    return f;
}

/* ---- the thread ---- */

static void on_write(uv_work_t *work)
{
    struct gap_fill *f = work->data;
    f->is_fine =
        event_fill_take(f->fill, slice_make(f->answer, f->answer_len), &f->next.after, &f->problem);
}

static void on_close(uv_work_t *work)
{
    struct gap_fill *f = work->data;
    event_fill_end(f->fill);
    f->fill = NULL;
}

static void on_worked(uv_work_t *work, int status);

static void run(struct gap_fill *f, enum fill_state state, uv_work_cb fn)
{
    hf_assert(!f->is_working);
    f->state = state;
    f->is_working = true;
    f->work.data = f;
    int status = uv_queue_work(f->options.loop, &f->work, fn, on_worked);
    hf_assert(status == 0);
}

static void free_answer(struct gap_fill *f)
{
    if (f->answer != NULL) {
        memory_free(f->options.memory, f->answer, f->answer_len);
        f->answer = NULL;
    }
}

/* ---- the loop ---- */

static void look_at(struct gap_fill *f, uint64_t due_ms)
{
    f->state = FILL_LOOKING;
    f->due_ms = due_ms;
}

static void close_fill(struct gap_fill *f, uint64_t due_ms)
{
    f->due_ms = due_ms; /* of the next look */
    run(f, FILL_CLOSING, on_close);
}

static void note_failure(struct gap_fill *f, const char *reason)
{
    f->is_stuck = true;
    if (f->noted_to == f->gap.to) {
        return;
    }
    f->noted_to = f->gap.to;
    journal_note(f->options.journal, WARN, DISK, "event_gap_remains",
                 JOURNAL_NUMBER("from", f->gap.from), JOURNAL_NUMBER("to", f->gap.to),
                 JOURNAL_TEXT("reason", reason),
                 JOURNAL_TEXT("next", "this node's history lacks these entries and says so; it "
                                      "tries again each minute, and after a node joined"));
}

static void send_request(struct gap_fill *f, uint64_t now_ms);

/* The next peer; after the last one that one which has the largest part, if any. */
static void next_peer(struct gap_fill *f, uint64_t now_ms)
{
    f->tried++;
    if (f->tried < f->peer_count) {
        f->peer = (f->peer + 1) % f->peer_count;
        send_request(f, now_ms);
        return;
    }
    bool has_part = f->continues < f->gap.to;
    if (!has_part) {
        note_failure(f, "no other node that is reachable has them");
    }
    close_fill(f, now_ms + (has_part ? 0 : FILL_RETRY_MS));
}

static void send_request(struct gap_fill *f, uint64_t now_ms)
{
    uint8_t body[FILL_REQUEST_BYTES];
    size_t len = fill_request_encode(&f->next, body);
    f->state = FILL_REQUESTED;
    f->due_ms = now_ms + FILL_SILENT_MS;
    f->number++;
    if (!f->options.request(f->options.ctx, f->peers[f->peer], f->number, slice_make(body, len))) {
        next_peer(f, now_ms);
    }
}

static bool begin(struct gap_fill *f, const struct event_gap *gap)
{
    f->gap = *gap;
    f->fill = event_fill_begin(f->options.log, gap);
    if (f->fill == NULL) {
        return false;
    }
    f->next = (struct fill_request){.after = event_fill_begins(f->fill), .to = gap->to};
    f->tried = 0;
    f->continues = UINT64_MAX;
    return true;
}

static void look(struct gap_fill *f, uint64_t now_ms)
{
    struct event_gap gap;
    look_at(f, now_ms + FILL_LOOK_MS);
    f->is_stuck = true;
    if (!event_fill_find(f->options.log, &gap)) {
        return;
    }
    f->peer_count = f->options.peers(f->options.ctx, f->peers);
    if (f->peer_count == 0 || !begin(f, &gap)) {
        return;
    }
    f->is_stuck = gap.to == f->noted_to;             /* it was tried before */
    f->peer = (uint32_t)(f->number % f->peer_count); /* not always the same */
    journal_note(f->options.journal, INFO, DISK, "event_gap_filling",
                 JOURNAL_NUMBER("from", gap.from), JOURNAL_NUMBER("to", gap.to));
    send_request(f, now_ms);
}

static void begin_part(struct gap_fill *f, uint64_t now_ms)
{
    /* When that entry was applied is not known, but not later than the end of the gap. */
    struct event_gap part = {f->continues, f->gap.to, f->gap.to_ms, f->gap.to_ms};
    uint32_t peer = f->continues_peer;
    if (!begin(f, &part)) {
        look_at(f, now_ms + FILL_RETRY_MS);
        return;
    }
    f->peer = peer;
    f->tried = f->peer_count - 1; /* no other */
    send_request(f, now_ms);
}

void gap_fill_step(struct gap_fill *f, uint64_t now_ms)
{
    if (f->is_stopped || f->is_working || f->options.log == NULL || now_ms < f->due_ms) {
        return;
    }
    switch (f->state) {
    case FILL_LOOKING:
        look(f, now_ms);
        break;
    case FILL_CLOSING: /* closed */
        if (f->continues < f->gap.to && f->tried >= f->peer_count) {
            begin_part(f, now_ms);
        } else {
            look(f, now_ms);
        }
        break;
    case FILL_REQUESTED:
        next_peer(f, now_ms);
        break;
    case FILL_RESTING:
        send_request(f, now_ms);
        break;
    case FILL_WRITING: /* written */
        break;
    }
}

uint64_t gap_fill_next_ms(const struct gap_fill *f)
{
    bool waits = !f->is_stopped && !f->is_working &&
                 (f->state == FILL_RESTING || (f->state == FILL_CLOSING && f->options.log != NULL));
    return waits ? f->due_ms : UINT64_MAX;
}

static void after_write(struct gap_fill *f, uint64_t now_ms)
{
    uint64_t rest_ms = (uint64_t)f->answer_len * 1000 / FILL_BYTES_A_SECOND;
    uint64_t done = event_fill_done(f->fill);
    free_answer(f);
    if (!f->is_fine) {
        note_failure(f, f->problem.text);
        f->continues = UINT64_MAX;
        close_fill(f, now_ms + FILL_RETRY_MS);
    } else if (done == f->gap.to) {
        f->filled += f->gap.to - f->gap.from;
        journal_note(f->options.journal, INFO, DISK, "event_gap_filled",
                     JOURNAL_NUMBER("from", f->gap.from), JOURNAL_NUMBER("to", f->gap.to),
                     JOURNAL_NUMBER("peer", f->peers[f->peer]));
        f->continues = UINT64_MAX;
        close_fill(f, now_ms);
    } else {
        f->state = FILL_RESTING;
        f->due_ms = now_ms + rest_ms;
    }
}

static void on_worked(uv_work_t *work, int status)
{
    struct gap_fill *f = work->data;
    (void)status;
    f->is_working = false;
    if (f->is_stopped) {
        free_answer(f);
        if (f->fill != NULL) {
            event_fill_end(f->fill);
            f->fill = NULL;
        }
    } else if (f->state == FILL_WRITING) {
        after_write(f, f->options.now_ms(f->options.ctx));
    }
}

static void take_answer(struct gap_fill *f, struct slice body)
{
    f->is_stuck = false;
    f->answer_len = body.len;
    f->answer = memory_alloc(f->options.memory, body.len);
    memcpy(f->answer, body.data, body.len);
    run(f, FILL_WRITING, on_write);
}

bool gap_fill_on_answer(struct gap_fill *f, uint64_t peer, uint64_t number, uint8_t status,
                        struct slice body, uint64_t now_ms)
{
    struct reader r = reader_make(body);
    if (f->state != FILL_REQUESTED || number != f->number || peer != f->peers[f->peer]) {
        return true; /* late */
    }
    switch ((enum fill_status)status) {
    case FILL_HAS:
        if (body.len == 0) {
            return false;
        }
        take_answer(f, body);
        return true;
    case FILL_LACKS: {
        uint64_t continues = read_u64(&r);
        if (!reader_done(&r)) {
            return false;
        }
        if (continues > f->next.after.index && continues < f->continues) {
            f->continues = continues;
            f->continues_peer = f->peer;
        }
        next_peer(f, now_ms);
        return true;
    }
    case FILL_BUSY:
        f->state = FILL_RESTING;
        f->due_ms = now_ms + FILL_BUSY_MS;
        return true;
    case FILL_MALFORMED:
        break;
    }
    next_peer(f, now_ms);
    return true;
}

/* ---- for other nodes ---- */

static void lacks(struct fill_serve *serve, uint64_t continues)
{
    const struct gap_fill_options *o = &serve->owner->options;
    uint8_t bytes[10];
    struct writer w = writer_make(bytes, sizeof(bytes));
    write_u64(&w, continues);
    o->answer(o->ctx, serve->peer, serve->link, serve->number, FILL_LACKS,
              slice_make(bytes, (size_t)(w.at - bytes)));
}

static void on_page(struct gateway_scan_call *call, enum hf_error error,
                    const struct event_page *page, const char *why)
{
    struct fill_serve *serve = call->owner;
    const struct gap_fill_options *o = &serve->owner->options;
    struct buffer out;
    uint64_t continues = UINT64_MAX;
    (void)why;
    serve->is_used = false;
    if (page == NULL) {
        if (error == HF_EVENT_LOG) {
            lacks(serve, continues);
        } else {
            o->answer(o->ctx, serve->peer, serve->link, serve->number, FILL_BUSY,
                      slice_make(NULL, 0));
        }
        return;
    }
    buffer_init(&out, o->memory, 4 << 20);
    if (fill_answer_encode(&serve->request, page, o->version(o->ctx), &out, &continues)) {
        o->answer(o->ctx, serve->peer, serve->link, serve->number, FILL_HAS, buffer_bytes(&out));
    } else {
        lacks(serve, continues);
    }
    buffer_close(&out);
}

bool gap_fill_on_request(struct gap_fill *f, uint64_t peer, uint64_t link, uint64_t number,
                         struct slice body, uint64_t now_ms)
{
    const struct gap_fill_options *o = &f->options;
    struct fill_request request;
    struct fill_serve *serve = NULL;
    if (!fill_request_decode(body, &request)) {
        return false;
    }
    for (unsigned i = 0; i < FILL_SERVES && serve == NULL; i++) {
        serve = f->serves[i].is_used ? NULL : &f->serves[i];
    }
    if (serve == NULL || f->is_stopped) {
        o->answer(o->ctx, peer, link, number, FILL_BUSY, slice_make(NULL, 0));
        return true;
    }
    *serve = (struct fill_serve){.owner = f,
                                 .is_used = true,
                                 .peer = peer,
                                 .link = link,
                                 .number = number,
                                 .request = request,
                                 .call = {.done = on_page, .owner = serve}};
    struct event_scan scan = fill_request_scan(&request);
    scan_threads_begin(o->scans, &scan, &serve->call, now_ms);
    return true;
}

/* ---- the end ---- */

void gap_fill_stop(struct gap_fill *f)
{
    if (f == NULL) {
        return;
    }
    f->is_stopped = true;
    if (!f->is_working && f->fill != NULL) {
        event_fill_end(f->fill);
        f->fill = NULL;
    }
}

void gap_fill_free(struct gap_fill *f)
{
    if (f == NULL) {
        return;
    }
    hf_assert(!f->is_working && f->fill == NULL);
    memory_free(f->options.memory, f, sizeof(*f));
}

uint64_t gap_fill_filled(const struct gap_fill *f)
{
    return f->filled;
}

bool gap_fill_is_stuck(const struct gap_fill *f)
{
    return f->is_stuck;
}
