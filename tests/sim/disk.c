/* The disk's thread of a node: the production storage on a disk in memory, with time of its own.
 *
 * One piece of work is under way at a time, and is done on the disk when its time is over. A crash
 * that comes before that lets it do a part of its operations: so a write is there and not synced, a
 * name is given and the folder not synced, and so on. What becomes of that is for the fake disk to
 * decide (a power cut) or for the next life to meet (a crash of the process). */
#include "append_directly.h"
#include "world.h"

enum { FULL_RETRY_US = 500000, MERGE_ENTRIES = 256, READ_AHEAD = 16 << 10 };

struct disk_job {
    struct disk_job *next;
    disk_work_fn work; /* NULL: a write */
    disk_done_fn done;
    uint64_t first;
    uint32_t count;
    struct replica_entry entries[];
};

struct disk_queue {
    struct disk_job *first;
    struct disk_job *last;
    uint32_t running; /* jobs from the front that are under way, as one */
    uint64_t idle_since_us;
};

static void advance(struct sim_node *n);

/* ---- doing it ---- */

static enum storage_status append(struct sim_node *n, const struct disk_queue *q,
                                  struct problem *problem)
{
    static struct log_entry merged[MERGE_ENTRIES + 64];
    size_t count = 0;
    const struct disk_job *job = q->first;
    for (uint32_t i = 0; i < q->running; i++, job = job->next) {
        for (uint32_t k = 0; k < job->count; k++) {
            merged[count++] = (struct log_entry){job->entries[k].term, job->entries[k].type,
                                                 job->entries[k].bytes};
        }
    }
    /* Both ways of the node's logger, as they come. */
    return q->first->first % 2 == 0
               ? append_directly(n->store.log, q->first->first, merged, count, problem)
               : log_append(n->store.log, q->first->first, merged, count, problem);
}

static enum storage_status perform(struct sim_node *n, struct problem *problem)
{
    const struct disk_queue *q = n->queue;
    return q->first->work == NULL ? append(n, q, problem) : q->first->work(n, problem);
}

static struct disk_job *take(struct disk_queue *q)
{
    struct disk_job *job = q->first;
    q->first = job->next;
    if (q->first == NULL) {
        q->last = NULL;
    }
    return job;
}

/* Tells the replica. Each of these calls may request more work, behind what is there. */
static void tell(struct sim_node *n, enum storage_status status)
{
    struct disk_queue *q = n->queue;
    uint32_t life = n->life;
    struct disk_job *reported[MERGE_ENTRIES + 1];
    uint32_t count = q->running;
    for (uint32_t i = 0; i < count; i++) {
        reported[i] = take(q);
    }
    q->running = 0;
    q->idle_since_us = world.now_us;
    for (uint32_t i = 0; i < count && n->up && n->life == life; i++) {
        struct disk_job *job = reported[i];
        if (job->work == NULL) {
            shadow_wrote(n, job->first, job->entries, job->count);
        }
    }
    for (uint32_t i = 0; i < count; i++) {
        struct disk_job *job = reported[i];
        if (n->up && n->life == life) {
            if (job->work == NULL) {
                replica_written(n->replica, job->first + job->count - 1, node_time(n));
                node_after(n);
            } else {
                job->done(n, status);
            }
        }
        free(job);
    }
}

static void on_time(struct happening *h)
{
    struct sim_node *n = &world.nodes[h->node];
    if (!node_is(h)) {
        return;
    }
    struct problem problem;
    enum storage_status status = perform(n, &problem);
    if (status == STORAGE_FULL && n->queue->first->work == NULL) {
        happen(FULL_RETRY_US, on_time, n->id); /* as the node's logger does */
        return;
    }
    if (status != STORAGE_OK && status != STORAGE_FULL) {
        node_fail(n, problem.text);
        node_after(n);
        return;
    }
    tell(n, status);
    if (node_is(h)) {
        advance(n);
    }
}

static uint64_t work_us(const struct sim_node *n)
{
    uint64_t us = 100 + chance_below(600);
    if (is_rough() && one_in(world.weather.slow_write)) {
        us += 10000 + chance_below(200000);
    }
    if (world.now_us < n->slow_until_us) {
        us += n->slow_us / 4 + chance_below(n->slow_us);
    }
    return us;
}

/* Writes that go on where the one before ends are made one, as the node does it. */
static void advance(struct sim_node *n)
{
    struct disk_queue *q = n->queue;
    if (q->first == NULL || q->running > 0) {
        return;
    }
    q->running = 1;
    const struct disk_job *job = q->first;
    uint32_t count = job->count;
    while (job->work == NULL && job->next != NULL && job->next->work == NULL &&
           job->next->first == job->first + job->count &&
           count + job->next->count <= MERGE_ENTRIES) {
        job = job->next;
        count += job->count;
        q->running++;
    }
    happen(work_us(n), on_time, n->id);
}

static void enqueue(struct sim_node *n, struct disk_job *job)
{
    struct disk_queue *q = n->queue;
    if (q->last != NULL) {
        q->last->next = job;
    } else {
        q->first = job;
    }
    q->last = job;
    advance(n);
}

void disk_run(struct sim_node *n, disk_work_fn work, disk_done_fn done)
{
    struct disk_job *job = calloc(1, sizeof(*job));
    job->work = work;
    job->done = done;
    enqueue(n, job);
}

/* ---- the log ---- */

static void forget_piece(struct sim_node *n)
{
    log_piece_free(&n->piece);
    n->piece = (struct log_piece){0};
}

void disk_write_entries(struct sim_node *n, uint64_t first, const struct replica_entry *entries,
                        uint32_t count)
{
    if (n->piece.count > 0 && first <= n->piece.first + n->piece.count - 1) {
        forget_piece(n);
    }
    struct disk_job *job = calloc(1, sizeof(*job) + count * sizeof(job->entries[0]));
    job->first = first;
    job->count = count;
    memcpy(job->entries, entries, count * sizeof(*entries)); /* the bytes are borrowed */
    enqueue(n, job);
}

bool disk_read_entry(struct sim_node *n, uint64_t index, struct replica_entry *out)
{
    struct log_piece *piece = &n->piece;
    if (index < piece->first || index >= piece->first + piece->count) {
        struct problem problem;
        struct log *log = n->store.log;
        forget_piece(n);
        if (n->failed || index < log_first(log) || index > log_last(log)) {
            return false;
        }
        if (log_read(log, index, UINT64_MAX, READ_AHEAD, piece, &problem) != STORAGE_OK) {
            *piece = (struct log_piece){0};
            node_fail(n, problem.text);
            return false;
        }
    }
    const struct log_entry *entry = &piece->entries[index - piece->first];
    *out = (struct replica_entry){entry->term, entry->type, entry->data};
    return true;
}

uint64_t disk_pending_from(const struct sim_node *n)
{
    uint64_t from = UINT64_MAX;
    for (const struct disk_job *job = n->queue->first; job != NULL; job = job->next) {
        if (job->work == NULL && job->first < from) {
            from = job->first;
        }
    }
    return from;
}

static enum storage_status prepare(struct sim_node *n, struct problem *problem)
{
    return log_prepare(n->store.log, problem);
}

static enum storage_status seal(struct sim_node *n, struct problem *problem)
{
    return log_seal(n->store.log, problem);
}

static void nothing(struct sim_node *n, enum storage_status status)
{
    (void)n;
    (void)status;
}

void disk_idle(struct sim_node *n)
{
    if (n->queue->first != NULL) {
        return;
    }
    if (log_wants_prepare(n->store.log)) {
        disk_run(n, prepare, nothing);
    } else if (log_wants_seal(n->store.log) && world.now_us > n->queue->idle_since_us + 1000000) {
        disk_run(n, seal, nothing);
    }
}

/* ---- life ---- */

bool disk_begin(struct sim_node *n, struct problem *problem)
{
    struct store_options options = {
        .node = (uint64_t)n->id,
        .new_store = {chance() | 1, chance()},
        .segment_bytes = 32768,
        .spare_limit = 2,
        .direct = true,
    };
    struct disk *disk = disk_fake_disk(n->fake);
    if (store_open(&n->store, disk, &options, problem) != STORAGE_OK) {
        return false;
    }
    if (known_stores_load(&n->known, disk, problem) != STORAGE_OK) {
        store_close(&n->store);
        return false;
    }
    n->queue = calloc(1, sizeof(*n->queue));
    return true;
}

/* What is under way is done in part; from then on nothing reaches the disk, whatever is tried. */
void disk_crash(struct sim_node *n, bool power)
{
    struct problem ignored;
    if (n->queue->running > 0 && !n->failed && !disk_fake_has_stopped(n->fake)) {
        disk_fake_stop_after(n->fake, chance_below(5));
        (void)perform(n, &ignored);
    }
    disk_fake_stop_after(n->fake, 0);
    (void)disk_sync_folder(disk_fake_disk(n->fake), &ignored);
    snapshot_forget(n);
    while (n->queue->first != NULL) {
        free(take(n->queue));
    }
    free(n->queue);
    n->queue = NULL;
    forget_piece(n);
    store_close(&n->store);
    if (power) {
        disk_fake_power_cut(n->fake);
    } else {
        disk_fake_crash(n->fake);
    }
}
