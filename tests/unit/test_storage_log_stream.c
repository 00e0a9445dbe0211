/* The log as a node reads it at its start: in order, and never more than one piece in memory. */
#include "storage_log_fixture.h"

#include "storage/log_stream.h"

/* Bytes of entry data that the stream holds. */
static size_t held_bytes(const struct log_stream *s)
{
    size_t bytes = 0;
    for (size_t i = 0; i < s->piece.count; i++) {
        bytes += s->piece.entries[i].data.len;
    }
    return bytes;
}

static void assert_entry(const struct log_entry *entry, const struct naive_entry *expected)
{
    assert_non_null(entry);
    assert_int_equal(entry->term, expected->term);
    assert_int_equal(entry->data.len, expected->len);
    uint8_t *data = malloc(expected->len + 8);
    entry_fill(data, expected);
    assert_memory_equal(entry->data.data, data, expected->len);
    free(data);
}

static void a_long_log_is_read_in_pieces(void **state)
{
    enum { ENTRIES = 80, LEN = 100000 }; /* 8 MB in all */
    struct fixture *f = *state;
    struct problem problem;
    f->segment_bytes = 0;
    assert_done(reopen(f, &problem));
    for (uint64_t first = 1; first <= ENTRIES; first += 8) {
        assert_done(append(f, first, 8, LEN, 1, &problem));
    }
    assert_done(reopen(f, &problem));
    struct log_stream s = {.log = f->log, .next = 3};
    size_t most = 0;
    for (uint64_t index = 3; index <= ENTRIES; index++) {
        assert_entry(log_stream_next(&s), &f->naive.entries[index]);
        most = held_bytes(&s) > most ? held_bytes(&s) : most;
    }
    assert_in_range(most, LEN, LOG_STREAM_PIECE);
    assert_null(log_stream_next(&s)); /* behind the end */
    log_stream_close(&s);
}

static void an_entry_larger_than_a_piece_is_read_alone(void **state)
{
    struct fixture *f = *state;
    struct problem problem;
    f->segment_bytes = 0;
    assert_done(reopen(f, &problem));
    assert_done(append(f, 1, 1, 100, 1, &problem));
    assert_done(append(f, 2, 2, LOG_STREAM_PIECE + 1, 1, &problem));
    assert_done(append(f, 4, 1, 100, 1, &problem));
    struct log_stream s = {.log = f->log, .next = 1};
    for (uint64_t index = 1; index <= 4; index++) {
        assert_entry(log_stream_next(&s), &f->naive.entries[index]);
        assert_true(held_bytes(&s) <= LOG_STREAM_PIECE || s.piece.count == 1);
    }
    log_stream_close(&s);
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(a_long_log_is_read_in_pieces),
        T(an_entry_larger_than_a_piece_is_read_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
