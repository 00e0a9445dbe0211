/* CLIENT: names, lists and ends connections. A caller finds the connections of its own principal; with
 * `read` on the cluster it lists all, with `operate` on the cluster it ends all. */
#include <inttypes.h>
#include <stdio.h>

#include "base/text.h"
#include "service/resp/conn.h"
#include "service/resp/number.h"

/* No spaces, as in Redis: CLIENT LIST prints it as one word. */
static bool is_name(struct slice text)
{
    for (size_t i = 0; i < text.len; i++) {
        if (text.data[i] < '!') {
            return false;
        }
    }
    return text.len <= RESP_NAME_MAX && text_is_plain(text);
}

static void copy(char to[RESP_NAME_MAX + 1], struct slice text)
{
    memcpy(to, text.data, text.len);
    to[text.len] = '\0';
}

bool resp_set_name(struct resp_conn *conn, struct slice name)
{
    if (!is_name(name)) {
        resp_conn_error(conn, "ERR",
                        "Client names cannot contain spaces, newlines or special characters, and "
                        "have at most %d bytes",
                        RESP_NAME_MAX);
        return false;
    }
    copy(conn->name, name);
    resp_conn_name(conn);
    return true;
}

static int shown(struct slice text)
{
    return text.len < 64 ? (int)text.len : 64;
}

/* ---- which connections ---- */

enum client_type { TYPE_ANY, TYPE_NORMAL, TYPE_PUBSUB, TYPE_NONE };

struct client_filter {
    struct slice address; /* empty: any */
    struct slice local;
    struct slice user;
    enum client_type type;
    const struct slice *ids; /* numbers */
    uint32_t id_count;       /* 0: any */
    bool skips_caller;
};

static struct slice user_of(const struct resp_conn *c, uint8_t text[PRINCIPAL_TEXT])
{
    struct slice user =
        policy_principal_text(service_policy(c->service), c->caller.id.principal, text);
    return user.len > 0 ? user : slice_of("default");
}

static bool is_among(uint64_t id, const struct slice *ids, uint32_t count)
{
    int64_t number;
    for (uint32_t i = 0; i < count; i++) {
        if (resp_parse_number(ids[i], &number) && (uint64_t)number == id) {
            return true;
        }
    }
    return false;
}

static bool passes(const struct client_filter *f, const struct resp_conn *caller,
                   const struct resp_conn *c)
{
    uint8_t text[PRINCIPAL_TEXT];
    bool is_pubsub = resp_is_subscribed(c);
    return (f->address.len == 0 || slice_equal(f->address, slice_of(c->address))) &&
           (f->local.len == 0 || slice_equal(f->local, slice_of(c->local))) &&
           (f->user.len == 0 || slice_equal(f->user, user_of(c, text))) &&
           (f->type == TYPE_ANY || f->type == (is_pubsub ? TYPE_PUBSUB : TYPE_NORMAL)) &&
           (f->id_count == 0 || is_among(c->id, f->ids, f->id_count)) &&
           !(f->skips_caller && c == caller);
}

/* Connections to replicas do not exist here. False: the error was sent. */
static bool read_type(struct resp_conn *conn, struct slice word, enum client_type *out)
{
    if (resp_is_word(word, "NORMAL")) {
        *out = TYPE_NORMAL;
    } else if (resp_is_word(word, "PUBSUB")) {
        *out = TYPE_PUBSUB;
    } else if (resp_is_word(word, "MASTER") || resp_is_word(word, "REPLICA") ||
               resp_is_word(word, "SLAVE")) {
        *out = TYPE_NONE;
    } else {
        resp_conn_error(conn, "ERR", "Unknown client type '%.*s'", shown(word),
                        (const char *)word.data);
        return false;
    }
    return true;
}

/* ---- LIST and INFO ---- */

static const char *flags_of(const struct resp_conn *c, char out[8])
{
    size_t len = 0;
    const struct {
        bool is_set;
        char letter;
    } flags[] = {{resp_is_subscribed(c), 'P'},
                 {c->is_multi, 'x'},
                 {resp_acquire_waits(c) || resp_wait_is_on(c), 'b'},
                 {c->is_closing, 'c'}};
    for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
        if (flags[i].is_set) {
            out[len++] = flags[i].letter;
        }
    }
    memcpy(out + len, len == 0 ? "N" : "", 2 - (len > 0));
    return out;
}

/* The fields of Redis 7.0, and the two of 7.2 about the library. */
static void describe(const struct resp_conn *c, struct buffer *out)
{
    uint64_t now_ms = service_boot_ms(c->service);
    uint8_t text[PRINCIPAL_TEXT];
    char flags[8];
    struct slice user = user_of(c, text);
    buffer_printf(
        out,
        "id=%" PRIu64 " addr=%s laddr=%s fd=%d name=%s age=%" PRIu64 " idle=%" PRIu64
        " flags=%s db=%" PRIu32 " sub=%" PRIu32 " psub=%" PRIu32 " ssub=%" PRIu32 " multi=%" PRId64,
        c->id, c->address, c->local, c->options.descriptor, c->name, (now_ms - c->born_ms) / 1000,
        (now_ms - c->received_ms) / 1000, flags_of(c, flags), c->database,
        c->subscription_count[SUBSCRIBED_CHANNEL], c->subscription_count[SUBSCRIBED_PATTERN],
        c->subscription_count[SUBSCRIBED_SHARD], c->is_multi ? (int64_t)c->multi_count : -1);
    buffer_printf(
        out,
        " qbuf=%zu qbuf-free=0 argv-mem=0 multi-mem=%zu rbs=0 rbp=0 obl=%zu oll=0 omem=%zu "
        "tot-mem=%zu events=r cmd=%s user=%.*s redir=-1 resp=%d lib-name=%s lib-ver=%s\n",
        buffer_len(&c->in), buffer_len(&c->multi), buffer_len(&c->out), buffer_len(&c->out),
        sizeof(*c) + c->account.used, c->last != NULL ? c->last->name : "NULL", (int)user.len,
        (const char *)user.data, c->protocol, c->lib_name, c->lib_ver);
}

static bool may_see(const struct resp_conn *conn, const struct resp_conn *other)
{
    return resp_sees_node(conn) || caller_is(other->caller.id, conn->caller.id);
}

static void put_text(struct resp_conn *conn, const struct client_filter *filter)
{
    struct list *conns = &resp_shared(conn)->conns;
    struct resp_writer w = resp_conn_writer(conn);
    struct buffer text;
    buffer_init(&text, conn->service->memory, RESP_REPLY_MAX);
    for (struct list *link = conns->next; link != conns; link = link->next) {
        const struct resp_conn *other = LIST_OBJECT(link, struct resp_conn, link);
        if (!other->is_broken_off && may_see(conn, other) && passes(filter, conn, other)) {
            describe(other, &text);
        }
    }
    resp_bulk(&w, buffer_bytes(&text)); /* as much as fits */
    buffer_close(&text);
}

static void client_list(struct resp_conn *conn, const struct slice *args, uint32_t count)
{
    struct client_filter filter = {.type = TYPE_ANY};
    if (count == 4 && resp_is_word(args[2], "TYPE")) {
        if (!read_type(conn, args[3], &filter.type)) {
            return;
        }
    } else if (count > 3 && resp_is_word(args[2], "ID")) {
        int64_t number;
        filter.ids = args + 3;
        filter.id_count = count - 3;
        for (uint32_t i = 0; i < filter.id_count; i++) {
            if (!resp_parse_number(filter.ids[i], &number)) {
                resp_conn_error(conn, "ERR", "Invalid client ID");
                return;
            }
        }
    } else if (count != 2) {
        resp_conn_error(conn, "ERR", "syntax error");
        return;
    }
    put_text(conn, &filter);
}

static void client_info(struct resp_conn *conn, const struct slice *args, uint32_t count)
{
    (void)args;
    (void)count;
    struct resp_writer w = resp_conn_writer(conn);
    struct buffer text;
    buffer_init(&text, conn->service->memory, 4096);
    describe(conn, &text);
    resp_bulk(&w, buffer_bytes(&text));
    buffer_close(&text);
}

/* ---- KILL and UNBLOCK ---- */

static bool may_end(const struct resp_conn *conn, const struct resp_conn *other)
{
    uint32_t principal = conn->caller.id.principal;
    return caller_is(other->caller.id, conn->caller.id) || principal == 0 ||
           policy_allows_cluster(service_policy(conn->service), principal, RIGHT_OPERATE);
}

/* The caller's own connection closes after the reply. Returns their number. */
static uint32_t kill_all(struct resp_conn *conn, const struct client_filter *filter)
{
    uint32_t count = 0;
    struct list *conns = &resp_shared(conn)->conns;
    for (struct list *link = conns->next; link != conns; link = link->next) {
        struct resp_conn *other = LIST_OBJECT(link, struct resp_conn, link);
        if (other->is_closing || !may_end(conn, other) || !passes(filter, conn, other)) {
            continue;
        }
        count++;
        if (other == conn) {
            resp_conn_shut(conn);
        } else {
            resp_conn_break_off(other);
        }
    }
    return count;
}

/* One option and its value. False: the error was sent. */
static bool read_kill_option(struct resp_conn *conn, const struct slice *at,
                             struct client_filter *out)
{
    int64_t number;
    bool is_yes = resp_is_word(at[1], "YES");
    if (resp_is_word(at[0], "ID")) {
        if (!resp_parse_number(at[1], &number) || number < 1) {
            resp_conn_error(conn, "ERR", "client-id should be greater than 0");
            return false;
        }
        out->ids = &at[1];
        out->id_count = 1;
    } else if (resp_is_word(at[0], "TYPE")) {
        return read_type(conn, at[1], &out->type);
    } else if (resp_is_word(at[0], "ADDR")) {
        out->address = at[1];
    } else if (resp_is_word(at[0], "LADDR")) {
        out->local = at[1];
    } else if (resp_is_word(at[0], "USER")) {
        if (conn->service->auth == NULL && !slice_equal(at[1], slice_of("default"))) {
            resp_conn_error(conn, "ERR", "No such user '%.*s'", shown(at[1]),
                            (const char *)at[1].data);
            return false;
        }
        out->user = at[1];
    } else if (resp_is_word(at[0], "SKIPME") && (is_yes || resp_is_word(at[1], "NO"))) {
        out->skips_caller = is_yes;
    } else {
        resp_conn_error(conn, "ERR", "syntax error");
        return false;
    }
    return true;
}

static void client_kill(struct resp_conn *conn, const struct slice *args, uint32_t count)
{
    struct resp_writer w = resp_conn_writer(conn);
    struct client_filter filter = {.skips_caller = count > 3};
    if (count == 3) { /* the old form */
        filter.address = args[2];
        if (args[2].len > 0 && kill_all(conn, &filter) > 0) {
            resp_simple(&w, "OK");
        } else {
            resp_conn_error(conn, "ERR", "No such client");
        }
        return;
    }
    for (uint32_t i = 2; i < count; i += 2) {
        if (i + 1 == count) {
            resp_conn_error(conn, "ERR", "syntax error");
            return;
        }
        if (!read_kill_option(conn, args + i, &filter)) {
            return;
        }
    }
    resp_integer(&w, kill_all(conn, &filter));
}

static void client_unblock(struct resp_conn *conn, const struct slice *args, uint32_t count)
{
    struct resp_writer w = resp_conn_writer(conn);
    int64_t id;
    bool is_error = count == 4 && resp_is_word(args[3], "ERROR");
    if (count > 4 || (count == 4 && !is_error && !resp_is_word(args[3], "TIMEOUT"))) {
        resp_conn_error(conn, "ERR", "CLIENT UNBLOCK reason should be TIMEOUT or ERROR");
        return;
    }
    if (!resp_parse_number(args[2], &id)) {
        resp_conn_error(conn, "ERR", "value is not an integer or out of range");
        return;
    }
    struct list *conns = &resp_shared(conn)->conns;
    for (struct list *link = conns->next; link != conns; link = link->next) {
        struct resp_conn *other = LIST_OBJECT(link, struct resp_conn, link);
        if (other->id == (uint64_t)id && may_end(conn, other)) {
            resp_integer(&w, resp_acquire_unblock(other, is_error) ||
                                 resp_wait_unblock(other, is_error));
            return;
        }
    }
    resp_integer(&w, 0);
}

/* ---- the connection itself ---- */

static void client_id(struct resp_conn *conn, const struct slice *args, uint32_t count)
{
    (void)args;
    (void)count;
    struct resp_writer w = resp_conn_writer(conn);
    resp_integer(&w, (int64_t)conn->id);
}

static void client_getname(struct resp_conn *conn, const struct slice *args, uint32_t count)
{
    (void)args;
    (void)count;
    struct resp_writer w = resp_conn_writer(conn);
    if (conn->name[0] == '\0') {
        resp_null(&w);
    } else {
        resp_text(&w, conn->name);
    }
}

static void client_setname(struct resp_conn *conn, const struct slice *args, uint32_t count)
{
    (void)count;
    struct resp_writer w = resp_conn_writer(conn);
    if (resp_set_name(conn, args[2])) {
        resp_simple(&w, "OK");
    }
}

static void client_setinfo(struct resp_conn *conn, const struct slice *args, uint32_t count)
{
    (void)count;
    struct resp_writer w = resp_conn_writer(conn);
    bool is_lib_name = resp_is_word(args[2], "LIB-NAME");
    if (!is_lib_name && !resp_is_word(args[2], "LIB-VER")) {
        resp_conn_error(conn, "ERR", "Unrecognized option '%.*s'", shown(args[2]),
                        (const char *)args[2].data);
    } else if (!is_name(args[3])) {
        resp_conn_error(conn, "ERR",
                        "lib-name and lib-ver cannot contain spaces, newlines or special "
                        "characters");
    } else {
        copy(is_lib_name ? conn->lib_name : conn->lib_ver, args[3]);
        resp_simple(&w, "OK");
    }
}

/* NO-EVICT and NO-TOUCH: no connection is evicted here, and keys have no time of their last use. */
static void client_on_or_off(struct resp_conn *conn, const struct slice *args, uint32_t count)
{
    (void)count;
    struct resp_writer w = resp_conn_writer(conn);
    if (resp_is_word(args[2], "ON") || resp_is_word(args[2], "OFF")) {
        resp_simple(&w, "OK");
    } else {
        resp_conn_error(conn, "ERR", "syntax error");
    }
}

/* There is no CLIENT TRACKING. */
static void client_getredir(struct resp_conn *conn, const struct slice *args, uint32_t count)
{
    (void)args;
    (void)count;
    struct resp_writer w = resp_conn_writer(conn);
    resp_integer(&w, -1);
}

static void client_reply(struct resp_conn *conn, const struct slice *args, uint32_t count)
{
    (void)count;
    struct resp_writer w = resp_conn_writer(conn);
    if (resp_is_word(args[2], "ON")) {
        conn->replies = RESP_REPLIES_ON;
        resp_simple(&w, "OK");
    } else if (resp_is_word(args[2], "OFF")) {
        conn->replies = RESP_REPLIES_OFF;
    } else if (resp_is_word(args[2], "SKIP")) {
        conn->replies =
            conn->replies == RESP_REPLIES_OFF ? RESP_REPLIES_OFF : RESP_REPLIES_SKIP_NEXT;
    } else {
        resp_conn_error(conn, "ERR", "syntax error");
    }
}

static void client_help(struct resp_conn *conn, const struct slice *args, uint32_t count)
{
    (void)args;
    (void)count;
    static const char *const lines[] = {
        "CLIENT <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
        "GETNAME, SETNAME <name>, SETINFO <LIB-NAME|LIB-VER> <text>",
        "    The name of this connection, and its library.",
        "ID, INFO, LIST [TYPE <NORMAL|PUBSUB>|ID <id> ...]",
        "    Describes connections of this node.",
        "KILL <addr>, KILL <option> <value> ...",
        "    Ends connections: ADDR, LADDR, TYPE, USER, SKIPME <YES|NO>, ID.",
        "NO-EVICT <ON|OFF>, NO-TOUCH <ON|OFF>, GETREDIR",
        "    Accepted; without effect.",
        "REPLY <ON|OFF|SKIP>",
        "    Whether this connection gets replies.",
        "UNBLOCK <id> [TIMEOUT|ERROR]",
        "    Ends a wait of HF.ACQUIRE.",
        "HELP",
        "    Prints this help.",
    };
    struct resp_writer w = resp_conn_writer(conn);
    resp_array(&w, sizeof(lines) / sizeof(lines[0]));
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        resp_simple(&w, lines[i]);
    }
}

/* words: including CLIENT and the subcommand; negative: at least that many. */
static const struct {
    const char *word;
    const char *name;
    int words;
    void (*run)(struct resp_conn *conn, const struct slice *args, uint32_t count);
} subcommands[] = {
    {"GETNAME", "getname", 2, client_getname},
    {"GETREDIR", "getredir", 2, client_getredir},
    {"HELP", "help", 2, client_help},
    {"ID", "id", 2, client_id},
    {"INFO", "info", 2, client_info},
    {"KILL", "kill", -3, client_kill},
    {"LIST", "list", -2, client_list},
    {"NO-EVICT", "no-evict", 3, client_on_or_off},
    {"NO-TOUCH", "no-touch", 3, client_on_or_off},
    {"REPLY", "reply", 3, client_reply},
    {"SETINFO", "setinfo", 4, client_setinfo},
    {"SETNAME", "setname", 3, client_setname},
    {"UNBLOCK", "unblock", -3, client_unblock},
};

void resp_client(struct resp_conn *conn, const struct slice *args, uint32_t count)
{
    for (size_t i = 0; i < sizeof(subcommands) / sizeof(subcommands[0]); i++) {
        int words = subcommands[i].words;
        if (!resp_is_word(args[1], subcommands[i].word)) {
            continue;
        }
        if (words < 0 ? count < (uint32_t)-words : count != (uint32_t)words) {
            resp_conn_error(conn, "ERR", "wrong number of arguments for 'client|%s' command",
                            subcommands[i].name);
        } else {
            subcommands[i].run(conn, args, count);
        }
        return;
    }
    resp_conn_error(conn, "ERR", "unknown subcommand '%.*s'. Try CLIENT HELP.", shown(args[1]),
                    (const char *)args[1].data);
}
