/* The format of a snapshot file, and an incremental check of it. Writer, reader, sender and
 * receiver share it.
 *
 *   header   checksum, "HOLDSNAP", version, size of blocks, cluster id, index, term, index and
 *            length of the configuration; the configuration, padded with zeros to a multiple of 8
 *   body     blocks: checksum, length, kind 1; then the bytes. All but the last are of full size
 *   end      one block of kind 2: number of bytes and number of blocks
 *
 * Each checksum is seeded by the one before it. So a block can be checked when it is complete, and
 * the end covers the whole file: no block can be left out, duplicated or taken from another
 * snapshot. */
#ifndef HOLDFAST_STORAGE_SNAPSHOT_FORMAT_H
#define HOLDFAST_STORAGE_SNAPSHOT_FORMAT_H

#include <stdbool.h>

#include "base/slice.h"
#include "storage/bytes.h"
#include "storage/problem.h"
#include "storage/snapshots.h"

enum {
    SNAPSHOT_FORMAT_VERSION = 1,
    SNAPSHOT_HEADER = 72, /* without the configuration */
    SNAPSHOT_BLOCK = 16,  /* header of a block */
    SNAPSHOT_END = SNAPSHOT_BLOCK + 16,
    SNAPSHOT_BLOCK_BYTES = 1 << 20,
    SNAPSHOT_BLOCK_MIN = 512,
    SNAPSHOT_BLOCK_MAX = 4 << 20,
    SNAPSHOT_SYNC_BYTES = 1 << 20, /* written without a sync in between */
    SNAPSHOT_NAME_MAX = 64,
};

#define SNAPSHOT_TEMPORARY "snapshot.tmp" /* while it is being taken */
#define SNAPSHOT_RECEIVED "received.tmp"  /* while it is being received */

enum snapshot_kind { SNAPSHOT_KIND_BODY = 1, SNAPSHOT_KIND_END = 2 };

/* Initialised with zeros and the name for its texts. */
struct snapshot_check {
    const char *name;
    uint64_t offset; /* of the next piece */
    uint64_t chain;
    uint32_t block_bytes;
    uint64_t body_bytes;
    uint64_t blocks;
    bool begun;   /* the header was checked */
    bool partial; /* a block that is not full was checked: no other may follow */
    bool done;    /* the end was checked */
};

static inline size_t snapshot_header_size(size_t configuration_len)
{
    return SNAPSHOT_HEADER + round_up_8(configuration_len);
}

/* Size of the next piece, as far as `have` bytes of it determine it. If it is more than `have`,
 * read that many and call again. 0 after the end. Bounded, whatever the bytes are. */
size_t snapshot_check_need(const struct snapshot_check *check, const uint8_t *bytes, size_t have);

/* Checks a whole piece: `len` is the result of snapshot_check_need. `*body` is its part of the
 * body; `info`, when not NULL, is filled in from the header, and its configuration points into the
 * bytes. */
enum storage_status snapshot_check_piece(struct snapshot_check *check, const uint8_t *bytes,
                                         size_t len, struct slice *body, struct snapshot_info *info,
                                         struct problem *problem);

/* Both return the checksum. The header takes snapshot_header_size bytes; a block's bytes are in
 * place, after SNAPSHOT_BLOCK bytes. */
uint64_t snapshot_encode_header(const struct snapshot_info *info, uint32_t block_bytes,
                                uint8_t *at);
uint64_t snapshot_encode_block(uint64_t chain, enum snapshot_kind kind, uint32_t len, uint8_t *at);

/* snapshot-000000001234-000007, by index and term. */
void snapshot_name(char name[SNAPSHOT_NAME_MAX], uint64_t index, uint64_t term);
bool snapshot_name_read(const char *name, uint64_t *index, uint64_t *term);

#endif
