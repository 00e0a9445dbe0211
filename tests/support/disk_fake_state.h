/* The state of the disk in memory. Private to disk_fake*.c.
 *
 * A file has its visible bytes, and a list of what was done to it since it was last durable, each
 * with the bytes from before. So a sync only clears the list, and a power cut takes everything back
 * in reverse and then does a part of it again. The same for names: those that are visible, those
 * that are durable, and the changes in between. */
#ifndef HOLDFAST_TESTS_DISK_FAKE_STATE_H
#define HOLDFAST_TESTS_DISK_FAKE_STATE_H

#include "disk_fake.h"

enum { FAKE_SECTOR = 512 };

enum fake_edit_state {
    FAKE_PENDING, /* written, not synced */
    FAKE_LOST,    /* a sync failed on it: will never be durable */
    FAKE_SYNCED   /* synced, but on the list behind one that is not */
};

/* One write or truncation. */
struct fake_edit {
    enum fake_edit_state state;
    bool is_truncate;
    uint64_t offset; /* or the new size */
    uint64_t size_before;
    size_t len;
    size_t before_len;
    uint8_t *bytes;  /* written */
    uint8_t *before; /* what was there: up to the old end, or behind the new size */
};

struct fake_inode {
    uint8_t *bytes;
    uint64_t size;
    uint64_t capacity;
    struct fake_edit *edits;
    size_t edit_count;
    size_t edit_capacity;
    unsigned handles;
    bool reached; /* scratch of fake_sweep */
};

struct fake_name {
    char text[DISK_NAME_MAX + 1];
    struct fake_inode *inode;
};

struct fake_names {
    struct fake_name *names;
    size_t count;
    size_t capacity;
};

enum fake_change_kind { FAKE_LINK, FAKE_UNLINK, FAKE_RENAME };

struct fake_change {
    enum fake_change_kind kind;
    struct fake_inode *inode;
    char from[DISK_NAME_MAX + 1];
    char to[DISK_NAME_MAX + 1];
};

struct disk_fake {
    struct disk disk;
    uint64_t random;
    struct fake_inode **inodes;
    size_t inode_count;
    size_t inode_capacity;
    struct fake_names visible;
    struct fake_names durable;
    struct fake_change *changes;
    size_t change_count;
    size_t change_capacity;
    unsigned life;
    bool locked;

    uint64_t stop_in;
    bool stopped;
    uint64_t fail_in;
    enum storage_status fail_status;
    bool failed;
    bool garbage;
    uint64_t capacity;
    uint64_t operations;
    struct disk_fake_counts counts;
};

struct fake_file {
    struct disk_file file;
    struct disk_fake *fake;
    struct fake_inode *inode; /* NULL for the lock */
    unsigned life;
    bool writable;
};

/* A random number below `limit`, which is not 0. */
uint64_t fake_below(struct disk_fake *fake, uint64_t limit);

struct fake_inode *fake_inode_new(struct disk_fake *fake);
void fake_inode_write(struct fake_inode *inode, uint64_t offset, const void *data, size_t len);
void fake_inode_truncate(struct fake_inode *inode, uint64_t size);
/* What is pending becomes durable; or never will be. */
void fake_inode_sync(struct fake_inode *inode);
void fake_inode_lose(struct fake_inode *inode);

struct fake_inode *fake_find(const struct fake_names *names, const char *name);
/* Makes a change visible and remembers it until the folder is synced. */
void fake_change(struct disk_fake *fake, enum fake_change_kind kind, struct fake_inode *inode,
                 const char *from, const char *to);
void fake_settle_names(struct disk_fake *fake);
/* Frees the files that no name and no handle leads to. */
void fake_sweep(struct disk_fake *fake);

#endif
