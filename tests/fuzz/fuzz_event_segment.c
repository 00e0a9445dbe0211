/* Arbitrary damage to the files of an event log: it opens, and cursor and search return records that were
 * appended, in order. With checksums made right again, so that the reader gets further, they may return
 * anything, but both directions of the search find as much, and the log works afterwards.
 *
 * The input is one byte of options and then edits: file, offset (2 bytes), length, bytes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "disk_fake.h"
#include "events/event_scan.h"
#include "events/segment.h"
#include "storage/bytes.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { FILES = 4, FILE_MAX = 8192, ENTRIES = 80, STEPS = 20000 };

static const struct id cluster = {1, 2};

static _Noreturn void die(const char *what)
{
    fprintf(stderr, "fuzz_event_segment: %s\n", what);
    abort();
}

static uint64_t wall_ms(void *ctx)
{
    (void)ctx;
    return 1000000;
}

static struct event_log *open_log(struct disk_fake *fake)
{
    struct problem problem = {.text = ""};
    const struct event_log_options options = {.memory = memory_system(),
                                              .disk = disk_fake_disk(fake),
                                              .cluster = cluster,
                                              .node = 1,
                                              .max_bytes = 1 << 20,
                                              .segment_bytes = 1600,
                                              .buffer_bytes = 32 << 10,
                                              .by_hand = true,
                                              .wall_ms = wall_ms};
    struct event_log *log = event_log_open(&options, &problem);
    if (log == NULL) {
        die(problem.text);
    }
    return log;
}

static struct event make_event(uint64_t index, char name[32])
{
    snprintf(name, 32, "name-%u", (unsigned)(index % 7));
    return (struct event){.type = EVENT_GRANTED,
                          .index = index,
                          .parts = 1,
                          .wall_ms = 1000 + index,
                          .token = index * 3,
                          .name = slice_of(name)};
}

static void append(struct event_log *log, uint64_t index)
{
    char name[32];
    struct event event = make_event(index, name);
    event_log_append(log, &event, CORE_VERSION);
    event_log_applied(log, index, 1000 + index);
}

static void name_of(char *name, unsigned file)
{
    snprintf(name, 32, "%020u.events", (file + 1) << 16);
}

static struct disk_fake *make_original(void)
{
    struct disk_fake *fake = disk_fake_new(1);
    struct event_log *log = open_log(fake);
    for (uint64_t i = 1; i <= ENTRIES; i++) {
        append(log, i);
        if (i % 5 == 0) {
            event_log_write(log);
        }
    }
    event_log_close(log);
    disk_fake_settle(fake);
    return fake;
}

/* Gives every part that still has a right length the right checksum. */
static void make_right(uint8_t *bytes, size_t size)
{
    if (size < EVENT_HEADER_BYTES) {
        return;
    }
    uint64_t salt = storage_checksum(bytes + 8, EVENT_HEADER_BYTES - 8, 0);
    put_u64(bytes, salt);
    for (size_t at = EVENT_HEADER_BYTES; at + EVENT_FRAME_HEADER <= size;) {
        uint32_t length = get_u32(bytes + at + 12);
        if (length < EVENT_FRAME_HEADER || length > size - at) {
            break;
        }
        put_u64(bytes + at, storage_checksum(bytes + at + 8, length - 8, salt));
        at += length;
    }
    if (size > EVENT_HEADER_BYTES + EVENT_TAIL_BYTES) {
        uint8_t *tail = bytes + size - EVENT_TAIL_BYTES;
        uint64_t blocks = (uint64_t)get_u32(tail + 12) * EVENT_BLOCK_ENTRY;
        if (blocks <= size - EVENT_HEADER_BYTES - EVENT_TAIL_BYTES) {
            put_u64(tail + 16, storage_checksum(tail - blocks, (size_t)blocks, salt));
        }
        put_u64(tail, storage_checksum(tail + 8, EVENT_TAIL_BYTES - 8, salt));
    }
}

static void damage(struct disk_fake *fake, const uint8_t *data, size_t size, bool right)
{
    static uint8_t files[FILES][FILE_MAX];
    size_t sizes[FILES];
    char name[32];
    for (unsigned i = 0; i < FILES; i++) {
        uint64_t file_size = 0;
        name_of(name, i);
        const uint8_t *bytes = disk_fake_file(fake, name, &file_size);
        if (bytes == NULL || file_size > FILE_MAX) {
            die("the original has changed");
        }
        sizes[i] = (size_t)file_size;
        memcpy(files[i], bytes, sizes[i]);
    }
    while (size >= 4) {
        unsigned file = data[0] % FILES;
        size_t offset = (size_t)(data[1] | data[2] << 8) % sizes[file];
        size_t len = data[3];
        data += 4;
        size -= 4;
        len = len < size ? len : size;
        len = len < sizes[file] - offset ? len : sizes[file] - offset;
        memcpy(files[file] + offset, data, len);
        data += len;
        size -= len;
    }
    for (unsigned i = 0; i < FILES; i++) {
        if (right) {
            make_right(files[i], sizes[i]);
        }
        name_of(name, i);
        disk_fake_put(fake, name, files[i], sizes[i]);
    }
}

static void check_event(const struct logged_event *r, uint64_t *last)
{
    char name[32];
    struct event event = make_event(r->id.index, name);
    if (r->kind != LOGGED_EVENT || r->id.ordinal != 0 || r->id.index <= *last ||
        r->id.index > ENTRIES + 1 || r->event.token != event.token ||
        !slice_equal(r->event.name, event.name)) {
        die("a record that was not appended");
    }
    *last = r->id.index;
}

static void follow(struct event_log *log, bool compare)
{
    struct event_cursor *c = event_cursor_open(log, (struct event_id){0, 0});
    struct event_step step;
    enum event_read read;
    uint64_t last = 0;
    unsigned steps = 0;
    while ((read = event_cursor_next(c, &step)) != EVENT_READ_END) {
        if (read == EVENT_READ_FAILED || ++steps > STEPS) {
            die(read == EVENT_READ_FAILED ? step.problem.text : "the cursor does not end");
        }
        if (read == EVENT_READ_RECORD && compare) {
            check_event(&step.record, &last);
        }
    }
    event_cursor_close(c);
}

static uint64_t search(struct event_log *log, bool newest_first, bool compare)
{
    struct event_scan scan = {
        .kinds = SCAN_EVENTS, .all_tenants = true, .newest_first = newest_first, .limit = 7};
    struct event_page page;
    struct problem problem;
    uint64_t found = 0;
    unsigned pages = 0;
    do {
        if (event_scan_page(log, &scan, &page, &problem) != HF_OK || ++pages > STEPS) {
            die("the search does not end");
        }
        for (uint32_t i = 0; i < page.count && compare; i++) {
            uint64_t before = 0;
            check_event(&page.records[i], &before);
        }
        found += page.count;
        scan.is_continued = true;
        scan.after = page.next;
        event_page_close(log, &page);
    } while (page.more);
    return found;
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
    struct event_log *log = open_log(fake);
    follow(log, !right);
    uint64_t forward = search(log, false, !right);
    uint64_t backward = search(log, true, !right);
    if (!right && forward != backward) {
        die("the directions of the search differ");
    }
    append(log, ENTRIES + 1);
    event_log_write(log);
    follow(log, !right);
    event_log_close(log);
    event_log_close(open_log(fake));
    disk_fake_free(fake);
    return 0;
}
