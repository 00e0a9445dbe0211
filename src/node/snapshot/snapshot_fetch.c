/* The receiving side of a snapshot. */
#include "node/snapshot/snapshot_fetch.h"

#include <stdio.h>

#include "net/dialer.h"
#include "node/snapshot/snapshot_patience.h"
#include "node/snapshot/snapshot_send.h"
#include "node/snapshot/state_load.h"

enum {
    CONNECT_MS = 1000,
    WAIT_MIN_MS = 50,
    WAIT_MAX_MS = 1000,
    KEEP_MS = 60000, /* of an abandoned snapshot */
};

enum snapshot_fetch_phase { IDLE, RECEIVING, INSTALLING };

struct snapshot_fetch {
    struct snapshot_fetch_options options;
    enum snapshot_fetch_phase phase;
    uint64_t peer;
    uint64_t index;
    uint64_t term;
    struct snapshot_intake *intake; /* while idle: kept bytes of the abandoned snapshot */
    struct dialer *dialer;
    struct peer_link *link;
    struct snapshot_patience patience;
    uv_timer_t timer; /* for `patience`; while idle, for the kept intake */
    uint64_t started_ms;
    struct core *core;
    uint64_t bytes; /* of the file */
    bool stopped;
};

static uint64_t now_ms(const struct snapshot_fetch *s)
{
    return uv_now(s->options.net->loop);
}

static void disconnect(struct snapshot_fetch *s)
{
    dialer_close(s->dialer);
    s->dialer = NULL;
    if (s->link != NULL) {
        struct peer_link *link = s->link;
        s->link = NULL;
        peer_link_close(link, "no longer needed");
    }
    uv_timer_stop(&s->timer);
}

static void drop_intake(struct snapshot_fetch *s)
{
    snapshot_intake_abort(s->intake);
    s->intake = NULL;
}

static void on_keep_timeout(uv_timer_t *timer)
{
    drop_intake(timer->data);
}

/* Only the intake's file was written: the node continues with its log. `keeps`: the received bytes
 * are valid, and the leader repeats its announcement. */
static void abandon(struct snapshot_fetch *s, const char *reason, bool keeps)
{
    journal_note(s->options.journal, WARN, SNAPSHOT, "snapshot_abandoned",
                 JOURNAL_NUMBER("index", s->index), JOURNAL_NUMBER("peer", s->peer),
                 JOURNAL_TEXT("reason", reason));
    disconnect(s);
    if (keeps) {
        uv_timer_start(&s->timer, on_keep_timeout, KEEP_MS, 0);
    } else {
        drop_intake(s);
    }
    s->phase = IDLE;
    s->options.on_abandoned(s->options.ctx);
}

static void on_timeout(uv_timer_t *timer)
{
    struct snapshot_fetch *s = timer->data;
    if (s->link != NULL) {
        snapshot_patience_note_bytes(&s->patience, s->link);
    }
    uint64_t end_ms = snapshot_patience_end_ms(&s->patience);
    if (now_ms(s) < end_ms) {
        uv_timer_start(&s->timer, on_timeout, end_ms - now_ms(s), 0);
    } else {
        abandon(s, "its sender is silent, or too slow", true);
    }
}

static enum storage_status install(void *ctx, struct problem *problem)
{
    struct snapshot_fetch *s = ctx;
    struct snapshot_intake *intake = s->intake;
    s->intake = NULL;
    enum storage_status status = snapshot_intake_commit(intake, problem);
    if (status == STORAGE_OK) {
        status =
            state_load(s->options.store, s->index, s->term, &s->options.core, &s->core, problem);
    }
    /* Only after the snapshot that replaces the log is durable and checked. */
    if (status == STORAGE_OK) {
        status = log_reset(s->options.store->log, s->index, s->term, problem);
    }
    if (status == STORAGE_OK) {
        s->bytes = snapshots_newest_bytes(s->options.store->snapshots);
        status = snapshots_prune(s->options.store->snapshots, problem);
    }
    return status;
}

static void on_installed(void *ctx, enum storage_status status, const struct problem *problem)
{
    struct snapshot_fetch *s = ctx;
    struct core *core = s->core;
    s->core = NULL;
    s->phase = IDLE;
    if (s->stopped || status != STORAGE_OK) {
        core_free(core);
        if (!s->stopped) {
            s->options.on_failed(s->options.ctx, problem->text);
        }
        return;
    }
    journal_note(s->options.journal, INFO, SNAPSHOT, "snapshot_installed",
                 JOURNAL_NUMBER("index", s->index), JOURNAL_NUMBER("peer", s->peer),
                 JOURNAL_NUMBER("ms", now_ms(s) - s->started_ms));
    s->options.on_fetched(s->options.ctx, core, s->bytes);
}

static bool on_frame(void *ctx, struct peer_link *link, enum peer_frame type, struct slice payload)
{
    struct snapshot_fetch *s = ctx;
    struct problem problem;
    if (s->link != link) {
        return true;
    }
    if (type == PEER_PIECE) {
        snapshot_patience_piece(&s->patience, now_ms(s));
        if (snapshot_intake_feed(s->intake, payload.data, payload.len, &problem) != STORAGE_OK) {
            abandon(s, problem.text, false);
        }
        return true;
    }
    if (type != PEER_END) {
        return false;
    }
    if (!snapshot_intake_is_complete(s->intake)) {
        abandon(s, "it ended too early", false);
        return true;
    }
    disconnect(s);
    s->phase = INSTALLING;
    logger_run(s->options.logger, install, on_installed, s);
    return true;
}

static bool check(void *ctx, struct peer_link *link, const struct peer_introduction *intro,
                  char sentence[PEER_SENTENCE_MAX])
{
    (void)link;
    struct snapshot_fetch *s = ctx;
    return peers_check(s->options.peers, intro, true, sentence);
}

static void on_refused(void *ctx, struct peer_link *link, const char *sentence, bool by_us)
{
    (void)by_us;
    struct snapshot_fetch *s = ctx;
    if (s->link == link && s->phase == RECEIVING) {
        abandon(s, sentence, false);
    }
}

static void on_ready(void *ctx, struct peer_link *link)
{
    struct snapshot_fetch *s = ctx;
    if (s->link != link) {
        peer_link_close(link, "no longer needed");
        return;
    }
    uint8_t wanted[SNAPSHOT_FETCH_BYTES];
    snapshot_fetch_encode(wanted, s->index, s->term, snapshot_intake_received(s->intake));
    peer_link_send(link, PEER_FETCH, slice_make(wanted, sizeof(wanted)));
}

static void on_close(void *ctx, struct peer_link *link, const char *reason)
{
    struct snapshot_fetch *s = ctx;
    if (s->link != link) {
        return;
    }
    s->link = NULL;
    snapshot_patience_note_bytes(&s->patience, link);
    if (s->dialer != NULL) {
        journal_note(s->options.journal, WARN, SNAPSHOT, "snapshot_connection_lost",
                     JOURNAL_NUMBER("peer", s->peer), JOURNAL_TEXT("reason", reason));
        dialer_lost(s->dialer);
    }
}

static const struct peer_link_ops ops = {
    .check = check,
    .on_refused = on_refused,
    .on_ready = on_ready,
    .on_frame = on_frame,
    .on_close = on_close,
};

static void on_connected(void *ctx, struct connection *c)
{
    struct snapshot_fetch *s = ctx;
    peers_secure(s->options.peers, c, true);
    s->link =
        peer_link_dial(s->options.net, c, s->options.self, s->peer, PEER_FOR_SNAPSHOT, &ops, s);
    snapshot_patience_connected(&s->patience, s->link);
}

/* Whether the kept intake begins this snapshot. FETCH then requests only the rest. */
static bool is_kept(const struct snapshot_fetch *s, uint64_t peer,
                    const struct replica_snapshot *about)
{
    return s->intake != NULL && s->peer == peer && s->index == about->index &&
           s->term == about->term;
}

void snapshot_fetch_start(struct snapshot_fetch *s, uint64_t peer,
                          const struct replica_snapshot *about)
{
    if (s->phase != IDLE) {
        return;
    }
    struct snapshot_info expected = {.cluster = s->options.self->cluster,
                                     .index = about->index,
                                     .term = about->term,
                                     .configuration_index = about->members_index,
                                     .configuration = about->members};
    struct problem problem;
    uv_timer_stop(&s->timer);
    if (!is_kept(s, peer, about)) {
        drop_intake(s);
        if (snapshot_intake_begin(s->options.store->snapshots, &expected, &s->intake, &problem) !=
            STORAGE_OK) {
            s->intake = NULL;
            s->options.on_failed(s->options.ctx, problem.text);
            return;
        }
    }
    s->peer = peer;
    s->index = about->index;
    s->term = about->term;
    s->started_ms = now_ms(s);
    s->phase = RECEIVING;
    journal_note(s->options.journal, INFO, SNAPSHOT, "snapshot_fetching",
                 JOURNAL_NUMBER("index", s->index), JOURNAL_NUMBER("peer", peer),
                 JOURNAL_NUMBER("from", snapshot_intake_received(s->intake)));
    snapshot_patience_begin(&s->patience, s->options.election_ms, s->started_ms);
    uv_timer_start(&s->timer, on_timeout, s->patience.silence_ms, 0);
    const struct address *address = peers_address(s->options.peers, peer);
    if (address == NULL) {
        return; /* removed meanwhile; the timer ends the fetch */
    }
    struct dialer_options options = {.address = *address,
                                     .connection = peer_connection_options,
                                     .connect_ms = CONNECT_MS,
                                     .wait_min_ms = WAIT_MIN_MS,
                                     .wait_max_ms = WAIT_MAX_MS,
                                     .on_connected = on_connected,
                                     .ctx = s};
    s->dialer = dialer_new(s->options.net, &options);
}

bool snapshot_fetch_is_busy(const struct snapshot_fetch *s)
{
    return s->phase != IDLE;
}

struct snapshot_fetch *snapshot_fetch_new(const struct snapshot_fetch_options *options)
{
    struct snapshot_fetch *s = memory_alloc(options->net->memory, sizeof(*s));
    memset(s, 0, sizeof(*s));
    s->options = *options;
    uv_timer_init(options->net->loop, &s->timer);
    s->timer.data = s;
    return s;
}

void snapshot_fetch_stop(struct snapshot_fetch *s)
{
    s->stopped = true;
    disconnect(s);
    uv_close((uv_handle_t *)&s->timer, NULL);
}

void snapshot_fetch_free(struct snapshot_fetch *s)
{
    if (s == NULL) {
        return;
    }
    if (s->intake != NULL) {
        snapshot_intake_abort(s->intake);
    }
    core_free(s->core);
    memory_free(s->options.net->memory, s, sizeof(*s));
}
