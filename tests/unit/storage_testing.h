/* What the tests of storage/ share: checks that show the text of a problem, entries whose content
 * follows from a number, and a naive log to compare with. To be included first. */
#ifndef HOLDFAST_TESTS_STORAGE_TESTING_H
#define HOLDFAST_TESTS_STORAGE_TESTING_H

#include "base_testing.h"

#include "append_directly.h"
#include "disk_fake.h"
#include "storage/log.h"

/* Both want a `struct problem problem` in scope. */
#define assert_done(call)                                    \
    do {                                                     \
        if ((call) != STORAGE_OK)                            \
            fail_msg("line %d: %s", __LINE__, problem.text); \
    } while (0)

#define assert_problem(call, wanted, part)                                                 \
    do {                                                                                   \
        enum storage_status got_status = (call);                                           \
        if (got_status != (wanted) || strstr(problem.text, (part)) == NULL)                \
            fail_msg("line %d: expected %s with \"%s\", got %s with \"%s\"", __LINE__,     \
                     storage_status_word(wanted), (part), storage_status_word(got_status), \
                     got_status == STORAGE_OK ? "" : problem.text);                        \
    } while (0)

static const struct id test_store = {0x1122334455667788, 0x99aabbccddeeff00};

/* ---- the naive log ---- */

struct naive_entry {
    uint64_t term;
    uint64_t seed; /* decides type and content */
    uint32_t len;
};

enum { NAIVE_MAX = 4096 };

/* Entry `index` is at entries[index]. */
struct naive {
    uint64_t first;
    uint64_t last;
    struct naive_entry entries[NAIVE_MAX];
};

static inline void naive_init(struct naive *naive)
{
    *naive = (struct naive){.first = 1, .last = 0};
}

static inline void naive_set(struct naive *naive, uint64_t index, struct naive_entry entry)
{
    assert_true(index >= naive->first && index <= naive->last + 1 && index < NAIVE_MAX);
    naive->entries[index] = entry;
    naive->last = index;
}

static inline void entry_fill(uint8_t *data, const struct naive_entry *entry)
{
    struct random random = {entry->seed};
    for (uint32_t i = 0; i < entry->len; i += 8) {
        uint64_t word = random_next(&random);
        memcpy(data + i, &word, entry->len - i < 8 ? entry->len - i : 8);
    }
}

static inline uint16_t entry_type(const struct naive_entry *entry)
{
    return (uint16_t)(1 + entry->seed % 3);
}

/* Appends the entries [first, first + count) of the naive log to the real one; every other batch
 * directly, if the log was opened for that. */
static inline enum storage_status append_naive(struct log *log, uint64_t first,
                                               const struct naive_entry *list, size_t count,
                                               struct problem *problem)
{
    struct log_entry *entries = calloc(count, sizeof(*entries));
    for (size_t i = 0; i < count; i++) {
        uint8_t *data = malloc(list[i].len + 1);
        entry_fill(data, &list[i]);
        entries[i] = (struct log_entry){.term = list[i].term,
                                        .type = entry_type(&list[i]),
                                        .data = slice_make(data, list[i].len)};
    }
    enum storage_status status = list[0].seed % 2 == 0
                                     ? log_append(log, first, entries, count, problem)
                                     : append_directly(log, first, entries, count, problem);
    for (size_t i = 0; i < count; i++)
        free((void *)(uintptr_t)entries[i].data.data);
    free(entries);
    return status;
}

static inline bool entry_equals(const struct log_entry *entry, const struct naive_entry *naive)
{
    uint8_t *data = malloc(naive->len + 1);
    entry_fill(data, naive);
    bool same = entry->term == naive->term && entry->type == entry_type(naive) &&
                slice_equal(entry->data, slice_make(data, naive->len));
    free(data);
    return same;
}

/* Reads entries [first, last] and compares; returns the first index that differs, or 0. */
static inline uint64_t first_difference(struct log *log, const struct naive *naive, uint64_t first,
                                        uint64_t last, size_t max_bytes)
{
    struct problem problem;
    for (uint64_t at = first; at <= last;) {
        struct log_piece piece;
        assert_done(log_read(log, at, last, max_bytes, &piece, &problem));
        assert_true(piece.count > 0 && piece.first == at);
        for (size_t i = 0; i < piece.count; i++, at++) {
            if (!entry_equals(&piece.entries[i], &naive->entries[at])) {
                log_piece_free(&piece);
                return at;
            }
        }
        log_piece_free(&piece);
    }
    return 0;
}

static inline void assert_log_equals(struct log *log, const struct naive *naive)
{
    assert_int_equal(log_last(log), naive->last);
    assert_true(log_first(log) <= naive->first);
    assert_int_equal(first_difference(log, naive, naive->first, naive->last, 4096), 0);
}

#endif
