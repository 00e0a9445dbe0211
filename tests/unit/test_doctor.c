/* Tests of the rules of `holdfast doctor` that need no machine of their kind. */
#include "base_testing.h"

#include <sys/stat.h>

#include "cli/doctor/doctor.h"
#include "temporary.h"

static struct doctor_report report;

static void expect(enum doctor_level level, const char *check, const char *words)
{
    assert_int_equal(report.count, 1);
    const struct doctor_line *line = &report.lines[0];
    assert_string_equal(line->check, check);
    if (line->level != level || strstr(line->text, words) == NULL) {
        fail_msg("%s: level %d: %s", check, (int)line->level, line->text);
    }
    assert_int_equal(line->action[0] != '\0', level != DOCTOR_OK);
    report.count = 0;
}

static void a_disk_is_rated_by_its_median_and_its_worst(void **state)
{
    (void)state;
    doctor_rate_disk(0.5, 12, &report);
    expect(DOCTOR_OK, "disk-speed", "takes 0.50 ms");
    doctor_rate_disk(25, 30, &report);
    expect(DOCTOR_WARN, "disk-speed", "takes 25.00 ms");
    doctor_rate_disk(0.5, 900, &report);
    expect(DOCTOR_WARN, "disk-speed", "the slowest 900.0 ms");
}

static void file_systems_that_are_no_disk_are_named(void **state)
{
    (void)state;
    static const struct {
        uint64_t type;
        const char *name;
    } bad[] = {
        {0x6969, "nfs"}, {0xff534d42, "cifs"}, {0x794c7630, "overlay"}, {0x01021994, "tmpfs"}};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        doctor_rate_file_system(bad[i].type, "/data", &report);
        expect(DOCTOR_WARN, "file-system", bad[i].name);
    }
    doctor_rate_file_system(0xef53, "/data", &report); /* ext4 */
    expect(DOCTOR_OK, "file-system", "/data");
}

static void space_is_rated_by_its_share(void **state)
{
    (void)state;
    const uint64_t gib = UINT64_C(1) << 30;
    doctor_rate_space(50 * gib, 100 * gib, &report);
    expect(DOCTOR_OK, "disk-space", "50.0 of 100.0 GiB");
    doctor_rate_space(9 * gib, 100 * gib, &report);
    expect(DOCTOR_WARN, "disk-space", "(9 %)");
    doctor_rate_space(1 * gib, 100 * gib, &report);
    expect(DOCTOR_FAIL, "disk-space", "(1 %)");
    doctor_rate_space(0, 0, &report);
    expect(DOCTOR_FAIL, "disk-space", "0.0 of 0.0");
}

static void make_source(const char *sys, const char *word)
{
    static const char *const parts[] = {"/devices", "/devices/system",
                                        "/devices/system/clocksource",
                                        "/devices/system/clocksource/clocksource0"};
    char path[512];
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        snprintf(path, sizeof(path), "%s%s", sys, parts[i]);
        (void)mkdir(path, 0700);
    }
    snprintf(path, sizeof(path), "%s%s/current_clocksource", sys, parts[3]);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(word, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void rate_clock(const char *sys)
{
    doctor_check_clock(sys, &report);
    assert_int_equal(report.count, 2); /* the second is about NTP on this machine */
    assert_string_equal(report.lines[1].check, "clock-sync");
    report.count = 1;
}

static void slow_clocks_are_named(void **state)
{
    (void)state;
    const char *sys = temporary_folder(NULL);
    rate_clock(sys);
    expect(DOCTOR_OK, "clock-source", "not known");
    make_source(sys, "tsc\n");
    rate_clock(sys);
    expect(DOCTOR_OK, "clock-source", "uses tsc");
    make_source(sys, "hpet\n");
    rate_clock(sys);
    expect(DOCTOR_WARN, "clock-source", "uses hpet");
    temporary_remove(sys);
}

static void a_folder_that_is_missing_has_one_above_it(void **state)
{
    (void)state;
    char found[64];
    doctor_existing_folder("/", found, sizeof(found));
    assert_string_equal(found, "/");
    doctor_existing_folder("/tmp/holdfast-none/such/folder", found, sizeof(found));
    assert_string_equal(found, "/tmp");
    doctor_existing_folder("/holdfast-none", found, sizeof(found));
    assert_string_equal(found, "/");
    doctor_existing_folder("holdfast-none/x", found, sizeof(found));
    assert_string_equal(found, ".");
}

static void a_full_report_takes_no_more_lines(void **state)
{
    (void)state;
    for (unsigned i = 0; i < DOCTOR_LINES + 5; i++) {
        doctor_add(&report, DOCTOR_WARN, "x", "y", "line %u", i);
    }
    assert_int_equal(report.count, DOCTOR_LINES);
    report.count = 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_disk_is_rated_by_its_median_and_its_worst),
        cmocka_unit_test(file_systems_that_are_no_disk_are_named),
        cmocka_unit_test(space_is_rated_by_its_share),
        cmocka_unit_test(slow_clocks_are_named),
        cmocka_unit_test(a_folder_that_is_missing_has_one_above_it),
        cmocka_unit_test(a_full_report_takes_no_more_lines),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
