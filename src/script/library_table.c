/* `table`, reimplemented: a call may do any amount of work, so it is charged as it is done. Sorting
 * is a heap sort, which has no bad case. Elements are accessed raw, as in Lua's own functions. */
#include "base/limits.h"
#include "script/vm.h"

static int length_of(lua_State *lua, int index)
{
    luaL_checktype(lua, index, LUA_TTABLE);
    return (int)lua_objlen(lua, index);
}

static int table_getn(lua_State *lua)
{
    lua_pushinteger(lua, length_of(lua, 1));
    return 1;
}

static int table_maxn(lua_State *lua)
{
    lua_Number max = 0;
    luaL_checktype(lua, 1, LUA_TTABLE);
    lua_pushnil(lua);
    while (lua_next(lua, 1)) {
        vm_charge(lua, 1);
        lua_pop(lua, 1);
        if (lua_type(lua, -1) == LUA_TNUMBER && lua_tonumber(lua, -1) > max) {
            max = lua_tonumber(lua, -1);
        }
    }
    lua_pushnumber(lua, max);
    return 1;
}

static int table_insert(lua_State *lua)
{
    int end = length_of(lua, 1) + 1;
    vm_check_writable(lua, 1);
    int at = end;
    if (lua_gettop(lua) == 3) {
        at = luaL_checkint(lua, 2);
        /* Lua's own shifts elements down to any position: up to 2^31 steps. */
        luaL_argcheck(lua, at >= 1, 2, "position out of bounds");
        vm_charge(lua, at < end ? (uint64_t)(end - at) : 1);
        for (int i = end; i > at; i--) {
            lua_rawgeti(lua, 1, i - 1);
            lua_rawseti(lua, 1, i);
        }
    } else if (lua_gettop(lua) != 2) {
        return luaL_error(lua, "wrong number of arguments to 'insert'");
    }
    lua_rawseti(lua, 1, at);
    return 0;
}

static int table_remove(lua_State *lua)
{
    int end = length_of(lua, 1);
    vm_check_writable(lua, 1);
    int at = luaL_optint(lua, 2, end);
    if (at < 1 || at > end) {
        return 0;
    }
    vm_charge(lua, (uint64_t)(end - at));
    lua_rawgeti(lua, 1, at);
    for (int i = at; i < end; i++) {
        lua_rawgeti(lua, 1, i + 1);
        lua_rawseti(lua, 1, i);
    }
    lua_pushnil(lua);
    lua_rawseti(lua, 1, end);
    return 1;
}

static void add_element(lua_State *lua, luaL_Buffer *b, int i)
{
    vm_charge(lua, 1);
    lua_rawgeti(lua, 1, i);
    if (!lua_isstring(lua, -1)) {
        luaL_error(lua, "invalid value (%s) at index %d in table for 'concat'",
                   luaL_typename(lua, -1), i);
    }
    luaL_addvalue(b);
}

static int table_concat(lua_State *lua)
{
    size_t len;
    const char *between = luaL_optlstring(lua, 2, "", &len);
    luaL_checktype(lua, 1, LUA_TTABLE);
    int i = luaL_optint(lua, 3, 1);
    int last = luaL_optint(lua, 4, length_of(lua, 1));
    luaL_Buffer b;
    luaL_buffinit(lua, &b);
    for (; i < last; i++) {
        add_element(lua, &b, i);
        luaL_addlstring(&b, between, len);
    }
    if (i == last) {
        add_element(lua, &b, i);
    }
    luaL_pushresult(&b);
    return 1;
}

/* ---- sorting ---- */

/* The element at stack index `a` precedes that at `b`, by the function at 2 or by <. */
static bool comes_before(lua_State *lua, int a, int b)
{
    if (lua_type(lua, a) == LUA_TSTRING && lua_type(lua, b) == LUA_TSTRING) {
        size_t a_len = lua_objlen(lua, a);
        size_t b_len = lua_objlen(lua, b);
        vm_charge(lua, (a_len < b_len ? a_len : b_len) / 64);
    }
    vm_charge(lua, 4);
    if (lua_isnil(lua, 2)) {
        return lua_lessthan(lua, a, b) != 0;
    }
    lua_pushvalue(lua, 2);
    lua_pushvalue(lua, a);
    lua_pushvalue(lua, b);
    lua_call(lua, 2, 1);
    bool before = lua_toboolean(lua, -1) != 0;
    lua_pop(lua, 1);
    return before;
}

/* Moves the value at the top of the stack into the heap of `count` elements, from its root `at`
 * down. */
static void sink(lua_State *lua, int at, int count)
{
    int value = lua_gettop(lua);
    for (int child = 2 * at; child <= count; child = 2 * at) {
        lua_rawgeti(lua, 1, child);
        if (child < count) {
            lua_rawgeti(lua, 1, child + 1);
            if (comes_before(lua, value + 1, value + 2)) {
                lua_replace(lua, value + 1);
                child++;
            } else {
                lua_pop(lua, 1);
            }
        }
        if (!comes_before(lua, value, value + 1)) {
            lua_pop(lua, 1);
            break;
        }
        lua_rawseti(lua, 1, at);
        at = child;
    }
    lua_rawseti(lua, 1, at);
}

static int table_sort(lua_State *lua)
{
    int count = length_of(lua, 1);
    vm_check_writable(lua, 1);
    if (!lua_isnoneornil(lua, 2)) {
        luaL_checktype(lua, 2, LUA_TFUNCTION);
    }
    lua_settop(lua, 2);
    for (int i = count / 2; i >= 1; i--) {
        lua_rawgeti(lua, 1, i);
        sink(lua, i, count);
    }
    for (int end = count; end > 1; end--) {
        lua_rawgeti(lua, 1, end);
        lua_rawgeti(lua, 1, 1);
        lua_rawseti(lua, 1, end);
        sink(lua, 1, end - 1);
    }
    return 0;
}

/* ---- iteration ---- */

/* Calls the function at 2 with the key and the value at the top; true when it returned a value,
 * which is then at the top. */
static bool visit(lua_State *lua)
{
    vm_charge(lua, 4);
    lua_pushvalue(lua, 2);
    lua_insert(lua, -3);
    lua_call(lua, 2, 1);
    if (!lua_isnil(lua, -1)) {
        return true;
    }
    lua_pop(lua, 1);
    return false;
}

static int table_foreach(lua_State *lua)
{
    luaL_checktype(lua, 1, LUA_TTABLE);
    luaL_checktype(lua, 2, LUA_TFUNCTION);
    lua_settop(lua, 2);
    lua_pushnil(lua);
    while (lua_next(lua, 1)) {
        lua_pushvalue(lua, -2);
        lua_insert(lua, -2);
        if (visit(lua)) {
            return 1;
        }
    }
    return 0;
}

static int table_foreachi(lua_State *lua)
{
    int count = length_of(lua, 1);
    luaL_checktype(lua, 2, LUA_TFUNCTION);
    lua_settop(lua, 2);
    for (int i = 1; i <= count; i++) {
        lua_pushinteger(lua, i);
        lua_rawgeti(lua, 1, i);
        if (visit(lua)) {
            return 1;
        }
    }
    return 0;
}

void library_open_table(lua_State *lua)
{
    static const luaL_Reg own[] = {
        {"concat", table_concat}, {"foreach", table_foreach}, {"foreachi", table_foreachi},
        {"getn", table_getn},     {"insert", table_insert},   {"maxn", table_maxn},
        {"remove", table_remove}, {"sort", table_sort},       {NULL, NULL},
    };
    library_push(lua, own);
}
