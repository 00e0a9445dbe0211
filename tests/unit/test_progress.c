/* Tests of the line that shows how far long work is. */
#include "base_testing.h"

#include "server/progress.h"

static void expect(const struct progress_view *p, int64_t now_ms, const char *line)
{
    char out[PROGRESS_LINE];
    progress_format(p, now_ms, out);
    assert_string_equal(out, line);
}

static void bytes_have_percent_rate_and_time_left(void **state)
{
    (void)state;
    struct progress_view p = {.what = "saving the snapshot",
                              .unit = PROGRESS_BYTES,
                              .done = 30 << 20,
                              .total = 120 << 20,
                              .began_ms = 1000,
                              .first_ms = 1000};
    expect(&p, 4000, "saving the snapshot:  25 %  30.0 of 120.0 MiB  10.0 MiB/s  10s left");
    p.done = p.total;
    expect(&p, 13000, "saving the snapshot: 100 %  120.0 of 120.0 MiB  10.0 MiB/s");
}

static void counts_have_their_noun(void **state)
{
    (void)state;
    struct progress_view p = {.what = "reading the log",
                              .unit = PROGRESS_COUNT,
                              .noun = "entries",
                              .first = 1000,
                              .done = 3000,
                              .total = 1000000,
                              .first_ms = 1000};
    expect(&p, 3000, "reading the log:   0 %  3000 of 1000000 entries  1000/s  16m38s left");
}

static void what_is_not_known_is_left_out(void **state)
{
    (void)state;
    struct progress_view p = {.what = "waiting", .unit = PROGRESS_BYTES, .began_ms = 1000};
    expect(&p, 66000, "waiting: 1m05s");
    p.done = 5000;
    p.first_ms = 66000;
    p.first = 5000;
    expect(&p, 66100, "waiting:  4.9 KiB");
    p.total = 4000; /* less than there is: no division, no time left */
    expect(&p, 70000, "waiting: 100 %  4.9 of 3.9 KiB");
}

static void seconds_have_no_rate_and_notes_come_last(void **state)
{
    (void)state;
    struct progress_view p = {.what = "measuring",
                              .note = "123 cycles/s",
                              .unit = PROGRESS_SECONDS,
                              .done = 4,
                              .total = 10,
                              .first_ms = 1000};
    expect(&p, 5000, "measuring:  40 %  4 of 10 s  123 cycles/s");
}

static void a_long_line_is_cut(void **state)
{
    (void)state;
    char noun[500];
    char out[PROGRESS_LINE];
    memset(noun, 'x', sizeof(noun));
    noun[sizeof(noun) - 1] = '\0';
    struct progress_view p = {
        .what = "it", .unit = PROGRESS_COUNT, .noun = noun, .done = 1, .total = 2};
    progress_format(&p, 1, out);
    assert_int_equal(strlen(out), PROGRESS_LINE - 1);
}

static void without_a_terminal_all_calls_do_nothing(void **state)
{
    (void)state;
    progress_end();
    progress_begin("x", PROGRESS_COUNT, "y", true);
    progress_update(5, 10);
    progress_rename("z");
    progress_note("n");
    progress_end();
    progress_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_have_percent_rate_and_time_left),
        cmocka_unit_test(counts_have_their_noun),
        cmocka_unit_test(what_is_not_known_is_left_out),
        cmocka_unit_test(a_long_line_is_cut),
        cmocka_unit_test(seconds_have_no_rate_and_notes_come_last),
        cmocka_unit_test(without_a_terminal_all_calls_do_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
