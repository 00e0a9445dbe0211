/* Arbitrary damage to the files of a log: it opens with entries that were appended, each as it was
 * and none missing in between, or says what is wrong. With checksums made right again, so that the
 * reader gets further, it may open with anything, but must then be a log that works.
 *
 * The input is one byte of options and then edits: file, offset (2 bytes), length, bytes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "disk_fake.h"
#include "storage/bytes.h"
#include "storage/log.h"
#include "storage/log_format.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { SEGMENT = 8192, FILES = 4, ENTRIES = 30, ENTRY_BYTES = 300 };

static const struct id store = {1, 2};

static _Noreturn void die(const char *what)
{
    fprintf(stderr, "fuzz_log: %s\n", what);
    abort();
}

static enum storage_status open_log(struct disk_fake *fake, uint64_t life, struct log **log)
{
    struct problem problem = {.text = ""};
    struct log_options options = {
        .segment_bytes = SEGMENT, .store = store, .life = life, .create = life == 1};
    enum storage_status status = log_open(disk_fake_disk(fake), &options, log, &problem);
    if (status != STORAGE_OK && strlen(problem.text) < 10) {
        die("a problem without a text");
    }
    return status;
}

static void fill(uint8_t *bytes, uint64_t index)
{
    memset(bytes, (int)index, ENTRY_BYTES);
}

/* Three segments with records and one without. */
static struct disk_fake *make_original(void)
{
    struct disk_fake *fake = disk_fake_new(1);
    struct log *log;
    struct problem problem;
    uint8_t bytes[ENTRY_BYTES];
    if (open_log(fake, 1, &log) != STORAGE_OK) {
        die("the original does not open");
    }
    for (uint64_t index = 1; index <= ENTRIES; index++) {
        fill(bytes, index);
        struct log_entry entry = {index / 5, 1, slice_make(bytes, sizeof(bytes))};
        if (log_append(log, index, &entry, 1, &problem) != STORAGE_OK) {
            die(problem.text);
        }
    }
    if (log_prepare(log, &problem) != STORAGE_OK || log_seal(log, &problem) != STORAGE_OK) {
        die(problem.text);
    }
    log_close(log);
    disk_fake_settle(fake);
    return fake;
}

static void name_of(char *name, size_t size, unsigned number)
{
    snprintf(name, size, "log-%012u", number);
}

/* Gives every record that still has a right length the right checksum, and the header too. */
static void make_right(uint8_t *bytes, unsigned number)
{
    put_u64(bytes, storage_checksum(bytes + 8, LOG_PAGE - 8, 0));
    struct log_segment segment;
    struct problem problem;
    if (log_segment_decode(&segment, store, number, "x", bytes, SEGMENT, &problem) != STORAGE_OK) {
        return;
    }
    for (size_t at = LOG_PAGE; at + LOG_RECORD <= SEGMENT;) {
        size_t size = log_record_peek(&segment, bytes + at);
        if (size == 0 || size > SEGMENT - at) {
            return;
        }
        put_u64(bytes + at, storage_checksum(bytes + at + 8, size - 8, segment.salt));
        at += size;
    }
}

static void damage(struct disk_fake *fake, const uint8_t *data, size_t size, bool right)
{
    static uint8_t files[FILES][SEGMENT];
    char name[32];
    uint64_t file_size;
    for (unsigned i = 0; i < FILES; i++) {
        name_of(name, sizeof(name), i + 1);
        const uint8_t *bytes = disk_fake_file(fake, name, &file_size);
        if (bytes == NULL || file_size != SEGMENT) {
            die("the original has changed");
        }
        memcpy(files[i], bytes, SEGMENT);
    }
    while (size >= 4) {
        unsigned file = data[0] % FILES;
        size_t offset = (size_t)(data[1] | data[2] << 8) % SEGMENT;
        size_t len = data[3];
        data += 4;
        size -= 4;
        len = len < size ? len : size;
        len = len < SEGMENT - offset ? len : SEGMENT - offset;
        memcpy(files[file] + offset, data, len);
        data += len;
        size -= len;
    }
    for (unsigned i = 0; i < FILES; i++) {
        if (right) {
            make_right(files[i], i + 1);
        }
        name_of(name, sizeof(name), i + 1);
        disk_fake_put(fake, name, files[i], SEGMENT);
    }
}

static void read_all(struct log *log, bool compare)
{
    struct problem problem;
    uint8_t bytes[ENTRY_BYTES];
    for (uint64_t index = log_first(log); index <= log_last(log);) {
        struct log_piece piece;
        if (log_read(log, index, UINT64_MAX, 1000, &piece, &problem) != STORAGE_OK) {
            die(problem.text);
        }
        for (size_t i = 0; i < piece.count; i++, index++) {
            fill(bytes, index);
            if (compare && (piece.entries[i].term != index / 5 ||
                            !slice_equal(piece.entries[i].data, slice_make(bytes, ENTRY_BYTES)))) {
                die("an entry was loaded that nobody appended");
            }
        }
        log_piece_free(&piece);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct disk_fake *original;
    if (original == NULL) {
        original = make_original();
    }
    if (size == 0) {
        return 0;
    }
    bool right = (data[0] & 1) != 0;
    struct disk_fake *fake = disk_fake_copy(original, 1);
    damage(fake, data + 1, size - 1, right);
    struct log *log;
    if (open_log(fake, 2, &log) == STORAGE_OK) {
        struct problem problem;
        read_all(log, !right);
        uint64_t next = log_last(log) + 1;
        struct log_entry entry = {9, 1, slice_of("after")};
        if (next < 1000000 && log_append(log, next, &entry, 1, &problem) != STORAGE_OK) {
            die(problem.text);
        }
        uint64_t first = log_first(log), last = log_last(log);
        log_close(log);
        disk_fake_power_cut(fake);
        if (open_log(fake, 3, &log) != STORAGE_OK || log_first(log) != first ||
            log_last(log) != last) {
            die("what was opened was not durable");
        }
        log_close(log);
    }
    disk_fake_free(fake);
    return 0;
}
