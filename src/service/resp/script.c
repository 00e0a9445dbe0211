/* EVAL, EVALSHA, SCRIPT, executed by src/script/. redis.call is a command over the run's keyspace:
 * reads and changes become one `transact`, and a conflict runs the script again (transact.c).
 *
 * Only the node that received a script stores it. Others answer EVALSHA with NOSCRIPT; the client
 * then sends the text. */
#include "service/resp/conn.h"

#include "script/script.h"
#include "service/resp/number.h"

static struct script_engine *scripts(struct service *s)
{
    if (s->resp->scripts == NULL) {
        s->resp->scripts = script_engine_new(s->memory, NULL, LIMIT_SCRIPT_CACHE_BYTES);
    }
    return s->resp->scripts;
}

void resp_script_close(struct service *s)
{
    script_engine_free(s->resp->scripts);
}

struct resp_script_work resp_script_work(const struct service *s)
{
    const struct script_engine *engine = s->resp->scripts;
    return engine == NULL ? (struct resp_script_work){0}
                          : (struct resp_script_work){script_busy_us(engine), script_steps(engine)};
}

bool resp_script_turn_is_over(const struct service *s, struct resp_script_work before)
{
    struct resp_script_work now = resp_script_work(s);
    return now.busy_us - before.busy_us > LIMIT_SCRIPT_TURN_US ||
           now.steps - before.steps >= LIMIT_SCRIPT_TURN_STEPS;
}

void resp_script_stats(const struct service *s, struct service_stats *out)
{
    const struct script_engine *engine = s->resp->scripts;
    out->resp_scripts = engine == NULL ? 0 : script_runs(engine);
    out->resp_stopped = engine == NULL ? 0 : script_stops(engine);
}

struct resp_script_cache resp_script_cache(const struct service *s)
{
    const struct script_engine *engine = s->resp->scripts;
    return engine == NULL
               ? (struct resp_script_cache){0}
               : (struct resp_script_cache){script_count(engine), script_cache_bytes(engine)};
}

static void call_command(void *ctx, const struct slice *args, uint32_t count, bool is_read_only,
                         struct resp_writer *out)
{
    struct key_sink sink = resp_sink(out);
    const struct resp_command *command = resp_command_find(args[0]);
    if (is_read_only && command != NULL && command->kind == RESP_CHANGE) {
        resp_error(out, "ERR", "Write commands are not allowed from read-only scripts.");
        return;
    }
    keyspace_call(ctx, args, count, &sink);
}

/* "numkeys key... arg..." from the third word on. False: the error was sent. */
static bool read_call(const struct slice *args, uint32_t count, struct script_call *call,
                      const struct key_sink *to)
{
    int64_t keys;
    if (!resp_parse_number(args[2], &keys)) {
        to->error(to->ctx, "ERR", "value is not an integer or out of range");
    } else if (keys > count - 3) {
        to->error(to->ctx, "ERR", "Number of keys can't be greater than number of args");
    } else if (keys < 0) {
        to->error(to->ctx, "ERR", "Number of keys can't be negative");
    } else {
        call->keys = args + 3;
        call->key_count = (uint32_t)keys;
        call->arguments = args + 3 + keys;
        call->argument_count = count - 3 - (uint32_t)keys;
        return true;
    }
    return false;
}

/* State before the script; in MULTI other commands may precede it. */
struct before {
    uint32_t count;
    uint32_t message_count;
    struct key *keys;
};

static bool save(struct keyspace *k, struct before *before, const struct key_sink *to)
{
    *before = (struct before){k->count, k->message_count, NULL};
    if (k->count == 0) {
        return true;
    }
    before->keys = bump_take(keyspace_arena(k), k->count * sizeof(k->keys[0]));
    if (before->keys == NULL) {
        to->error(to->ctx, "ERR", "the transaction takes too much memory");
        return false;
    }
    memcpy(before->keys, k->keys, k->count * sizeof(k->keys[0]));
    return true;
}

/* Keys that the failed script read are still checked: they may have caused the error. */
static void restore(struct keyspace *k, const struct before *before)
{
    keyspace_cancel(k);
    k->message_count = before->message_count;
    for (uint32_t i = 0; i < k->count; i++) {
        struct key *key = &k->keys[i];
        if (i < before->count) {
            *key = before->keys[i];
        } else {
            key->value = key->seen.value;
            key->number = key->seen.number;
            key->deadline_ms = key->seen.deadline_ms;
        }
    }
}

/* EVAL, EVALSHA and their _RO variants. Only clients call them: the sink is a connection's. */
void key_eval(struct keyspace *k, const struct slice *args, uint32_t count,
              const struct key_sink *to)
{
    struct script_engine *engine = scripts(keyspace_service(k));
    struct resp_writer *out = resp_sink_writer(to);
    struct script_call call = {.host = {call_command, k}};
    bool is_by_name = resp_is_word(args[0], "EVALSHA") || resp_is_word(args[0], "EVALSHA_RO");
    call.is_read_only = resp_is_word(args[0], "EVAL_RO") || resp_is_word(args[0], "EVALSHA_RO");
    bool may_be_known = !is_by_name || args[1].len == SCRIPT_NAME_LEN;
    if (may_be_known && !read_call(args, count, &call, to)) {
        return;
    }
    struct script *script =
        is_by_name ? script_find(engine, args[1]) : script_load(engine, args[1], out);
    if (script == NULL) {
        if (is_by_name) {
            to->error(to->ctx, "NOSCRIPT", "No matching script. Please use EVAL.");
        }
        return; /* it does not compile; the error was sent */
    }
    struct before before;
    if (!save(k, &before, to)) {
        return;
    }
    keyspace_enter_script(k);
    if (!script_run(engine, script, &call, out)) {
        restore(k, &before);
    }
}

static void script_help(struct resp_conn *conn)
{
    static const char *const lines[] = {
        "SCRIPT <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
        "EXISTS <sha1> [<sha1> ...]",
        "    Reports for each script whether this node has it.",
        "FLUSH [ASYNC|SYNC]",
        "    Deletes all scripts of this node.",
        "KILL",
        "    Refused: the limits of a script end it.",
        "LOAD <script>",
        "    Stores the script on this node.",
        "HELP",
        "    Prints this help.",
    };
    struct resp_writer w = resp_conn_writer(conn);
    resp_array(&w, sizeof(lines) / sizeof(lines[0]));
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        resp_simple(&w, lines[i]);
    }
}

static void script_load_command(struct resp_conn *conn, struct slice source)
{
    struct resp_writer w = resp_conn_writer(conn);
    struct script *script = script_load(scripts(conn->service), source, &w);
    if (script != NULL) {
        resp_text(&w, script_name(script));
    }
}

static void script_flush_command(struct resp_conn *conn, const struct slice *args, uint32_t count)
{
    struct resp_writer w = resp_conn_writer(conn);
    if (count == 3 && !resp_is_word(args[2], "SYNC") && !resp_is_word(args[2], "ASYNC")) {
        resp_conn_error(conn, "ERR", "SCRIPT FLUSH only support SYNC|ASYNC option");
        return;
    }
    if (conn->caller.id.principal != 0 &&
        !policy_allows_cluster(service_policy(conn->service), conn->caller.id.principal,
                               RIGHT_ADMIN)) {
        resp_simple(&w, "OK"); /* the scripts of this node are shared by all tenants: kept */
        return;
    }
    script_flush(scripts(conn->service));
    resp_simple(&w, "OK");
}

static void wrong_count(struct resp_conn *conn, const char *what)
{
    resp_conn_error(conn, "ERR", "wrong number of arguments for 'script|%s' command", what);
}

void resp_script(struct resp_conn *conn, const struct slice *args, uint32_t count)
{
    struct resp_writer w = resp_conn_writer(conn);
    if (resp_is_word(args[1], "LOAD")) {
        if (count == 3) {
            script_load_command(conn, args[2]);
        } else {
            wrong_count(conn, "load");
        }
    } else if (resp_is_word(args[1], "EXISTS")) {
        if (count == 2) {
            wrong_count(conn, "exists");
            return;
        }
        resp_array(&w, count - 2);
        for (uint32_t i = 2; i < count; i++) {
            resp_integer(&w, script_exists(scripts(conn->service), args[i]));
        }
    } else if (resp_is_word(args[1], "FLUSH")) {
        if (count <= 3) {
            script_flush_command(conn, args, count);
        } else {
            wrong_count(conn, "flush");
        }
    } else if (resp_is_word(args[1], "KILL") && count == 2) {
        resp_conn_error(conn, "NOTBUSY", "No scripts in execution right now.");
    } else if (resp_is_word(args[1], "HELP") && count == 2) {
        script_help(conn);
    } else {
        resp_conn_error(conn, "ERR", "unknown subcommand '%.*s'. Try SCRIPT HELP.",
                        (int)(args[1].len < 64 ? args[1].len : 64), (const char *)args[1].data);
    }
}
