/* The part of Lua's basic library that scripts get, and math. Functions that could reach a file,
 * another script, foreign code or the machine are left out: no load, loadstring, dofile, require,
 * print, coroutine, setfenv, collectgarbage.
 *
 * Lua's own functions are used where a call does little work and catches no errors. */
#include <math.h>

#include "script/vm.h"

void library_push(lua_State *lua, const luaL_Reg *functions)
{
    lua_newtable(lua);
    for (; functions->name != NULL; functions++) {
        lua_pushcfunction(lua, functions->func);
        lua_setfield(lua, -2, functions->name);
    }
}

void library_take(lua_State *lua, const char *const *names)
{
    for (; *names != NULL; names++) {
        lua_getfield(lua, -2, *names);
        lua_setfield(lua, -2, *names);
    }
}

/* Pushes its table of functions. */
static void open_original(lua_State *lua, lua_CFunction open, const char *name)
{
    lua_pushcfunction(lua, open);
    lua_pushstring(lua, name);
    lua_call(lua, 1, 0);
    lua_getfield(lua, LUA_GLOBALSINDEX, name);
}

/* ---- errors ---- */

/* As in Redis 7, a caught error of a command is its text. */
static void flatten_error(lua_State *lua)
{
    if (lua_type(lua, -1) != LUA_TTABLE) {
        return;
    }
    lua_pushliteral(lua, "err");
    lua_rawget(lua, -2);
    if (lua_type(lua, -1) == LUA_TSTRING) {
        lua_replace(lua, -2);
    } else {
        lua_pop(lua, 1);
    }
}

/* Calls the function below its arguments; rethrows the error of a stopped script. */
static int call_protected(lua_State *lua, int arguments)
{
    int status = lua_pcall(lua, arguments, LUA_MULTRET, 0);
    if (status != 0 && vm_of(lua)->stopped != NULL) {
        lua_error(lua);
    }
    return status;
}

static int base_pcall(lua_State *lua)
{
    luaL_checkany(lua, 1);
    int status = call_protected(lua, lua_gettop(lua) - 1);
    if (status != 0) {
        flatten_error(lua);
    }
    lua_pushboolean(lua, status == 0);
    lua_insert(lua, 1);
    return lua_gettop(lua);
}

/* The handler is called after the error was caught. */
static int base_xpcall(lua_State *lua)
{
    luaL_checkany(lua, 2);
    lua_settop(lua, 2);
    lua_insert(lua, 1);
    int status = call_protected(lua, 0);
    if (status == 0) {
        lua_pushboolean(lua, 1);
        lua_replace(lua, 1);
        return lua_gettop(lua);
    }
    lua_call(lua, 1, 1);
    lua_pushboolean(lua, 0);
    lua_insert(lua, -2);
    return 2;
}

/* ---- tables ---- */

static int base_rawget(lua_State *lua)
{
    luaL_checktype(lua, 1, LUA_TTABLE);
    luaL_checkany(lua, 2);
    lua_settop(lua, 2);
    if (vm_push_hidden(lua, 1)) {
        lua_replace(lua, 1);
    }
    lua_rawget(lua, 1);
    return 1;
}

static int base_rawset(lua_State *lua)
{
    luaL_checktype(lua, 1, LUA_TTABLE);
    luaL_checkany(lua, 2);
    luaL_checkany(lua, 3);
    vm_check_writable(lua, 1);
    lua_settop(lua, 3);
    lua_rawset(lua, 1);
    return 1;
}

static int base_next(lua_State *lua)
{
    luaL_checktype(lua, 1, LUA_TTABLE);
    lua_settop(lua, 2);
    if (vm_push_hidden(lua, 1)) {
        lua_replace(lua, 1);
    }
    if (lua_next(lua, 1)) {
        return 2;
    }
    lua_pushnil(lua);
    return 1;
}

static int base_pairs(lua_State *lua)
{
    luaL_checktype(lua, 1, LUA_TTABLE);
    lua_pushcfunction(lua, base_next);
    lua_pushvalue(lua, 1);
    lua_pushnil(lua);
    return 3;
}

/* Lua's own returns addresses of tables and functions. */
static int base_tostring(lua_State *lua)
{
    luaL_checkany(lua, 1);
    if (luaL_callmeta(lua, 1, "__tostring")) {
        return 1;
    }
    switch (lua_type(lua, 1)) {
    case LUA_TNUMBER:
        lua_pushstring(lua, lua_tostring(lua, 1));
        break;
    case LUA_TSTRING:
        lua_pushvalue(lua, 1);
        break;
    case LUA_TBOOLEAN:
        lua_pushstring(lua, lua_toboolean(lua, 1) ? "true" : "false");
        break;
    case LUA_TNIL:
        lua_pushliteral(lua, "nil");
        break;
    case LUA_TLIGHTUSERDATA: /* cjson.null, in the words of the C library */
        lua_pushliteral(lua, "userdata: (nil)");
        break;
    default:
        lua_pushfstring(lua, "%s: 0x0", luaL_typename(lua, 1));
        break;
    }
    return 1;
}

void library_open_base(lua_State *lua)
{
    static const char *const taken[] = {
        "assert",       "error",    "getmetatable", "ipairs",   "select", "type",
        "setmetatable", "tonumber", "unpack",       "rawequal", NULL};
    static const luaL_Reg own[] = {
        {"next", base_next},     {"pairs", base_pairs},
        {"pcall", base_pcall},   {"rawget", base_rawget},
        {"rawset", base_rawset}, {"tostring", base_tostring},
        {"xpcall", base_xpcall}, {NULL, NULL},
    };
    lua_pushcfunction(lua, luaopen_base);
    lua_pushliteral(lua, "");
    lua_call(lua, 1, 0);
    lua_pushvalue(lua, LUA_GLOBALSINDEX);
    library_push(lua, own);
    library_take(lua, taken);
    lua_remove(lua, -2);
    lua_pushliteral(lua, LUA_VERSION);
    lua_setfield(lua, -2, "_VERSION");
}

/* ---- math ---- */

/* The same numbers in each run of a script, as in Redis (SplitMix64). */
static double next_random(lua_State *lua)
{
    struct vm *v = vm_of(lua);
    v->random += UINT64_C(0x9e3779b97f4a7c15);
    uint64_t z = v->random;
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    z ^= z >> 31;
    return (double)(z >> 11) / 9007199254740992.0;
}

static int math_random(lua_State *lua)
{
    double unit = next_random(lua);
    if (lua_gettop(lua) == 0) {
        lua_pushnumber(lua, unit);
        return 1;
    }
    bool has_lower = lua_gettop(lua) > 1;
    lua_Number lower = has_lower ? luaL_checknumber(lua, 1) : 1;
    lua_Number upper = luaL_checknumber(lua, has_lower ? 2 : 1);
    luaL_argcheck(lua, lower <= upper, has_lower ? 2 : 1, "interval is empty");
    lua_pushnumber(lua, floor(unit * (upper - lower + 1)) + lower);
    return 1;
}

static int math_randomseed(lua_State *lua)
{
    lua_Number seed = luaL_checknumber(lua, 1);
    memcpy(&vm_of(lua)->random, &seed, sizeof(seed));
    return 0;
}

void library_open_math(lua_State *lua)
{
    static const char *const taken[] = {
        "abs",   "acos", "asin",  "atan", "atan2", "ceil", "cos",   "cosh", "deg",  "exp",
        "floor", "fmod", "frexp", "huge", "ldexp", "log",  "log10", "max",  "min",  "mod",
        "modf",  "pi",   "pow",   "rad",  "sin",   "sinh", "sqrt",  "tan",  "tanh", NULL};
    static const luaL_Reg own[] = {
        {"random", math_random},
        {"randomseed", math_randomseed},
        {NULL, NULL},
    };
    open_original(lua, luaopen_math, LUA_MATHLIBNAME);
    library_push(lua, own);
    library_take(lua, taken);
    lua_remove(lua, -2);
}

void library_open_string(lua_State *lua)
{
    static const char *const taken[] = {"byte",    "char", "format", "len", "lower",
                                        "reverse", "sub",  "upper",  NULL};
    open_original(lua, luaopen_string, LUA_STRLIBNAME);
    lua_newtable(lua);
    for (const luaL_Reg *own = library_string; own->name != NULL; own++) {
        lua_getfield(lua, -2, own->name); /* Lua's own is its upvalue */
        lua_pushcclosure(lua, own->func, 1);
        lua_setfield(lua, -2, own->name);
    }
    library_take(lua, taken);
    lua_remove(lua, -2);
}
