/* Scripts that mean harm: each ends soon, changes nothing of the engine, and cannot help it. */
#include "script_testing.h"

#include <time.h>

static uint64_t cpu_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static const char *const hostile[] = {
    /* no end */
    "while true do end",
    "local function f() return f() end return f()",
    "repeat pcall(error) until false",
    "repeat local a = redis.call('ping') until false",
    "for i = 1, 1e300 do end",
    /* and what stops it is not to be caught */
    "while true do pcall(function() while true do end end) end",
    "return pcall(function() while true do end end)",
    "return xpcall(function() while true do end end, function() return 'caught' end)",
    "local function f() xpcall(function() while true do end end, f) end f()",
    "local t = setmetatable({}, {__index = function(t, k) while true do end end}) return "
    "pcall(function() return t.x end)",
    "local ok = pcall(string.rep, 'x', 1e9) return 'caught'",
    "redis.pcall('echo', string.rep('x', 1e9)) return 'caught'",
    "return pcall(table.sort, {3, 2, 1}, function() while true do end end)",
    "return tostring(setmetatable({}, {__tostring = function() while true do end end}))",
    /* memory */
    "local s = 'x' while true do s = s .. s end",
    "local t = {} for i = 1, 1e9 do t[i] = i end",
    "local t = {} for i = 1, 1e9 do t[i] = tostring(i) end",
    "local t = {} while true do t = {t} end",
    "local s = string.rep('x', 100000) local t = {} for i = 1, 1e6 do t[i] = s .. i end",
    "return string.rep('x', 2^31)",
    "return string.rep('x', 1/0)",
    "return string.rep('', 2^31) .. string.rep('ab', 2^30)",
    "local t = {} for i = 1, 1000 do t[i] = string.rep('x', 1000) end local u = {} for i = 1, 100 "
    "do u[i] = table.concat(t) end",
    /* much work in one instruction */
    "local s = string.rep('a', 250000) while true do string.find(s, 'ab') string.find('a', s) end",
    "local t = {} for i = 1, 10000 do t[i] = i end while true do table.insert(t, 1, 0) "
    "table.remove(t, 1) end",
    "local t = {} for i = 1, 10000 do t[i] = '' end while true do table.concat(t) end",
    "local t = {} for i = 1, 10000 do t[i] = 1 end while true do table.sort(t) end",
    "local t = {} for i = 1, 10000 do t[i] = 1 end while true do table.foreachi(t, type) "
    "table.maxn(t) end",
    "local a, b = string.rep('x', 400000) .. 'a', string.rep('x', 400000) .. 'b' while true do "
    "local c = a < b end",
    "local s = string.rep('0', 500000) while true do local c = s + 1 end",
    "local t = {} for i = 1, 7000 do t[i] = i end while true do select('#', unpack(t)) end",
    "local function f(...) return select('#', ...), f(1, 1, 1, 1, 1, 1, 1, 1, ...) end return f()",
    "local t = {} for i = 1, 15000 do t[i .. ''] = i end for i = 1, 15000 do t[i .. ''] = nil end "
    "while true do next(t) end",
    "while true do redis.sha1hex(string.rep('x', 100000)) end",
    "while true do string.byte(string.rep('x', 7000), 1, -1) end",
    "local s = string.rep('x', 250000) while true do local c = s:upper():lower():reverse() end",
    "local s = string.rep('x', 400) .. '%' while true do pcall(string.format, s) end",
    /* patterns */
    "local s = string.rep('a', 200) return string.match(s, 'a*a*a*b')",
    "local s = string.rep('a', 5000) while true do string.match(s, '.-b') end",
    "local s = string.rep('a', 60) while true do string.find(s, 'a-a-b') end",
    "local s = string.rep('(', 3000) while true do string.find(s, '%b()') end",
    "local s = string.rep('a', 3000) while true do string.gsub(s, 'a', '') end",
    "local s = string.rep('a', 3000) while true do for w in string.gmatch(s, '%a') do end end",
    "local s = string.rep('a', 20000) while true do string.gsub(s, 'a', s) end",
    "local s = string.rep('a', 3000) while true do s:gsub('.', function() while true do end end) "
    "end",
    "local s = string.rep('a', 100) while true do string.match(s, '(a-)%1b') end",
    "local p = string.rep('a?', 100) while true do string.match('', p) string.match('a', p) end",
    "while true do string.find('', string.rep('a*', 128)) end",
    /* cjson */
    "local t = {} t[1] = t t[2] = t return cjson.encode(t)",
    "local t = {'x'} for i = 1, 40 do t = {t, t} end return cjson.encode(t)",
    "return cjson.encode(string.rep('x', 100000))",
    "local t = {} for i = 1, 20000 do t[i] = 'some text' end return cjson.encode(t)",
    "while true do cjson.encode(string.rep('x', 80000)) end",
    "local t = {} for i = 1, 5000 do t[i] = 1 / i end while true do cjson.encode(t) end",
    "local t = {} for i = 1, 5000 do t[i] = {} end while true do pcall(cjson.encode, t) end",
    "local t = {} for i = 1, 5000 do t[i] = {} end t[5001] = type while true do "
    "pcall(cjson.encode, t) "
    "end",
    "return cjson.decode('[' .. string.rep('[],', 100000) .. '1]')",
    "return cjson.decode('[' .. string.rep('1,', 150000) .. '1]')",
    "return cjson.decode('[' .. string.rep('\"\",', 100000) .. '1]')",
    "local s = '[' .. string.rep('[],', 1000) .. '1]' while true do cjson.decode(s) end",
    "local s = '[' .. string.rep('1,', 9000) while true do pcall(cjson.decode, s) end",
    "local s = '\"' .. string.rep('x', 400000) while true do pcall(cjson.decode, s) end",
    "local s = string.rep('[', 1100) while true do pcall(cjson.decode, s) end",
    "local t = {} while true do t[#t + 1] = cjson.decode('[1,2,{\"a\":[true,false,null]}]') end",
};

static void a_hostile_script_is_stopped(void **state)
{
    (void)state;
    uint64_t worst_ms = 0;
    for (size_t i = 0; i < sizeof(hostile) / sizeof(hostile[0]); i++) {
        struct script_world *w = script_world_new(NULL, LIMIT_SCRIPT_CACHE_BYTES);
        uint64_t start_ms = cpu_ms();
        run(w, hostile[i]);
        uint64_t took_ms = cpu_ms() - start_ms;
        if (strncmp(w->said, "-LIMIT the script was stopped: ", 31) != 0) {
            fail_msg("%s\n  got %s", hostile[i], w->said);
        }
        assert_true(w->has_failed);
        if (took_ms > worst_ms) {
            worst_ms = took_ms;
        }
        if (took_ms > (TESTING_ASAN ? 2000 : 100)) {
            fail_msg("%s\n  took %llu ms", hostile[i], (unsigned long long)took_ms);
        }
        assert_string_equal(run(w, "return 'alive'"), "$5|alive|");
        script_world_free(w);
    }
    printf("           the slowest took %llu ms\n", (unsigned long long)worst_ms);
}

/* These end by an error that a script may catch. */
static void recursion_ends_with_an_error(void **state)
{
    (void)state;
    static const char *const deep[] = {
        "local function f() return 1 + f() end return f()",
        "local function f() return pcall(f) end return 1 + f()",
        "local function f() local ok, e = pcall(f) if not ok then error(e, 0) end end return f()",
        "local function f(a, b) table.sort({2, 1}, f) return a < b end f(1, 2) error('end')",
        "local t = {} setmetatable(t, {__index = function(t, k) return t[k + 1] end}) return t[1]",
        "local t = {} setmetatable(t, {__index = t}) return t.x",
        "error(setmetatable({}, {__index = error}))",
    };
    struct script_world *w = script_world_new(NULL, LIMIT_SCRIPT_CACHE_BYTES);
    for (size_t i = 0; i < sizeof(deep) / sizeof(deep[0]); i++) {
        const char *said = run(w, deep[i]);
        if (said[0] != '-') {
            fail_msg("%s\n  got %s", deep[i], said);
        }
        assert_string_equal(run(w, "return 'alive'"), "$5|alive|");
    }
    script_world_free(w);
}

static void answers_without_an_end_are_refused(void **state)
{
    (void)state;
    struct script_world *w = script_world_new(NULL, LIMIT_SCRIPT_CACHE_BYTES);
    run(w, "local t = {} t[1] = t return t");
    assert_non_null(strstr(w->said, "*1|*1|-ERR reached lua stack limit|"));
    run(w, "local t = {} for i = 1, 8 do t[i] = t end return t");
    assert_int_equal(w->said[0], '-');
    run(w,
        "local t = {string.rep('x', 200000)} t[2] = t[1] for i = 3, 9 do t[i] = t[1] end return t");
    assert_string_equal(w->said,
                        "-ERR the answer of the script is too large; nothing was changed|");
    assert_true(w->has_failed);
    assert_string_equal(run(w, "return 'alive'"), "$5|alive|");
    script_world_free(w);
}

static void sources_are_bounded_as_well(void **state)
{
    (void)state;
    struct script_world *w = script_world_new(NULL, LIMIT_SCRIPT_CACHE_BYTES);
    static char source[LIMIT_RESP_BULK + 2];
    memset(source, '(', sizeof(source) - 1);
    assert_string_equal(run(w, source), "-ERR a script has at most 65536 bytes|");
    source[60000] = '\0';
    assert_true(strncmp(run(w, source), "-ERR Error compiling script", 27) == 0);
    for (size_t i = 0; i < 60000; i += 5) {
        memcpy(source + i, "a=a,b", 5);
    }
    assert_int_equal(run(w, source)[0], '-');
    assert_string_equal(run(w, "return 'alive'"), "$5|alive|");
    script_world_free(w);
}

static void ordinary_work_stays_far_below_the_limits(void **state)
{
    (void)state;
    struct script_limits limits = {.steps = 5000, .memory_bytes = 64 << 10, .cpu_ms = 1000};
    struct script_world *w = script_world_new(&limits, LIMIT_SCRIPT_CACHE_BYTES);
    assert_string_equal(run(w,
                            "local t = {} for i = 1, 5, 2 do t[#t + 1] = ('a,b,c'):sub(i, i) end "
                            "table.sort(t, function(a, b) return a > b end) "
                            "return redis.call('echo', table.concat(t, ';'))"),
                        "$5|c;b;a|");
    script_world_free(w);
}

/* The bound on the memory of a text is checked against what it takes, in the build of the tests. */
static void a_text_takes_no_more_memory_than_was_reserved(void **state)
{
    (void)state;
    static const char *const makers[] = {
        "local s = '[' .. string.rep('[],', N) .. '1]'",
        "local s = '[' .. string.rep('{},', N) .. '1]'",
        "local s = '[' .. string.rep('1,', N) .. '1]'",
        "local s = '[' .. string.rep('[1],', N) .. '1]'",
        "local s = '[' .. string.rep('{\"a\":1},', N) .. '1]'",
        "local s = string.rep('[', N) .. string.rep(']', N)",
        "local s = string.rep('{\"a\":', N) .. '1' .. string.rep('}', N)",
        "local t = {} for i = 1, N do t[i] = '\"' .. i .. '\"' end local s = '[' .. "
        "table.concat(t, "
        "',') .. ']'",
        ("local t = {} for i = 1, N do t[i] = '\"' .. i .. '\":' .. i end local s = '{' .. "
         "table.concat(t, ',') .. '}'"),
        "local s = '\"' .. string.rep('x', N * 10) .. '\"'",
    };
    struct script_world *w = script_world_new(NULL, LIMIT_SCRIPT_CACHE_BYTES);
    for (size_t i = 0; i < sizeof(makers) / sizeof(makers[0]); i++) {
        for (int n = 1; n < 6000; n = n * 5 / 4 + 1) {
            char source[512];
            snprintf(source, sizeof(source),
                     "local N = %d %s local ok, v = pcall(cjson.decode, s) if ok then return "
                     "#cjson.encode(v) == #s end return v",
                     n, makers[i]);
            const char *said = run(w, source);
            if (strcmp(said, ":1|") != 0 && strstr(said, "nested") == NULL &&
                strstr(said, "LIMIT") == NULL) {
                fail_msg("%s\n  got %s", source, said);
            }
        }
    }
    script_world_free(w);
}

static void patterns_are_short_enough_for_the_stack(void **state)
{
    (void)state;
    struct script_world *w = script_world_new(NULL, LIMIT_SCRIPT_CACHE_BYTES);
    assert_string_equal(run(w, "return string.find('', string.rep('a*', 128))"), ":1|");
    assert_non_null(strstr(run(w, "return string.find('', string.rep('a*', 200000))"),
                           "a pattern has at most 256 bytes"));
    assert_non_null(strstr(run(w, "return ('x'):gsub(string.rep('(', 257), '')"),
                           "a pattern has at most 256 bytes"));
    script_world_free(w);
}

/* What earlier scripts left behind is not held against later ones. */
static void garbage_does_not_add_up(void **state)
{
    (void)state;
    struct script_limits limits = {.steps = 500000, .memory_bytes = 256 << 10, .cpu_ms = 1000};
    struct script_world *w = script_world_new(&limits, LIMIT_SCRIPT_CACHE_BYTES);
    for (int i = 0; i < 200; i++) {
        assert_string_equal(
            run(w, "local t = {} for i = 1, 1000 do t[i] = 'item' .. i end return #t"), ":1000|");
    }
    assert_true(w->memory.bytes < 2 << 20);
    script_world_free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_hostile_script_is_stopped),
        cmocka_unit_test(recursion_ends_with_an_error),
        cmocka_unit_test(answers_without_an_end_are_refused),
        cmocka_unit_test(sources_are_bounded_as_well),
        cmocka_unit_test(ordinary_work_stays_far_below_the_limits),
        cmocka_unit_test(patterns_are_short_enough_for_the_stack),
        cmocka_unit_test(a_text_takes_no_more_memory_than_was_reserved),
        cmocka_unit_test(garbage_does_not_add_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
