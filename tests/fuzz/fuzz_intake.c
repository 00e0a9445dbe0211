/* Arbitrary bytes as a snapshot that another node sends: it is refused with a text, or it is one
 * that can be loaded. The first byte says in pieces of which size they come; with its highest bit
 * set, the checksums of the pieces are made right first, so that the reader gets further. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "disk_fake.h"
#include "storage/snapshot_format.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static _Noreturn void die(const char *what)
{
    fprintf(stderr, "fuzz_intake: %s\n", what);
    abort();
}

static void make_right(uint8_t *bytes, size_t size)
{
    struct snapshot_check check = {.name = "x"};
    size_t at = 0;
    while (at < size && !check.done) {
        size_t need = snapshot_check_need(&check, bytes + at, size - at);
        if (need > size - at) {
            return;
        }
        put_u64(bytes + at, storage_checksum(bytes + at + 8, need - 8, check.chain));
        struct slice body;
        struct problem problem;
        if (snapshot_check_piece(&check, bytes + at, need, &body, NULL, &problem) != STORAGE_OK) {
            return;
        }
        at += need;
    }
}

static enum storage_status receive(struct snapshots *snapshots, const uint8_t *bytes, size_t size,
                                   size_t piece, struct problem *problem)
{
    /* Expects what the header says, as far as there is one. */
    struct snapshot_info expected = {.index = 1};
    struct snapshot_check check = {.name = "x"};
    struct slice body;
    size_t need = snapshot_check_need(&check, bytes, size);
    struct problem ignored;
    if (need <= size) {
        (void)snapshot_check_piece(&check, bytes, need, &body, &expected, &ignored);
    }
    expected.index %= 1000000; /* the names of files have limits of their own */
    struct snapshot_intake *intake;
    enum storage_status status = snapshot_intake_begin(snapshots, &expected, &intake, problem);
    for (size_t at = 0; at < size && status == STORAGE_OK; at += piece) {
        status = snapshot_intake_feed(intake, bytes + at, size - at < piece ? size - at : piece,
                                      problem);
    }
    if (status == STORAGE_OK) {
        return snapshot_intake_commit(intake, problem);
    }
    snapshot_intake_abort(intake);
    return status;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0) {
        return 0;
    }
    struct problem problem = {.text = ""};
    struct id any = {0, 0};
    struct disk_fake *fake = disk_fake_new(1);
    struct snapshots *snapshots;
    if (snapshots_open(disk_fake_disk(fake), any, &snapshots, &problem) != STORAGE_OK) {
        die(problem.text);
    }
    uint8_t *bytes = malloc(size);
    memcpy(bytes, data + 1, size - 1);
    if ((data[0] & 128) != 0) {
        make_right(bytes, size - 1);
    }
    if (receive(snapshots, bytes, size - 1, 1 + (data[0] & 127u), &problem) == STORAGE_OK) {
        if (snapshots_verify_newest(snapshots, &problem) != STORAGE_OK) {
            die("it was taken and cannot be loaded");
        }
    } else if (strlen(problem.text) < 10 || snapshots_newest(snapshots) != NULL) {
        die("it was refused without a text, or not really");
    }
    free(bytes);
    snapshots_close(snapshots);
    disk_fake_free(fake);
    return 0;
}
