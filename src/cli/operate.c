/* `holdfast force-unlock`, `revoke` and `reset-fence`: operator commands with name, reason and
 * actor, for the audit record. */
#include <inttypes.h>
#include <stdio.h>

#include "cli/api.h"
#include "cli/commands.h"
#include "cli/exits.h"
#include "cli/human.h"
#include "cli/say.h"

#define NO_DEADLINE UINT64_MAX

struct operate {
    struct cli_common common;
    const char *command; /* "revoke"; also the end of the path */
    const char *name;    /* lock or resource */
    const char *reason;
    const char *actor; /* NULL: USER@HOST */
    bool now;
    bool resets_fence;
    uint64_t deadline_ms;
    uint64_t if_token; /* 0: every holder */
    uint64_t slot;     /* of the fence */
    uint64_t token;    /* new mark; 0: above all issued tokens */
};

#define REASON_OPTION(help)                                            \
    {                                                                  \
        "reason", 'r', FLAG_TEXT(struct operate, reason), "TEXT", help \
    }
#define IF_TOKEN_OPTION                                                      \
    {                                                                        \
        "if-token", 0, FLAG_NUMBER(struct operate, if_token), "TOKEN",       \
            "only the holder with this token, as `holdfast show` printed it" \
    }
#define ACTOR_OPTION                                                          \
    {                                                                         \
        "actor", 0, FLAG_TEXT(struct operate, actor), "NAME",                 \
            "name of the operator, for the audit record (default: USER@HOST)" \
    }

const struct flag force_unlock_options[] = {
    REASON_OPTION("reason, for the audit record; required"),
    {"now", 0, FLAG_SWITCH(struct operate, now), NULL,
     "skip the lock-delay: another client can acquire it while the holder still runs"},
    IF_TOKEN_OPTION,
    ACTOR_OPTION,
    CLI_COMMON_OPTIONS(struct operate),
    FLAGS_END,
};

const struct flag revoke_options[] = {
    REASON_OPTION("reason, for the holders and the audit record; required"),
    {"deadline", 'd', FLAG_DURATION(struct operate, deadline_ms), "DURATION",
     "time until the lock is taken away (default: 30s)"},
    IF_TOKEN_OPTION,
    ACTOR_OPTION,
    CLI_COMMON_OPTIONS(struct operate),
    FLAGS_END,
};

const struct flag reset_fence_options[] = {
    REASON_OPTION("reason, for the audit record; required"),
    {"token", 0, FLAG_NUMBER(struct operate, token), "TOKEN",
     "lowest token to accept (default: above all tokens issued so far)"},
    {"slot", 0, FLAG_NUMBER(struct operate, slot), "N", "slot of a semaphore (default: 0)"},
    ACTOR_OPTION,
    CLI_COMMON_OPTIONS(struct operate),
    FLAGS_END,
};

static void write_body(const struct operate *o, struct buffer *body)
{
    char actor[256];
    char id[33];
    struct json_writer w;
    api_actor(actor, sizeof(actor));
    api_request_id(id);
    json_writer_init(&w, body);
    json_write_open(&w, '{');
    json_put_text(&w, "actor_id", o->actor != NULL ? o->actor : actor);
    json_put_text(&w, "reason", o->reason);
    json_put_text(&w, "request_id", id);
    if (o->now) {
        json_put_bool(&w, "now", true);
    }
    if (o->if_token != 0) {
        json_put_u64(&w, "if_token", o->if_token);
    }
    if (o->deadline_ms != NO_DEADLINE) {
        json_put_u64(&w, "deadline_ms", o->deadline_ms);
    }
    if (o->resets_fence) {
        json_put_text(&w, "resource", o->name);
        json_put_u64(&w, "slot", o->slot);
        if (o->token != 0) {
            json_put_u64(&w, "fencing_token", o->token);
        }
    }
    json_write_close(&w);
}

static void write_target(const struct operate *o, struct buffer *target)
{
    if (o->resets_fence) {
        buffer_append_text(target, "/api/v1/fence/reset");
    } else {
        buffer_append_text(target, "/api/v1/locks/");
        http_escape(target, slice_of(o->name), true);
        buffer_append_byte(target, '/');
        buffer_append_text(target, o->command);
    }
    buffer_append_byte(target, 0);
}

static int call(struct api *api, const struct operate *o, struct api_answer *answer)
{
    struct buffer target;
    struct buffer body;
    buffer_init(&target, memory_system(), API_TARGET);
    buffer_init(&body, memory_system(), 64 << 10);
    write_target(o, &target);
    write_body(o, &body);
    struct cli_request request = {"POST", (const char *)buffer_bytes(&target).data,
                                  buffer_bytes(&body), API_REPEAT};
    int code = api_call(api, &request, answer);
    buffer_close(&target);
    buffer_close(&body);
    return code;
}

typedef void (*operate_print_fn)(const struct operate *o, const struct json_t *answer);

/* One request; returns the exit code. */
static int run(struct operate *o, const struct flag *options, operate_print_fn print, int count,
               char **arguments)
{
    struct flag_words words;
    struct api api;
    struct api_answer answer;
    if (!flags_read(o->command, options, FLAGS_ANY_ORDER, count, arguments, o, &words) ||
        !cli_words_check(o->command, &words, 1, 1)) {
        return EXIT_USAGE;
    }
    if (o->reason == NULL || o->reason[0] == '\0') {
        cli_say("%s: --reason TEXT is missing; the audit record stores it", o->command);
        return EXIT_USAGE;
    }
    if (!api_init(&api, &o->common)) {
        return EXIT_USAGE;
    }
    o->name = words.items[0];
    int code = call(&api, o, &answer);
    if (code != 0) {
        return code;
    }
    if (o->common.json) {
        api_print_json(&answer);
    } else {
        print(o, answer.tree);
    }
    api_answer_close(&answer);
    return 0;
}

static uint64_t number_of(const struct json_t *answer, const char *key)
{
    return json_tree_u64(json_tree_get(answer, key), 0);
}

static void print_unlocked(const struct operate *o, const struct json_t *answer)
{
    uint64_t holders = number_of(answer, "holders");
    bool has_more = json_tree_true(json_tree_get(answer, "more"));
    printf("%s: %" PRIu64 " holder%s removed%s\n", o->name, holders, holders == 1 ? "" : "s",
           has_more ? "; there are more, run the command again" : "");
}

static void print_revoked(const struct operate *o, const struct json_t *answer)
{
    char text[HUMAN_TEXT];
    uint64_t holders = number_of(answer, "holders");
    printf("%s: %" PRIu64 " holder%s notified; the lock is taken away in %s\n", o->name, holders,
           holders == 1 ? "" : "s", human_span(number_of(answer, "revoked_in_ms"), text));
}

static void print_fence(const struct operate *o, const struct json_t *answer)
{
    printf("%s: the fence check rejects tokens below %" PRIu64 " (before: %" PRIu64 ")%s\n",
           o->name, number_of(answer, "highest"), number_of(answer, "previous"),
           o->token == 0 ? "; holders must acquire again" : "");
}

int force_unlock_main(int count, char **arguments)
{
    struct operate o = {
        .common = CLI_COMMON_DEFAULT, .command = "force-unlock", .deadline_ms = NO_DEADLINE};
    return run(&o, force_unlock_options, print_unlocked, count, arguments);
}

int revoke_main(int count, char **arguments)
{
    struct operate o = {.common = CLI_COMMON_DEFAULT, .command = "revoke", .deadline_ms = 30000};
    return run(&o, revoke_options, print_revoked, count, arguments);
}

int reset_fence_main(int count, char **arguments)
{
    struct operate o = {.common = CLI_COMMON_DEFAULT,
                        .command = "reset-fence",
                        .resets_fence = true,
                        .deadline_ms = NO_DEADLINE};
    return run(&o, reset_fence_options, print_fence, count, arguments);
}
