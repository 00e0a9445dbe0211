/* Moments as people write them. */
#include "base_testing.h"

#include "wire/civil.h"
#include "wire/instant.h"

#define NOW UINT64_C(1731660577123) /* 2024-11-15T08:49:37.123Z */

static void is_at(const char *text, uint64_t expected)
{
    uint64_t wall_ms = 7;
    if (!instant_parse(slice_of(text), NOW, &wall_ms)) {
        fail_msg("\"%s\" is refused", text);
    }
    assert_int_equal(wall_ms, expected);
}

static void times_of_rfc_3339_are_read(void **state)
{
    (void)state;
    is_at("2024-11-15T08:49:37.123Z", NOW);
    is_at("2024-11-15t08:49:37.1239999z", NOW);
    is_at("2024-11-15 08:49:37Z", NOW - 123);
    is_at("2024-11-15T09:49:37.1+01:00", NOW - 23);
    is_at("2024-11-14T22:19:37.12-10:30", NOW - 3);
    is_at("1970-01-01T00:00:00Z", 0);
    is_at("2000-02-29T23:59:60Z", UINT64_C(951868799000)); /* a leap second is the one before */
    is_at("9999-12-31T23:59:59Z", UINT64_C(253402300799000));
}

static void durations_are_times_before_now(void **state)
{
    (void)state;
    is_at("2h", NOW - 7200000);
    is_at("1h30m", NOW - 5400000);
    is_at("90s", NOW - 90000);
    is_at("500ms", NOW - 500);
    is_at("3d", NOW - 3 * UINT64_C(86400000));
    is_at("0s", NOW);
    is_at("36525d", 0);
}

static void other_texts_are_refused(void **state)
{
    static const char *const wrong[] = {
        "",
        "2",
        "2 h",
        "h",
        "2w",
        "-2h",
        "2h-",
        "2h3",
        "36526d",
        "36525d1ms",
        "99999999999999999999999s",
        "now",
        "2024-11-15",
        "2024-11-15T08:49Z",
        "2024-11-15T08:49:37",
        "2024-11-15T08:49:37.Z",
        "2024-11-15T08:49:37 01:00",
        "2024-11-15T08:49:37+1:00",
        "2024-11-15T08:49:37+24:00",
        "2024-11-15T08:49:37Zx",
        "2023-02-29T00:00:00Z",
        "2100-02-29T00:00:00Z",
        "2024-13-01T00:00:00Z",
        "2024-00-01T00:00:00Z",
        "2024-01-00T00:00:00Z",
        "2024-11-15T24:00:00Z",
        "2024-11-15T23:60:00Z",
        "2024-11-15T23:59:61Z",
        "1969-12-31T23:59:59Z",
        "1970-01-01T00:00:00+01:00",
        "99999-01-01T00:00:00Z",
    };
    (void)state;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        uint64_t wall_ms = 7;
        if (instant_parse(slice_of(wrong[i]), NOW, &wall_ms)) {
            fail_msg("\"%s\" is taken", wrong[i]);
        }
        assert_int_equal(wall_ms, 7);
    }
}

/* Days of four centuries and more, there and back. */
static void reading_inverts_writing(void **state)
{
    (void)state;
    for (uint64_t s = 0; s < UINT64_C(86400) * 366 * 500; s += UINT64_C(86400) * 13 + 12345) {
        struct civil c = civil_from_seconds(s);
        char text[80];
        (void)snprintf(text, sizeof(text), "%04u-%02u-%02uT%02u:%02u:%02uZ", c.year, c.month, c.day,
                       c.hour, c.minute, c.second);
        is_at(text, s * 1000);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(times_of_rfc_3339_are_read),
        cmocka_unit_test(durations_are_times_before_now),
        cmocka_unit_test(other_texts_are_refused),
        cmocka_unit_test(reading_inverts_writing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
