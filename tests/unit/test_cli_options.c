/* The flags of the command line: every way to write them, and what is said of wrong ones. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

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

static const struct flag options[] = {
    CLI_COMMON_OPTIONS(struct sample),
    {"quick", 'n', FLAG_SWITCH(struct sample, quick), NULL, ""},
    {"shared", 's', FLAG_SWITCH(struct sample, shared), NULL, ""},
    {"wait", 'w', FLAG_DURATION(struct sample, wait_ms), "DURATION", ""},
    {"permits", 0, FLAG_NUMBER(struct sample, permits), "K", ""},
    {"reason", 'r', FLAG_TEXT(struct sample, reason), "TEXT", ""},
    FLAGS_END,
};

enum { MOST = 16 };

struct reading {
    struct sample sample;
    struct flag_words words;
    char *arguments[MOST];
};

/* The texts are only read, but main's are not const. */
static bool read_all(struct reading *r, enum flag_order order, const char *const *texts)
{
    int count = 0;
    for (; texts[count] != NULL; count++) {
        assert_true(count < MOST);
        memcpy(&r->arguments[count], &texts[count], sizeof(char *));
    }
    r->sample = (struct sample){.common = CLI_COMMON_DEFAULT};
    return flags_read("show", options, order, count, r->arguments, &r->sample, &r->words);
}

#define READ(r, ...) read_all(r, FLAGS_ANY_ORDER, (const char *const[]){__VA_ARGS__, NULL})
#define READ_LAST(r, ...) read_all(r, FLAGS_WORDS_LAST, (const char *const[]){__VA_ARGS__, NULL})

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

struct ranged {
    uint64_t rows;
    uint64_t time_ms;
    uint64_t via;
    const char *dir;
    const char *setting;
};

static const struct flag ranged_flags[] = {
    {"rows", 0, FLAG_NUMBER_IN(struct ranged, rows, 1, 9), "N", ""},
    {"time", 0, FLAG_DURATION_IN(struct ranged, time_ms, 100, 2000), "TIME", ""},
    {"via", 0, FLAG_WORD(struct ranged, via), "leader|any", ""},
    {"dir", 0, FLAG_TEXT_SET(struct ranged, dir), "DIR", ""},
    {"setting", 0, FLAG_KIND_SETTING, offsetof(struct ranged, setting), 0, 0, "", ""},
    FLAGS_END,
};

/* The problem with one argument; "" if there is none. */
static const char *problem_of(const char *text, struct ranged *out)
{
    static char problem[FLAG_PROBLEM];
    char argument[64];
    char *arguments[] = {argument, NULL};
    struct flag_words words = {1, arguments, -1};
    snprintf(argument, sizeof(argument), "%s", text);
    *out = (struct ranged){.rows = 5};
    problem[0] = '\0';
    assert_true(flags_parse(ranged_flags, FLAGS_ANY_ORDER, &words, out, problem) ==
                (problem[0] == '\0'));
    return problem;
}

static void values_out_of_range_are_refused_with_the_range(void **state)
{
    struct ranged r;
    assert_string_equal(problem_of("--rows=9", &r), "");
    assert_int_equal(r.rows, 9);
    assert_string_equal(problem_of("--rows=10", &r),
                        "--rows: \"10\" is not a whole number from 1 to 9");
    assert_int_equal(r.rows, 5);
    assert_string_equal(problem_of("--time=99ms", &r),
                        "--time: \"99ms\" is not a duration from 100ms to 2s");
    assert_string_equal(problem_of("--via=ANY", &r), "");
    assert_int_equal(r.via, 1);
    assert_string_equal(problem_of("--via=an", &r), "--via: \"an\" is not leader or any");
    assert_string_equal(problem_of("--dir=", &r), "--dir: a value is missing (DIR)");
    assert_string_equal(problem_of("--dir", &r), "--dir: a value is missing (DIR)");
    assert_string_equal(problem_of("--x\n", &r), "--x?: there is no such flag");
}

static void a_setting_is_true_without_a_value(void **state)
{
    struct ranged r;
    assert_string_equal(problem_of("--setting", &r), "");
    assert_string_equal(r.setting, "true");
    assert_string_equal(problem_of("--setting=no", &r), "");
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
        char call[64];
        assert_true(snprintf(call, sizeof(call), "holdfast %s", row->name) < (int)sizeof(call));
        assert_non_null(strstr(row->example, call));
        assert_non_null(row->run);
        assert_ptr_equal(cli_command_find(row->name), row);
        for (const struct flag *o = row->options; o != NULL && o->name != NULL; o++) {
            assert_true(o->help[0] != '\0');
            assert_true((o->kind == FLAG_KIND_SWITCH) == (o->value == NULL));
            for (const struct flag *p = row->options; p != o; p++) {
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
        cmocka_unit_test(values_out_of_range_are_refused_with_the_range),
        cmocka_unit_test(a_setting_is_true_without_a_value),
        cmocka_unit_test(words_are_counted),
        cmocka_unit_test(every_row_of_the_table_is_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
