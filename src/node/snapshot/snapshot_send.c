/* The sending side of a snapshot. */
#include "node/snapshot/snapshot_send.h"

#include <stdio.h>

struct sender {
    const struct snapshot_send_options *options;
    struct peer_link *link;
    struct snapshot_source *source; /* NULL before FETCH and after END */
};

void snapshot_fetch_encode(uint8_t at[SNAPSHOT_FETCH_BYTES], uint64_t index, uint64_t term,
                           uint64_t offset)
{
    struct writer w = writer_make(at, SNAPSHOT_FETCH_BYTES);
    write_fixed64(&w, index);
    write_fixed64(&w, term);
    write_fixed64(&w, offset);
    hf_assert(!w.full);
}

static void close_source(struct sender *s)
{
    if (s->source != NULL) {
        snapshot_source_close(s->source);
        s->source = NULL;
    }
}

/* Until the link has enough pending output, or all is sent. */
static void pump(struct sender *s)
{
    while (s->source != NULL && peer_link_pending(s->link) <= PEER_LINK_HIGH) {
        struct snapshot_piece piece;
        struct problem problem;
        if (snapshot_source_next(s->source, &piece, &problem) != STORAGE_OK) {
            journal_note(s->options->journal, ERROR, SNAPSHOT, "snapshot_unreadable",
                         JOURNAL_TEXT("reason", problem.text));
            peer_link_refuse(s->link, problem.text);
            close_source(s);
            return;
        }
        if (!peer_link_send(s->link, PEER_PIECE, piece.raw)) {
            peer_link_close(s->link, "cannot send");
            return;
        }
        if (piece.last) {
            peer_link_send(s->link, PEER_END, slice_make(NULL, 0));
            journal_note(s->options->journal, INFO, SNAPSHOT, "snapshot_sent",
                         JOURNAL_NUMBER("peer", s->link->peer),
                         JOURNAL_NUMBER("bytes", snapshot_source_bytes(s->source)));
            close_source(s);
        }
    }
    if (s->source != NULL) {
        peer_link_expect_drain(s->link);
    }
}

static bool on_frame(void *ctx, struct peer_link *link, enum peer_frame type, struct slice payload)
{
    struct sender *s = ctx;
    struct reader r = reader_make(payload);
    uint64_t index = read_fixed64(&r);
    uint64_t term = read_fixed64(&r);
    uint64_t offset = read_fixed64(&r);
    if (type != PEER_FETCH || !reader_done(&r) || s->source != NULL) {
        return false;
    }
    struct problem problem;
    enum storage_status status =
        snapshot_source_open(s->options->store->snapshots, index, term, &s->source, &problem);
    if (status != STORAGE_OK) {
        s->source = NULL;
        peer_link_refuse(link, problem.text);
        return true;
    }
    if (offset > 0 && !snapshot_source_skip(s->source, offset)) {
        return false;
    }
    pump(s);
    return true;
}

static bool check(void *ctx, struct peer_link *link, const struct peer_introduction *intro,
                  char sentence[PEER_SENTENCE_MAX])
{
    (void)ctx;
    (void)link;
    (void)intro;
    snprintf(sentence, PEER_SENTENCE_MAX, "the greeting is over");
    return false;
}

static void on_refused(void *ctx, struct peer_link *link, const char *sentence, bool by_us)
{
    struct sender *s = ctx;
    journal_note(s->options->journal, WARN, SNAPSHOT,
                 by_us ? "snapshot_refused" : "snapshot_not_wanted",
                 JOURNAL_NUMBER("peer", link->peer), JOURNAL_TEXT("reason", sentence));
}

static void on_ready(void *ctx, struct peer_link *link)
{
    (void)ctx;
    (void)link;
}

static void on_drained(void *ctx, struct peer_link *link)
{
    (void)link;
    pump(ctx);
}

static void on_close(void *ctx, struct peer_link *link, const char *reason)
{
    (void)link;
    (void)reason;
    struct sender *s = ctx;
    close_source(s);
    memory_free(s->options->memory, s, sizeof(*s));
}

static const struct peer_link_ops ops = {
    .check = check,
    .on_refused = on_refused,
    .on_ready = on_ready,
    .on_frame = on_frame,
    .on_drained = on_drained,
    .on_close = on_close,
};

void snapshot_send(const struct snapshot_send_options *options, struct peer_link *link)
{
    struct sender *s = memory_alloc(options->memory, sizeof(*s));
    *s = (struct sender){.options = options, .link = link};
    peer_link_hand_over(link, &ops, s);
}
