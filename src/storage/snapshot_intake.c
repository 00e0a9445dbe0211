/* Receives a snapshot file from another node, in pieces of any size. Each block is checked before
 * it is written. The file becomes a snapshot only when it is complete and synced. */
#include <inttypes.h>

#include "storage/snapshots_state.h"

struct snapshot_intake {
    struct snapshots *snapshots;
    struct disk_file *file;
    struct snapshot_info expected; /* its configuration is our copy */
    uint8_t *configuration;
    struct snapshot_check check;
    uint8_t *buffer; /* the piece that is being received */
    size_t buffer_size;
    size_t used;
    bool failed;
};

static void intake_free(struct snapshot_intake *intake)
{
    const struct memory *memory = memory_system();
    disk_close(intake->file);
    if (intake->expected.configuration.len > 0) {
        memory_free(memory, intake->configuration, intake->expected.configuration.len);
    }
    if (intake->buffer_size > 0) {
        memory_free(memory, intake->buffer, intake->buffer_size);
    }
    memory_free(memory, intake, sizeof(*intake));
}

enum storage_status snapshot_intake_begin(struct snapshots *snapshots,
                                          const struct snapshot_info *expected,
                                          struct snapshot_intake **out, struct problem *problem)
{
    struct disk_file *file;
    enum storage_status status = disk_remove(snapshots->disk, SNAPSHOT_RECEIVED, problem);
    if (status == STORAGE_OK) {
        status = disk_open(snapshots->disk, SNAPSHOT_RECEIVED, DISK_CREATE, &file, problem);
    }
    if (status != STORAGE_OK) {
        return status;
    }
    struct snapshot_intake *intake = memory_alloc(memory_system(), sizeof(*intake));
    *intake = (struct snapshot_intake){.snapshots = snapshots,
                                       .file = file,
                                       .expected = *expected,
                                       .check = {.name = "the snapshot that is received"}};
    size_t len = expected->configuration.len;
    if (len > 0) {
        intake->configuration = memory_alloc(memory_system(), len);
        memcpy(intake->configuration, expected->configuration.data, len);
        intake->expected.configuration = slice_make(intake->configuration, len);
    }
    *out = intake;
    return STORAGE_OK;
}

/* ---- pieces ---- */

static enum storage_status compare(const struct snapshot_intake *intake,
                                   const struct snapshot_info *info, struct problem *problem)
{
    const struct snapshot_info *expected = &intake->expected;
    if (!id_is_zero(expected->cluster) && !id_equal(expected->cluster, info->cluster)) {
        return problem_set(problem, STORAGE_FOREIGN,
                           "the snapshot that is received belongs to cluster %016" PRIx64
                           "%016" PRIx64,
                           info->cluster.high, info->cluster.low);
    }
    if (info->index != expected->index || info->term != expected->term ||
        info->configuration_index != expected->configuration_index ||
        !slice_equal(info->configuration, expected->configuration)) {
        return problem_set(problem, STORAGE_CORRUPT,
                           "the snapshot that is received is of index %" PRIu64 ", term %" PRIu64
                           ", configuration %" PRIu64 " and not of %" PRIu64 ", %" PRIu64
                           ", %" PRIu64 " as it was announced",
                           info->index, info->term, info->configuration_index, expected->index,
                           expected->term, expected->configuration_index);
    }
    return STORAGE_OK;
}

/* Not synced, since this thread must not block; commit syncs all of it. */
static enum storage_status accept(struct snapshot_intake *intake, struct problem *problem)
{
    struct snapshot_check *check = &intake->check;
    bool header = !check->begun;
    uint64_t offset = check->offset;
    struct slice body;
    struct snapshot_info info;
    enum storage_status status =
        snapshot_check_piece(check, intake->buffer, intake->used, &body, &info, problem);
    if (status == STORAGE_OK && header) {
        status = compare(intake, &info, problem);
    }
    if (status == STORAGE_OK) {
        status = disk_write(intake->file, offset, intake->buffer, intake->used, problem);
        intake->used = 0;
    }
    return status;
}

static enum storage_status feed(struct snapshot_intake *intake, const uint8_t *data, size_t len,
                                struct problem *problem)
{
    while (len > 0) {
        size_t need = snapshot_check_need(&intake->check, intake->buffer, intake->used);
        if (need == 0) {
            return problem_set(problem, STORAGE_CORRUPT, "%s goes on behind its end",
                               intake->check.name);
        }
        if (need > intake->buffer_size) {
            intake->buffer =
                memory_grow(memory_system(), intake->buffer, intake->buffer_size, need);
            intake->buffer_size = need;
        }
        size_t n = need - intake->used < len ? need - intake->used : len;
        memcpy(intake->buffer + intake->used, data, n);
        intake->used += n;
        data += n;
        len -= n;
        if (intake->used == need &&
            snapshot_check_need(&intake->check, intake->buffer, intake->used) == need) {
            enum storage_status status = accept(intake, problem);
            if (status != STORAGE_OK) {
                return status;
            }
        }
    }
    return STORAGE_OK;
}

enum storage_status snapshot_intake_feed(struct snapshot_intake *intake, const void *data,
                                         size_t len, struct problem *problem)
{
    hf_assert(!intake->failed);
    enum storage_status status = feed(intake, data, len, problem);
    intake->failed = status != STORAGE_OK;
    return status;
}

uint64_t snapshot_intake_received(const struct snapshot_intake *intake)
{
    return intake->check.offset + intake->used;
}

bool snapshot_intake_is_complete(const struct snapshot_intake *intake)
{
    return intake->check.done && !intake->failed;
}

/* ---- commit and abort ---- */

enum storage_status snapshot_intake_commit(struct snapshot_intake *intake, struct problem *problem)
{
    enum storage_status status;
    if (!snapshot_intake_is_complete(intake)) {
        status = problem_set(problem, STORAGE_CORRUPT,
                             "%s is cut off after %" PRIu64 " bytes: its end never came",
                             intake->check.name, snapshot_intake_received(intake));
    } else {
        status = disk_sync(intake->file, problem);
    }
    if (status == STORAGE_OK) {
        status = snapshots_adopt(intake->snapshots, intake->file, intake->expected.index,
                                 intake->expected.term, problem);
        intake_free(intake);
    } else {
        snapshot_intake_abort(intake);
    }
    return status;
}

void snapshot_intake_abort(struct snapshot_intake *intake)
{
    if (intake == NULL) {
        return;
    }
    snapshots_discard(intake->snapshots, intake->file, SNAPSHOT_RECEIVED);
    intake->file = NULL;
    intake_free(intake);
}
