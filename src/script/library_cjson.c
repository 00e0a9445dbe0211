/* `cjson`: encode, decode and null of lua-cjson, as Redis has them, without the functions that
 * configure it.
 *
 * lua-cjson takes memory from malloc, ends the process if there is none, and does not return it if
 * Lua raises an error in between. So the work and the memory of a call are bounded and charged
 * before it (vm_call_reserved). The bounds are too high for most texts, but never too low. */
#include "base/limits.h"
#include "script/vm.h"

#include <lua-cjson.h>

enum {
    DEPTH_MAX = 1000, /* of lua-cjson, which refuses more */
    LEVEL_BYTES = 160 /* of Lua's stack for one level of nesting, while it grows */
};

/* ---- decode ---- */

/* Bytes of Lua. An element of a list takes 16 in an array of up to twice its size, which is copied
 * when it grows; a field takes a node of 40, and its key. */
static size_t decoded_bytes(const char *text, size_t len)
{
    size_t bytes = len + 1024;
    for (size_t i = 0; i < len; i++) {
        switch (text[i]) {
        case '[':
        case '{':
            bytes += 256 + LEVEL_BYTES;
            break;
        case ',':
        case ':':
            bytes += 80;
            break;
        case '"':
            bytes += 32;
            break;
        default:
            break;
        }
    }
    return bytes;
}

static int cjson_decode(lua_State *lua)
{
    size_t len;
    luaL_argcheck(lua, lua_gettop(lua) == 1, 1, "expected 1 argument");
    const char *text = luaL_checklstring(lua, 1, &len);
    vm_charge(lua, len / 2);
    size_t bytes = decoded_bytes(text, len);
    vm_charge(lua, bytes / 64);
    return vm_call_reserved(lua, lua_upvalueindex(1), bytes);
}

/* ---- encode ---- */

enum {
    NUMBER_BYTES = 32,
    NUMBER_STEPS = 16,
    ENTRY_STEPS = 8,
    ENTRY_BYTES = 2 + 2 * sizeof("null,"), /* a list may have one gap for each element */
    TABLE_BYTES = 2 + 10 * sizeof("null,") /* ... and this many in any case */
};

struct measure {
    size_t bytes; /* of the text */
    size_t depth; /* the deepest level */
};

static void add_bytes(lua_State *lua, struct measure *m, size_t bytes)
{
    m->bytes += bytes;
    if (m->bytes > LIMIT_SCRIPT_BLOCK) {
        vm_stop(lua, "it takes too much memory");
    }
}

/* The value at the top of the stack. A table that is found twice counts twice: its text does. */
static void measure(lua_State *lua, struct measure *m, size_t depth)
{
    vm_charge(lua, ENTRY_STEPS);
    switch (lua_type(lua, -1)) {
    case LUA_TSTRING:
        vm_charge(lua, lua_objlen(lua, -1) / 8);
        add_bytes(lua, m, 2 + 6 * lua_objlen(lua, -1)); /* \u0000 */
        break;
    case LUA_TNUMBER:
        vm_charge(lua, NUMBER_STEPS);
        add_bytes(lua, m, 2 + NUMBER_BYTES); /* in quotes as a key */
        break;
    case LUA_TTABLE:
        if (depth == DEPTH_MAX) {
            break; /* lua-cjson raises an error */
        }
        luaL_checkstack(lua, 4, "nested too deep");
        m->depth = depth + 1 > m->depth ? depth + 1 : m->depth;
        add_bytes(lua, m, TABLE_BYTES);
        for (lua_pushnil(lua); lua_next(lua, -2); lua_pop(lua, 1)) {
            add_bytes(lua, m, ENTRY_BYTES);
            measure(lua, m, depth + 1);
            lua_pushvalue(lua, -2);
            measure(lua, m, DEPTH_MAX); /* the key; a table is refused */
            lua_pop(lua, 1);
        }
        break;
    default:
        add_bytes(lua, m, sizeof("false"));
    }
}

static int cjson_encode(lua_State *lua)
{
    struct measure m = {0};
    luaL_argcheck(lua, lua_gettop(lua) == 1, 1, "expected 1 argument");
    measure(lua, &m, 0);
    return vm_call_reserved(lua, lua_upvalueindex(1), m.bytes + m.depth * LEVEL_BYTES + 1024);
}

/* ---- the table ---- */

static void wrap(lua_State *lua, const char *name, lua_CFunction function)
{
    lua_getfield(lua, -2, name);
    lua_pushcclosure(lua, function, 1);
    lua_setfield(lua, -2, name);
}

void library_open_cjson(lua_State *lua)
{
    lua_pushcfunction(lua, luaopen_cjson);
    lua_call(lua, 0, 1);
    /* Else it keeps the buffer of its longest text. */
    lua_getfield(lua, -1, "encode_keep_buffer");
    lua_pushboolean(lua, 0);
    lua_call(lua, 1, 0);
    lua_newtable(lua);
    wrap(lua, "decode", cjson_decode);
    wrap(lua, "encode", cjson_encode);
    lua_getfield(lua, -2, "null");
    lua_setfield(lua, -2, "null");
    lua_remove(lua, -2);
}
