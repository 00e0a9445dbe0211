/* The functions of `string` whose work Lua does not bound: repetition, and pattern matching
 * (pattern.h). They behave as in the manual of Lua 5.1 or, where it is silent, as Lua 5.1
 * itself. */
#include "base/limits.h"
#include "script/pattern.h"
#include "script/vm.h"

/* The matcher's steps are smaller than Lua's instructions. */
enum { MATCH_STEPS = 4 };

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

/* ---- one match ---- */

struct search {
    struct pattern pattern;
    const char *p; /* the pattern's first character, after an anchor */
    bool is_anchored;
};

static void search_init(struct search *s, struct slice subject, struct slice pattern)
{
    s->pattern.subject = (const char *)subject.data;
    s->pattern.subject_end = s->pattern.subject + subject.len;
    s->p = (const char *)pattern.data;
    s->pattern.end = s->p + pattern.len;
    s->is_anchored = false;
}

static void search_take_anchor(struct search *s)
{
    if (s->p < s->pattern.end && *s->p == '^') {
        s->is_anchored = true;
        s->p++;
    }
}

/* Matches at `at`, and charges its cost. */
static const char *search_at(lua_State *lua, struct search *s, const char *at)
{
    uint64_t budget = vm_steps_left(vm_of(lua)) * MATCH_STEPS;
    s->pattern.steps_left = budget;
    const char *end = pattern_match(&s->pattern, at, s->p);
    if (s->pattern.is_exhausted) {
        vm_stop(lua, "it takes too many steps");
    }
    if (s->pattern.error != NULL) {
        luaL_error(lua, "%s", s->pattern.error);
    }
    vm_charge(lua, (budget - s->pattern.steps_left) / MATCH_STEPS + 1);
    return end;
}

/* Pushes capture `i`; the whole match, from `start` to `end`, if the pattern has no captures. */
static void push_capture(lua_State *lua, const struct search *s, int i, const char *start,
                         const char *end)
{
    const struct pattern *m = &s->pattern;
    if (i >= m->capture_count) {
        if (i != 0) {
            luaL_error(lua, "invalid capture index");
        }
        lua_pushlstring(lua, start, (size_t)(end - start));
    } else if (m->captures[i].len == CAPTURE_POSITION) {
        lua_pushinteger(lua, m->captures[i].start - m->subject + 1);
    } else if (m->captures[i].len == CAPTURE_OPEN) {
        luaL_error(lua, "unfinished capture");
    } else {
        lua_pushlstring(lua, m->captures[i].start, (size_t)m->captures[i].len);
    }
}

static int push_captures(lua_State *lua, const struct search *s, bool has_whole, const char *start,
                         const char *end)
{
    int count = s->pattern.capture_count == 0 && has_whole ? 1 : s->pattern.capture_count;
    luaL_checkstack(lua, count, "too many captures");
    for (int i = 0; i < count; i++) {
        push_capture(lua, s, i, start, end);
    }
    return count;
}

static struct slice check_slice(lua_State *lua, int index)
{
    size_t len;
    const char *text = luaL_checklstring(lua, index, &len);
    return slice_make(text, len);
}

/* ---- find and match ---- */

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

static int find_plain(lua_State *lua, struct slice subject, struct slice what, size_t from)
{
    vm_charge(lua, (subject.len - from) / 32);
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

static int find(lua_State *lua, bool wants_place)
{
    struct slice subject = check_slice(lua, 1);
    struct slice pattern = check_slice(lua, 2);
    size_t from = start_offset(lua, 3, subject.len);
    if (wants_place && (lua_toboolean(lua, 4) || !pattern_is_special(pattern))) {
        return find_plain(lua, subject, pattern, from);
    }
    struct search s;
    search_init(&s, subject, pattern);
    search_take_anchor(&s);
    const char *at = s.pattern.subject + from;
    do {
        const char *end = search_at(lua, &s, at);
        if (end != NULL && wants_place) {
            lua_pushinteger(lua, at - s.pattern.subject + 1);
            lua_pushinteger(lua, end - s.pattern.subject);
            return push_captures(lua, &s, false, at, end) + 2;
        }
        if (end != NULL) {
            return push_captures(lua, &s, true, at, end);
        }
    } while (at++ < s.pattern.subject_end && !s.is_anchored);
    lua_pushnil(lua);
    return 1;
}

static int string_find(lua_State *lua)
{
    return find(lua, true);
}

static int string_match(lua_State *lua)
{
    return find(lua, false);
}

/* ---- gmatch ---- */

/* Its upvalues: the subject, the pattern, the next position. */
static int next_match(lua_State *lua)
{
    struct search s;
    search_init(&s, check_slice(lua, lua_upvalueindex(1)), check_slice(lua, lua_upvalueindex(2)));
    const char *at = s.pattern.subject + lua_tointeger(lua, lua_upvalueindex(3));
    for (; at <= s.pattern.subject_end; at++) {
        const char *end = search_at(lua, &s, at);
        if (end != NULL) {
            lua_Integer next = end - s.pattern.subject + (end == at ? 1 : 0);
            lua_pushinteger(lua, next);
            lua_replace(lua, lua_upvalueindex(3));
            return push_captures(lua, &s, true, at, end);
        }
    }
    return 0;
}

static int string_gmatch(lua_State *lua)
{
    luaL_checkstring(lua, 1);
    luaL_checkstring(lua, 2);
    lua_settop(lua, 2);
    lua_pushinteger(lua, 0);
    lua_pushcclosure(lua, next_match, 3);
    return 1;
}

/* ---- gsub ---- */

static void add_text(lua_State *lua, luaL_Buffer *b, const struct search *s, const char *start,
                     const char *end)
{
    size_t len;
    const char *text = lua_tolstring(lua, 3, &len);
    vm_charge(lua, len / 16);
    for (size_t i = 0; i < len; i++) {
        if (text[i] != '%' || i + 1 == len) {
            luaL_addchar(b, text[i]);
            continue;
        }
        i++;
        if (text[i] < '0' || text[i] > '9') {
            luaL_addchar(b, text[i]);
        } else if (text[i] == '0') {
            luaL_addlstring(b, start, (size_t)(end - start));
        } else {
            push_capture(lua, s, text[i] - '1', start, end);
            luaL_addvalue(b);
        }
    }
}

/* Adds the replacement of this match: a text, or the result of a table or a function. */
static void add_replacement(lua_State *lua, luaL_Buffer *b, const struct search *s,
                            const char *start, const char *end)
{
    switch (lua_type(lua, 3)) {
    case LUA_TFUNCTION:
        lua_pushvalue(lua, 3);
        lua_call(lua, push_captures(lua, s, true, start, end), 1);
        break;
    case LUA_TTABLE:
        push_capture(lua, s, 0, start, end);
        lua_gettable(lua, 3);
        break;
    default:
        add_text(lua, b, s, start, end);
        return;
    }
    if (!lua_toboolean(lua, -1)) {
        lua_pop(lua, 1);
        lua_pushlstring(lua, start, (size_t)(end - start));
    } else if (!lua_isstring(lua, -1)) {
        luaL_error(lua, "invalid replacement value (a %s)", luaL_typename(lua, -1));
    }
    luaL_addvalue(b);
}

static int string_gsub(lua_State *lua)
{
    struct search s;
    struct slice subject = check_slice(lua, 1);
    search_init(&s, subject, check_slice(lua, 2));
    search_take_anchor(&s);
    int type = lua_type(lua, 3);
    luaL_argcheck(lua,
                  type == LUA_TNUMBER || type == LUA_TSTRING || type == LUA_TFUNCTION ||
                      type == LUA_TTABLE,
                  3, "string/function/table expected");
    lua_Integer max = luaL_optinteger(lua, 4, (lua_Integer)subject.len + 1);
    lua_Integer count = 0;
    luaL_Buffer b;
    luaL_buffinit(lua, &b);
    const char *at = s.pattern.subject;
    while (count < max) {
        const char *end = search_at(lua, &s, at);
        if (end != NULL) {
            count++;
            add_replacement(lua, &b, &s, at, end);
        }
        if (end != NULL && end > at) {
            at = end;
        } else if (at < s.pattern.subject_end) {
            luaL_addchar(&b, *at++);
        } else {
            break;
        }
        if (s.is_anchored) {
            break;
        }
    }
    luaL_addlstring(&b, at, (size_t)(s.pattern.subject_end - at));
    luaL_pushresult(&b);
    lua_pushinteger(lua, count);
    return 2;
}

const luaL_Reg library_string[] = {
    {"find", string_find}, {"gfind", string_gmatch}, {"gmatch", string_gmatch},
    {"gsub", string_gsub}, {"match", string_match},  {"rep", string_rep},
    {NULL, NULL},
};
