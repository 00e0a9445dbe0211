/* The functions of `string` and `table` that replace those of Lua. Each expected value is that of
 * Lua 5.1's own function. */
#include "script_testing.h"

struct example {
    const char *source;
    const char *answer;
};

static const struct example examples[] = {
    {"return {('hello'):find('l')}", "*2|:3|:3|"},
    {"return {('hello'):find('xyz')}", "*0|"},
    {"return {('hello'):find('l', 4)}", "*2|:4|:4|"},
    {"return {('hello'):find('l', -2)}", "*2|:4|:4|"},
    {"return {('hello'):find('')}", "*2|:1|:0|"},
    {"return {('hello'):find('', 9)}", "*2|:6|:5|"},
    {"return {('a.b'):find('.', 1, true)}", "*2|:2|:2|"},
    {"return {('a+b'):find('+', 1, true)}", "*2|:2|:2|"},
    {"return {('a.b'):find('a.b', 1, true)}", "*2|:1|:3|"},
    {"return {('a\\0b'):find('b')}", "*2|:3|:3|"},
    {"return {('a\\0b'):find('\\0')}", "*2|:2|:2|"},
    {"return {string.find('a', '%a')}", "*2|:1|:1|"},
    {"return {string.gsub('a-b', '[a-z]', '<%0>')}", "*2|$7|<a>-<b>|:2|"},
    {"return {type(string.gfind), type(string.dump)}", "*2|$3|nil|$3|nil|"},
    {"return ('ab'):rep(3)", "$6|ababab|"},
    {"return ('ab'):rep(0) .. ('ab'):rep(-5) .. (''):rep(1e9)", "$0||"},

    {"local t = {1, 2, 3} table.insert(t, 4) table.insert(t, 1, 0) return t", "*5|:0|:1|:2|:3|:4|"},
    {"local t = {1, 2, 3} return {table.remove(t), table.remove(t, 1), #t, t[1]}",
     "*4|:3|:1|:1|:2|"},
    {"return {table.remove({})}", "*0|"},
    {"return table.concat({1, 'a', 2.5}, ', ')", "$9|1, a, 2.5|"},
    {"return table.concat({1, 2, 3, 4}, '', 2, 3)", "$2|23|"},
    {"return table.concat({}, 'x')", "$0||"},
    {"return {pcall(table.concat, {1, {}, 3})}",
     "*2|$-1|$54|invalid value (table) at index 2 in table for 'concat'|"},
    {"local t = {5, 2, 8, 1, 9, 3} table.sort(t) return t", "*6|:1|:2|:3|:5|:8|:9|"},
    {"local t = {'b', 'a', 'c'} table.sort(t, function(a, b) return a > b end) return t",
     "*3|$1|c|$1|b|$1|a|"},
    {"return pcall(table.sort, {1, 'a'})", "$-1|"},
    {"return {table.maxn({1, 2, [10] = 3}), table.getn({1, 2})}", "*2|:10|:2|"},
    {"local s = 0 table.foreach({a = 1, b = 2}, function(k, v) s = s + v end) return s", ":3|"},
    {"return table.foreachi({'x', 'y'}, function(i, v) if v == 'y' then return i end end)", ":2|"},
};

static void strings_and_tables_follow_lua(void **state)
{
    (void)state;
    struct script_world *w = script_world_new(NULL, LIMIT_SCRIPT_CACHE_BYTES);
    for (size_t i = 0; i < sizeof(examples) / sizeof(examples[0]); i++) {
        const char *said = run(w, examples[i].source);
        if (strcmp(said, examples[i].answer) != 0) {
            fail_msg("%s\n  expected %s\n  but got  %s", examples[i].source, examples[i].answer,
                     said);
        }
    }
    script_world_free(w);
}

static void sorting_sorts_whatever_it_is_given(void **state)
{
    (void)state;
    struct script_world *w = script_world_new(NULL, LIMIT_SCRIPT_CACHE_BYTES);
    assert_string_equal(run(w,
                            "for n = 0, 60 do "
                            "  local t, sum = {}, 0 "
                            "  for i = 1, n do t[i] = math.random(20) sum = sum + t[i] end "
                            "  table.sort(t) "
                            "  for i = 1, n do sum = sum - t[i] end "
                            "  for i = 2, n do if t[i - 1] > t[i] then return 'unsorted' end end "
                            "  if sum ~= 0 or #t ~= n then return 'lost' end "
                            "end return 'sorted'"),
                        "$6|sorted|");
    script_world_free(w);
}

/* Lua moves everything between, which may take it minutes. */
static void nothing_is_inserted_in_front_of_a_list(void **state)
{
    (void)state;
    struct script_world *w = script_world_new(NULL, LIMIT_SCRIPT_CACHE_BYTES);
    assert_string_equal(run(w, "return {pcall(table.insert, {}, -2147483648, 1)}"),
                        "*2|$-1|$47|bad argument #2 to '?' (position out of bounds)|");
    script_world_free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(strings_and_tables_follow_lua),
        cmocka_unit_test(nothing_is_inserted_in_front_of_a_list),
        cmocka_unit_test(sorting_sorts_whatever_it_is_given),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
