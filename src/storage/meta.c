/* The two copies of the meta file (see meta.h).
 *
 * A copy is written only while the other one is valid and durable. Every write has its own number:
 * the copy with the lower number is the durable one.
 *
 * At opening, if both are valid, the newer one may be visible without being durable: the process
 * died between write and sync. So it is written again, unchanged, before the older one is touched.
 * If one is not valid, it was being written, and the other one is durable. */
#include "storage/meta.h"

#include <inttypes.h>
#include <string.h>

#include "base/panic.h"
#include "storage/bytes.h"

enum {
    COPY_BYTES = 4096,
    META_VERSION = 1,
    FLAG_BOOTSTRAPPED = 1,
    FLAG_LOG_MADE = 2,
};

/* Offsets in a copy. Those of checksum, magic and version are the same in all versions. */
enum {
    AT_CHECKSUM = 0,
    AT_MAGIC = 8,
    AT_VERSION = 16,
    AT_FLAGS = 20,
    AT_SEQUENCE = 24,
    AT_CLUSTER = 32,
    AT_STORE = 48,
    AT_NODE = 64,
    AT_TERM = 72,
    AT_VOTE = 80,
    AT_LIFE = 88,
};

#define TEMPORARY "meta.tmp"

static const char magic[8] = "HOLDMETA";

static void encode(const struct meta_state *state, uint64_t sequence, uint8_t *copy)
{
    memset(copy, 0, COPY_BYTES);
    memcpy(copy + AT_MAGIC, magic, sizeof(magic));
    put_u32(copy + AT_VERSION, META_VERSION);
    put_u32(copy + AT_FLAGS, (state->bootstrapped ? (uint32_t)FLAG_BOOTSTRAPPED : 0) |
                                 (state->log_made ? (uint32_t)FLAG_LOG_MADE : 0));
    put_u64(copy + AT_SEQUENCE, sequence);
    put_u64(copy + AT_CLUSTER, state->cluster.high);
    put_u64(copy + AT_CLUSTER + 8, state->cluster.low);
    put_u64(copy + AT_STORE, state->store.high);
    put_u64(copy + AT_STORE + 8, state->store.low);
    put_u64(copy + AT_NODE, state->node);
    put_u64(copy + AT_TERM, state->term);
    put_u64(copy + AT_VOTE, state->vote);
    put_u64(copy + AT_LIFE, state->life);
    put_u64(copy + AT_CHECKSUM, storage_checksum(copy + 8, COPY_BYTES - 8, 0));
}

static bool is_sound(const uint8_t *copy)
{
    return memcmp(copy + AT_MAGIC, magic, sizeof(magic)) == 0 &&
           get_u64(copy + AT_CHECKSUM) == storage_checksum(copy + 8, COPY_BYTES - 8, 0);
}

static void decode(struct meta *meta, const uint8_t *copy)
{
    uint32_t flags = get_u32(copy + AT_FLAGS);
    meta->sequence = get_u64(copy + AT_SEQUENCE);
    meta->state = (struct meta_state){
        .cluster = {get_u64(copy + AT_CLUSTER), get_u64(copy + AT_CLUSTER + 8)},
        .store = {get_u64(copy + AT_STORE), get_u64(copy + AT_STORE + 8)},
        .node = get_u64(copy + AT_NODE),
        .term = get_u64(copy + AT_TERM),
        .vote = get_u64(copy + AT_VOTE),
        .life = get_u64(copy + AT_LIFE),
        .bootstrapped = (flags & FLAG_BOOTSTRAPPED) != 0,
        .log_made = (flags & FLAG_LOG_MADE) != 0,
    };
}

/* ---- reading ---- */

/* Selects the newest valid copy. */
static enum storage_status choose(struct meta *meta, const uint8_t *copies, struct problem *problem)
{
    bool found = false;
    meta->repaired = false;
    for (unsigned i = 0; i < 2; i++) {
        const uint8_t *copy = copies + i * COPY_BYTES;
        if (!is_sound(copy)) {
            meta->repaired = true;
            continue;
        }
        uint32_t version = get_u32(copy + AT_VERSION);
        if (version != META_VERSION) {
            return problem_set(problem, STORAGE_VERSION,
                               "%s has format version %" PRIu32 ", this program knows %d: use the "
                               "version of Holdfast that wrote it, or a newer one",
                               META_NAME, version, META_VERSION);
        }
        if (!found || get_u64(copy + AT_SEQUENCE) > meta->sequence) {
            decode(meta, copy);
            meta->newest = i;
            found = true;
        }
    }
    if (!found) {
        return problem_set(problem, STORAGE_CORRUPT,
                           "%s is damaged: neither of its two copies of term and vote has a right "
                           "checksum. Without them the node could vote twice" STORAGE_ADVICE,
                           META_NAME);
    }
    return STORAGE_OK;
}

enum storage_status meta_open(struct meta *meta, struct disk *disk, struct problem *problem)
{
    *meta = (struct meta){0};
    uint8_t copies[2 * COPY_BYTES] = {0};
    size_t got;
    enum storage_status status = disk_open(disk, META_NAME, DISK_WRITE, &meta->file, problem);
    if (status == STORAGE_OK) {
        status = disk_read(meta->file, 0, copies, sizeof(copies), &got, problem);
    }
    return status == STORAGE_OK ? choose(meta, copies, problem) : status;
}

void meta_close(struct meta *meta)
{
    disk_close(meta->file);
    meta->file = NULL;
}

/* ---- writing ---- */

static enum storage_status write_copy(struct meta *meta, unsigned which,
                                      const struct meta_state *state, struct problem *problem)
{
    uint8_t copy[COPY_BYTES];
    encode(state, meta->sequence, copy);
    enum storage_status status =
        disk_write(meta->file, which * COPY_BYTES, copy, sizeof(copy), problem);
    if (status == STORAGE_OK) {
        status = disk_sync(meta->file, problem);
    }
    if (status == STORAGE_OK) {
        meta->newest = which;
    }
    return status;
}

/* The older copy first. */
static enum storage_status write_both(struct meta *meta, const struct meta_state *state,
                                      struct problem *problem)
{
    enum storage_status status = STORAGE_OK;
    for (int i = 0; i < 2 && status == STORAGE_OK; i++) {
        meta->sequence++;
        status = write_copy(meta, 1 - meta->newest, state, problem);
    }
    if (status == STORAGE_OK) {
        meta->state = *state;
    } else {
        meta->broken = *problem;
    }
    return status;
}

enum storage_status meta_begin_life(struct meta *meta, struct problem *problem)
{
    enum storage_status status = STORAGE_OK;
    if (!meta->repaired) {
        status = write_copy(meta, meta->newest, &meta->state, problem);
    }
    if (status != STORAGE_OK) {
        meta->broken = *problem;
        return status;
    }
    struct meta_state next = meta->state;
    next.life++;
    return write_both(meta, &next, problem);
}

enum storage_status meta_save(struct meta *meta, const struct meta_state *next,
                              struct problem *problem)
{
    const struct meta_state *now = &meta->state;
    hf_assert(next->term >= now->term);
    hf_assert(next->term > now->term || now->vote == 0 || next->vote == now->vote);
    hf_assert(id_equal(next->store, now->store) && next->node == now->node);
    hf_assert(id_equal(next->cluster, now->cluster) || id_is_zero(now->cluster));
    hf_assert(next->life == now->life && (next->log_made || !now->log_made));
    if (meta->broken.status != STORAGE_OK) {
        *problem = meta->broken;
        return problem->status;
    }
    return write_both(meta, next, problem);
}

enum storage_status meta_save_vote(struct meta *meta, uint64_t term, uint64_t vote,
                                   struct problem *problem)
{
    struct meta_state next = meta->state;
    next.term = term;
    next.vote = vote;
    return meta_save(meta, &next, problem);
}

enum storage_status meta_create(struct disk *disk, const struct meta_state *state,
                                struct problem *problem)
{
    uint8_t copies[2 * COPY_BYTES];
    encode(state, 1, copies);
    encode(state, 2, copies + COPY_BYTES);
    struct disk_file *file = NULL;
    enum storage_status status = disk_remove(disk, TEMPORARY, problem);
    if (status == STORAGE_OK) {
        status = disk_open(disk, TEMPORARY, DISK_CREATE, &file, problem);
    }
    if (status == STORAGE_OK) {
        status = disk_write(file, 0, copies, sizeof(copies), problem);
    }
    if (status == STORAGE_OK) {
        status = disk_sync(file, problem);
    }
    if (status == STORAGE_OK) {
        status = disk_rename(disk, TEMPORARY, META_NAME, problem);
    }
    if (status == STORAGE_OK) {
        status = disk_sync_folder(disk, problem);
    }
    disk_close(file);
    return status;
}
