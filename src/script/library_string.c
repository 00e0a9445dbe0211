/* The functions of `string` whose work Lua does not bound: repetition, and searches. They behave as
 * in the manual of Lua 5.1.
 *
 * Lua's matcher of patterns runs within one instruction, so its worst case is charged before. */
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

enum {
    PATTERN_MAX = 256,   /* bytes: the matcher is recursive */
    MATCHES_PER_STEP = 8 /* the matcher is faster than Lua */
};

/* An upper limit of the steps of Lua's matcher: the lengths of all repetitions, and the position at
 * which it begins, have a sum of at most the length of the subject. There are C(n + k, k) ways to
 * choose them, and the pattern is walked through once for each. A double cannot overflow here. */
static double matcher_steps(struct slice subject, struct slice pattern)
{
    double steps = ((double)pattern.len + 1) / MATCHES_PER_STEP;
    unsigned loops = 1; /* over the positions; gmatch knows no '^' */
    for (size_t i = 0; i < pattern.len; i++) {
        bool is_escape = pattern.data[i] == '%' && i + 1 < pattern.len;
        uint8_t c = pattern.data[i + is_escape];
        i += is_escape;
        if (is_escape && (c == 'b' || (c >= '0' && c <= '9'))) {
            steps *= (double)subject.len + 1; /* %b and %1 look at many characters at once */
        } else if (!is_escape && c != '\0' && strchr("*+-?", c) != NULL) {
            loops++;
        }
    }
    for (unsigned i = 1; i <= loops && steps < 1e15; i++) {
        steps = steps * ((double)subject.len + i) / i;
    }
    return steps;
}

/* match, gmatch, gsub: Lua's own function is the upvalue. It runs in the same frame, so that its
 * errors are as they were. */
static int string_bounded(lua_State *lua)
{
    struct slice subject = check_slice(lua, 1);
    struct slice pattern = check_slice(lua, 2);
    if (pattern.len > PATTERN_MAX) {
        return luaL_error(lua, "a pattern has at most %d bytes", PATTERN_MAX);
    }
    vm_charge(lua, (uint64_t)matcher_steps(subject, pattern));
    if (lua_type(lua, 3) == LUA_TSTRING) { /* what gsub may put in at each position */
        vm_charge(lua, (subject.len + 1) * lua_objlen(lua, 3) / 32);
    }
    return lua_tocfunction(lua, lua_upvalueindex(1))(lua);
}

static int string_find(lua_State *lua)
{
    struct slice subject = check_slice(lua, 1);
    struct slice what = check_slice(lua, 2);
    size_t from = start_offset(lua, 3, subject.len);
    vm_charge(lua, (subject.len - from) / 32 + what.len / 8);
    if (!lua_toboolean(lua, 4) && is_pattern(what)) {
        return string_bounded(lua);
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
    {"find", string_find},     {"gmatch", string_bounded}, {"gsub", string_bounded},
    {"match", string_bounded}, {"rep", string_rep},        {NULL, NULL},
};
