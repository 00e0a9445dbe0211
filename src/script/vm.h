/* One Lua state with its limits, and what the files of this room share. Private to src/script/.
 *
 * Every call into Lua that may fail happens within vm_protect; so an error, memory that ran out
 * among them, never leaves this room.
 *
 * What stops a script cannot be caught by it. `stopped` says why, every function that catches
 * errors throws them on while it is set, and the state is thrown away after that run: Lua promises
 * to be in order after memory ran out, but nobody has to rely on it. */
#ifndef HOLDFAST_SCRIPT_VM_H
#define HOLDFAST_SCRIPT_VM_H

#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>

#include "script/script.h"

/* Tables that scripts see and must not change. Each is empty, with the true one behind it. */
enum vm_shown {
    SHOWN_GLOBALS,
    SHOWN_REDIS,
    SHOWN_STRING,
    SHOWN_TABLE,
    SHOWN_MATH,
    SHOWN_COUNT,
};

struct vm {
    const struct memory *memory;
    struct script_limits limits;
    lua_State *lua;
    size_t used;       /* bytes that the state takes */
    size_t used_clean; /* ... when it was collected last */
    const void *shown[SHOWN_COUNT];
    int hidden[SHOWN_COUNT]; /* references to the true ones */

    /* Of the run under way. */
    bool is_limited;
    const char *stopped; /* why no further step is taken; NULL while all is well */
    uint64_t steps;
    size_t used_max;
    uint64_t cpu_start_us;
    uint64_t clock_start_us;
    const struct script_call *call;
    bool is_read_only;
    int protocol; /* of what commands answer to the script: redis.setresp */
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
 * failed: the message, if there is room for one, is in `error`. The stack is empty afterwards. */
bool vm_protect(struct vm *v, lua_CFunction work, void *ctx, char *error, size_t error_size);

/* How long the run has taken since the limits were first looked at; 0: it was too short for that.
 */
uint64_t vm_busy_us(const struct vm *v);
uint64_t vm_clock_us(void);

/* Counts work that C does for a script; does not return when it was too much. */
void vm_charge(lua_State *lua, uint64_t steps);
/* The steps that are left. */
uint64_t vm_steps_left(const struct vm *v);
/* Ends the run. */
int vm_stop(lua_State *lua, const char *why);

/* The table behind the one at `index` if that is one of those shown, pushed; else false. */
bool vm_push_hidden(lua_State *lua, int index);
/* Raises an error if the table at `index` is one that scripts must not change. */
void vm_check_writable(lua_State *lua, int index);

/* Raises {err = "ERR ..."}, the form in which commands fail. */
int vm_raise(lua_State *lua, const char *message);

/* The libraries: each leaves its table on the stack. */
void library_open_base(lua_State *lua);
void library_open_redis(lua_State *lua);
void library_open_string(lua_State *lua);
void library_open_table(lua_State *lua);
void library_open_math(lua_State *lua);

/* Those of `string` that are our own. */
extern const luaL_Reg library_string[];
/* A table of these functions, pushed. */
void library_push(lua_State *lua, const luaL_Reg *functions);
/* Copies functions of the table below the top, which is Lua's own, into the table at the top. */
void library_take(lua_State *lua, const char *const *names);

/* Pushes a reply that the host wrote, of a command, as Lua sees it. */
void convert_push(lua_State *lua, struct slice reply);
/* Writes the value at the top of the stack as the script's answer, and takes it away. */
void convert_write(lua_State *lua, struct resp_writer *out);
/* "-TEXT", with line breaks turned into blanks. */
void convert_error(struct resp_writer *out, struct slice text);

/* `name` gets SCRIPT_NAME_LEN digits and a NUL. */
void script_digest(struct slice text, char *name);

#endif
