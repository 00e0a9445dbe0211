/* Lua's patterns and tables as we do them: the examples of Lua's manual, and the corners where
 * Lua 5.1 is known to do this and not that. Each expected value was seen from Lua's own functions.
 */
#include "script_testing.h"

#include <lauxlib.h>
#include <lualib.h>

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
    {"return {('hello'):find('(l)(.)')}", "*4|:3|:4|$1|l|$1|l|"},
    {"return {('hello'):find('()ll()')}", "*4|:3|:4|:3|:5|"},
    {"return ('key = value'):match('^(%w+)%s*=%s*(%w+)$')", "$3|key|"},
    {"return {('key = value'):match('^(%w+)%s*=%s*(%w+)$')}", "*2|$3|key|$5|value|"},
    {"return ('2026-11-15'):match('%d+', 6)", "$2|11|"},
    {"return {('x'):match('(x)(y?)')}", "*2|$1|x|$0||"},
    {"return ('aaa'):match('a-')", "$0||"},
    {"return ('<<a>>'):match('<(.-)>')", "$2|<a|"},
    {"return ('aXb'):match('%u')", "$1|X|"},
    {"return ('a b'):match('%S+$')", "$1|b|"},
    {"return ('f(a(b)c)d'):match('%b()')", "$7|(a(b)c)|"},
    {"return ('THE (quick) fox'):find('%f[%a]%a+%f[%A]')", ":1|"},
    {"return {('hello world'):match('(%w+) (%w+)')}", "*2|$5|hello|$5|world|"},
    {"return ('abab'):match('(ab)%1')", "$2|ab|"},
    {"return ('x]y'):match('[]]')", "$1|]|"},
    {"return ('x-y'):match('[a%-]')", "$1|-|"},
    {"return ('x^y'):match('[x^]+')", "$2|x^|"},
    {"return ('abc'):match('[^a-b]')", "$1|c|"},
    {"return ('a-c'):match('[a-]+')", "$2|a-|"},
    {"return ('a$'):match('a$')", "$-1|"},
    {"return ('a$b'):match('a$b')", "$3|a$b|"},
    {"return ('a\\0b'):match('%z') == '\\0'", ":1|"},
    {"return #('a\\0b'):match('.+')", ":3|"},
    {"return (('hello world'):gsub('o', '0'))", "$11|hell0 w0rld|"},
    {"return {('hello'):gsub('', '-')}", "*2|$11|-h-e-l-l-o-|:6|"},
    {"return {('hello'):gsub('l', 'L', 1)}", "*2|$5|heLlo|:1|"},
    {"return {('abc'):gsub('%w', '%0%0')}", "*2|$6|aabbcc|:3|"},
    {"return {('abc'):gsub('(a)(b)', '%2%1')}", "*2|$3|bac|:1|"},
    {"return {('abc'):gsub('b', '%%')}", "*2|$3|a%c|:1|"},
    {"return {('$n is $v'):gsub('%$(%w+)', {n = 'x', v = 5})}", "*2|$6|x is 5|:2|"},
    {"return {('abc'):gsub('.', function(c) if c == 'b' then return 'B' end end)}",
     "*2|$3|aBc|:3|"},
    {"return {('abc'):gsub('^a', 'x')}", "*2|$3|xbc|:1|"},
    {"return {('aaa'):gsub('^a', 'x')}", "*2|$3|xaa|:1|"},
    {"local t = {} for k, v in ('a=1, b=2'):gmatch('(%w+)=(%w+)') do t[#t + 1] = k .. v end return "
     "t",
     "*2|$2|a1|$2|b2|"},
    {"local n = 0 for _ in ('abc'):gmatch('') do n = n + 1 end return n", ":4|"},
    {"return {pcall(string.find, 'a', '[a')}", "*2|$-1|$31|malformed pattern (missing ']')|"},
    {"return {pcall(string.find, 'a', '%')}", "*2|$-1|$33|malformed pattern (ends with '%')|"},
    {"return {pcall(string.find, 'a', '(a')}", "*2|$-1|$18|unfinished capture|"},
    {"return {pcall(string.match, 'a', 'a)')}", "*2|$-1|$23|invalid pattern capture|"},
    {"return {pcall(string.find, 'a', '%1')}", "*2|$-1|$21|invalid capture index|"},
    {"return {pcall(string.find, 'a', '%f')}", "*2|$-1|$33|missing '[' after '%f' in pattern|"},
    {"return {pcall(string.gsub, 'a', 'a', function() return {} end)}",
     "*2|$-1|$35|invalid replacement value (a table)|"},
    {"return pcall(string.find, string.rep('a', 40), string.rep('(a)', 33))", "$-1|"},
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

static void patterns_and_tables_do_what_they_do_in_lua(void **state)
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

/* ---- beside Lua's own ---- */

static const char *const pieces[] = {
    "a", "b", ".", "%a", "%d", "%s", "%W", "[ab]", "[^a]",  "[a-c]", "[]]",   "%.", "*", "+",
    "-", "?", "(", ")",  "()", "^",  "$",  "%b()", "%f[a]", "%1",    "[%a-]", "x",  "%"};
static const char letters[] = "aaabbc1 ().]-x";

static const char *random_pattern(struct random *random, char *out, size_t size)
{
    out[0] = '\0';
    for (uint32_t i = 1 + random_below(random, 8); i > 0; i--) {
        size_t which = random_below(random, sizeof(pieces) / sizeof(pieces[0]));
        snprintf(out + strlen(out), size - strlen(out), "%s", pieces[which]);
    }
    return out;
}

static const char *random_text(struct random *random, char *out, size_t size)
{
    size_t len = random_below(random, (uint32_t)size);
    for (size_t i = 0; i < len; i++) {
        out[i] = letters[random_below(random, sizeof(letters) - 1)];
    }
    out[len] = '\0';
    return out;
}

/* All that the functions say about a pattern and a text, as one text. */
static const char compared[] =
    "local function all(...) local t = {} for i = 1, select('#', ...) do "
    "  t[i] = tostring((select(i, ...))) end return table.concat(t, ',') end "
    "local function each(s, p) local t = {} for a, b in s:gmatch(p) do "
    "  t[#t + 1] = tostring(a) .. '/' .. tostring(b) if #t > 50 then break end end "
    "  return table.concat(t, ',') end "
    "local s, p = ARGV[1], ARGV[2] "
    "return all(pcall(string.find, s, p, 2)) .. ';' .. all(pcall(string.match, s, p)) .. ';' .. "
    "all(pcall(string.gsub, s, p, '<%0>')) .. ';' .. all(pcall(each, s, p))";

static const char *match_in_lua(lua_State *lua, const char *subject, const char *pattern)
{
    lua_settop(lua, 0);
    lua_createtable(lua, 2, 0);
    lua_pushstring(lua, subject);
    lua_rawseti(lua, -2, 1);
    lua_pushstring(lua, pattern);
    lua_rawseti(lua, -2, 2);
    lua_setglobal(lua, "ARGV");
    assert_int_equal(luaL_loadbuffer(lua, compared, strlen(compared), "@user_script"), 0);
    assert_int_equal(lua_pcall(lua, 0, 1, 0), 0);
    return lua_tostring(lua, -1);
}

static void random_patterns_match_what_they_match_in_lua(void **state)
{
    (void)state;
    struct random random;
    random_init(&random, "patterns");
    struct script_world *w = script_world_new(NULL, LIMIT_SCRIPT_CACHE_BYTES);
    lua_State *lua = luaL_newstate();
    luaL_openlibs(lua);
    for (int i = 0; i < 20000; i++) {
        char pattern[64];
        char subject[24];
        random_pattern(&random, pattern, sizeof(pattern));
        random_text(&random, subject, sizeof(subject));
        const char *theirs = match_in_lua(lua, subject, pattern);
        const struct slice arguments[] = {slice_of(subject), slice_of(pattern)};
        run_bytes(w, slice_of(compared), NULL, 0, arguments, 2);
        const char *ours = strchr(w->said, '|') + 1;
        if (strlen(ours) != strlen(theirs) + 1 || memcmp(ours, theirs, strlen(theirs)) != 0) {
            fail_msg("\"%s\" on \"%s\"\n  Lua: %s\n  we:  %s", pattern, subject, theirs, ours);
        }
    }
    lua_close(lua);
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
        cmocka_unit_test(patterns_and_tables_do_what_they_do_in_lua),
        cmocka_unit_test(random_patterns_match_what_they_match_in_lua),
        cmocka_unit_test(nothing_is_inserted_in_front_of_a_list),
        cmocka_unit_test(sorting_sorts_whatever_it_is_given),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
