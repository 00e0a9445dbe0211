/* A backup: a snapshot that includes every command acknowledged before. A piece is read from disk
 * when the client has read the earlier ones: a slow client costs one of DOWNLOADS_MAX places and a
 * file, no memory.
 *
 *   BARRIER ──state is current──▶ TAKING ──file is there──▶ SENDING ──all read──▶ FLUSHING
 *      │                             │                         │                      │
 *      └──error──▶ 503               ├──error──▶ 503           │ client stalls,       │ sent
 *                                    └──TAKE_MS──▶ 503         ▼ read error           ▼
 *                                                            cut off                done */
#include <inttypes.h>
#include <stdio.h>

#include "service/http/api.h"
#include "service/http/reply.h"

enum {
    DOWNLOADS_MAX = 2,        /* at once: each keeps a file on disk */
    TAKE_MS = 300000,         /* to take the snapshot */
    STALL_MS = 30000,         /* without a byte read by the client */
    PIECE = 128 << 10,        /* bytes of one read, which blocks the event loop */
    BACKLOG_SOFT = 256 << 10, /* unsent bytes above which nothing is read */
    BACKLOG_END = 16 << 10,   /* unsent bytes at which the download is finished */
};

enum download_state { DOWNLOAD_BARRIER, DOWNLOAD_TAKING, DOWNLOAD_SENDING, DOWNLOAD_FLUSHING };

struct download {
    struct gateway_snapshot_call call;
    struct api_request *x;
    struct list link; /* in service.downloads */
    enum download_state state;
    uint64_t bytes;
    uint64_t offset;      /* of the next piece */
    size_t backlog;       /* lowest since the last piece; other streams may add to it */
    uint64_t deadline_ms; /* boot time */
};

static void close_file(struct download *d)
{
    struct service *s = d->x->service;
    if (d->state == DOWNLOAD_TAKING || d->state == DOWNLOAD_SENDING) {
        s->gateway.snapshot_close(s->gateway.ctx, &d->call);
    }
    d->state = DOWNLOAD_FLUSHING;
}

void download_abandon(struct api_request *x)
{
    struct download *d = x->download;
    if (d == NULL) {
        return;
    }
    close_file(d);
    list_remove(&d->link);
    x->service->download_count--;
    x->download = NULL;
    memory_free(x->service->memory, d, sizeof(*d));
}

static void refuse(struct api_request *x, enum hf_error error, const char *problem)
{
    download_abandon(x);
    api_request_fail(x, error, problem);
}

void download_drain(struct api_request *x)
{
    if (x->download->state == DOWNLOAD_TAKING) {
        refuse(x, HF_UNAVAILABLE, "the node is stopping; use another node");
    }
}

static void finish(struct api_request *x)
{
    download_abandon(x);
    x->service->requests++;
    x->transport->end(x, HF_OK, "end of the snapshot");
}

static bool send_piece(struct download *d)
{
    struct api_request *x = d->x;
    struct service *s = x->service;
    size_t len = d->bytes - d->offset < PIECE ? (size_t)(d->bytes - d->offset) : PIECE;
    buffer_truncate(&s->scratch, 0);
    uint8_t *to = buffer_reserve(&s->scratch, len);
    hf_assert(to != NULL);
    if (!s->gateway.snapshot_read(s->gateway.ctx, &d->call, d->offset, to, len)) {
        return false;
    }
    d->offset += len;
    x->transport->piece(x, slice_make(to, len));
    return true;
}

static void go_on(struct download *d, uint64_t now_ms)
{
    struct api_request *x = d->x;
    size_t backlog = x->transport->backlog(x);
    if (backlog < d->backlog) {
        d->backlog = backlog;
        d->deadline_ms = now_ms + STALL_MS;
    }
    while (d->offset < d->bytes && backlog < BACKLOG_SOFT) {
        if (!send_piece(d)) {
            finish(x);
            return;
        }
        d->deadline_ms = now_ms + STALL_MS;
        backlog = x->transport->backlog(x);
        d->backlog = backlog;
    }
    if (d->offset == d->bytes) {
        close_file(d);
    }
    bool is_done = d->offset == d->bytes && backlog <= BACKLOG_END;
    if (is_done || now_ms >= d->deadline_ms) {
        finish(x);
    }
}

static void begin_sending(struct api_request *x, const struct gateway_snapshot *about)
{
    struct download *d = x->download;
    char cluster[REPLY_ID + 1], index[24], term[24];
    reply_format_id(about->cluster, cluster);
    (void)snprintf(index, sizeof(index), "%" PRIu64, about->index);
    (void)snprintf(term, sizeof(term), "%" PRIu64, about->term);
    const struct http1_extra extra[] = {
        {"holdfast-snapshot-cluster", slice_of(cluster)},
        {"holdfast-snapshot-index", slice_of(index)},
        {"holdfast-snapshot-term", slice_of(term)},
        {"cache-control", slice_of("no-store")},
    };
    struct long_answer answer = {"application/octet-stream", about->bytes, extra,
                                 sizeof(extra) / sizeof(extra[0])};
    d->state = DOWNLOAD_SENDING;
    d->bytes = about->bytes;
    d->deadline_ms = service_boot_ms(x->service) + STALL_MS;
    x->transport->long_answer(x, &answer);
    if (x->method == HTTP_HEAD) {
        finish(x);
    }
}

static void on_taken(struct gateway_snapshot_call *call, enum hf_error error,
                     const struct gateway_snapshot *about, const char *problem)
{
    struct api_request *x = call->owner;
    hf_assert(x->download->state == DOWNLOAD_TAKING);
    if (error == HF_OK) {
        begin_sending(x, about);
    } else {
        refuse(x, error, problem);
    }
}

void download_run(struct service *s)
{
    struct list *next;
    uint64_t now_ms = s->download_count > 0 ? service_boot_ms(s) : 0;
    for (struct list *link = s->downloads.next; link != &s->downloads; link = next) {
        struct download *d = LIST_OBJECT(link, struct download, link);
        next = link->next;
        if (d->state == DOWNLOAD_SENDING || d->state == DOWNLOAD_FLUSHING) {
            go_on(d, now_ms);
        } else if (d->state == DOWNLOAD_TAKING && now_ms >= d->deadline_ms) {
            refuse(d->x, HF_UNAVAILABLE,
                   "this node did not take a snapshot in time; see its log, or use another node");
        }
    }
}

uint64_t download_next_ms(const struct service *s)
{
    uint64_t next_ms = UINT64_MAX;
    for (struct list *link = s->downloads.next; link != &s->downloads; link = link->next) {
        const struct download *d = LIST_OBJECT(link, struct download, link);
        uint64_t at_ms = d->state == DOWNLOAD_BARRIER ? UINT64_MAX : d->deadline_ms;
        size_t limit = d->state == DOWNLOAD_SENDING    ? BACKLOG_SOFT
                       : d->state == DOWNLOAD_FLUSHING ? BACKLOG_END + 1
                                                       : 0;
        if (limit > 0 && d->x->transport->backlog(d->x) < limit) {
            at_ms = 0;
        }
        next_ms = at_ms < next_ms ? at_ms : next_ms;
    }
    return next_ms;
}

static void on_barrier(void *owner, enum hf_error error, const struct result *result)
{
    struct api_request *x = owner;
    struct service *s = x->service;
    struct download *d = x->download;
    if (error != HF_OK || s->draining) {
        download_abandon(x);
        api_request_answered(x, error != HF_OK ? error : HF_UNAVAILABLE, result);
        return;
    }
    (void)pending_settle(x->pending);
    x->pending = NULL;
    d->state = DOWNLOAD_TAKING;
    d->deadline_ms = service_boot_ms(s) + TAKE_MS;
    s->gateway.snapshot_open(s->gateway.ctx, &d->call);
}

void api_snapshot(struct api_request *x)
{
    struct service *s = x->service;
    if (!x->is_operator) {
        api_request_fail(x, HF_DENIED, NULL);
        return;
    }
    if (s->gateway.snapshot_open == NULL) {
        api_request_fail(x, HF_NOT_FOUND, NULL);
        return;
    }
    if (s->download_count >= DOWNLOADS_MAX) {
        api_request_fail(x, HF_TOO_MANY_SNAPSHOTS, NULL);
        return;
    }
    struct download *d = memory_alloc(s->memory, sizeof(*d));
    *d = (struct download){.call = {.done = on_taken, .owner = x}, .x = x};
    list_init(&d->link);
    list_append(&s->downloads, &d->link);
    s->download_count++;
    x->download = d;
    x->pending = pending_barrier(s, on_barrier, x);
}
