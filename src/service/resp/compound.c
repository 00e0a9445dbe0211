/* GETSET, GETDEL and GETEX: a read, and another command of the table on the same key. Both are one
 * run, so nothing comes between. */
#include "service/resp/conn.h"

#include "service/resp/number.h"

/* Keeps the reply of the first command, and forwards an error of either. */
struct first_reply {
    struct keyspace *keyspace;
    const struct key_sink *to;
    bool is_error; /* it was sent */
    bool has_value;
    struct slice value;
};

static void keep_status(void *ctx, const char *text)
{
    (void)ctx;
    (void)text;
}

static void keep_error(void *ctx, const char *code, const char *text)
{
    struct first_reply *r = ctx;
    r->is_error = true;
    r->to->error(r->to->ctx, code, text);
}

static void keep_integer(void *ctx, int64_t value)
{
    (void)ctx;
    (void)value;
}

static void keep_bulk(void *ctx, struct slice bytes)
{
    struct first_reply *r = ctx;
    r->value = bytes;
    r->has_value = keyspace_copy(r->keyspace, &r->value, r->to);
    r->is_error = !r->has_value;
}

static void keep_null(void *ctx)
{
    (void)ctx;
}

static void keep_count(void *ctx, uint32_t count)
{
    (void)ctx;
    (void)count;
}

static struct key_sink sink_of(struct first_reply *r)
{
    return (struct key_sink){r,         keep_status, keep_error, keep_integer,
                             keep_bulk, keep_null,   keep_count, keep_count};
}

/* GET, then `second` unless there is no value; replies with the value. */
static void get_then(struct keyspace *k, struct slice name, const struct slice *second,
                     uint32_t count, const struct key_sink *to)
{
    struct first_reply r = {.keyspace = k, .to = to};
    struct key_sink sink = sink_of(&r);
    const struct slice get[] = {slice_of("GET"), name};
    key_get(k, get, 2, &sink);
    if (r.has_value && count > 0) {
        resp_command_find(second[0])->run(k, second, count, &sink);
    }
    if (r.is_error) {
        return;
    }
    if (r.has_value) {
        to->bulk(to->ctx, r.value);
    } else {
        to->null(to->ctx);
    }
}

void key_getset(struct keyspace *k, const struct slice *args, uint32_t count,
                const struct key_sink *to)
{
    (void)count;
    const struct slice set[] = {slice_of("SET"), args[1], args[2], slice_of("GET")};
    key_set(k, set, 4, to);
}

void key_getdel(struct keyspace *k, const struct slice *args, uint32_t count,
                const struct key_sink *to)
{
    (void)count;
    const struct slice del[] = {slice_of("DEL"), args[1]};
    get_then(k, args[1], del, 2, to);
}

/* GETEX key [EX|PX|EXAT|PXAT time | PERSIST] */
void key_getex(struct keyspace *k, const struct slice *args, uint32_t count,
               const struct key_sink *to)
{
    static const struct {
        const char *option;
        const char *command;
    } times[] = {{"EX", "EXPIRE"}, {"PX", "PEXPIRE"}, {"EXAT", "EXPIREAT"}, {"PXAT", "PEXPIREAT"}};
    struct slice second[] = {slice_of(""), args[1], count > 3 ? args[3] : slice_of("")};
    int64_t number;
    if (count == 2) {
        get_then(k, args[1], NULL, 0, to);
        return;
    }
    if (count == 3 && resp_is_word(args[2], "PERSIST")) {
        second[0] = slice_of("PERSIST");
        get_then(k, args[1], second, 2, to);
        return;
    }
    for (size_t i = 0; count == 4 && i < sizeof(times) / sizeof(times[0]); i++) {
        if (!resp_is_word(args[2], times[i].option)) {
            continue;
        }
        if (!resp_parse_number(args[3], &number)) {
            to->error(to->ctx, "ERR", "value is not an integer or out of range");
        } else if (number <= 0) {
            to->error(to->ctx, "ERR", "invalid expire time in 'getex' command");
        } else {
            second[0] = slice_of(times[i].command);
            get_then(k, args[1], second, 3, to);
        }
        return;
    }
    to->error(to->ctx, "ERR", "syntax error");
}
