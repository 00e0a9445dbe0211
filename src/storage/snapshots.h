/* Snapshot files: written by a forked child, read back, sent, received, and cleared away (S12.4,
 * S12.5).
 *
 * A file `snapshot-INDEX-TERM` is there only when all of it is durable: it is written under another
 * name, synced, renamed, and the folder synced. So one that does not check is damage and never half
 * a write, and it is named, not passed over: the log that could replace it is gone.
 *
 *   taking      snapshot_output_begin, fork; in the child _put ... _finish, _exit; in the parent
 *               _commit, or _abort
 *   sending     snapshots_pin when it is announced; snapshot_source_open, _next ...; unpin
 *   receiving   snapshot_intake_begin, _feed ..., _commit, or _abort
 *   loading     snapshot_source_open, the `body` of each _next
 *
 * Two threads: commits, prunes and trims are made by one of them at a time, all else by any. What
 * both change, the list, is guarded, and never while the disk is waited for; so opening, closing,
 * pinning and aborting do not wait for the other thread's sync, rename or removal. Each output,
 * source and intake has its own buffer and file and belongs to one thread at a time. */
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

/* Lists the folder, and looks at header, size and end of the newest one; removes what was not
 * finished. A snapshot of another cluster is STORAGE_FOREIGN, unless `cluster` is zero. */
enum storage_status snapshots_open(struct disk *disk, struct id cluster, struct snapshots **out,
                                   struct problem *problem);
void snapshots_close(struct snapshots *snapshots);

/* Keeps the list as it is, for a thread that does not make the commits and looks at the newest. */
void snapshots_lock(struct snapshots *snapshots);
void snapshots_unlock(struct snapshots *snapshots);

/* The newest one, NULL when there is none. Valid until the next commit. */
const struct snapshot_info *snapshots_newest(const struct snapshots *snapshots);
/* Its size in bytes, 0 when there is none. */
uint64_t snapshots_newest_bytes(const struct snapshots *snapshots);

/* Reads all of the newest one and checks it. */
enum storage_status snapshots_verify_newest(struct snapshots *snapshots, struct problem *problem);

/* Keeps a snapshot from being removed; counted. Whether it is there. */
bool snapshots_pin(struct snapshots *snapshots, uint64_t index, uint64_t term);
void snapshots_unpin(struct snapshots *snapshots, uint64_t index, uint64_t term);

/* Removes all but the newest one and those that are pinned. */
enum storage_status snapshots_prune(struct snapshots *snapshots, struct problem *problem);

/* From now on prune and abort only take the name of a file away. Its bytes go in steps, a call of
 * snapshots_trim each: a file system is busy for long with a large file. What is left when the
 * process ends goes with it. */
void snapshots_remove_in_steps(struct snapshots *snapshots);
bool snapshots_wants_trim(struct snapshots *snapshots);
void snapshots_trim(struct snapshots *snapshots);

/* ---- taking ---- */

struct snapshot_output;

/* Makes the file and all that the child will need. One at a time. `block_bytes` 0 is 1 MiB. */
enum storage_status snapshot_output_begin(struct snapshots *snapshots,
                                          const struct snapshot_info *info, uint32_t block_bytes,
                                          struct snapshot_output **out, struct problem *problem);

/* For the child: these allocate nothing, take no lock, and only write and sync the one file. */
enum storage_status snapshot_output_put(struct snapshot_output *output, const void *data,
                                        size_t len, struct problem *problem);
enum storage_status snapshot_output_finish(struct snapshot_output *output, struct problem *problem);

/* What the child must not close. */
struct disk_file *snapshot_output_file(const struct snapshot_output *output);

/* For the parent, after the child has ended well: gives the file its name, durably. It is the
 * newest one then. Frees the output, also when it fails. */
enum storage_status snapshot_output_commit(struct snapshot_output *output, struct problem *problem);
/* Removes what was written. Takes NULL. */
void snapshot_output_abort(struct snapshot_output *output);

/* ---- loading and sending ---- */

struct snapshot_source;

struct snapshot_piece {
    struct slice raw;  /* bytes of the file */
    struct slice body; /* what of them was put in by the child */
    uint64_t offset;   /* of raw in the file */
    bool last;
};

/* Pins it until it is closed. */
enum storage_status snapshot_source_open(struct snapshots *snapshots, uint64_t index, uint64_t term,
                                         struct snapshot_source **out, struct problem *problem);
/* A file that lies anywhere, under any name: a backup. `info` lasts until it is closed. What comes
 * next is the first piece behind the header. */
enum storage_status snapshot_source_open_file(struct disk *disk, const char *name,
                                              struct snapshot_source **out,
                                              struct snapshot_info *info, struct problem *problem);
void snapshot_source_close(struct snapshot_source *source);

uint64_t snapshot_source_bytes(const struct snapshot_source *source);

/* The next piece, checked; at most a block. Valid until the next call. Not to be called after the
 * last one. */
enum storage_status snapshot_source_next(struct snapshot_source *source,
                                         struct snapshot_piece *piece, struct problem *problem);

/* Bytes of the file as they lie there, for one who checks them himself; all of them must be there.
 * For a source whose pieces are not asked for. */
enum storage_status snapshot_source_read(struct snapshot_source *source, uint64_t offset, void *to,
                                         size_t len, struct problem *problem);

/* For a receiver that has the bytes before `offset` already: the next piece starts there. Before
 * the first snapshot_source_next. False when the file has no such offset. */
bool snapshot_source_skip(struct snapshot_source *source, uint64_t offset);

/* ---- receiving ---- */

struct snapshot_intake;

/* `expected` is what was announced; the file must say the same (a zero cluster is not compared).
 * One at a time. */
enum storage_status snapshot_intake_begin(struct snapshots *snapshots,
                                          const struct snapshot_info *expected,
                                          struct snapshot_intake **out, struct problem *problem);

/* The next bytes of the file, in pieces of any size. STORAGE_CORRUPT as soon as something is wrong;
 * then, and after any other error, only abort is left. */
enum storage_status snapshot_intake_feed(struct snapshot_intake *intake, const void *data,
                                         size_t len, struct problem *problem);
/* How many bytes were fed: where to go on after a broken connection. */
uint64_t snapshot_intake_received(const struct snapshot_intake *intake);
bool snapshot_intake_is_complete(const struct snapshot_intake *intake);

/* Syncs it and gives it its name, durably; it is the newest one then. STORAGE_CORRUPT when it is
 * not complete. Frees the intake, also when it fails. */
enum storage_status snapshot_intake_commit(struct snapshot_intake *intake, struct problem *problem);
void snapshot_intake_abort(struct snapshot_intake *intake);

#endif
