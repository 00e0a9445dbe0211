/* Fetching a snapshot over a real socket from a sender that the test controls: slow, then silent. */
#include "base_testing.h"

#include "node/snapshot/snapshot_fetch.h"
#include "node/snapshot/snapshot_send.h"
#include "replica/replica.h"
#include "storage/disk_posix.h"
#include "temporary.h"

enum {
    ELECTION_MS = 300, /* so silence is noticed after 1.2 s */
    DRIP_MS = 200,
    DRIPS = 8, /* of one piece: 1.6 s */
    BLOCK = 64 << 10,
    INDEX = 40,
    TERM = 3,
};

static const struct id cluster = {9, 9};

struct folder {
    struct disk *disk;
    struct store store; /* only its snapshots */
};

struct world {
    uv_loop_t loop;
    struct net net;
    struct journal journal;
    struct peer_self selves[2];
    struct peers *peers[2]; /* the node that fetches, and the sender */
    struct folder folders[2];
    struct snapshot_fetch *fetch;
    uint8_t members[256];
    struct replica_snapshot about;
    int abandoned;

    /* The sender. */
    struct peer_link *link;
    struct snapshot_source *source;
    struct buffer drips; /* a frame that is on its way */
    size_t drip_len;
    uv_timer_t dripper;
    int fetches;
    uint64_t offset; /* as the last FETCH says */
};

/* ---- the sender ---- */

static uint64_t send_piece(struct world *w, struct buffer *to)
{
    struct snapshot_piece piece;
    struct problem problem;
    assert_int_equal(snapshot_source_next(w->source, &piece, &problem), STORAGE_OK);
    assert_true(peer_frame_append(to, PEER_PIECE, piece.raw));
    return piece.offset + piece.raw.len;
}

static void drip(uv_timer_t *timer)
{
    struct world *w = timer->data;
    size_t left = buffer_len(&w->drips);
    size_t n = left < w->drip_len ? left : w->drip_len;
    if (w->link == NULL || n == 0) {
        uv_timer_stop(timer);
        return;
    }
    buffer_append(connection_output(w->link->connection), w->drips.data + w->drips.start, n);
    buffer_consume(&w->drips, n);
}

static bool on_frame(void *ctx, struct peer_link *link, enum peer_frame type, struct slice payload)
{
    struct world *w = ctx;
    struct reader r = reader_make(payload);
    (void)link;
    assert_int_equal(type, PEER_FETCH);
    (void)read_fixed64(&r);
    (void)read_fixed64(&r);
    w->offset = read_fixed64(&r);
    w->fetches++;
    return true;
}

static bool check(void *ctx, struct peer_link *link, const struct peer_introduction *who,
                  char sentence[PEER_SENTENCE_MAX])
{
    (void)ctx;
    (void)link;
    (void)who;
    sentence[0] = '\0';
    return true;
}

static void on_refused(void *ctx, struct peer_link *link, const char *sentence, bool by_us)
{
    (void)ctx;
    (void)link;
    (void)by_us;
    fail_msg("%s", sentence);
}

static void on_ready(void *ctx, struct peer_link *link)
{
    (void)ctx;
    (void)link;
}

static void on_close(void *ctx, struct peer_link *link, const char *reason)
{
    struct world *w = ctx;
    (void)reason;
    if (w->link == link) {
        w->link = NULL;
    }
}

static const struct peer_link_ops sender_ops = {.check = check,
                                                .on_refused = on_refused,
                                                .on_ready = on_ready,
                                                .on_frame = on_frame,
                                                .on_close = on_close};

static void on_snapshot_link(void *ctx, struct peer_link *link)
{
    struct world *w = ctx;
    w->link = link;
    peer_link_hand_over(link, &sender_ops, w);
}

/* ---- peers that know each other ---- */

static bool admits(void *ctx, uint64_t node, char sentence[PEER_SENTENCE_MAX])
{
    (void)ctx;
    (void)node;
    sentence[0] = '\0';
    return true;
}

static enum peer_store find_store(void *ctx, uint64_t node, struct id store)
{
    (void)ctx;
    (void)node;
    (void)store;
    return PEER_STORE_SAME;
}

static void note_store(void *ctx, uint64_t node, struct id store)
{
    (void)ctx;
    (void)node;
    (void)store;
}

static void on_introduced(void *ctx, const struct peer_introduction *who)
{
    (void)ctx;
    (void)who;
}

static void on_peer(void *ctx, uint64_t peer)
{
    (void)ctx;
    (void)peer;
}

static uint32_t state_version(void *ctx)
{
    (void)ctx;
    return 0;
}

static bool wants(void *ctx, enum journal_level level, enum journal_subsystem subsystem)
{
    (void)ctx;
    (void)level;
    (void)subsystem;
    return false;
}

static void open_peers(struct world *w, int i)
{
    char problem[512];
    w->selves[i] = (struct peer_self){.cluster = cluster,
                                      .node = (uint64_t)i + 1,
                                      .store = {1, (uint64_t)i + 1},
                                      .life = 1,
                                      .state = 2};
    snprintf(w->selves[i].cluster_name, sizeof(w->selves[i].cluster_name), "test");
    struct peers_options options = {.net = &w->net,
                                    .journal = &w->journal,
                                    .self = &w->selves[i],
                                    .listen = {.host = "127.0.0.1"},
                                    .ctx = w,
                                    .on_up = on_peer,
                                    .on_down = on_peer,
                                    .on_ended = on_peer,
                                    .on_snapshot_link = on_snapshot_link,
                                    .admits = admits,
                                    .find_store = find_store,
                                    .note_store = note_store,
                                    .on_introduced = on_introduced,
                                    .state_version = state_version};
    w->peers[i] = peers_new(&options, problem, sizeof(problem));
    assert_non_null(w->peers[i]);
}

/* ---- the world ---- */

static void open_folder(struct folder *f)
{
    struct problem problem = {0};
    assert_int_equal(disk_posix_new(temporary_folder(NULL), &f->disk, &problem), STORAGE_OK);
    assert_int_equal(snapshots_open(f->disk, cluster, &f->store.snapshots, &problem), STORAGE_OK);
}

static void make_snapshot(struct world *w)
{
    static uint8_t body[4 * BLOCK];
    struct problem problem = {0};
    struct snapshot_output *output;
    struct snapshot_info info = {.cluster = cluster,
                                 .index = INDEX,
                                 .term = TERM,
                                 .configuration_index = 1,
                                 .configuration = w->about.members};
    struct snapshots *snapshots = w->folders[1].store.snapshots;
    assert_int_equal(snapshot_output_begin(snapshots, &info, BLOCK, &output, &problem), STORAGE_OK);
    assert_int_equal(snapshot_output_put(output, body, sizeof(body), &problem), STORAGE_OK);
    assert_int_equal(snapshot_output_finish(output, &problem), STORAGE_OK);
    assert_int_equal(snapshot_output_commit(output, &problem), STORAGE_OK);
    assert_int_equal(snapshot_source_open(snapshots, INDEX, TERM, &w->source, &problem),
                     STORAGE_OK);
}

static void on_fetched(void *ctx, struct core *core, uint64_t bytes)
{
    (void)ctx;
    (void)core;
    (void)bytes;
    fail();
}

static void on_abandoned(void *ctx)
{
    struct world *w = ctx;
    w->abandoned++;
}

static void on_failed(void *ctx, const char *text)
{
    (void)ctx;
    fail_msg("%s", text);
}

static void world_open(struct world *w)
{
    memset(w, 0, sizeof(*w));
    uv_loop_init(&w->loop);
    net_init(&w->net, &w->loop, memory_system());
    w->journal = (struct journal){.wants = wants};
    buffer_init(&w->drips, memory_system(), 1 << 20);
    uv_timer_init(&w->loop, &w->dripper);
    w->dripper.data = w;
    const struct replica_member member = {1, "n1", true};
    size_t len = replica_bootstrap_entry(&member, 1, w->members, sizeof(w->members));
    w->about = (struct replica_snapshot){
        .index = INDEX, .term = TERM, .members_index = 1, .members = slice_make(w->members, len)};
    for (int i = 0; i < 2; i++) {
        open_folder(&w->folders[i]);
        open_peers(w, i);
    }
    struct address address = {.host = "127.0.0.1", .port = peers_port(w->peers[1])};
    peers_set(w->peers[0], 2, &address);
    make_snapshot(w);
    struct snapshot_fetch_options options = {.net = &w->net,
                                             .journal = &w->journal,
                                             .self = &w->selves[0],
                                             .peers = w->peers[0],
                                             .store = &w->folders[0].store,
                                             .election_ms = ELECTION_MS,
                                             .ctx = w,
                                             .on_fetched = on_fetched,
                                             .on_abandoned = on_abandoned,
                                             .on_failed = on_failed};
    w->fetch = snapshot_fetch_new(&options);
}

static void world_close(struct world *w)
{
    snapshot_fetch_stop(w->fetch);
    uv_close((uv_handle_t *)&w->dripper, NULL);
    for (int i = 0; i < 2; i++) {
        peers_close(w->peers[i]);
    }
    net_abort_all(&w->net, "the test closes it");
    for (int i = 0; i < 10; i++) {
        uv_run(&w->loop, UV_RUN_NOWAIT);
    }
    snapshot_fetch_free(w->fetch);
    snapshot_source_close(w->source);
    for (int i = 0; i < 2; i++) {
        peers_free(w->peers[i]);
        snapshots_close(w->folders[i].store.snapshots);
        disk_posix_free(w->folders[i].disk);
    }
    buffer_close(&w->drips);
    uv_run(&w->loop, UV_RUN_DEFAULT);
    net_close(&w->net);
    uv_run(&w->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&w->loop), 0);
}

#define UNTIL(w, condition)                                  \
    do {                                                     \
        uint64_t end_ = uv_hrtime() + UINT64_C(60000000000); \
        while (!(condition) && uv_hrtime() < end_) {         \
            uv_run(&(w)->loop, UV_RUN_ONCE);                 \
        }                                                    \
        assert_true(condition);                              \
    } while (0)

/* ---- the test ---- */

static void a_slow_snapshot_is_waited_for_and_a_silent_one_taken_up_again(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    snapshot_fetch_start(w.fetch, 2, &w.about);
    UNTIL(&w, w.fetches == 1);
    assert_int_equal(w.offset, 0);
    send_piece(&w, connection_output(w.link->connection));
    uint64_t sent = send_piece(&w, &w.drips);
    w.drip_len = buffer_len(&w.drips) / DRIPS + 1;
    uv_timer_start(&w.dripper, drip, 1, DRIP_MS);
    UNTIL(&w, buffer_len(&w.drips) == 0 || w.abandoned > 0);
    assert_int_equal(w.abandoned, 0);
    UNTIL(&w, w.abandoned == 1); /* nothing follows */
    assert_false(snapshot_fetch_is_busy(w.fetch));

    snapshot_fetch_start(w.fetch, 2, &w.about);
    UNTIL(&w, w.fetches == 2);
    assert_int_equal(w.offset, sent);
    UNTIL(&w, w.abandoned == 2);

    w.about.index++; /* another one begins with its first byte */
    snapshot_fetch_start(w.fetch, 2, &w.about);
    UNTIL(&w, w.fetches == 3);
    assert_int_equal(w.offset, 0);
    world_close(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_slow_snapshot_is_waited_for_and_a_silent_one_taken_up_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
