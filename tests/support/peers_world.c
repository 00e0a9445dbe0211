/* See peers_world.h. */
#include "peers_world.h"

/* ---- what an end does ---- */

static const char *on_message(void *ctx, uint64_t peer, struct slice message)
{
    struct end *e = ctx;
    (void)peer;
    if (message.len == 5 && memcmp(message.data, "a lie", 5) == 0) {
        return "that cannot be true";
    }
    buffer_append_slice(&e->got, message);
    return NULL;
}

static bool on_request(void *ctx, uint64_t peer, uint64_t link, uint64_t number, uint8_t kind,
                       struct slice body)
{
    struct end *e = ctx;
    e->last_link = link;
    if (kind != 0) { /* 0 is not answered */
        peers_answer(e->peers, peer, link, number, kind, body);
    }
    return true;
}

static bool on_answer(void *ctx, uint64_t peer, uint64_t number, uint8_t status, struct slice body)
{
    struct end *e = ctx;
    (void)peer;
    buffer_printf(&e->answers, "%llu:%u:%.*s,", (unsigned long long)number, status, (int)body.len,
                  (const char *)body.data);
    return true;
}

static void on_up(void *ctx, uint64_t peer)
{
    struct end *e = ctx;
    (void)peer;
    e->up++;
}

static void on_down(void *ctx, uint64_t peer)
{
    struct end *e = ctx;
    (void)peer;
    e->down++;
}

static void on_ended(void *ctx, uint64_t peer)
{
    struct end *e = ctx;
    (void)peer;
    e->ended++;
}

static void on_snapshot_link(void *ctx, struct peer_link *link)
{
    struct end *e = ctx;
    e->snapshot_links++;
    peer_link_close(link, "the test does not want it");
}

static bool admits(void *ctx, uint64_t node, char sentence[PEER_SENTENCE_MAX])
{
    struct end *e = ctx;
    snprintf(sentence, PEER_SENTENCE_MAX, "node %d is no member", (int)node);
    return !e->is_no_member[node];
}

static enum peer_store find_store(void *ctx, uint64_t node, struct id store)
{
    const struct end *e = ctx;
    if (e->forgets) {
        peers_forget(e->peers, node);
    }
    return e->first_store_of[node] == 0           ? PEER_STORE_UNKNOWN
           : e->first_store_of[node] == store.low ? PEER_STORE_SAME
                                                  : PEER_STORE_OTHER;
}

static void note_store(void *ctx, uint64_t node, struct id store)
{
    struct end *e = ctx;
    assert_int_equal(e->first_store_of[node], 0);
    e->first_store_of[node] = store.low;
}

static void on_introduced(void *ctx, const struct peer_introduction *who)
{
    struct end *e = ctx;
    uint64_t node;
    struct id store;
    for (struct slice left = who->stores; peer_stores_next(&left, &node, &store);) {
        if (e->first_store_of[node] == 0) {
            e->first_store_of[node] = store.low;
        }
    }
}

static void on_cluster(void *ctx, struct id cluster, struct slice name)
{
    struct end *e = ctx;
    (void)name;
    e->self.cluster = cluster;
}

static void on_refused(void *ctx, const struct peer_refusal *refusal)
{
    struct end *e = ctx;
    e->refusals++;
    e->refusal = *refusal;
}

static bool wants(void *ctx, enum journal_level level, enum journal_subsystem subsystem)
{
    (void)ctx;
    (void)level;
    (void)subsystem;
    return true;
}

static void write_event(void *ctx, enum journal_level level, enum journal_subsystem subsystem,
                        const char *event, const struct journal_field *fields, size_t count)
{
    struct end *e = ctx;
    (void)level;
    (void)subsystem;
    const char *reason = "";
    for (size_t i = 0; i < count; i++) {
        if (strcmp(fields[i].name, "reason") == 0) {
            reason = fields[i].text;
        }
    }
    buffer_printf(&e->journal, "%s:%s;", event, reason);
}

static uint32_t state_version(void *ctx)
{
    return ((const struct end *)ctx)->state_version;
}

/* ---- the world ---- */

void world_open(struct peers_world *w)
{
    memset(w, 0, sizeof(*w));
    uv_loop_init(&w->loop);
    net_init(&w->net, &w->loop, memory_system());
}

void end_open(struct peers_world *w, int i, uint64_t node, uint64_t cluster, uint64_t store,
              uint64_t life)
{
    struct end *e = &w->ends[i];
    memset(e, 0, sizeof(*e));
    e->world = w;
    buffer_init(&e->got, memory_system(), 1 << 20);
    buffer_init(&e->answers, memory_system(), 1 << 20);
    buffer_init(&e->journal, memory_system(), 1 << 20);
    e->self = (struct peer_self){
        .cluster = {cluster, cluster}, .node = node, .store = {1, store}, .life = life, .state = 2};
    snprintf(e->self.cluster_name, sizeof(e->self.cluster_name), "cluster-%d", (int)cluster);
    snprintf(e->self.client_address, sizeof(e->self.client_address), "client-%d", (int)node);
    w->journal[i] = (struct journal){.wants = wants, .write = write_event, .ctx = e};
    struct peers_options options = {.net = &w->net,
                                    .journal = &w->journal[i],
                                    .self = &e->self,
                                    .listen = {.host = "127.0.0.1"},
                                    .ctx = e,
                                    .on_message = on_message,
                                    .on_request = on_request,
                                    .on_answer = on_answer,
                                    .on_up = on_up,
                                    .on_down = on_down,
                                    .on_ended = on_ended,
                                    .on_snapshot_link = on_snapshot_link,
                                    .admits = admits,
                                    .find_store = find_store,
                                    .note_store = note_store,
                                    .on_introduced = on_introduced,
                                    .state_version = state_version,
                                    .on_cluster = on_cluster,
                                    .on_refused = on_refused};
    char problem[512];
    e->peers = peers_new(&options, problem, sizeof(problem));
    assert_non_null(e->peers);
    snprintf(e->self.peer_address, sizeof(e->self.peer_address), "127.0.0.1:%d",
             (int)peers_port(e->peers));
}

void end_close(struct end *e)
{
    if (e->peers != NULL) {
        peers_close(e->peers);
        net_abort_all(&e->world->net, "the test closes it");
        for (int i = 0; i < 10; i++) {
            uv_run(&e->world->loop, UV_RUN_NOWAIT);
        }
        peers_free(e->peers);
        e->peers = NULL;
        buffer_close(&e->got);
        buffer_close(&e->answers);
        buffer_close(&e->journal);
    }
}

void world_close(struct peers_world *w)
{
    for (int i = 0; i < 4; i++) {
        end_close(&w->ends[i]);
    }
    uv_run(&w->loop, UV_RUN_DEFAULT);
    net_close(&w->net);
    uv_run(&w->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&w->loop), 0);
}

void let_dial_unknown(struct end *from, struct end *to)
{
    struct address address = {.host = "127.0.0.1", .port = peers_port(to->peers)};
    peers_set(from->peers, to->self.node, &address);
}

void let_dial(struct end *from, struct end *to)
{
    if (to->first_store_of[from->self.node] == 0) {
        to->first_store_of[from->self.node] = from->self.store.low;
    }
    let_dial_unknown(from, to);
}

bool says(struct buffer *b, const char *words)
{
    buffer_append_byte(b, 0);
    bool found = b->data != NULL && strstr((const char *)b->data + b->start, words) != NULL;
    buffer_truncate(b, buffer_len(b) - 1);
    return found;
}
