/* `redis`: commands, their errors, and related functions that scripts expect. Redis's functions for
 * replication and logging do nothing: a script's effects are replicated as a whole. */
#include <stdio.h>

#include "base/limits.h"
#include "base/panic.h"
#include "script/vm.h"

/* The minimum cost of a command. */
enum { CALL_STEPS = 64 };

enum { LOG_DEBUG, LOG_VERBOSE, LOG_NOTICE, LOG_WARNING };

/* With Redis's format for numbers. */
static bool argument_to_text(lua_State *lua, int index)
{
    if (lua_type(lua, index) == LUA_TSTRING) {
        return true;
    }
    if (lua_type(lua, index) != LUA_TNUMBER) {
        return false;
    }
    char text[64];
    lua_Number number = lua_tonumber(lua, index);
    bool is_whole = number > -9.2e18 && number < 9.2e18 && (lua_Number)(int64_t)number == number;
    int len = is_whole ? snprintf(text, sizeof(text), "%lld", (long long)number)
                       : snprintf(text, sizeof(text), "%.17g", number);
    lua_pushlstring(lua, text, (size_t)len);
    lua_replace(lua, index);
    return true;
}

static uint32_t read_arguments(lua_State *lua)
{
    struct vm *v = vm_of(lua);
    int count = lua_gettop(lua);
    if (count == 0) {
        vm_raise(lua, "Please specify at least one argument for this redis lib call");
    }
    if (count > LIMIT_RESP_ARGUMENTS) {
        vm_raise(lua, "too many arguments for one command");
    }
    for (int i = 1; i <= count; i++) {
        if (!argument_to_text(lua, i)) {
            vm_raise(lua, "Lua redis lib command arguments must be strings or integers");
        }
        size_t len;
        const char *text = lua_tolstring(lua, i, &len);
        v->arguments[i - 1] = slice_make(text, len);
    }
    return (uint32_t)count;
}

/* Pushes the reply; true when it is an error. */
static bool run_command(lua_State *lua)
{
    struct vm *v = vm_of(lua);
    uint32_t count = read_arguments(lua);
    vm_charge(lua, CALL_STEPS);
    buffer_truncate(&v->reply, 0);
    struct resp_writer out = {.out = &v->reply, .protocol = v->protocol};
    v->call->host.call(v->call->host.ctx, v->arguments, count, v->is_read_only, &out);
    if (v->reply.overflowed) {
        buffer_truncate(&v->reply, 0);
        vm_raise(lua, "the reply of the command is too large for a script");
    }
    struct slice reply = buffer_bytes(&v->reply);
    hf_assert(reply.len > 0);
    convert_push(lua, reply);
    return reply.data[0] == '-';
}

static int redis_call(lua_State *lua)
{
    return run_command(lua) ? lua_error(lua) : 1;
}

static int protected_command(lua_State *lua)
{
    run_command(lua);
    return 1;
}

/* Errors in the arguments too. */
static int redis_pcall(lua_State *lua)
{
    lua_pushcfunction(lua, protected_command);
    lua_insert(lua, 1);
    if (lua_pcall(lua, lua_gettop(lua) - 1, 1, 0) != 0 &&
        (vm_of(lua)->stopped != NULL || lua_type(lua, -1) != LUA_TTABLE)) {
        return lua_error(lua);
    }
    return 1;
}

/* {field = text} of the only argument, which the caller has checked. */
static int push_single(lua_State *lua, const char *field)
{
    lua_createtable(lua, 0, 1);
    lua_insert(lua, -2);
    lua_setfield(lua, -2, field);
    return 1;
}

static bool has_one_string(lua_State *lua)
{
    if (lua_gettop(lua) == 1 && lua_type(lua, 1) == LUA_TSTRING) {
        return true;
    }
    lua_settop(lua, 0);
    lua_pushliteral(lua, "ERR wrong number or type of arguments");
    return false;
}

/* A single word is a message without a code. A leading dash is removed. */
static int redis_error_reply(lua_State *lua)
{
    if (has_one_string(lua)) {
        size_t len;
        const char *text = lua_tolstring(lua, 1, &len);
        if (len > 0 && text[0] == '-') {
            lua_pushlstring(lua, text + 1, len - 1);
        } else if (memchr(text, ' ', len) == NULL) {
            lua_pushliteral(lua, "ERR ");
            lua_pushvalue(lua, 1);
            lua_concat(lua, 2);
        }
    }
    return push_single(lua, "err");
}

static int redis_status_reply(lua_State *lua)
{
    return push_single(lua, has_one_string(lua) ? "ok" : "err");
}

static int redis_sha1hex(lua_State *lua)
{
    if (lua_gettop(lua) != 1) {
        return vm_raise(lua, "wrong number of arguments");
    }
    size_t len;
    const char *text = lua_tolstring(lua, 1, &len);
    char name[SCRIPT_NAME_LEN + 1];
    vm_charge(lua, len / 16);
    script_digest(text == NULL ? slice_of("") : slice_make(text, len), name);
    lua_pushlstring(lua, name, SCRIPT_NAME_LEN);
    return 1;
}

static int redis_log(lua_State *lua)
{
    if (lua_gettop(lua) < 2) {
        return vm_raise(lua, "redis.log() requires two arguments or more.");
    }
    if (lua_type(lua, 1) != LUA_TNUMBER) {
        return vm_raise(lua, "First argument must be a number (log level).");
    }
    lua_Number level = lua_tonumber(lua, 1);
    if (level < (lua_Number)LOG_DEBUG || level > (lua_Number)LOG_WARNING) {
        return vm_raise(lua, "Invalid debug level.");
    }
    return 0;
}

static int redis_setresp(lua_State *lua)
{
    if (lua_gettop(lua) != 1) {
        return vm_raise(lua, "redis.setresp() requires one argument.");
    }
    lua_Number version = lua_tonumber(lua, 1);
    if (version != 2 && version != 3) {
        return vm_raise(lua, "RESP version must be 2 or 3.");
    }
    vm_of(lua)->protocol = (int)version;
    return 0;
}

static int redis_nothing(lua_State *lua)
{
    return 0;
}

static int redis_true(lua_State *lua)
{
    lua_pushboolean(lua, 1);
    return 1;
}

static int redis_false(lua_State *lua)
{
    lua_pushboolean(lua, 0);
    return 1;
}

void library_open_redis(lua_State *lua)
{
    static const luaL_Reg own[] = {
        {"acl_check_cmd", redis_true},
        {"breakpoint", redis_false},
        {"call", redis_call},
        {"debug", redis_nothing},
        {"error_reply", redis_error_reply},
        {"log", redis_log},
        {"pcall", redis_pcall},
        {"replicate_commands", redis_true},
        {"set_repl", redis_nothing},
        {"setresp", redis_setresp},
        {"sha1hex", redis_sha1hex},
        {"status_reply", redis_status_reply},
        {NULL, NULL},
    };
    static const struct {
        const char *name;
        int value;
    } numbers[] = {
        {"LOG_DEBUG", LOG_DEBUG},
        {"LOG_VERBOSE", LOG_VERBOSE},
        {"LOG_NOTICE", LOG_NOTICE},
        {"LOG_WARNING", LOG_WARNING},
        {"REPL_NONE", 0},
        {"REPL_AOF", 1},
        {"REPL_SLAVE", 2},
        {"REPL_REPLICA", 2},
        {"REPL_ALL", 3},
        {"REDIS_VERSION_NUM", 0x070000},
    };
    library_push(lua, own);
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        lua_pushinteger(lua, numbers[i].value);
        lua_setfield(lua, -2, numbers[i].name);
    }
    lua_pushliteral(lua, "7.0.0");
    lua_setfield(lua, -2, "REDIS_VERSION");
}
