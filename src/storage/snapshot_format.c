/* Encodes and checks the pieces of a snapshot file: no I/O, no allocation. Trusts no byte: the
 * pieces may come from the network. */
#include "storage/snapshot_format.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/limits.h"
#include "base/panic.h"

/* Offsets in the header. Those of checksum, magic and version are the same in all versions. */
enum {
    AT_CHECKSUM = 0,
    AT_MAGIC = 8,
    AT_VERSION = 16,
    AT_BLOCK_BYTES = 20,
    AT_CLUSTER = 24,
    AT_INDEX = 40,
    AT_TERM = 48,
    AT_CONFIGURATION_INDEX = 56,
    AT_CONFIGURATION_LEN = 64,
};

/* Offsets in a block. */
enum { BLOCK_CHECKSUM = 0, BLOCK_LENGTH = 8, BLOCK_KIND = 12 };

static const char magic[8] = "HOLDSNAP";

/* ---- writing ---- */

uint64_t snapshot_encode_header(const struct snapshot_info *info, uint32_t block_bytes, uint8_t *at)
{
    size_t size = snapshot_header_size(info->configuration.len);
    memset(at, 0, size);
    memcpy(at + AT_MAGIC, magic, sizeof(magic));
    put_u32(at + AT_VERSION, SNAPSHOT_FORMAT_VERSION);
    put_u32(at + AT_BLOCK_BYTES, block_bytes);
    put_u64(at + AT_CLUSTER, info->cluster.high);
    put_u64(at + AT_CLUSTER + 8, info->cluster.low);
    put_u64(at + AT_INDEX, info->index);
    put_u64(at + AT_TERM, info->term);
    put_u64(at + AT_CONFIGURATION_INDEX, info->configuration_index);
    put_u32(at + AT_CONFIGURATION_LEN, (uint32_t)info->configuration.len);
    if (info->configuration.len > 0) {
        memcpy(at + SNAPSHOT_HEADER, info->configuration.data, info->configuration.len);
    }
    uint64_t checksum = storage_checksum(at + 8, size - 8, 0);
    put_u64(at + AT_CHECKSUM, checksum);
    return checksum;
}

uint64_t snapshot_encode_block(uint64_t chain, enum snapshot_kind kind, uint32_t len, uint8_t *at)
{
    put_u32(at + BLOCK_LENGTH, len);
    put_u32(at + BLOCK_KIND, (uint32_t)kind);
    uint64_t checksum = storage_checksum(at + 8, SNAPSHOT_BLOCK - 8 + len, chain);
    put_u64(at + BLOCK_CHECKSUM, checksum);
    return checksum;
}

/* ---- checking ---- */

size_t snapshot_check_need(const struct snapshot_check *check, const uint8_t *bytes, size_t have)
{
    if (check->done) {
        return 0;
    }
    if (!check->begun) {
        if (have < SNAPSHOT_HEADER) {
            return SNAPSHOT_HEADER;
        }
        uint32_t len = get_u32(bytes + AT_CONFIGURATION_LEN);
        return len > SNAPSHOT_CONFIGURATION_MAX ? SNAPSHOT_HEADER : snapshot_header_size(len);
    }
    if (have < SNAPSHOT_BLOCK) {
        return SNAPSHOT_BLOCK;
    }
    uint32_t len = get_u32(bytes + BLOCK_LENGTH);
    return len > check->block_bytes ? SNAPSHOT_BLOCK : SNAPSHOT_BLOCK + len;
}

static enum storage_status damaged(const struct snapshot_check *check, const char *why,
                                   struct problem *problem)
{
    return problem_set(problem, STORAGE_CORRUPT, "%s is damaged at offset %" PRIu64 ": %s",
                       check->name, check->offset, why);
}

static enum storage_status check_header(struct snapshot_check *check, const uint8_t *bytes,
                                        size_t len, struct snapshot_info *info,
                                        struct problem *problem)
{
    uint32_t configuration_len = get_u32(bytes + AT_CONFIGURATION_LEN);
    if (memcmp(bytes + AT_MAGIC, magic, sizeof(magic)) != 0 ||
        configuration_len > SNAPSHOT_CONFIGURATION_MAX ||
        len != snapshot_header_size(configuration_len) ||
        get_u64(bytes + AT_CHECKSUM) != storage_checksum(bytes + 8, len - 8, 0)) {
        return damaged(check, "this is no header of a snapshot (checksum)", problem);
    }
    uint32_t version = get_u32(bytes + AT_VERSION);
    if (version != SNAPSHOT_FORMAT_VERSION) {
        return problem_set(problem, STORAGE_VERSION,
                           "%s has format version %" PRIu32 ", this program knows %d: use the "
                           "version of Holdfast that wrote it, or a newer one",
                           check->name, version, SNAPSHOT_FORMAT_VERSION);
    }
    uint32_t block_bytes = get_u32(bytes + AT_BLOCK_BYTES);
    if (block_bytes < SNAPSHOT_BLOCK_MIN || block_bytes > SNAPSHOT_BLOCK_MAX) {
        return damaged(check, "its blocks have no size that is used", problem);
    }
    check->begun = true;
    check->block_bytes = block_bytes;
    check->chain = get_u64(bytes + AT_CHECKSUM);
    if (info != NULL) {
        *info = (struct snapshot_info){
            .cluster = {get_u64(bytes + AT_CLUSTER), get_u64(bytes + AT_CLUSTER + 8)},
            .index = get_u64(bytes + AT_INDEX),
            .term = get_u64(bytes + AT_TERM),
            .configuration_index = get_u64(bytes + AT_CONFIGURATION_INDEX),
            .configuration = slice_make(bytes + SNAPSHOT_HEADER, configuration_len),
        };
    }
    return STORAGE_OK;
}

static enum storage_status check_block(struct snapshot_check *check, const uint8_t *bytes,
                                       size_t len, struct slice *body, struct problem *problem)
{
    uint32_t data_len = get_u32(bytes + BLOCK_LENGTH);
    const uint8_t *data = bytes + SNAPSHOT_BLOCK;
    if (len != (size_t)SNAPSHOT_BLOCK + data_len ||
        get_u64(bytes + BLOCK_CHECKSUM) != storage_checksum(bytes + 8, len - 8, check->chain)) {
        return damaged(check, "the checksum of the block is wrong", problem);
    }
    switch (get_u32(bytes + BLOCK_KIND)) {
    case SNAPSHOT_KIND_BODY:
        if (data_len == 0 || check->partial) {
            return damaged(check, "a block has a size that it cannot have", problem);
        }
        check->partial = data_len < check->block_bytes;
        check->blocks++;
        check->body_bytes += data_len;
        *body = slice_make(data, data_len);
        break;
    case SNAPSHOT_KIND_END:
        if (len != SNAPSHOT_END || get_u64(data) != check->body_bytes ||
            get_u64(data + 8) != check->blocks) {
            return damaged(check, "blocks are missing before the end", problem);
        }
        check->done = true;
        break;
    default:
        return damaged(check, "a block is of no known kind", problem);
    }
    check->chain = get_u64(bytes + BLOCK_CHECKSUM);
    return STORAGE_OK;
}

enum storage_status snapshot_check_piece(struct snapshot_check *check, const uint8_t *bytes,
                                         size_t len, struct slice *body, struct snapshot_info *info,
                                         struct problem *problem)
{
    hf_assert(!check->done && len == snapshot_check_need(check, bytes, len));
    *body = slice_make(NULL, 0);
    enum storage_status status = check->begun ? check_block(check, bytes, len, body, problem)
                                              : check_header(check, bytes, len, info, problem);
    if (status == STORAGE_OK) {
        check->offset += len;
    }
    return status;
}

/* ---- names ---- */

void snapshot_name(char name[SNAPSHOT_NAME_MAX], uint64_t index, uint64_t term)
{
    snprintf(name, SNAPSHOT_NAME_MAX, "snapshot-%012" PRIu64 "-%06" PRIu64, index, term);
}

static const char *read_number(const char *text, uint64_t *value)
{
    *value = 0;
    while (*text >= '0' && *text <= '9' && *value < LIMIT_NUMBER) {
        *value = *value * 10 + (uint64_t)(*text++ - '0');
    }
    return text;
}

bool snapshot_name_read(const char *name, uint64_t *index, uint64_t *term)
{
    static const char prefix[] = "snapshot-";
    uint64_t a, b;
    if (strncmp(name, prefix, sizeof(prefix) - 1) != 0) {
        return false;
    }
    const char *rest = read_number(name + sizeof(prefix) - 1, &a);
    if (*rest != '-' || *read_number(rest + 1, &b) != '\0') {
        return false;
    }
    char again[SNAPSHOT_NAME_MAX];
    snapshot_name(again, a, b);
    if (strcmp(again, name) != 0) {
        return false;
    }
    *index = a;
    *term = b;
    return true;
}
