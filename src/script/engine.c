/* Caches and runs scripts. See script.h. */
#include <stdio.h>

#include "base/limits.h"
#include "base/list.h"
#include "base/panic.h"
#include "script/shebang.h"
#include "script/vm.h"

enum { BUCKETS = 256 };

struct script {
    struct list bucket; /* scripts whose names begin alike */
    struct list used;   /* the most recently used one is last */
    char name[SCRIPT_NAME_LEN + 1];
    uint8_t *source;
    size_t source_len;
    size_t cost; /* its memory in bytes, compiled code included */
    struct shebang shebang;
    uint32_t holds;
    bool is_cached;
    uint64_t state; /* the Lua state of `function` */
    int function;   /* a reference in the registry */
};

struct script_engine {
    const struct memory *memory;
    struct script_limits limits;
    size_t cache_max;
    size_t cache_bytes;
    uint32_t count;
    struct vm *vm;
    uint64_t state; /* number of states so far; functions of an earlier one are invalid */
    bool is_running;
    uint64_t runs;
    uint64_t stops;
    uint64_t busy_us;
    uint64_t steps;
    struct list buckets[BUCKETS];
    struct list used;
};

struct script_engine *script_engine_new(const struct memory *memory,
                                        const struct script_limits *limits, size_t cache_bytes)
{
    static const struct script_limits usual = {
        .steps = LIMIT_SCRIPT_STEPS,
        .memory_bytes = LIMIT_SCRIPT_MEMORY,
        .cpu_ms = LIMIT_SCRIPT_CPU_MS,
    };
    struct script_engine *e = memory_alloc(memory, sizeof(*e));
    memset(e, 0, sizeof(*e));
    e->memory = memory;
    e->limits = limits == NULL ? usual : *limits;
    e->cache_max = cache_bytes;
    e->vm = vm_new(memory, &e->limits);
    e->state = 1;
    for (int i = 0; i < BUCKETS; i++) {
        list_init(&e->buckets[i]);
    }
    list_init(&e->used);
    return e;
}

void script_engine_free(struct script_engine *e)
{
    if (e == NULL) {
        return;
    }
    script_flush(e);
    vm_free(e->vm);
    memory_free(e->memory, e, sizeof(*e));
}

/* A state in which a script was stopped is not reused. */
static void renew_state(struct script_engine *e)
{
    vm_free(e->vm);
    e->vm = vm_new(e->memory, &e->limits);
    e->state++;
}

/* ---- the cache ---- */

static struct list *bucket_of(const struct script_engine *e, const char *name)
{
    unsigned index = 0;
    for (int i = 0; i < 2; i++) {
        char c = name[i];
        index = index * 16 + (unsigned)(c <= '9' ? c - '0' : c - 'a' + 10);
    }
    return (struct list *)&e->buckets[index % BUCKETS];
}

static struct script *look_up(const struct script_engine *e, const char *name)
{
    struct list *bucket = bucket_of(e, name);
    for (struct list *link = bucket->next; link != bucket; link = link->next) {
        struct script *s = LIST_OBJECT(link, struct script, bucket);
        if (memcmp(s->name, name, SCRIPT_NAME_LEN) == 0) {
            return s;
        }
    }
    return NULL;
}

static void free_script(struct script_engine *e, struct script *s)
{
    if (s->state == e->state) {
        luaL_unref(e->vm->lua, LUA_REGISTRYINDEX, s->function);
    }
    memory_free(e->memory, s->source, s->source_len + 1);
    memory_free(e->memory, s, sizeof(*s));
}

static void leave_cache(struct script_engine *e, struct script *s)
{
    hf_assert(s->is_cached);
    list_remove(&s->bucket);
    list_remove(&s->used);
    s->is_cached = false;
    e->cache_bytes -= s->cost;
    e->count--;
    if (s->holds == 0) {
        free_script(e, s);
    }
}

static void enter_cache(struct script_engine *e, struct script *s)
{
    while (e->cache_bytes + s->cost > e->cache_max && !list_is_empty(&e->used)) {
        leave_cache(e, LIST_OBJECT(e->used.next, struct script, used));
    }
    list_append(bucket_of(e, s->name), &s->bucket);
    list_append(&e->used, &s->used);
    s->is_cached = true;
    e->cache_bytes += s->cost;
    e->count++;
}

/* False when it is not valid. */
static bool read_name(struct slice text, char *name)
{
    if (text.len != SCRIPT_NAME_LEN) {
        return false;
    }
    for (size_t i = 0; i < text.len; i++) {
        uint8_t c = text.data[i];
        if (c >= 'A' && c <= 'F') {
            c = (uint8_t)(c + ('a' - 'A'));
        }
        if ((c < '0' || c > '9') && (c < 'a' || c > 'f')) {
            return false;
        }
        name[i] = (char)c;
    }
    return true;
}

struct script *script_find(struct script_engine *e, struct slice text)
{
    char name[SCRIPT_NAME_LEN];
    struct script *s = read_name(text, name) ? look_up(e, name) : NULL;
    if (s != NULL) {
        list_append(&e->used, &s->used);
    }
    return s;
}

bool script_exists(const struct script_engine *e, struct slice text)
{
    char name[SCRIPT_NAME_LEN];
    return read_name(text, name) && look_up(e, name) != NULL;
}

void script_flush(struct script_engine *e)
{
    while (!list_is_empty(&e->used)) {
        leave_cache(e, LIST_OBJECT(e->used.next, struct script, used));
    }
}

uint32_t script_count(const struct script_engine *e)
{
    return e->count;
}

size_t script_cache_bytes(const struct script_engine *e)
{
    return e->cache_bytes;
}

uint64_t script_runs(const struct script_engine *e)
{
    return e->runs;
}

uint64_t script_stops(const struct script_engine *e)
{
    return e->stops;
}

uint64_t script_busy_us(const struct script_engine *e)
{
    return e->busy_us;
}

uint64_t script_steps(const struct script_engine *e)
{
    return e->steps;
}

const char *script_name(const struct script *s)
{
    return s->name;
}

void script_hold(struct script *s)
{
    s->holds++;
}

void script_release(struct script_engine *e, struct script *s)
{
    hf_assert(s->holds > 0);
    s->holds--;
    if (s->holds == 0 && !s->is_cached) {
        free_script(e, s);
    }
}

/* ---- compiling ---- */

/* Line numbers count from the first line, so a shebang line is blanked, not removed. */
static int compile_source(lua_State *lua)
{
    struct script *s = lua_touserdata(lua, 1);
    const char *text = (const char *)s->source + s->shebang.len;
    /* Bytecode is refused: Lua does not verify it. */
    if (text[0] == LUA_SIGNATURE[0]) {
        return luaL_error(lua, "user_script:1: unexpected symbol near 'char(27)'");
    }
    if (luaL_loadbuffer(lua, text, s->source_len - s->shebang.len, "@user_script") != 0) {
        return lua_error(lua);
    }
    s->function = luaL_ref(lua, LUA_REGISTRYINDEX);
    return 0;
}

/* Also compiles again for a newer state. */
static bool compile(struct script_engine *e, struct script *s, struct resp_writer *out)
{
    char error[LIMIT_RESP_ERROR];
    if (s->state == e->state) {
        return true;
    }
    size_t before = e->vm->used;
    uint64_t start_us = vm_clock_us();
    bool is_compiled = vm_protect(e->vm, compile_source, s, error, sizeof(error));
    e->busy_us += vm_clock_us() - start_us;
    if (!is_compiled) {
        const char *stopped = e->vm->stopped;
        resp_error(out, "ERR", "Error compiling script (new function): %s",
                   stopped != NULL ? stopped : error);
        if (stopped != NULL) {
            renew_state(e);
        }
        return false;
    }
    if (s->cost == 0) {
        size_t grown = e->vm->used > before ? e->vm->used - before : 0;
        s->cost = sizeof(*s) + s->source_len + 1 + grown;
    }
    s->state = e->state;
    return true;
}

struct script *script_load(struct script_engine *e, struct slice source, struct resp_writer *out)
{
    char name[SCRIPT_NAME_LEN + 1];
    struct shebang shebang;
    script_digest(source, name);
    struct script *s = look_up(e, name);
    if (s != NULL) {
        list_append(&e->used, &s->used);
        return s;
    }
    if (source.len > LIMIT_RESP_BULK) {
        resp_error(out, "ERR", "a script has at most %u bytes", LIMIT_RESP_BULK);
        return NULL;
    }
    if (!shebang_read(source, &shebang, out)) {
        return NULL;
    }
    s = memory_alloc(e->memory, sizeof(*s));
    memset(s, 0, sizeof(*s));
    list_init(&s->bucket);
    list_init(&s->used);
    memcpy(s->name, name, sizeof(s->name));
    s->shebang = shebang;
    s->source_len = source.len;
    s->source = memory_alloc(e->memory, source.len + 1);
    if (source.len > 0) {
        memcpy(s->source, source.data, source.len);
    }
    s->source[source.len] = '\0';
    if (!compile(e, s, out)) {
        free_script(e, s);
        return NULL;
    }
    enter_cache(e, s);
    return s;
}

/* ---- running ---- */

struct run {
    struct script *script;
    const struct script_call *call;
    struct resp_writer *out;
    bool has_failed;
};

static void push_list(lua_State *lua, const struct slice *at, uint32_t count)
{
    lua_createtable(lua, (int)count, 0);
    for (uint32_t i = 0; i < count; i++) {
        lua_pushlstring(lua, (const char *)at[i].data, at[i].len);
        lua_rawseti(lua, -2, (int)i + 1);
    }
}

static void set_arguments(lua_State *lua, const struct script_call *call)
{
    lua_rawgeti(lua, LUA_REGISTRYINDEX, vm_of(lua)->hidden[SHOWN_GLOBALS]);
    push_list(lua, call->keys, call->key_count);
    lua_setfield(lua, -2, "KEYS");
    push_list(lua, call->arguments, call->argument_count);
    lua_setfield(lua, -2, "ARGV");
    lua_pop(lua, 1);
}

/* Where an error is raised: adds the line, as Redis does: "MESSAGE script: SHA1, on
 * @user_script:LINE." */
static int describe_error(lua_State *lua)
{
    if (vm_of(lua)->stopped != NULL) {
        return 1;
    }
    const char *prefix = "ERR ";
    if (lua_type(lua, 1) == LUA_TTABLE) {
        lua_pushliteral(lua, "err");
        lua_rawget(lua, 1);
        lua_replace(lua, 1);
        prefix = "";
    }
    if (!lua_isstring(lua, 1)) {
        lua_pushliteral(lua, "ERR an error without words");
        lua_replace(lua, 1);
        prefix = "";
    }
    lua_Debug where = {0};
    bool is_known = lua_getstack(lua, 1, &where) && lua_getinfo(lua, "Sl", &where);
    if (is_known && where.what[0] == 'C') {
        is_known = lua_getstack(lua, 2, &where) && lua_getinfo(lua, "Sl", &where);
    }
    const char *name = lua_tostring(lua, lua_upvalueindex(1));
    if (is_known && where.what[0] != 'C') {
        lua_pushfstring(lua, "%s%s script: %s, on @user_script:%d.", prefix, lua_tostring(lua, 1),
                        name, where.currentline);
    } else {
        lua_pushfstring(lua, "%s%s script: %s", prefix, lua_tostring(lua, 1), name);
    }
    return 1;
}

static int run_script(lua_State *lua)
{
    struct run *r = lua_touserdata(lua, 1);
    lua_settop(lua, 0);
    set_arguments(lua, r->call);
    lua_pushlstring(lua, r->script->name, SCRIPT_NAME_LEN);
    lua_pushcclosure(lua, describe_error, 1);
    lua_rawgeti(lua, LUA_REGISTRYINDEX, r->script->function);
    int status = lua_pcall(lua, 0, 1, 1);
    if (status == 0) {
        convert_write(lua, r->out);
        return 0;
    }
    r->has_failed = true;
    if (status == LUA_ERRRUN && lua_type(lua, -1) == LUA_TSTRING) {
        size_t len;
        const char *text = lua_tolstring(lua, -1, &len);
        convert_error(r->out, slice_make(text, len));
    } else {
        /* The caller reports exhausted memory. */
        convert_error(r->out, slice_of("ERR an error within an error: calls nested too deep?"));
    }
    return 0;
}

static void write_stopped(struct script_engine *e, struct resp_writer *out)
{
    resp_error(out, "LIMIT",
               "the script was stopped: %s (at most %llu steps, %zu bytes, %u ms); nothing was "
               "changed",
               e->vm->stopped, (unsigned long long)e->limits.steps, e->limits.memory_bytes,
               e->limits.cpu_ms);
}

bool script_run(struct script_engine *e, struct script *s, const struct script_call *call,
                struct resp_writer *out)
{
    hf_assert(!e->is_running);
    if (!compile(e, s, out)) {
        return false;
    }
    size_t before = buffer_len(out->out);
    struct run r = {.script = s, .call = call, .out = out};
    struct vm *v = e->vm;
    v->call = call;
    v->is_read_only = call->is_read_only || s->shebang.is_read_only;
    v->protocol = 2;
    v->random = 0;
    char error[LIMIT_RESP_ERROR];
    e->is_running = true;
    e->runs++;
    bool is_done = vm_protect(v, run_script, &r, error, sizeof(error));
    e->is_running = false;
    e->busy_us += vm_busy_us(v);
    e->steps += v->steps;
    v->call = NULL;
    buffer_release(&v->reply);
    if (is_done && !out->out->overflowed) {
        return !r.has_failed;
    }
    buffer_truncate(out->out, before);
    if (v->stopped != NULL) {
        e->stops++;
        write_stopped(e, out);
        renew_state(e);
    } else if (is_done) {
        resp_error(out, "ERR", "the answer of the script is too large; nothing was changed");
    } else {
        resp_error(out, "ERR", "%s", error);
    }
    return false;
}
