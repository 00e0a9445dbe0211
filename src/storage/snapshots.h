/* Snapshot files: written by a forked child, loaded, sent, received, and removed (S12.4, S12.5).
 *
 * A file `snapshot-INDEX-TERM` exists only when all of it is durable: it is written under another
 * name, synced, renamed, and the folder synced. So an invalid one is damage. It is reported, not
 * skipped: the log that could replace it is gone.
 *
 *   taking      snapshot_output_begin, fork; in the child _put ... _finish, _exit; in the parent
 *               _commit, or _abort
 *   sending     snapshots_pin when it is announced; snapshot_source_open, _next ...; unpin
 *   receiving   snapshot_intake_begin, _feed ..., _commit, or _abort
 *   loading     snapshot_source_open, the `body` of each _next
 *
 * Threads: one at a time commits, prunes and trims; any may call the rest. The mutex of the list is
 * never held during disk I/O, so these calls do not wait for the disk. Each output, source and
 * intake belongs to one thread at a time. */
#ifndef HOLDFAST_STORAGE_SNAPSHOTS_H
#define HOLDFAST_STORAGE_SNAPSHOTS_H

#include <stdbool.h>

#include "base/slice.h"
#include "storage/disk.h"

#define SNAPSHOT_CONFIGURATION_MAX 65536

struct snapshot_info {
    struct id cluster;
    uint64_t index;
    uint64_t term;
    uint64_t configuration_index;
    struct slice configuration; /* as encoded by raft; at most SNAPSHOT_CONFIGURATION_MAX */
};

struct snapshots;

/* Checks header, size and end of the newest snapshot; removes unfinished files. A snapshot of
 * another cluster is STORAGE_FOREIGN, unless `cluster` is zero. */
enum storage_status snapshots_open(struct disk *disk, struct id cluster, struct snapshots **out,
                                   struct problem *problem);
void snapshots_close(struct snapshots *snapshots);

/* For a thread that does not commit and reads the newest snapshot. */
void snapshots_lock(struct snapshots *snapshots);
void snapshots_unlock(struct snapshots *snapshots);

/* NULL: none. Valid until the next commit. */
const struct snapshot_info *snapshots_newest(const struct snapshots *snapshots);
/* In bytes; 0: none. */
uint64_t snapshots_newest_bytes(const struct snapshots *snapshots);

/* Reads all of the newest one and checks it. */
enum storage_status snapshots_verify_newest(struct snapshots *snapshots, struct problem *problem);

/* Prevents the removal of a snapshot; counted. False: it does not exist. */
bool snapshots_pin(struct snapshots *snapshots, uint64_t index, uint64_t term);
void snapshots_unpin(struct snapshots *snapshots, uint64_t index, uint64_t term);

/* Removes all but the newest and the pinned snapshots. */
enum storage_status snapshots_prune(struct snapshots *snapshots, struct problem *problem);

/* From now on prune and abort only remove the name of a file, and each call of snapshots_trim frees
 * a part of it. The kernel frees the rest when the process ends. */
void snapshots_remove_in_steps(struct snapshots *snapshots);
bool snapshots_wants_trim(struct snapshots *snapshots);
void snapshots_trim(struct snapshots *snapshots);

/* ---- taking ---- */

struct snapshot_output;

/* The file and everything that the child needs. One at a time. `block_bytes` 0 is 1 MiB. */
enum storage_status snapshot_output_begin(struct snapshots *snapshots,
                                          const struct snapshot_info *info, uint32_t block_bytes,
                                          struct snapshot_output **out, struct problem *problem);

/* For the child: no allocation, no lock, only writes and syncs of the one file. */
enum storage_status snapshot_output_put(struct snapshot_output *output, const void *data,
                                        size_t len, struct problem *problem);
enum storage_status snapshot_output_finish(struct snapshot_output *output, struct problem *problem);

/* The file that the child must not close. */
struct disk_file *snapshot_output_file(const struct snapshot_output *output);

/* For the parent, after the child has succeeded: gives the file its name, durably, as the newest
 * snapshot. Frees the output, also on failure. */
enum storage_status snapshot_output_commit(struct snapshot_output *output, struct problem *problem);
/* Removes the file. Takes NULL. */
void snapshot_output_abort(struct snapshot_output *output);

/* ---- loading and sending ---- */

struct snapshot_source;

struct snapshot_piece {
    struct slice raw;  /* bytes of the file */
    struct slice body; /* the part of them that the child wrote */
    uint64_t offset;   /* of raw in the file */
    bool last;
};

/* Pins the snapshot until it is closed. */
enum storage_status snapshot_source_open(struct snapshots *snapshots, uint64_t index, uint64_t term,
                                         struct snapshot_source **out, struct problem *problem);
/* A file in any folder, under any name: a backup. `info` is valid until it is closed. The next
 * piece is the first one after the header. */
enum storage_status snapshot_source_open_file(struct disk *disk, const char *name,
                                              struct snapshot_source **out,
                                              struct snapshot_info *info, struct problem *problem);
void snapshot_source_close(struct snapshot_source *source);

uint64_t snapshot_source_bytes(const struct snapshot_source *source);

/* Checked; at most a block. Valid until the next call. Not to be called after the last one. */
enum storage_status snapshot_source_next(struct snapshot_source *source,
                                         struct snapshot_piece *piece, struct problem *problem);

/* Raw, unchecked bytes of the file; all of them must exist. For a caller that checks them itself
 * and does not use snapshot_source_next. */
enum storage_status snapshot_source_read(struct snapshot_source *source, uint64_t offset, void *to,
                                         size_t len, struct problem *problem);

/* For a receiver that has the bytes before `offset`: the next piece starts there. To be called
 * before the first snapshot_source_next. False: the file has no such offset. */
bool snapshot_source_skip(struct snapshot_source *source, uint64_t offset);

/* ---- receiving ---- */

struct snapshot_intake;

/* The file must match `expected`, which was announced (a zero cluster is not compared). One at a
 * time. */
enum storage_status snapshot_intake_begin(struct snapshots *snapshots,
                                          const struct snapshot_info *expected,
                                          struct snapshot_intake **out, struct problem *problem);

/* In pieces of any size. STORAGE_CORRUPT as soon as something is wrong; after any error only abort
 * is allowed. */
enum storage_status snapshot_intake_feed(struct snapshot_intake *intake, const void *data,
                                         size_t len, struct problem *problem);
/* Where to continue after a broken connection, in bytes. */
uint64_t snapshot_intake_received(const struct snapshot_intake *intake);
bool snapshot_intake_is_complete(const struct snapshot_intake *intake);

/* Syncs the file and gives it its name, durably, as the newest snapshot. STORAGE_CORRUPT when it is
 * not complete. Frees the intake, also on failure. */
enum storage_status snapshot_intake_commit(struct snapshot_intake *intake, struct problem *problem);
void snapshot_intake_abort(struct snapshot_intake *intake);

#endif
