/* Scripts as clients of Redis write them: what they see, what they may answer, how they fail. The
 * expected texts are what a Redis 7.0 says to the same script. */
#include "script_testing.h"

static int set_up(void **state)
{
    *state = script_world_new(NULL, LIMIT_SCRIPT_CACHE_BYTES);
    return 0;
}

static int tear_down(void **state)
{
    script_world_free(*state);
    return 0;
}

struct example {
    const char *source;
    const char *answer;
};

static void assert_examples(struct script_world *w, const struct example *examples)
{
    for (; examples->source != NULL; examples++) {
        const char *said = run(w, examples->source);
        if (strcmp(said, examples->answer) != 0) {
            fail_msg("%s\n  expected %s\n  but got  %s", examples->source, examples->answer, said);
        }
    }
}

/* As before, but "SHA" stands for the name of the script. */
static void assert_errors(struct script_world *w, const struct example *examples)
{
    for (; examples->source != NULL; examples++) {
        char expected[1024];
        struct resp_writer out = {&w->out, 2};
        struct script *script = script_load(w->engine, slice_of(examples->source), &out);
        assert_non_null(script);
        const char *at = strstr(examples->answer, "SHA");
        assert_non_null(at);
        snprintf(expected, sizeof(expected), "%.*s%s%s", (int)(at - examples->answer),
                 examples->answer, script_name(script), at + 3);
        assert_string_equal(run(w, examples->source), expected);
        assert_true(w->has_failed);
    }
}

static void values_are_converted_as_redis_does(void **state)
{
    assert_examples(
        *state,
        (const struct example[]){
            {"return 3.99", ":3|"},
            {"return -3.99", ":-3|"},
            {"return 1e300", ":-9223372036854775808|"},
            {"return 0/0", ":-9223372036854775808|"},
            {"return 'x'", "$1|x|"},
            {"return ''", "$0||"},
            {"return true", ":1|"},
            {"return false", "$-1|"},
            {"return nil", "$-1|"},
            {"return", "$-1|"},
            {"return 1,2", ":1|"},
            {"return function() end", "$-1|"},
            {"return {}", "*0|"},
            {"return {1,2.9,'a',true,false,nil,3}", "*5|:1|:2|$1|a|:1|$-1|"},
            {"return {1,{2,{3,nil,4}},{ok='fine'},{err='bad'}}", "*4|:1|*2|:2|*1|:3|+fine|-bad|"},
            {"return {ok='A',err='B'}", "-B|"},
            {"return {1,2,err='C D'}", "-C D|"},
            {"return {ok=1}", "*0|"},
            {"return {ok='X y\\r\\nz'}", "+X y  z|"},
            {"return {double=1.5}", "$3|1.5|"},
            {"return {map={a=1}}", "*2|$1|a|:1|"},
            {"return setmetatable({}, {__index=function() return 1 end})", "*0|"},
            {NULL, NULL},
        });
}

static void values_of_the_third_protocol_are_converted_for_clients_that_speak_it(void **state)
{
    struct script_world *w = *state;
    w->protocol = 3;
    assert_examples(w, (const struct example[]){
                           {"return nil", "_|"},
                           {"return {true,false}", "*2|:1|_|"},
                           {"redis.setresp(3) return {true,false}", "*2|#t|#f|"},
                           {"return {double=0.5}", ",0.5|"},
                           {"return {double=1/0}", ",inf|"},
                           {"return {map={a=1}}", "%1|$1|a|:1|"},
                           {"return {set={a=true}}", "~1|$1|a|"},
                           {"return {big_number='123'}", "(123|"},
                           {"return {verbatim_string={format='txt',string='x'}}", "=5|txt:x|"},
                           {NULL, NULL},
                       });
}

static void what_commands_answer_reaches_the_script(void **state)
{
    assert_examples(*state,
                    (const struct example[]){
                        {"return redis.call('ping').ok", "$4|PONG|"},
                        {"return redis.call('number') + 1", ":-41|"},
                        {"return tostring(redis.call('null'))", "$5|false|"},
                        {"redis.setresp(3) return tostring(redis.call('null'))", "$3|nil|"},
                        {"redis.setresp(3) return redis.call('map').map.k", "$1|v|"},
                        {"return redis.call('map')", "*2|$1|k|$1|v|"},
                        {"redis.setresp(3) return tostring(redis.call('truth'))", "$4|true|"},
                        {"return redis.call('truth')", ":1|"},
                        {"return redis.call('nested')", "*3|:1|*2|$-1|$1|x|-INNER e|"},
                        {"return redis.call('nested')[3].err", "$7|INNER e|"},
                        {"return redis.call('echo', 1.5)", "$3|1.5|"},
                        {"return redis.call('echo', 10000000000)", "$11|10000000000|"},
                        {"return redis.call('echo', -7)", "$2|-7|"},
                        {"return redis.call('echo', 'a\\0b') == 'a\\0b'", ":1|"},
                        {NULL, NULL},
                    });
}

static void errors_of_commands_are_raised_or_returned(void **state)
{
    assert_examples(
        *state,
        (const struct example[]){
            {"return redis.pcall('nope')", "-ERR Unknown Redis command called from script|"},
            {"return {redis.pcall('nope'), 2}",
             "*2|-ERR Unknown Redis command called from script|:2|"},
            {"local ok, e = pcall(redis.call, 'nope') return {type(e), e}",
             "*2|$6|string|$44|ERR Unknown Redis command called from script|"},
            {"return redis.pcall({}).err",
             "$63|ERR Lua redis lib command arguments must be strings or integers|"},
            {"return redis.error_reply('noword')", "-ERR noword|"},
            {"return redis.error_reply('x y')", "-x y|"},
            {"return redis.error_reply('-X y')", "-X y|"},
            {"return redis.error_reply(1)", "-ERR wrong number or type of arguments|"},
            {"return redis.status_reply('X y')", "+X y|"},
            {"return {err='noword'}", "-noword|"},
            {"return redis.pcall('huge').err",
             "$54|ERR the reply of the command is too large for a script|"},
            {NULL, NULL},
        });
    assert_errors(
        *state,
        (const struct example[]){
            {"return redis.call('nope')",
             "-ERR Unknown Redis command called from script script: SHA, on @user_script:1.|"},
            {"\n\nreturn redis.call()", "-ERR Please specify at least one argument for this redis "
                                        "lib call script: SHA, on @user_script:3.|"},
            {"error('boo')", "-ERR user_script:1: boo script: SHA, on @user_script:1.|"},
            {"error({err='MY boo'})", "-MY boo script: SHA, on @user_script:1.|"},
            {"error('x', 0)", "-ERR x script: SHA, on @user_script:1.|"},
            {"local t = {} return t.x.y", "-ERR user_script:1: attempt to index field 'x' (a nil "
                                          "value) script: SHA, on @user_script:1.|"},
            {"return redis.setresp(4)",
             "-ERR RESP version must be 2 or 3. script: SHA, on @user_script:1.|"},
            {"error({})", "-ERR an error without words script: SHA, on @user_script:1.|"},
            {"error()", "-ERR an error without words script: SHA, on @user_script:1.|"},
            {NULL, NULL},
        });
}

static void globals_are_what_redis_has_and_cannot_be_changed(void **state)
{
    static const char *const absent[] = {
        "os",         "io",      "print",    "dofile", "loadfile",      "load",
        "loadstring", "require", "module",   "debug",  "package",       "coroutine",
        "setfenv",    "getfenv", "newproxy", "arg",    "collectgarbage"};
    struct script_world *w = *state;
    for (size_t i = 0; i < sizeof(absent) / sizeof(absent[0]); i++) {
        char source[64];
        char expected[128];
        snprintf(source, sizeof(source), "return %s", absent[i]);
        snprintf(expected, sizeof(expected),
                 "-ERR user_script:1: Script attempted to access nonexistent global variable '%s'",
                 absent[i]);
        assert_ptr_equal(strstr(run(w, source), expected), w->said);
    }
    static const char *const changes[] = {"x = 1",
                                          "KEYS = {}",
                                          "redis = {}",
                                          "string.x = 1",
                                          "redis.call = nil",
                                          "_G.x = 1",
                                          "math.pi = 3",
                                          "rawset(_G, 'x', 1)",
                                          "_G._G = {}",
                                          "rawset(string, 'rep', 1)",
                                          "table.insert(redis, 1)",
                                          "table.remove(table)",
                                          "table.sort(math)"};
    for (size_t i = 0; i < sizeof(changes) / sizeof(changes[0]); i++) {
        const char *said = run(w, changes[i]);
        assert_true(strncmp(said, "-ERR ", 5) == 0);
        assert_non_null(strstr(said, "Attempt to modify a readonly table"));
    }
    assert_examples(
        w,
        (const struct example[]){
            {"return {rawget(_G, 'x'), rawget(string, 'len') == string.len}", "*0|"},
            {"return tostring(getmetatable('')) .. tostring(getmetatable(_G))", "$10|falsefalse|"},
            {"return pcall(setmetatable, _G, {})", "$-1|"},
            {"return string.dump == nil", ":1|"},
            {"return _G._G == _G and _G.redis == redis", ":1|"},
            {"for k in pairs(redis) do if k == 'call' then return k end end", "$4|call|"},
            {"return tostring({}) .. tostring(pcall)", "$23|table: 0x0function: 0x0|"},
            {NULL, NULL},
        });
}

static void the_functions_around_commands_are_there(void **state)
{
    assert_examples(
        *state,
        (const struct example[]){
            {"return redis.sha1hex('')", "$40|da39a3ee5e6b4b0d3255bfef95601890afd80709|"},
            {"return redis.sha1hex(12)", "$40|7b52009b64fd0a2a49e6d8a939753077792b0554|"},
            {"return redis.log(redis.LOG_WARNING, 'x')", "$-1|"},
            {"return redis.replicate_commands()", ":1|"},
            {"redis.set_repl(redis.REPL_ALL) return redis.breakpoint()", "$-1|"},
            {"return {math.random(100) == math.random(100), math.random(3, 3)}", "*2|$-1|:3|"},
            {"return {xpcall(function() error('x') end, function(e) return 'h:' .. e end)}",
             "*2|$-1|$18|h:user_script:1: x|"},
            {"return {xpcall(function() return 1, 2 end, error)}", "*3|:1|:1|:2|"},
            {"return {pcall(function() return 1, 2 end)}", "*3|:1|:1|:2|"},
            {"return {pcall(error, {1, 2})}", "*2|$-1|*2|:1|:2|"},
            {"return {unpack({1, 2, 3}, 2)}", "*2|:2|:3|"},
            {"return tonumber('0x10') + tonumber('  5  ')", ":21|"},
            {"return ('x'):rep(1%0) .. ('x'):rep(-1/0) .. ('x'):rep(0.9) .. ('ab'):rep(2.9)",
             "$4|abab|"},
            {"return string.format('%5.1f|%d|%s', 3.14159, 42, 'x')", "$10|  3.1|42|x|"},
            {"return {select('#', 1, 2), (select(2, 'a', 'b'))}", "*2|:2|$1|b|"},
            {NULL, NULL},
        });
}

static void random_numbers_are_the_same_in_each_run(void **state)
{
    struct script_world *w = *state;
    const char *source = "return {math.random(1000000), math.random(1000000)}";
    char *first = strdup(run(w, source));
    assert_string_equal(run(w, "return math.random()"), ":0|");
    assert_string_equal(run(w, source), first);
    free(first);
}

static void keys_and_arguments_are_those_of_the_run(void **state)
{
    struct script_world *w = *state;
    const struct slice keys[] = {slice_of("k1"), slice_of("k2")};
    const struct slice arguments[] = {slice_make("a\0b", 3)};
    const char *source = "KEYS[3] = 'mine' return {#KEYS, KEYS[1], KEYS[2], #ARGV, #ARGV[1]}";
    for (int i = 0; i < 2; i++) {
        assert_string_equal(run_bytes(w, slice_of(source), keys, 2, arguments, 1),
                            "*5|:3|$2|k1|$2|k2|:1|:3|");
    }
    assert_string_equal(run(w, "return {#KEYS, #ARGV}"), "*2|:0|:0|");
}

static void nothing_is_left_from_one_run_to_the_next(void **state)
{
    struct script_world *w = *state;
    run(w, "redis.setresp(3) math.randomseed(7) KEYS.x = 1");
    assert_examples(w, (const struct example[]){
                           {"return tostring(redis.call('null'))", "$5|false|"},
                           {"return tostring(KEYS.x)", "$3|nil|"},
                           {NULL, NULL},
                       });
}

static void scripts_that_do_not_compile_are_refused_with_their_line(void **state)
{
    static const char prefix[] = "-ERR Error compiling script (new function): user_script:";
    struct script_world *w = *state;
    run(w, "syntax error(");
    assert_ptr_equal(strstr(w->said, prefix), w->said);
    assert_string_equal(w->said + strlen(prefix), "1: '=' expected near 'error'|");
    run(w, "\nreturn (");
    assert_string_equal(w->said + strlen(prefix), "2: unexpected symbol near '<eof>'|");
    run(w, "\033Lua");
    assert_string_equal(w->said + strlen(prefix), "1: unexpected symbol near 'char(27)'|");
    assert_int_equal(script_count(w->engine), 0);
}

static void the_first_line_may_say_how_a_script_is_run(void **state)
{
    struct script_world *w = *state;
    assert_examples(w,
                    (const struct example[]){
                        {"#!lua flags=no-writes,allow-oom\nreturn redis.call('number')", ":-42|"},
                        {NULL, NULL},
                    });
    assert_true(w->is_read_only);
    assert_examples(
        w, (const struct example[]){
               {"#!lua\nreturn redis.call('number')", ":-42|"},
               {"#!lua flags=\nreturn 1", ":1|"},
               {"#!lua flags=zzz\nreturn 1", "-ERR Unexpected flag in script shebang: zzz|"},
               {"#!js\nreturn 1", "-ERR Unexpected engine in script shebang: #!js|"},
               {"#!lua x=y\nreturn 1", "-ERR Unknown lua shebang option: x=y|"},
               {"#!lua", "-ERR Invalid script shebang|"},
               {NULL, NULL},
           });
    assert_errors(
        w, (const struct example[]){
               {"#!lua\nerror('x')", "-ERR user_script:2: x script: SHA, on @user_script:2.|"},
               {NULL, NULL},
           });
}

/* ---- the cache ---- */

static void scripts_are_found_by_the_name_that_redis_gives_them(void **state)
{
    struct script_world *w = *state;
    struct slice name = slice_of("e0e1f9fabfc9d4800c877a703b823ac0578ff8db");
    assert_null(script_find(w->engine, name));
    run(w, "return 1");
    struct script *found = script_find(w->engine, name);
    assert_non_null(found);
    assert_string_equal(script_name(found), (const char *)name.data);
    assert_ptr_equal(script_find(w->engine, slice_of("E0E1F9FABFC9D4800C877A703B823AC0578FF8DB")),
                     found);
    assert_true(script_exists(w->engine, name));
    assert_false(script_exists(w->engine, slice_of("abc")));
    assert_false(script_exists(w->engine, slice_of("z0e1f9fabfc9d4800c877a703b823ac0578ff8db")));
    run(w, "return 1");
    assert_int_equal(script_count(w->engine), 1);
    script_flush(w->engine);
    assert_null(script_find(w->engine, name));
    assert_int_equal(script_cache_bytes(w->engine), 0);
}

static void scripts_that_were_not_used_leave_a_full_cache(void **state)
{
    (void)state;
    struct script_world *w = script_world_new(NULL, 64 << 10);
    char first[64];
    struct resp_writer out = {&w->out, 2};
    snprintf(first, sizeof(first), "%s",
             script_name(script_load(w->engine, slice_of("return 'first'"), &out)));
    for (int i = 0; i < 2000; i++) {
        char source[64];
        snprintf(source, sizeof(source), "return %d", i);
        run(w, source);
        assert_true(script_cache_bytes(w->engine) <= 64 << 10);
        if (i < 1000) {
            assert_non_null(script_find(w->engine, slice_of(first)));
        }
    }
    assert_null(script_find(w->engine, slice_of(first)));
    assert_true(script_count(w->engine) > 10);
    script_world_free(w);
}

static void a_script_that_is_held_outlives_the_cache(void **state)
{
    struct script_world *w = *state;
    struct resp_writer out = {&w->out, 2};
    struct script *script = script_load(w->engine, slice_of("return 'held'"), &out);
    script_hold(script);
    script_flush(w->engine);
    run(w, "while true do end"); /* a new state */
    struct script_call call = {.host = {script_world_call, w}};
    assert_true(script_run(w->engine, script, &call, &out));
    script_world_read(w);
    assert_string_equal(w->said, "$4|held|");
    script_release(w->engine, script);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(values_are_converted_as_redis_does),
        TEST(values_of_the_third_protocol_are_converted_for_clients_that_speak_it),
        TEST(what_commands_answer_reaches_the_script),
        TEST(errors_of_commands_are_raised_or_returned),
        TEST(globals_are_what_redis_has_and_cannot_be_changed),
        TEST(the_functions_around_commands_are_there),
        TEST(random_numbers_are_the_same_in_each_run),
        TEST(keys_and_arguments_are_those_of_the_run),
        TEST(nothing_is_left_from_one_run_to_the_next),
        TEST(scripts_that_do_not_compile_are_refused_with_their_line),
        TEST(the_first_line_may_say_how_a_script_is_run),
        TEST(scripts_are_found_by_the_name_that_redis_gives_them),
        TEST(scripts_that_were_not_used_leave_a_full_cache),
        TEST(a_script_that_is_held_outlives_the_cache),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
