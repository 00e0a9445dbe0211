/* See snapshot_give.h. A file is opened once, when it is new enough, and stays pinned (S12.4) until
 * the call closes. */
#include "node/snapshot/snapshot_give.h"

struct giving {
    struct snapshot_gives *all;
    struct gateway_snapshot_call *call;
    struct list link; /* in `waiting` */
    uint64_t index;   /* minimum */
    struct snapshot_source *source;
    uint64_t given; /* bytes */
};

void snapshot_gives_init(struct snapshot_gives *g, const struct snapshot_give_options *options)
{
    *g = (struct snapshot_gives){.options = *options};
    list_init(&g->waiting);
}

void snapshot_give_open(struct snapshot_gives *g, uint64_t index,
                        struct gateway_snapshot_call *call)
{
    struct giving *giving = memory_alloc(g->options.memory, sizeof(*giving));
    *giving = (struct giving){.all = g, .call = call, .index = index};
    list_init(&giving->link);
    list_append(&g->waiting, &giving->link);
    call->in_flight = giving;
}

bool snapshot_give_read(struct gateway_snapshot_call *call, uint64_t offset, void *to, size_t len)
{
    struct giving *giving = call->in_flight;
    const struct snapshot_give_options *o = &giving->all->options;
    struct problem problem;
    hf_assert(giving->source != NULL);
    if (snapshot_source_read(giving->source, offset, to, len, &problem) != STORAGE_OK) {
        journal_note(o->journal, ERROR, SNAPSHOT, "snapshot_unreadable",
                     JOURNAL_TEXT("reason", problem.text));
        return false;
    }
    giving->given += len;
    return true;
}

static void prune(struct snapshot_gives *g);

static enum storage_status remove_old(void *ctx, struct problem *problem)
{
    struct snapshot_gives *g = ctx;
    return snapshots_prune(g->options.store->snapshots, problem);
}

static void on_removed(void *ctx, enum storage_status status, const struct problem *problem)
{
    (void)status; /* the logger reports failures itself */
    (void)problem;
    struct snapshot_gives *g = ctx;
    g->pruning = false;
    if (g->prune_again) {
        prune(g);
    }
}

static void prune(struct snapshot_gives *g)
{
    g->prune_again = g->pruning;
    if (!g->pruning) {
        g->pruning = true;
        logger_run(g->options.logger, remove_old, on_removed, g);
    }
}

static void close_source(struct giving *giving)
{
    struct snapshot_gives *g = giving->all;
    bool is_whole = giving->given == snapshot_source_bytes(giving->source);
    if (giving->given > 0) { /* else the client requested only the size */
        journal_note(g->options.journal, INFO, SNAPSHOT,
                     is_whole ? "snapshot_given" : "snapshot_cut",
                     JOURNAL_NUMBER("bytes", giving->given),
                     JOURNAL_NUMBER("of", snapshot_source_bytes(giving->source)));
    }
    snapshot_source_close(giving->source);
    prune(g);
}

void snapshot_give_close(struct gateway_snapshot_call *call)
{
    struct giving *giving = call->in_flight;
    list_remove(&giving->link);
    if (giving->source != NULL) {
        close_source(giving);
    }
    call->in_flight = NULL;
    memory_free(giving->all->options.memory, giving, sizeof(*giving));
}

static void open_newest(struct giving *giving)
{
    const struct snapshot_give_options *o = &giving->all->options;
    struct snapshots *snapshots = o->store->snapshots;
    struct problem problem;
    struct gateway_snapshot about = {.bytes = 0};
    snapshots_lock(snapshots);
    const struct snapshot_info *newest = snapshots_newest(snapshots);
    if (newest == NULL || newest->index < giving->index) { /* one is being installed */
        snapshots_unlock(snapshots);
        return;
    }
    list_remove(&giving->link);
    about.cluster = newest->cluster;
    about.index = newest->index;
    about.term = newest->term;
    enum storage_status status =
        snapshot_source_open(snapshots, newest->index, newest->term, &giving->source, &problem);
    snapshots_unlock(snapshots);
    if (status != STORAGE_OK) {
        giving->source = NULL;
        journal_note(o->journal, ERROR, SNAPSHOT, "snapshot_unreadable",
                     JOURNAL_TEXT("reason", problem.text));
        giving->call->done(giving->call, HF_UNAVAILABLE, NULL,
                           "this node cannot read its snapshot; its log has the reason");
        return;
    }
    about.bytes = snapshot_source_bytes(giving->source);
    giving->call->done(giving->call, HF_OK, &about, NULL);
}

bool snapshot_gives_step(struct snapshot_gives *g, uint64_t newest_index)
{
    struct list *next;
    for (struct list *link = g->waiting.next; link != &g->waiting; link = next) {
        struct giving *giving = LIST_OBJECT(link, struct giving, link);
        next = link->next;
        if (newest_index >= giving->index) {
            open_newest(giving); /* may close and free `giving` */
        }
    }
    return !list_is_empty(&g->waiting);
}

void snapshot_gives_fail(struct snapshot_gives *g, const char *problem)
{
    struct list *link;
    while ((link = list_take(&g->waiting)) != NULL) {
        struct giving *giving = LIST_OBJECT(link, struct giving, link);
        giving->call->done(giving->call, HF_UNAVAILABLE, NULL, problem);
    }
}
