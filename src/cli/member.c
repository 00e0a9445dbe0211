/* `holdfast member list|add|remove|promote|demote|transfer`. */
#include <inttypes.h>
#include <stdlib.h>

#include "cli/commands.h"
#include "cli/exits.h"
#include "cli/member_wait.h"
#include "cli/members.h"
#include "cli/say.h"
#include "server/config_value.h"

struct member_settings {
    struct cli_common common;
    bool no_wait;
    uint64_t wait_ms;
    uint64_t from;
};

const struct flag member_options[] = {
    {"wait", 'w', FLAG_DURATION(struct member_settings, wait_ms), "DURATION",
     "time to wait for the change to take effect and for a new node to catch up (default: 60s)"},
    {"no-wait", 0, FLAG_SWITCH(struct member_settings, no_wait), NULL,
     "start the change and do not wait for it"},
    {"from", 0, FLAG_NUMBER(struct member_settings, from), "ID",
     "transfer: do nothing unless this node is the leader; for a script that stops a node"},
    CLI_COMMON_OPTIONS(struct member_settings),
    FLAGS_END,
};

struct verb {
    const char *name;
    int words; /* minimum of arguments */
    int more;  /* maximum */
    const char *usage;
    enum member_goal goal;
};

static const struct verb verbs[] = {
    {"list", 0, 0, "list", MEMBER_ANY},
    {"add", 2, 2, "add ID HOST:PORT   (its peer address; start the node with `serve --join`)",
     MEMBER_CAUGHT_UP},
    {"remove", 1, 1, "remove ID", MEMBER_GONE},
    {"promote", 1, 1, "promote ID", MEMBER_VOTES},
    {"demote", 1, 1, "demote ID", MEMBER_LEARNS},
    {"transfer", 0, 1, "transfer [ID]", MEMBER_LEADS},
};

static const struct verb *find_verb(const struct flag_words *words)
{
    for (size_t i = 0; words->count > 0 && i < sizeof(verbs) / sizeof(verbs[0]); i++) {
        const struct verb *v = &verbs[i];
        if (strcmp(words->items[0], v->name) != 0) {
            continue;
        }
        if (words->count - 1 >= v->words && words->count - 1 <= v->more) {
            return v;
        }
        cli_say("usage: holdfast member %s", v->usage);
        return NULL;
    }
    cli_say("member: the action must be one of list, add, remove, promote, demote, transfer");
    return NULL;
}

/* From the leader: only it reports their lag. */
static int list(struct api *api, bool json)
{
    struct api_answer answer;
    int code = members_look(api, &answer);
    if (code != 0) {
        return code;
    }
    if (json) {
        api_print_json(&answer);
    } else {
        members_print(json_tree_get(answer.tree, "members"));
    }
    api_answer_close(&answer);
    return 0;
}

static int begin(struct api *api, const struct verb *v, uint64_t id, const char *address,
                 struct api_answer *answer)
{
    char target[128];
    char actor[256];
    struct buffer body;
    struct json_writer w;
    api_actor(actor, sizeof(actor));
    buffer_init(&body, memory_system(), 4096);
    (void)snprintf(target, sizeof(target), "/api/v1/members/%" PRIu64 "%s%s", id,
                   v->goal == MEMBER_GONE ? "" : "/", v->goal == MEMBER_GONE ? "" : v->name);
    json_writer_init(&w, &body);
    json_write_open(&w, '{');
    json_put_text(&w, "actor_id", actor);
    if (v->goal == MEMBER_CAUGHT_UP) {
        (void)snprintf(target, sizeof(target), "/api/v1/members");
        json_put_u64(&w, "id", id);
        json_put_text(&w, "address", address);
    } else if (v->goal == MEMBER_LEADS) {
        (void)snprintf(target, sizeof(target), "/api/v1/members/transfer");
        if (id != 0) {
            json_put_u64(&w, "to", id);
        }
    }
    json_write_close(&w);
    struct cli_request request = {v->goal == MEMBER_GONE ? "DELETE" : "POST", target,
                                  buffer_bytes(&body), API_ONCE};
    int code = api_call(api, &request, answer);
    buffer_close(&body);
    return code;
}

static int change(struct api *api, const struct member_settings *o, const struct verb *v,
                  const struct flag_words *words)
{
    uint64_t id = 0;
    if (words->count > 1 && (!value_number(words->items[1], &id) || id == 0)) {
        cli_say("member %s: \"%s\" is not the id of a node", v->name, words->items[1]);
        return EXIT_USAGE;
    }
    if (o->from != 0 && v->goal != MEMBER_LEADS) {
        cli_say("member %s: --from belongs to `member transfer`", v->name);
        return EXIT_USAGE;
    }
    struct member_wait wait = {.api = api, .goal = v->goal, .id = id};
    int code = member_wait_begin(&wait);
    struct api_answer answer;
    if (code == 0 && o->from != 0 && wait.old_leader != o->from) {
        cli_say("node %" PRIu64 " is not the leader; nothing to transfer", o->from);
        return 0;
    }
    if (code == 0) {
        code = begin(api, v, id, words->count > 2 ? words->items[2] : "", &answer);
    }
    if (code != 0) {
        return code;
    }
    if (o->common.json) {
        api_print_json(&answer);
        (void)fflush(stdout);
    }
    api_answer_close(&answer);
    return o->no_wait ? 0 : member_wait_end(&wait, o->wait_ms, o->common.json);
}

int member_main(int count, char **arguments)
{
    struct member_settings o = {.common = CLI_COMMON_DEFAULT, .wait_ms = 60000};
    struct flag_words words;
    struct api api;
    if (!flags_read("member", member_options, FLAGS_ANY_ORDER, count, arguments, &o, &words)) {
        return EXIT_USAGE;
    }
    const struct verb *v = find_verb(&words);
    if (v == NULL || !api_init(&api, &o.common)) {
        return EXIT_USAGE;
    }
    return v->goal == MEMBER_ANY ? list(&api, o.common.json) : change(&api, &o, v, &words);
}
