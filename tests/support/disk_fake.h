/* A disk in memory that keeps exactly the promises of storage/disk.h and breaks all others: for the
 * tests of storage/ and for the simulator. One seed decides what a power cut leaves.
 *
 *   crash        the process is gone: handles and locks are, what was written stays visible, and
 *                what was not synced still is not
 *   power cut    of every unsynced write each sector may be there or not, in any order, and of the
 *                unsynced changes of names each one may be there or not
 *   stop         from the Nth operation on everything fails, as if the process had died there
 *   fault        the Nth operation fails with a given status; a sync that fails has lost what it
 *                should have written, as on Linux: still visible, never durable
 *   full         files cannot grow beyond a capacity
 *   flip         a bit of a file changes
 *
 * Operations are those that change something: create, write, sync, truncate, rename, unlink, sync
 * of the folder. They are counted by kind, so that a simulator can charge time for them.
 *
 * A fake belongs to one thread. Handles that are still open at a crash are dead: they may be
 * closed, and fail at everything else. */
#ifndef HOLDFAST_TESTS_DISK_FAKE_H
#define HOLDFAST_TESTS_DISK_FAKE_H

#include <stdbool.h>

#include "storage/disk.h"

struct disk_fake;

struct disk_fake_counts {
    uint64_t creates;
    uint64_t writes;
    uint64_t written_bytes;
    uint64_t syncs;
    uint64_t truncates;
    uint64_t renames;
    uint64_t unlinks;
    uint64_t folder_syncs;
};

struct disk_fake *disk_fake_new(uint64_t seed);
void disk_fake_free(struct disk_fake *fake);
/* An independent copy, unsynced writes and all; without handles and locks, as after a crash. */
struct disk_fake *disk_fake_copy(const struct disk_fake *fake, uint64_t seed);

/* The interface; valid as long as the fake. */
struct disk *disk_fake_disk(struct disk_fake *fake);

/* ---- ends ---- */

void disk_fake_crash(struct disk_fake *fake);
void disk_fake_power_cut(struct disk_fake *fake);
/* As if all that is visible had been durable for long: for a test that begins there. */
void disk_fake_settle(struct disk_fake *fake);

/* ---- faults ---- */

/* Lets `operations` more of them succeed; the next one is done by half if it is a write, and it and
 * all after it fail with STORAGE_IO, until crash, power cut or UINT64_MAX. */
void disk_fake_stop_after(struct disk_fake *fake, uint64_t operations);
bool disk_fake_has_stopped(const struct disk_fake *fake);
/* Lets `operations` more of them succeed and the next one fail, once. A write that fails with
 * STORAGE_FULL was done by half. */
void disk_fake_fail_after(struct disk_fake *fake, uint64_t operations, enum storage_status status);
bool disk_fake_has_failed(const struct disk_fake *fake);
/* A power cut may also leave garbage in a sector that was being written. That is more than
 * storage/disk.h allows: the log relies on power-safe overwrite, the meta file does not. */
void disk_fake_set_garbage(struct disk_fake *fake, bool garbage);
/* Of all files together; UINT64_MAX at first. */
void disk_fake_set_capacity(struct disk_fake *fake, uint64_t bytes);

/* ---- looking and meddling; all of it durable at once ---- */

uint64_t disk_fake_operations(const struct disk_fake *fake);
struct disk_fake_counts disk_fake_counts(const struct disk_fake *fake);
uint64_t disk_fake_bytes(const struct disk_fake *fake);
/* The bytes of a file, NULL when there is none; valid until something is done. */
const uint8_t *disk_fake_file(const struct disk_fake *fake, const char *name, uint64_t *size);
/* False when the file has no such bit. */
bool disk_fake_flip(struct disk_fake *fake, const char *name, uint64_t offset, unsigned bit);
bool disk_fake_put(struct disk_fake *fake, const char *name, const void *data, uint64_t size);
bool disk_fake_remove(struct disk_fake *fake, const char *name);

#endif
