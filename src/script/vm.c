/* A Lua state: its memory, its limits, the environment of scripts. */
#include "script/vm.h"

#include <time.h>

#include "base/limits.h"
#include "base/panic.h"

/* Instructions between two checks of the limits. Some are slow (one may move LIMIT_SCRIPT_BLOCK
 * bytes), and CPU time is checked only here. */
enum { HOOK_STEPS = 128 };

/* Bytes that count as a step: allocating, filling and clearing memory is charged too. */
enum { BYTES_PER_STEP = 64 };

static uint64_t clock_us(clockid_t which)
{
    struct timespec now;
    int failed = clock_gettime(which, &now);
    hf_assert(failed == 0);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

/* ---- limits ---- */

static const char too_many_steps[] = "it takes too many steps";
static const char too_much_memory[] = "it takes too much memory";
static const char too_long[] = "it runs for too long";

int vm_stop(lua_State *lua, const char *why)
{
    struct vm *v = vm_of(lua);
    v->stopped = why;
    lua_pushnil(lua);
    return lua_error(lua);
}

uint64_t vm_steps_left(const struct vm *v)
{
    return v->steps < v->limits.steps ? v->limits.steps - v->steps : 0;
}

void vm_charge(lua_State *lua, uint64_t steps)
{
    struct vm *v = vm_of(lua);
    if (!v->is_limited) {
        return;
    }
    if (v->stopped != NULL) {
        vm_stop(lua, v->stopped);
    }
    if (steps > vm_steps_left(v)) {
        v->steps = v->limits.steps;
        vm_stop(lua, too_many_steps);
    }
    v->steps += steps;
}

/* CPU time of this thread, so that scripts do not fail on a loaded machine; read only when the
 * cheaper monotonic clock has passed the limit. The time starts at the first check: most scripts
 * end before it. */
static bool took_too_long(struct vm *v)
{
    if (v->clock_start_us == 0) {
        v->clock_start_us = clock_us(CLOCK_MONOTONIC);
        v->cpu_start_us = clock_us(CLOCK_THREAD_CPUTIME_ID);
        return false;
    }
    uint64_t limit_us = (uint64_t)v->limits.cpu_ms * 1000;
    return clock_us(CLOCK_MONOTONIC) - v->clock_start_us > limit_us &&
           clock_us(CLOCK_THREAD_CPUTIME_ID) - v->cpu_start_us > limit_us;
}

static void on_steps(lua_State *lua, lua_Debug *where)
{
    (void)where;
    vm_charge(lua, HOOK_STEPS);
    struct vm *v = vm_of(lua);
    if (v->is_limited && took_too_long(v)) {
        vm_stop(lua, too_long);
    }
}

uint64_t vm_clock_us(void)
{
    return clock_us(CLOCK_MONOTONIC);
}

uint64_t vm_busy_us(const struct vm *v)
{
    return v->clock_start_us == 0 ? 0 : vm_clock_us() - v->clock_start_us;
}

static bool may_grow(struct vm *v, size_t old_size, size_t new_size)
{
    size_t more = new_size - old_size;
    if (v->stopped != NULL) {
        return false;
    }
    if (new_size > LIMIT_SCRIPT_BLOCK || v->used + more > v->used_max) {
        v->stopped = too_much_memory;
        return false;
    }
    uint64_t steps = more / BYTES_PER_STEP;
    if (steps > vm_steps_left(v)) {
        v->stopped = too_many_steps;
        return false;
    }
    v->steps += steps;
    return true;
}

/* lua_Alloc. Shrinking a block never fails, as Lua requires. */
static void *allocate(void *ctx, void *block, size_t old_size, size_t new_size)
{
    struct vm *v = ctx;
    if (new_size > old_size && v->is_limited && !may_grow(v, old_size, new_size)) {
        return NULL;
    }
    void *moved = NULL;
    if (new_size > 0) {
        moved = memory_alloc(v->memory, new_size);
        if (block != NULL) {
            memcpy(moved, block, old_size < new_size ? old_size : new_size);
        }
    }
    if (block != NULL) {
        memory_free(v->memory, block, old_size);
    }
    v->used = v->used - old_size + new_size;
    return moved;
}

/* Garbage is collected only if its memory is needed. */
static void reserve(lua_State *lua, size_t bytes)
{
    struct vm *v = vm_of(lua);
    if (v->is_limited && v->used + bytes > v->used_max) {
        vm_charge(lua, v->used / BYTES_PER_STEP);
        lua_gc(lua, LUA_GCCOLLECT, 0);
        if (v->used + bytes > v->used_max) {
            vm_stop(lua, too_much_memory);
        }
    }
}

int vm_call_reserved(lua_State *lua, int function, size_t bytes)
{
    struct vm *v = vm_of(lua);
    bool is_limited = v->is_limited;
    reserve(lua, bytes);
    lua_pushvalue(lua, function);
    lua_insert(lua, -2);
    size_t used = v->used;
    v->is_limited = false;
    int status = lua_pcall(lua, 1, 1, 0);
    v->is_limited = is_limited;
#ifdef HOLDFAST_DEBUG
    hf_assert(v->used <= used + bytes);
#endif
    (void)used;
    if (status != 0) { /* its caller was this function, which has no line */
        luaL_where(lua, 1);
        lua_insert(lua, -2);
        lua_concat(lua, 2);
        return lua_error(lua);
    }
    return 1;
}

static void begin_limits(struct vm *v)
{
    hf_assert(!v->is_limited);
    v->stopped = NULL;
    v->steps = 0;
    v->used_max = v->used + v->limits.memory_bytes;
    v->clock_start_us = 0;
    lua_sethook(v->lua, on_steps, LUA_MASKCOUNT, HOOK_STEPS);
    v->is_limited = true;
}

/* Lua collects garbage incrementally. If there is much, it is collected at once, so that the next
 * run does not pay for it. */
static void end_limits(struct vm *v)
{
    v->is_limited = false;
    lua_settop(v->lua, 0);
    if (v->stopped == NULL && v->used > v->used_clean + LIMIT_SCRIPT_MEMORY / 16) {
        lua_gc(v->lua, LUA_GCCOLLECT, 0);
        v->used_clean = v->used;
    }
}

bool vm_protect(struct vm *v, lua_CFunction work, void *ctx, char *error, size_t error_size)
{
    begin_limits(v);
    int status = lua_cpcall(v->lua, work, ctx);
    if (status != 0) {
        /* lua_tostring would allocate for a number. */
        bool is_text = lua_type(v->lua, -1) == LUA_TSTRING;
        snprintf(error, error_size, "%s", is_text ? lua_tostring(v->lua, -1) : "");
    }
    end_limits(v);
    return status == 0 && v->stopped == NULL;
}

/* ---- the environment of scripts ---- */

static enum vm_shown which_shown(lua_State *lua, int index)
{
    struct vm *v = vm_of(lua);
    const void *table = lua_topointer(lua, index);
    int i = 0;
    while (i < SHOWN_COUNT && v->shown[i] != table) {
        i++;
    }
    return (enum vm_shown)i;
}

bool vm_push_hidden(lua_State *lua, int index)
{
    enum vm_shown which = which_shown(lua, index);
    if (which == SHOWN_COUNT) {
        return false;
    }
    lua_rawgeti(lua, LUA_REGISTRYINDEX, vm_of(lua)->hidden[which]);
    return true;
}

static int refuse_change(lua_State *lua)
{
    return luaL_error(lua, "Attempt to modify a readonly table");
}

static int refuse_unknown(lua_State *lua)
{
    const char *name = lua_type(lua, 2) == LUA_TSTRING ? lua_tostring(lua, 2) : "?";
    return luaL_error(lua, "Script attempted to access nonexistent global variable '%s'", name);
}

void vm_check_writable(lua_State *lua, int index)
{
    if (which_shown(lua, index) != SHOWN_COUNT) {
        vm_raise(lua, "Attempt to modify a readonly table");
    }
}

int vm_raise(lua_State *lua, const char *message)
{
    lua_createtable(lua, 0, 1);
    lua_pushfstring(lua, "ERR %s", message);
    lua_setfield(lua, -2, "err");
    return lua_error(lua);
}

/* Replaces the table on the stack by an empty proxy. */
static void show(lua_State *lua, enum vm_shown which)
{
    struct vm *v = vm_of(lua);
    lua_newtable(lua); /* the proxy */
    lua_newtable(lua); /* its metatable */
    lua_pushvalue(lua, -3);
    lua_setfield(lua, -2, "__index");
    lua_pushcfunction(lua, refuse_change);
    lua_setfield(lua, -2, "__newindex");
    lua_pushboolean(lua, 0);
    lua_setfield(lua, -2, "__metatable");
    lua_setmetatable(lua, -2);
    v->shown[which] = lua_topointer(lua, -1);
    lua_insert(lua, -2);
    v->hidden[which] = luaL_ref(lua, LUA_REGISTRYINDEX);
}

/* Strings find their methods in the hidden table, but scripts cannot reach it through them. */
static void hide_string_metatable(lua_State *lua)
{
    lua_pushliteral(lua, "");
    if (!lua_getmetatable(lua, -1)) {
        lua_newtable(lua);
    }
    lua_rawgeti(lua, LUA_REGISTRYINDEX, vm_of(lua)->hidden[SHOWN_STRING]);
    lua_setfield(lua, -2, "__index");
    lua_pushboolean(lua, 0);
    lua_setfield(lua, -2, "__metatable");
    lua_setmetatable(lua, -2);
    lua_pop(lua, 1);
}

static void open_library(lua_State *lua, const char *name, void (*open)(lua_State *),
                         enum vm_shown which)
{
    open(lua);
    show(lua, which);
    lua_setfield(lua, -2, name);
}

static int build_world(lua_State *lua)
{
    library_open_base(lua);
    open_library(lua, "redis", library_open_redis, SHOWN_REDIS);
    open_library(lua, "string", library_open_string, SHOWN_STRING);
    open_library(lua, "table", library_open_table, SHOWN_TABLE);
    open_library(lua, "math", library_open_math, SHOWN_MATH);
    open_library(lua, "cjson", library_open_cjson, SHOWN_CJSON);
    hide_string_metatable(lua);
    lua_newtable(lua);
    lua_pushcfunction(lua, refuse_unknown);
    lua_setfield(lua, -2, "__index");
    lua_setmetatable(lua, -2);
    lua_pushvalue(lua, -1);
    show(lua, SHOWN_GLOBALS);
    lua_pushvalue(lua, -1);
    lua_setfield(lua, -3, "_G");
    /* Functions are created with these globals: scripts reach nothing else. */
    lua_replace(lua, LUA_GLOBALSINDEX);
    return 0;
}

/* Outside of vm_protect Lua would end the process without a message. */
static int on_panic(lua_State *lua)
{
    hf_panic(__FILE__, __LINE__, "uncaught Lua error");
}

struct vm *vm_new(const struct memory *memory, const struct script_limits *limits)
{
    struct vm *v = memory_alloc(memory, sizeof(*v));
    memset(v, 0, sizeof(*v));
    v->memory = memory;
    v->limits = *limits;
    v->lua = lua_newstate(allocate, v);
    hf_assert(v->lua != NULL);
    lua_atpanic(v->lua, on_panic);
    int failed = lua_cpcall(v->lua, build_world, NULL);
    hf_assert(failed == 0);
    lua_gc(v->lua, LUA_GCCOLLECT, 0);
    v->used_clean = v->used;
    buffer_init(&v->reply, memory, LIMIT_SCRIPT_REPLY);
    return v;
}

void vm_free(struct vm *v)
{
    if (v == NULL) {
        return;
    }
    hf_assert(!v->is_limited);
    lua_close(v->lua);
    hf_assert(v->used == 0);
    buffer_close(&v->reply);
    memory_free(v->memory, v, sizeof(*v));
}
