/* Damage to the files of the log: flipped bits, lost sectors, files that are cut off, missing or
 * mixed up. Whatever was durable and changed is named with file, offset and index; what a crash
 * leaves at the end is dropped, and reported. */
#include "storage_testing.h"

#include "storage/bytes.h"
#include "storage/log_format.h"

enum { SEGMENT = 12288 };

struct fixture {
    struct disk_fake *fake;
    struct log *log;
    uint64_t life;
    struct naive naive;
    uint64_t seed;
};

static enum storage_status open_on(struct disk_fake *fake, uint64_t life, struct log **log,
                                   struct problem *problem)
{
    struct log_options options = {
        .segment_bytes = SEGMENT, .store = test_store, .life = life, .create = life == 1};
    return log_open(disk_fake_disk(fake), &options, log, problem);
}

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));
    struct problem problem;
    f->fake = disk_fake_new(1);
    naive_init(&f->naive);
    f->life = 1;
    assert_done(open_on(f->fake, 1, &f->log, &problem));
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    log_close(f->log);
    disk_fake_free(f->fake);
    free(f);
    return 0;
}

static void append(struct fixture *f, size_t count, uint32_t len)
{
    struct problem problem;
    struct naive_entry list[64];
    for (size_t i = 0; i < count; i++)
        list[i] = (struct naive_entry){.term = 1, .seed = ++f->seed, .len = len};
    assert_done(append_naive(f->log, f->naive.last + 1, list, count, &problem));
    for (size_t i = 0; i < count; i++)
        naive_set(&f->naive, f->naive.last + 1, list[i]);
}

/* Opens a copy of the files with one change made; NULL when that fails, with the problem. */
static struct log *open_copy(struct fixture *f, struct disk_fake *copy, struct problem *problem)
{
    struct log *log = NULL;
    if (open_on(copy, f->life + 1, &log, problem) != STORAGE_OK)
        return NULL;
    return log;
}

static void assert_copy_equals(struct fixture *f, struct disk_fake *copy, uint64_t last)
{
    struct problem problem;
    struct log *log = open_copy(f, copy, &problem);
    if (log == NULL)
        fail_msg("%s", problem.text);
    assert_int_equal(log_last(log), last);
    assert_int_equal(first_difference(log, &f->naive, log_first(log), last, 100000), 0);
    log_close(log);
}

static void assert_copy_fails(struct fixture *f, struct disk_fake *copy, enum storage_status status,
                              const char *part, const char *other_part)
{
    struct problem problem = {.text = "it opened"};
    struct log *log = open_copy(f, copy, &problem);
    if (log != NULL || problem.status != status || strstr(problem.text, part) == NULL ||
        strstr(problem.text, other_part) == NULL)
        fail_msg("expected %s with \"%s\" and \"%s\", got \"%s\"", storage_status_word(status),
                 part, other_part, problem.text);
}

/* ---- flipped bits ---- */

/* Where in a file what begins; from a scan by the test's own eyes. */
struct place {
    char name[32];
    uint64_t size;
    uint64_t end; /* behind the last record */
};

static void find_places(const struct disk_fake *fake, const char *name, struct place *place)
{
    const uint8_t *bytes = disk_fake_file(fake, name, &place->size);
    assert_non_null(bytes);
    snprintf(place->name, sizeof(place->name), "%s", name);
    uint32_t salt = get_u32(bytes + LOG_PAGE + 44);
    uint64_t at = LOG_PAGE;
    while (at + LOG_RECORD <= place->size && get_u32(bytes + at + 44) == salt && salt != 0) {
        at += log_record_size(get_u32(bytes + at + 8));
    }
    place->end = at;
}

/* What log_open said of the end of the log. */
static void assert_dropped(const struct log *log, const char *name, uint64_t offset,
                           uint64_t at_least, uint64_t first, uint64_t last)
{
    const struct log_dropped *dropped = log_dropped(log);
    assert_non_null(dropped);
    assert_string_equal(dropped->segment, name);
    assert_int_equal(dropped->offset, offset);
    assert_true(dropped->bytes >= at_least);
    assert_int_equal(dropped->first, first);
    assert_int_equal(dropped->last, last);
}

/* Flips one bit of every `stride`th byte: what lies behind the last record is no part of the log,
 * everything else is named. */
static void flip_all(struct fixture *f, const char *name, bool is_active, uint64_t stride,
                     uint64_t *named, uint64_t *harmless)
{
    struct place place;
    find_places(f->fake, name, &place);
    for (uint64_t offset = 0; offset < place.size; offset += stride) {
        struct disk_fake *copy = disk_fake_copy(f->fake, offset);
        assert_true(disk_fake_flip(copy, name, offset, (unsigned)(offset * 7 % 8)));
        if (offset < place.end) {
            assert_copy_fails(f, copy, STORAGE_CORRUPT, name, "damaged");
            (*named)++;
        } else {
            struct problem problem;
            struct log *log = open_copy(f, copy, &problem);
            if (log == NULL)
                fail_msg("a flip at %llu of %s is not harmless: %s", (unsigned long long)offset,
                         name, problem.text);
            assert_int_equal(log_last(log), f->naive.last);
            assert_int_equal(
                first_difference(log, &f->naive, log_first(log), log_last(log), 100000), 0);
            if (is_active)
                assert_dropped(log, name, place.end, offset - place.end + 1, 0, 0);
            else
                assert_null(log_dropped(log));
            log_close(log);
            (*harmless)++;
        }
        disk_fake_free(copy);
    }
}

static void a_flipped_bit_is_named_or_harmless(void **state)
{
    struct fixture *f = *state;
    struct problem problem;
    for (int i = 0; i < 16; i++)
        append(f, 3, 300 + 40 * (uint32_t)(i % 3));
    assert_done(log_prepare(f->log, &problem));
    uint64_t named = 0, harmless = 0;
    /* 1 and 2 are closed, 3 is active, 4 is prepared */
    flip_all(f, "log-000000000001", false, 7, &named, &harmless);
    flip_all(f, "log-000000000002", false, 7, &named, &harmless);
    flip_all(f, "log-000000000003", true, 3, &named, &harmless);
    flip_all(f, "log-000000000004", false, 7, &named, &harmless);
    assert_done(log_seal(f->log, &problem));
    flip_all(f, "log-000000000003", true, 3, &named, &harmless);
    printf("           %llu flips named, %llu harmless\n", (unsigned long long)named,
           (unsigned long long)harmless);
    assert_true(named > 3000 && harmless > 500);
}

/* The record then seems to reach far into what was never written. */
static void a_changed_length_of_the_last_record_is_named(void **state)
{
    struct fixture *f = *state;
    append(f, 3, 152);
    append(f, 1, 104);
    for (unsigned bit = 0; bit < 8; bit++) {
        for (unsigned byte = 0; byte < 4; byte++) {
            struct disk_fake *copy = disk_fake_copy(f->fake, 1);
            disk_fake_flip(copy, "log-000000000001", LOG_PAGE + 600 + LOG_LENGTH + byte, bit);
            assert_copy_fails(f, copy, STORAGE_CORRUPT,
                              "log-000000000001 is damaged at offset 4696", "(index 4)");
            disk_fake_free(copy);
        }
    }
}

static void a_flipped_bit_in_a_copied_segment_is_always_named(void **state)
{
    struct fixture *f = *state;
    struct problem problem;
    append(f, 5, 300);
    log_close(f->log);
    f->log = NULL;
    assert_done(open_on(f->fake, ++f->life, &f->log, &problem));
    /* No seal, and it is the last batch: but it was durable before the file got its name. */
    struct place place;
    find_places(f->fake, "log-000000000002", &place);
    for (uint64_t offset = 0; offset < place.end; offset += 5) {
        struct disk_fake *copy = disk_fake_copy(f->fake, offset);
        disk_fake_flip(copy, place.name, offset, 3);
        assert_copy_fails(f, copy, STORAGE_CORRUPT, place.name, "damaged");
        disk_fake_free(copy);
    }
}

/* A segment that was recycled, with an old record everywhere; the log's last one is in it. */
static void fill_a_recycled_segment(struct fixture *f, uint32_t len, struct place *place)
{
    struct problem problem;
    for (int i = 0; i < 80; i++)
        append(f, 1, 464);
    assert_done(log_drop_before(f->log, f->naive.last + 1, &problem));
    f->naive.first = log_first(f->log);
    uint64_t before = f->naive.last;
    while (f->naive.last < before + 16)
        append(f, 1, 464);
    assert_done(log_drop_before(f->log, f->naive.last + 1, &problem));
    f->naive.first = log_first(f->log);
    append(f, 1, len);
    *place = (struct place){.end = 0};
    for (unsigned number = 1; number < 40; number++) {
        char name[32];
        uint64_t size;
        snprintf(name, sizeof(name), "log-%012u", number);
        if (disk_fake_file(f->fake, name, &size) != NULL)
            find_places(f->fake, name, place);
    }
    uint64_t size;
    const uint8_t *bytes = disk_fake_file(f->fake, place->name, &size);
    assert_int_equal(get_u32(bytes + 68), 0); /* not blank */
    assert_true(place->end < size && get_u64(bytes + place->end) != 0);
}

static void a_changed_byte_of_the_last_record_of_a_recycled_segment_is_named(void **state)
{
    struct fixture *f = *state;
    struct place place;
    fill_a_recycled_segment(f, 300, &place);
    for (uint64_t offset = place.end - 348; offset < place.end; offset++) {
        struct disk_fake *copy = disk_fake_copy(f->fake, offset);
        disk_fake_flip(copy, place.name, offset, offset % 8);
        disk_fake_flip(copy, place.name, offset, (offset + 3) % 8);
        assert_copy_fails(f, copy, STORAGE_CORRUPT, place.name, "damaged");
        disk_fake_free(copy);
    }
}

static void a_flipped_bit_of_a_longer_last_record_is_named_too(void **state)
{
    struct fixture *f = *state;
    struct place place;
    fill_a_recycled_segment(f, 2400, &place);
    for (uint64_t offset = place.end - 2448; offset < place.end; offset += 151) {
        struct disk_fake *copy = disk_fake_copy(f->fake, offset);
        disk_fake_flip(copy, place.name, offset, offset % 8);
        assert_copy_fails(f, copy, STORAGE_CORRUPT, place.name, "sound but for one byte");
        disk_fake_free(copy);
    }
}

/* Of a record that was recycled over nobody can say more: it is dropped, and reported. */
static void what_looks_like_an_unfinished_write_is_dropped_and_reported(void **state)
{
    struct fixture *f = *state;
    struct place place;
    fill_a_recycled_segment(f, 2400, &place);
    disk_fake_flip(f->fake, place.name, place.end - 1000, 0);
    disk_fake_flip(f->fake, place.name, place.end - 1500, 0);
    struct problem problem;
    struct log *log = open_copy(f, f->fake, &problem);
    assert_non_null(log);
    assert_int_equal(log_last(log), f->naive.last - 1);
    assert_dropped(log, place.name, place.end - 2448, 2448, f->naive.last, f->naive.last);
    log_close(log);
}

static void damage_is_named_with_file_offset_and_index(void **state)
{
    struct fixture *f = *state;
    for (int i = 0; i < 6; i++)
        append(f, 1, 152); /* 200 bytes with its header */
    disk_fake_flip(f->fake, "log-000000000001", LOG_PAGE + 3 * 200 + 100, 0);
    assert_copy_fails(f, f->fake, STORAGE_CORRUPT,
                      "log-000000000001 is damaged at offset 4696 (index 4)",
                      "the record at offset 4896 was written after it");
    struct problem problem;
    struct log_piece piece;
    assert_problem(log_read(f->log, 1, 6, 10000, &piece, &problem), STORAGE_CORRUPT,
                   "log-000000000001 is damaged at offset 4696 (index 4)");
    assert_done(log_read(f->log, 1, 3, 10000, &piece, &problem));
    log_piece_free(&piece);
    uint64_t term;
    assert_problem(log_term(f->log, 5, &term, &problem), STORAGE_CORRUPT, "index 4");
}

/* ---- the tail ---- */

static void zero(struct disk_fake *fake, const char *name, uint64_t offset, uint64_t len)
{
    uint64_t size;
    const uint8_t *bytes = disk_fake_file(fake, name, &size);
    uint8_t *changed = malloc(size);
    memcpy(changed, bytes, size);
    memset(changed + offset, 0, len);
    disk_fake_put(fake, name, changed, size);
    free(changed);
}

static void any_lost_sectors_of_the_last_batch_are_a_normal_end(void **state)
{
    struct fixture *f = *state;
    append(f, 3, 152);
    uint64_t kept = f->naive.last;
    append(f, 12, 352); /* from 4096 + 600 on, 4800 bytes, sectors 9.17 to 18.5 */
    struct random random;
    random_init(&random, __func__);
    unsigned reported = 0;
    for (int i = 0; i < 300; i++) {
        struct disk_fake *copy = disk_fake_copy(f->fake, 1);
        uint64_t lost = 0;
        for (uint64_t at = LOG_PAGE + 600; at < LOG_PAGE + 600 + 4800;) {
            uint64_t end = (at / 512 + 1) * 512;
            if (random_below(&random, 2) == 0) {
                zero(copy, "log-000000000001", at, end - at);
                lost++;
            }
            at = end;
        }
        struct problem problem;
        struct log *log = open_copy(f, copy, &problem);
        if (log == NULL)
            fail_msg("%s", problem.text);
        assert_true(log_last(log) >= kept && (lost == 0 || log_last(log) < f->naive.last));
        const struct log_dropped *dropped = log_dropped(log);
        assert_true(lost > 0 || dropped == NULL);
        assert_true(lost == 0 || lost == 10 || dropped != NULL);
        assert_true(dropped == NULL || dropped->first == 0 || dropped->first > log_last(log));
        reported += dropped != NULL && dropped->last > log_last(log);
        assert_int_equal(first_difference(log, &f->naive, 1, log_last(log), 100000), 0);
        log_close(log);
        disk_fake_free(copy);
    }
    assert_true(reported > 200); /* with the indexes */
}

static void the_same_loss_before_another_batch_is_damage(void **state)
{
    struct fixture *f = *state;
    append(f, 3, 152);
    append(f, 12, 352);
    append(f, 1, 8);
    for (uint64_t at = LOG_PAGE + 600; at < LOG_PAGE + 600 + 4800; at += 400) {
        struct disk_fake *copy = disk_fake_copy(f->fake, 1);
        zero(copy, "log-000000000001", at, 100);
        assert_copy_fails(f, copy, STORAGE_CORRUPT, "log-000000000001 is damaged", "index");
        disk_fake_free(copy);
    }
}

static void the_same_loss_before_a_later_segment_is_damage(void **state)
{
    struct fixture *f = *state;
    append(f, 3, 152);
    append(f, 12, 352);
    append(f, 10, 500); /* the first few still in the first segment, then a CLOSE */
    uint64_t size;
    assert_non_null(disk_fake_file(f->fake, "log-000000000002", &size));
    /* All that is behind the second batch in the first segment. */
    zero(f->fake, "log-000000000001", LOG_PAGE + 600 + 4800, SEGMENT - LOG_PAGE - 600 - 4800);
    assert_copy_fails(f, f->fake, STORAGE_CORRUPT, "log-000000000001 is damaged at offset 9496",
                      "log-000000000002 has a record at offset 4096 that was written after it");
}

static void a_sector_in_the_wrong_place_is_damage(void **state)
{
    struct fixture *f = *state;
    for (int i = 0; i < 8; i++)
        append(f, 1, 464); /* one sector each */
    for (uint64_t from = 0; from < 8; from++) {
        for (uint64_t to = 0; to < 8; to++) {
            if (from == to)
                continue;
            struct disk_fake *copy = disk_fake_copy(f->fake, 1);
            uint64_t size;
            const uint8_t *bytes = disk_fake_file(copy, "log-000000000001", &size);
            uint8_t *changed = malloc(size);
            memcpy(changed, bytes, size);
            memcpy(changed + LOG_PAGE + 512 * to, bytes + LOG_PAGE + 512 * from, 512);
            disk_fake_put(copy, "log-000000000001", changed, size);
            free(changed);
            if (to == 7) /* the last batch: as if it had never been written */
                assert_copy_equals(f, copy, 7);
            else
                assert_copy_fails(f, copy, STORAGE_CORRUPT, "log-000000000001 is damaged", "index");
            disk_fake_free(copy);
        }
    }
}

/* ---- whole files ---- */

static void fill_three_segments(struct fixture *f)
{
    struct problem problem;
    for (int i = 0; i < 30; i++)
        append(f, 2, 300);
    assert_done(log_prepare(f->log, &problem));
}

static void a_file_that_was_cut_off_or_grew_is_named(void **state)
{
    struct fixture *f = *state;
    fill_three_segments(f);
    static const uint64_t sizes[] = {0, 1, 100, 4095, 4096, 5000, SEGMENT - 1, SEGMENT + 1};
    for (unsigned number = 1; number <= 4; number++) {
        char name[32];
        snprintf(name, sizeof(name), "log-%012u", number);
        for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
            struct disk_fake *copy = disk_fake_copy(f->fake, 1);
            uint64_t size;
            const uint8_t *bytes = disk_fake_file(copy, name, &size);
            uint8_t *changed = calloc(1, SEGMENT + 1);
            memcpy(changed, bytes, SEGMENT);
            disk_fake_put(copy, name, changed, sizes[i]);
            free(changed);
            assert_copy_fails(f, copy, STORAGE_CORRUPT, name, "cut off");
            disk_fake_free(copy);
        }
    }
}

static void a_missing_segment_is_named(void **state)
{
    struct fixture *f = *state;
    struct problem problem;
    fill_three_segments(f);
    struct disk_fake *copy = disk_fake_copy(f->fake, 1);
    disk_fake_remove(copy, "log-000000000002");
    assert_copy_fails(f, copy, STORAGE_CORRUPT, "log-000000000002 is missing",
                      "log-000000000003 goes on");
    disk_fake_free(copy);
    copy = disk_fake_copy(f->fake, 1);
    disk_fake_remove(copy, "log-000000000003"); /* the active one */
    assert_copy_fails(f, copy, STORAGE_CORRUPT, "log-000000000003 is missing",
                      "log-000000000004 goes on");
    disk_fake_remove(copy, "log-000000000004"); /* and the one prepared behind it */
    assert_copy_fails(f, copy, STORAGE_CORRUPT, "a segment is missing: log-000000000002 says",
                      "goes on behind index 46");
    disk_fake_free(copy);
    copy = disk_fake_copy(f->fake, 1);
    disk_fake_remove(copy, "log-000000000004"); /* empty, so nothing is lost */
    assert_copy_equals(f, copy, 60);
    disk_fake_free(copy);
    /* The oldest may have been dropped: the store compares with its snapshot. */
    copy = disk_fake_copy(f->fake, 1);
    disk_fake_remove(copy, "log-000000000001");
    struct log *log = open_copy(f, copy, &problem);
    assert_non_null(log);
    assert_int_equal(log_first(log), 24);
    log_close(log);
    disk_fake_free(copy);
    copy = disk_fake_copy(f->fake, 1);
    for (unsigned number = 1; number <= 3; number++) {
        char name[32];
        snprintf(name, sizeof(name), "log-%012u", number);
        disk_fake_remove(copy, name);
    }
    assert_copy_fails(f, copy, STORAGE_CORRUPT, "segments are missing: log-000000000004", "3");
    disk_fake_remove(copy, "log-000000000004");
    assert_copy_fails(f, copy, STORAGE_CORRUPT, "the log is missing", "new id");
    disk_fake_free(copy);
}

static void files_of_another_store_are_named(void **state)
{
    struct fixture *f = *state;
    struct problem problem;
    fill_three_segments(f);
    struct log_options options = {.segment_bytes = SEGMENT, .store = {1, 2}, .life = 2};
    struct log *log;
    assert_problem(log_open(disk_fake_disk(f->fake), &options, &log, &problem), STORAGE_FOREIGN,
                   "log-000000000001 belongs to store 1122334455667788");
}

static void a_renamed_segment_is_named(void **state)
{
    struct fixture *f = *state;
    fill_three_segments(f);
    uint64_t size;
    const uint8_t *bytes = disk_fake_file(f->fake, "log-000000000002", &size);
    disk_fake_put(f->fake, "log-000000000007", bytes, size);
    assert_copy_fails(f, f->fake, STORAGE_CORRUPT, "log-000000000007 holds segment 2",
                      "renamed or copied");
}

static void names_that_only_look_like_segments_are_left_alone(void **state)
{
    struct fixture *f = *state;
    fill_three_segments(f);
    static const char *const names[] = {"log-2",
                                        "log-0000000000002",
                                        "log-000000000000",
                                        "log-000000000002.bak",
                                        "log-00000000000x",
                                        "log-99999999999999999999999",
                                        "logs",
                                        "spare-1",
                                        "log"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        disk_fake_put(f->fake, names[i], "hello", 5);
    assert_copy_equals(f, f->fake, 60);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        uint64_t size;
        assert_non_null(disk_fake_file(f->fake, names[i], &size));
        assert_int_equal(size, 5);
    }
}

static void a_newer_format_is_named(void **state)
{
    struct fixture *f = *state;
    uint64_t size;
    uint8_t changed[SEGMENT];
    memcpy(changed, disk_fake_file(f->fake, "log-000000000001", &size), SEGMENT);
    put_u32(changed + 16, 2);
    put_u64(changed, storage_checksum(changed + 8, LOG_PAGE - 8, 0));
    disk_fake_put(f->fake, "log-000000000001", changed, size);
    assert_copy_fails(f, f->fake, STORAGE_VERSION, "log-000000000001 has format version 2",
                      "this program knows 1");
}

/* ---- nonsense with a right checksum ---- */

static void sound_records_that_make_no_sense_are_damage(void **state)
{
    struct fixture *f = *state;
    append(f, 3, 152);
    uint64_t size;
    uint8_t original[SEGMENT], changed[SEGMENT];
    memcpy(original, disk_fake_file(f->fake, "log-000000000001", &size), SEGMENT);
    struct log_segment segment;
    struct problem problem;
    assert_done(log_segment_decode(&segment, test_store, 1, "x", original, SEGMENT, &problem));
    struct log_record last;
    assert_true(log_record_decode(&segment, original + LOG_PAGE + 400, 1000, &last));
    struct log_record records[] = {
        {.kind = LOG_ENTRY, .index = 5, .term = 1}, {.kind = LOG_ENTRY, .index = 0, .term = 1},
        {.kind = LOG_TRUNCATE, .index = 5},         {.kind = LOG_TRUNCATE, .index = 0},
        {.kind = (enum log_kind)77, .index = 4},    {.kind = (enum log_kind)0, .index = 4},
    };
    for (size_t i = 0; i < sizeof(records) / sizeof(records[0]); i++) {
        memcpy(changed, original, SEGMENT);
        records[i].before = last.checksum;
        records[i].batch = LOG_PAGE + 600;
        log_record_encode(&segment, &records[i], changed + LOG_PAGE + 600);
        disk_fake_put(f->fake, "log-000000000001", changed, SEGMENT);
        assert_copy_fails(f, f->fake, STORAGE_CORRUPT, "log-000000000001 is damaged at offset 4696",
                          "(index 4)");
    }
    /* One that does not follow what lies before it, at the start of a batch. */
    memcpy(changed, original, SEGMENT);
    struct log_record stray = {.kind = LOG_ENTRY, .index = 4, .batch = LOG_PAGE + 600, .before = 9};
    log_record_encode(&segment, &stray, changed + LOG_PAGE + 600);
    disk_fake_put(f->fake, "log-000000000001", changed, SEGMENT);
    assert_copy_fails(f, f->fake, STORAGE_CORRUPT, "does not follow", "(index 4)");
    /* The same in the middle of a batch is what a failed write left. */
    stray.batch = LOG_PAGE + 400;
    log_record_encode(&segment, &stray, changed + LOG_PAGE + 600);
    disk_fake_put(f->fake, "log-000000000001", changed, SEGMENT);
    assert_copy_equals(f, f->fake, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
        T(a_flipped_bit_is_named_or_harmless),
        T(a_changed_length_of_the_last_record_is_named),
        T(a_flipped_bit_in_a_copied_segment_is_always_named),
        T(a_changed_byte_of_the_last_record_of_a_recycled_segment_is_named),
        T(a_flipped_bit_of_a_longer_last_record_is_named_too),
        T(what_looks_like_an_unfinished_write_is_dropped_and_reported),
        T(damage_is_named_with_file_offset_and_index),
        T(any_lost_sectors_of_the_last_batch_are_a_normal_end),
        T(the_same_loss_before_another_batch_is_damage),
        T(the_same_loss_before_a_later_segment_is_damage),
        T(a_sector_in_the_wrong_place_is_damage),
        T(a_file_that_was_cut_off_or_grew_is_named),
        T(a_missing_segment_is_named),
        T(files_of_another_store_are_named),
        T(a_renamed_segment_is_named),
        T(names_that_only_look_like_segments_are_left_alone),
        T(a_newer_format_is_named),
        T(sound_records_that_make_no_sense_are_damage),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
