/* The functions of `string` whose work Lua does not bound: repetition, and the search for plain text.
 * They behave as in the manual of Lua 5.1. Patterns are not available: Lua's matcher runs within one
 * instruction without a limit, and no lock library needs it. */
#include "base/limits.h"
#include "script/vm.h"

static int string_rep(lua_State *lua)
{
    size_t len;
    const char *text = luaL_checklstring(lua, 1, &len);
    lua_Number times = luaL_checknumber(lua, 2);
    luaL_Buffer b;
    if (len == 0 || !(times >= 1)) { /* also for NaN */
        lua_pushliteral(lua, "");
        return 1;
    }
    if (times > (lua_Number)(LIMIT_SCRIPT_BLOCK / len)) {
        return vm_stop(lua, "it takes too much memory");
    }
    uint64_t count = (uint64_t)times;
    vm_charge(lua, count);
    luaL_buffinit(lua, &b);
    for (; count > 0; count--) {
        luaL_addlstring(&b, text, len);
    }
    luaL_pushresult(&b);
    return 1;
}

static struct slice check_slice(lua_State *lua, int index)
{
    size_t len;
    const char *text = luaL_checklstring(lua, index, &len);
    return slice_make(text, len);
}

static size_t start_offset(lua_State *lua, int index, size_t len)
{
    lua_Integer at = luaL_optinteger(lua, index, 1);
    if (at < 0) {
        at += (lua_Integer)len + 1;
    }
    at--;
    if (at < 0) {
        return 0;
    }
    return (size_t)at > len ? len : (size_t)at;
}

static bool is_pattern(struct slice text)
{
    for (size_t i = 0; i < text.len; i++) {
        if (text.data[i] != '\0' && strchr("^$*+?.([%-", text.data[i]) != NULL) {
            return true;
        }
    }
    return false;
}

static int string_find(lua_State *lua)
{
    struct slice subject = check_slice(lua, 1);
    struct slice what = check_slice(lua, 2);
    size_t from = start_offset(lua, 3, subject.len);
    vm_charge(lua, (subject.len - from) / 32 + what.len / 8);
    if (!lua_toboolean(lua, 4) && is_pattern(what)) {
        return luaL_error(lua, "patterns are not available; string.find(s, text, 1, true) is");
    }
    const uint8_t *found =
        what.len == 0 ? subject.data + from
                      : memmem(subject.data + from, subject.len - from, what.data, what.len);
    if (found == NULL) {
        lua_pushnil(lua);
        return 1;
    }
    lua_Integer at = found - subject.data;
    lua_pushinteger(lua, at + 1);
    lua_pushinteger(lua, at + (lua_Integer)what.len);
    return 2;
}

const luaL_Reg library_string[] = {
    {"find", string_find},
    {"rep", string_rep},
    {NULL, NULL},
};
