/* The flags of the command line: every way to write them, and what is said of wrong ones. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/slice.h"
#include "cli/command.h"
#include "cli/options.h"

struct sample {
    struct cli_common common;
    bool quick;
    bool shared;
    uint64_t wait_ms;
    uint64_t permits;
    const char *reason;
};

static const struct cli_option options[] = {
    CLI_COMMON_OPTIONS(struct sample),
    {"quick", 'n', CLI_FLAG, offsetof(struct sample, quick), NULL, ""},
    {"shared", 's', CLI_FLAG, offsetof(struct sample, shared), NULL, ""},
    {"wait", 'w', CLI_DURATION, offsetof(struct sample, wait_ms), "DURATION", ""},
    {"permits", 0, CLI_NUMBER, offsetof(struct sample, permits), "K", ""},
    {"reason", 'r', CLI_TEXT, offsetof(struct sample, reason), "TEXT", ""},
    CLI_OPTIONS_END,
};

enum { MOST = 16 };

struct reading {
    struct sample sample;
    struct cli_words words;
    char *arguments[MOST];
};

/* The texts are only read, but main's are not const. */
static bool read_all(struct reading *r, enum cli_order order, const char *const *texts)
{
    int count = 0;
    for (; texts[count] != NULL; count++) {
        assert_true(count < MOST);
        memcpy(&r->arguments[count], &texts[count], sizeof(char *));
    }
    r->sample = (struct sample){.common = CLI_COMMON_DEFAULT};
    return cli_options_read("show", options, order, count, r->arguments, &r->sample, &r->words);
}

#define READ(r, ...) read_all(r, CLI_ANY_ORDER, (const char *const[]){__VA_ARGS__, NULL})
#define READ_LAST(r, ...) read_all(r, CLI_WORDS_LAST, (const char *const[]){__VA_ARGS__, NULL})

static void every_way_to_write_a_flag_is_read(void **state)
{
    struct reading r;
    assert_true(READ(&r, "--wait", "1.5", "--reason=because", "one", "-ns", "--permits=3", "two"));
    assert_int_equal(r.sample.wait_ms, 1500);
    assert_string_equal(r.sample.reason, "because");
    assert_true(r.sample.quick && r.sample.shared);
    assert_int_equal(r.sample.permits, 3);
    assert_int_equal(r.words.count, 2);
    assert_string_equal(r.words.items[0], "one");
    assert_string_equal(r.words.items[1], "two");
    assert_int_equal(r.words.separator, -1);
    assert_true(READ(&r, "-w20ms"));
    assert_int_equal(r.sample.wait_ms, 20);
    assert_true(READ(&r, "-nw", "2m"));
    assert_int_equal(r.sample.wait_ms, 120000);
    assert_true(READ(&r, "--wait", "1h", "-"));
    assert_int_equal(r.sample.wait_ms, 3600000);
    assert_string_equal(r.words.items[0], "-");
}

static void defaults_stay_where_no_flag_is_given(void **state)
{
    struct reading r;
    assert_true(READ(&r, "one"));
    assert_int_equal(r.sample.common.timeout_ms, 5000);
    assert_null(r.sample.common.endpoints);
    assert_false(r.sample.common.json);
}

static void two_dashes_end_the_flags(void **state)
{
    struct reading r;
    assert_true(READ(&r, "name", "--quick", "--", "--shared", "-n", "--"));
    assert_true(r.sample.quick);
    assert_false(r.sample.shared);
    assert_int_equal(r.words.separator, 1);
    assert_int_equal(r.words.count, 4);
    assert_string_equal(r.words.items[1], "--shared");
    assert_string_equal(r.words.items[3], "--");
}

static void the_first_word_ends_them_where_a_program_follows(void **state)
{
    struct reading r;
    assert_true(READ_LAST(&r, "-n", "name", "ls", "-s", "--wait", "x"));
    assert_true(r.sample.quick);
    assert_false(r.sample.shared);
    assert_int_equal(r.words.count, 5);
    assert_string_equal(r.words.items[2], "-s");
}

static void what_is_wrong_is_refused(void **state)
{
    struct reading r;
    assert_false(READ(&r, "--no-such"));
    assert_false(READ(&r, "-q"));
    assert_false(READ(&r, "-nq"));
    assert_false(READ(&r, "--wait"));
    assert_false(READ(&r, "-w"));
    assert_false(READ(&r, "--wait", "soon"));
    assert_false(READ(&r, "--wait", "-1"));
    assert_false(READ(&r, "--wait", ""));
    assert_false(READ(&r, "--permits", "1.5"));
    assert_false(READ(&r, "--quick=yes"));
    assert_false(READ(&r, "--=x"));
}

static void words_are_counted(void **state)
{
    struct reading r;
    assert_true(READ(&r, "one"));
    assert_true(cli_words_check("dev", &r.words, 1, 1));
    assert_false(cli_words_check("dev", &r.words, 2, 3));
    assert_false(cli_words_check("dev", &r.words, 0, 0));
}

static void every_row_of_the_table_is_whole(void **state)
{
    const struct cli_command *row;
    unsigned i = 0;
    for (; (row = cli_command_at(i)) != NULL; i++) {
        assert_true(row->name[0] != '\0' && row->summary[0] != '\0');
        assert_non_null(row->usage);
        assert_true(slice_starts_with(slice_of(row->example), slice_of("holdfast ")));
        assert_non_null(row->run);
        assert_ptr_equal(cli_command_find(row->name), row);
        for (const struct cli_option *o = row->options; o != NULL && o->name != NULL; o++) {
            assert_true(o->help[0] != '\0');
            assert_true((o->type == CLI_FLAG) == (o->value == NULL));
            for (const struct cli_option *p = row->options; p != o; p++) {
                assert_string_not_equal(p->name, o->name);
                assert_true(o->letter == 0 || o->letter != p->letter);
            }
        }
    }
    assert_true(i > 0);
    assert_null(cli_command_find("no-such-command"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_way_to_write_a_flag_is_read),
        cmocka_unit_test(defaults_stay_where_no_flag_is_given),
        cmocka_unit_test(two_dashes_end_the_flags),
        cmocka_unit_test(the_first_word_ends_them_where_a_program_follows),
        cmocka_unit_test(what_is_wrong_is_refused),
        cmocka_unit_test(words_are_counted),
        cmocka_unit_test(every_row_of_the_table_is_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
