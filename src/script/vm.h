/* One Lua state with its limits. Private to src/script/.
 *
 * Every call into Lua that may fail runs within vm_protect. So no error, not even exhausted memory,
 * leaves this module.
 *
 * A script cannot catch a stop. `stopped` is the reason, and every function that catches errors
 * rethrows them while it is set. The state is discarded after that run, so nothing relies on Lua's
 * consistency after exhausted memory. */
#ifndef HOLDFAST_SCRIPT_VM_H
#define HOLDFAST_SCRIPT_VM_H

#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>

#include "script/script.h"

/* Scripts must not change them: each is an empty proxy of the hidden original. */
enum vm_shown {
    SHOWN_GLOBALS,
    SHOWN_REDIS,
    SHOWN_STRING,
    SHOWN_TABLE,
    SHOWN_MATH,
    SHOWN_CJSON,
    SHOWN_COUNT,
};

struct vm {
    const struct memory *memory;
    struct script_limits limits;
    lua_State *lua;
    size_t used;       /* bytes of the state */
    size_t used_clean; /* ... after the last full collection */
    const void *shown[SHOWN_COUNT];
    int hidden[SHOWN_COUNT]; /* references to the originals */

    /* Of the current run. */
    bool is_limited;
    const char *stopped; /* why the run was stopped; NULL: it was not */
    uint64_t steps;
    size_t used_max;
    uint64_t cpu_start_us;
    uint64_t clock_start_us;
    const struct script_call *call;
    bool is_read_only;
    int protocol; /* of command replies to the script: redis.setresp */
    uint64_t random;
    struct buffer reply; /* of one command */
    struct slice arguments[LIMIT_RESP_ARGUMENTS];
};

struct vm *vm_new(const struct memory *memory, const struct script_limits *limits);
void vm_free(struct vm *v);

static inline struct vm *vm_of(lua_State *lua)
{
    void *ctx;
    lua_getallocf(lua, &ctx);
    return ctx;
}

/* Calls `work` with `ctx` as its only argument, a light userdata, within the limits. False when it
 * failed: the message, if there was memory for one, is in `error`. The stack is empty
 * afterwards. */
bool vm_protect(struct vm *v, lua_CFunction work, void *ctx, char *error, size_t error_size);

/* Of the run since the first check of the limits; 0: there was none. */
uint64_t vm_busy_us(const struct vm *v);
uint64_t vm_clock_us(void);

/* Work of C functions; does not return when the limit is exceeded. */
void vm_charge(lua_State *lua, uint64_t steps);
uint64_t vm_steps_left(const struct vm *v);
int vm_stop(lua_State *lua, const char *why);
/* Calls the foreign function at `function` with the argument at the top and returns its result. It
 * allocates at most `bytes`, which are checked before; within it no limit raises an error. */
int vm_call_reserved(lua_State *lua, int function, size_t bytes);

/* The original of the table at `index`; false if that is no proxy. */
bool vm_push_hidden(lua_State *lua, int index);
/* Raises an error if scripts must not change the table at `index`. */
void vm_check_writable(lua_State *lua, int index);

/* {err = "ERR ..."}, the form in which commands fail. */
int vm_raise(lua_State *lua, const char *message);

/* Each pushes its table. */
void library_open_base(lua_State *lua);
void library_open_redis(lua_State *lua);
void library_open_string(lua_State *lua);
void library_open_table(lua_State *lua);
void library_open_math(lua_State *lua);
void library_open_cjson(lua_State *lua);

/* Our own functions of `string`. */
extern const luaL_Reg library_string[];
void library_push(lua_State *lua, const luaL_Reg *functions);
/* Copies functions from the table below the top, which is Lua's own, into the table at the top. */
void library_take(lua_State *lua, const char *const *names);

/* A command's reply, written by the host. */
void convert_push(lua_State *lua, struct slice reply);
/* Pops the value at the top of the stack. */
void convert_write(lua_State *lua, struct resp_writer *out);
/* Line breaks become spaces. */
void convert_error(struct resp_writer *out, struct slice text);

/* SCRIPT_NAME_LEN digits and a NUL. */
void script_digest(struct slice text, char *name);

#endif
