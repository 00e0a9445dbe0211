/* Converts values between RESP and Lua, as Redis does:
 *
 *     reply           Lua                          Lua                  reply
 *     integer         number                       number               integer, truncated
 *     bulk string     string                       string               bulk string
 *     array           table, from 1 on             table                array, up to the first nil
 *     status          table with the field ok      table with ok, err   status, error
 *     error           table with the field err     true                 integer 1; setresp(3): #t
 *     null            false; nil after setresp(3)  false, nil, others   null
 *
 * After setresp(3) command replies may also be maps (table with the field `map`), sets (`set`),
 * booleans and doubles (`double`). A script may return these with either protocol. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "base/limits.h"
#include "base/panic.h"
#include "script/vm.h"

/* ---- replies to Lua ---- */

struct reply_reader {
    const uint8_t *at;
    const uint8_t *end;
};

/* Our host writes complete replies: anything else is a bug. */
static struct slice read_line(struct reply_reader *r)
{
    const uint8_t *start = r->at;
    const uint8_t *end = memchr(start, '\r', (size_t)(r->end - start));
    hf_assert(end != NULL && end + 1 < r->end && end[1] == '\n');
    r->at = end + 2;
    return slice_make(start, (size_t)(end - start));
}

static int64_t to_integer(struct slice line)
{
    bool is_negative = line.len > 0 && line.data[0] == '-';
    uint64_t value = 0;
    for (size_t i = is_negative; i < line.len; i++) {
        hf_assert(line.data[i] >= '0' && line.data[i] <= '9');
        value = value * 10 + (uint64_t)(line.data[i] - '0');
    }
    return (int64_t)(is_negative ? 0 - value : value);
}

static void push_slice(lua_State *lua, struct slice text)
{
    lua_pushlstring(lua, (const char *)text.data, text.len);
}

/* {field = text} */
static void push_field(lua_State *lua, const char *field, struct slice text)
{
    lua_createtable(lua, 0, 1);
    push_slice(lua, text);
    lua_setfield(lua, -2, field);
}

static void push_null(lua_State *lua)
{
    if (vm_of(lua)->protocol == 3) {
        lua_pushnil(lua);
    } else {
        lua_pushboolean(lua, 0);
    }
}

static void push_value(lua_State *lua, struct reply_reader *r);

static void push_array(lua_State *lua, struct reply_reader *r, int64_t count)
{
    vm_charge(lua, (uint64_t)count);
    lua_createtable(lua, (int)count, 0);
    for (int64_t i = 1; i <= count; i++) {
        push_value(lua, r);
        lua_rawseti(lua, -2, (int)i);
    }
}

/* {map = {key = value}}, {set = {member = true}} */
static void push_keyed(lua_State *lua, struct reply_reader *r, const char *field, int64_t count)
{
    vm_charge(lua, (uint64_t)count);
    lua_createtable(lua, 0, 1);
    lua_createtable(lua, 0, (int)count);
    for (int64_t i = 0; i < count; i++) {
        push_value(lua, r);
        if (field[0] == 'm') {
            push_value(lua, r);
        } else {
            lua_pushboolean(lua, 1);
        }
        lua_rawset(lua, -3);
    }
    lua_setfield(lua, -2, field);
}

static void push_bulk(lua_State *lua, struct reply_reader *r, int64_t len)
{
    hf_assert(len + 2 <= r->end - r->at);
    lua_pushlstring(lua, (const char *)r->at, (size_t)len);
    r->at += len + 2;
}

static void push_value(lua_State *lua, struct reply_reader *r)
{
    luaL_checkstack(lua, 4, "reply nested too deep");
    struct slice line = read_line(r);
    hf_assert(line.len > 0);
    struct slice rest = slice_make(line.data + 1, line.len - 1);
    int64_t number = memchr(":$*%~", line.data[0], 5) != NULL ? to_integer(rest) : 0;
    switch (line.data[0]) {
    case '+':
        push_field(lua, "ok", rest);
        return;
    case '-':
        push_field(lua, "err", rest);
        return;
    case ':':
        lua_pushnumber(lua, (lua_Number)number);
        return;
    case '_':
        push_null(lua);
        return;
    case '#':
        lua_pushboolean(lua, rest.data[0] == 't');
        return;
    case ',':
        lua_createtable(lua, 0, 1);
        push_slice(lua, rest);
        lua_pushnumber(lua, lua_tonumber(lua, -1));
        lua_replace(lua, -2);
        lua_setfield(lua, -2, "double");
        return;
    case '%':
        push_keyed(lua, r, "map", number);
        return;
    case '~':
        push_keyed(lua, r, "set", number);
        return;
    case '$':
    case '*':
        if (number < 0) {
            push_null(lua);
        } else if (line.data[0] == '$') {
            push_bulk(lua, r, number);
        } else {
            push_array(lua, r, number);
        }
        return;
    default:
        hf_panic(__FILE__, __LINE__, "a reply of a type that commands do not have");
    }
}

void convert_push(lua_State *lua, struct slice reply)
{
    struct reply_reader r = {reply.data, reply.data + reply.len};
    push_value(lua, &r);
    hf_assert(r.at == r.end);
}

/* ---- Lua to replies ---- */

static void write_value(lua_State *lua, struct resp_writer *out, int depth);

static void write_line(struct resp_writer *out, char type, struct slice text)
{
    buffer_append_byte(out->out, (uint8_t)type);
    for (size_t i = 0; i < text.len; i++) {
        uint8_t c = text.data[i];
        buffer_append_byte(out->out, c == '\r' || c == '\n' ? ' ' : c);
    }
    buffer_append_text(out->out, "\r\n");
}

void convert_error(struct resp_writer *out, struct slice text)
{
    write_line(out, '-', text);
}

static struct slice top_slice(lua_State *lua)
{
    size_t len;
    const char *text = lua_tolstring(lua, -1, &len);
    return slice_make(text, len);
}

/* Pushes the field of the table at the top if it has that type. */
static bool push_typed(lua_State *lua, const char *field, int type)
{
    lua_pushstring(lua, field);
    lua_rawget(lua, -2);
    if (lua_type(lua, -1) == type) {
        return true;
    }
    lua_pop(lua, 1);
    return false;
}

/* Numbers out of range become INT64_MIN, as Redis does on x86-64. */
static void write_number(struct resp_writer *out, lua_Number value)
{
    bool fits = value >= -9223372036854775808.0 && value < 9223372036854775808.0;
    resp_integer(out, fits ? (int64_t)value : INT64_MIN);
}

static void write_double(struct resp_writer *out, lua_Number value)
{
    char text[64];
    int len = snprintf(text, sizeof(text), "%.17g", value);
    struct slice bytes = slice_make(text, (size_t)len);
    if (out->protocol == 3) {
        write_line(out, ',', isnan(value) ? slice_of("nan") : bytes);
    } else {
        resp_bulk(out, bytes);
    }
}

/* Writes the table at the top: a map's keys and values, or a set's keys. */
static void write_keyed(lua_State *lua, struct resp_writer *out, bool is_map, int depth)
{
    uint32_t count = 0;
    for (lua_pushnil(lua); lua_next(lua, -2); lua_pop(lua, 1)) {
        vm_charge(lua, 1);
        count++;
    }
    if (is_map) {
        resp_map(out, count);
    } else {
        buffer_printf(out->out, "%c%" PRIu32 "\r\n", out->protocol == 3 ? '~' : '*', count);
    }
    lua_pushnil(lua);
    while (lua_next(lua, -2)) {
        lua_pushvalue(lua, -2);
        write_value(lua, out, depth); /* pops the copy of the key */
        if (is_map) {
            write_value(lua, out, depth);
        } else {
            lua_pop(lua, 1);
        }
    }
}

static void write_verbatim(lua_State *lua, struct resp_writer *out)
{
    struct slice format = slice_of("txt");
    bool has_format = push_typed(lua, "format", LUA_TSTRING);
    if (has_format && lua_objlen(lua, -1) == 3) {
        format = top_slice(lua);
    }
    if (!has_format) {
        lua_pushnil(lua);
    }
    lua_insert(lua, -2);
    struct slice text = push_typed(lua, "string", LUA_TSTRING) ? top_slice(lua) : slice_of("");
    if (out->protocol == 3) {
        buffer_printf(out->out, "=%zu\r\n%.3s:", text.len + 4, (const char *)format.data);
        buffer_append_slice(out->out, text);
        buffer_append_text(out->out, "\r\n");
    } else {
        resp_bulk(out, text);
    }
}

/* Writes a table that has one of the special fields. The caller restores the stack. */
static bool write_special(lua_State *lua, struct resp_writer *out, int depth)
{
    if (push_typed(lua, "err", LUA_TSTRING)) {
        convert_error(out, top_slice(lua));
    } else if (push_typed(lua, "ok", LUA_TSTRING)) {
        write_line(out, '+', top_slice(lua));
    } else if (push_typed(lua, "double", LUA_TNUMBER)) {
        write_double(out, lua_tonumber(lua, -1));
    } else if (push_typed(lua, "map", LUA_TTABLE)) {
        write_keyed(lua, out, true, depth);
    } else if (push_typed(lua, "set", LUA_TTABLE)) {
        write_keyed(lua, out, false, depth);
    } else if (push_typed(lua, "big_number", LUA_TSTRING)) {
        if (out->protocol == 3) {
            write_line(out, '(', top_slice(lua));
        } else {
            resp_bulk(out, top_slice(lua));
        }
    } else if (push_typed(lua, "verbatim_string", LUA_TTABLE)) {
        write_verbatim(lua, out);
    } else {
        return false;
    }
    return true;
}

static void write_array(lua_State *lua, struct resp_writer *out, int depth)
{
    uint32_t count = 0;
    for (bool is_more = true; is_more; lua_pop(lua, 1)) {
        vm_charge(lua, 1);
        lua_rawgeti(lua, -1, (int)count + 1);
        is_more = !lua_isnil(lua, -1);
        count += is_more;
    }
    resp_array(out, count);
    for (uint32_t i = 1; i <= count; i++) {
        lua_rawgeti(lua, -1, (int)i);
        write_value(lua, out, depth);
    }
}

static void write_table(lua_State *lua, struct resp_writer *out, int depth)
{
    if (depth == LIMIT_SCRIPT_DEPTH) {
        resp_error(out, "ERR", "reached lua stack limit");
        return;
    }
    luaL_checkstack(lua, 8, "answer nested too deep");
    int top = lua_gettop(lua);
    if (!write_special(lua, out, depth + 1)) {
        write_array(lua, out, depth + 1);
    }
    lua_settop(lua, top);
}

/* Writes and pops the value at the top. */
static void write_value(lua_State *lua, struct resp_writer *out, int depth)
{
    vm_charge(lua, 1);
    if (out->out->overflowed) {
        lua_pop(lua, 1); /* the whole result is refused; a table that contains itself would never
                            end */
        return;
    }
    switch (lua_type(lua, -1)) {
    case LUA_TSTRING:
        resp_bulk(out, top_slice(lua));
        break;
    case LUA_TNUMBER:
        write_number(out, lua_tonumber(lua, -1));
        break;
    case LUA_TBOOLEAN:
        if (vm_of(lua)->protocol == 3) {
            resp_bool(out, lua_toboolean(lua, -1) != 0);
        } else if (lua_toboolean(lua, -1)) {
            resp_integer(out, 1);
        } else {
            resp_null(out);
        }
        break;
    case LUA_TTABLE:
        write_table(lua, out, depth);
        break;
    default:
        resp_null(out);
    }
    lua_pop(lua, 1);
}

void convert_write(lua_State *lua, struct resp_writer *out)
{
    write_value(lua, out, 0);
}
