/* See member_wait.h. The service answers when the change has started; the list of members shows
 * when it is in effect. */
#include "cli/member_wait.h"

#include <inttypes.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "cli/exits.h"
#include "cli/members.h"
#include "cli/say.h"
#include "server/progress.h"
#include "transport/clock.h"

enum { POLL_MS = 200 };

/* Adds the other members: the node in use may be removed or fail. */
static void learn_endpoints(struct member_wait *w, const struct json_t *members)
{
    struct api *api = w->api;
    for (size_t i = 0; i < json_tree_count(members); i++) {
        const struct json_t *row = json_tree_at(members, i);
        struct slice address = json_tree_text(json_tree_get(row, "client_address"));
        bool is_known = address.len == 0 || address.len >= HTTP_ENDPOINT ||
                        json_tree_u64(json_tree_get(row, "id"), 0) == w->id;
        for (unsigned j = 0; j < api->count; j++) {
            is_known = is_known || slice_equal(address, slice_of(api->endpoints[j]));
        }
        if (!is_known && api->count < API_ENDPOINTS) {
            (void)snprintf(api->endpoints[api->count++], HTTP_ENDPOINT, "%.*s", (int)address.len,
                           (const char *)address.data);
        }
    }
}

int member_wait_begin(struct member_wait *w)
{
    struct api_answer answer;
    int code = members_look(w->api, &answer);
    if (code == 0) {
        w->old_leader = json_tree_u64(json_tree_get(answer.tree, "leader"), 0);
        learn_endpoints(w, json_tree_get(answer.tree, "members"));
        api_answer_close(&answer);
    }
    return code;
}

/* Changes the endpoint: a removed node gets no further updates. */
static void leave_removed_node(const struct member_wait *w, const struct json_t *tree)
{
    if (w->goal == MEMBER_GONE && json_tree_u64(json_tree_get(tree, "node"), 0) == w->id) {
        w->api->current = (w->api->current + 1) % w->api->count;
    }
}

static bool is_reached(const struct member_wait *w, const struct json_t *tree)
{
    const struct json_t *row = members_find(json_tree_get(tree, "members"), w->id);
    bool votes = json_tree_true(json_tree_get(row, "voter"));
    uint64_t leader = json_tree_u64(json_tree_get(tree, "leader"), 0);
    if (w->goal != MEMBER_LEADS && json_tree_true(json_tree_get(tree, "members_changing"))) {
        return false; /* not committed: a change of leader could undo it */
    }
    switch (w->goal) {
    case MEMBER_CAUGHT_UP:
        return row != NULL && json_tree_true(json_tree_get(row, "healthy")) &&
               json_tree_u64(json_tree_get(row, "lag"), UINT64_MAX) == 0;
    case MEMBER_GONE:
        return row == NULL;
    case MEMBER_VOTES:
        return votes;
    case MEMBER_LEARNS:
        return row != NULL && !votes;
    case MEMBER_LEADS:
        return leader != 0 && (w->id != 0 ? leader == w->id : leader != w->old_leader);
    case MEMBER_ANY:
        break;
    }
    return true;
}

struct shown {
    uint64_t most; /* the largest number of entries behind, so that there is a percentage */
    char line[96]; /* the last one, not on a terminal */
};

/* Not on a terminal: a line per change. */
static void print_change(struct shown *shown, const char *line)
{
    if (isatty(STDERR_FILENO) != 1 && strcmp(line, shown->line) != 0) {
        fprintf(stderr, "%s\n", line);
        (void)snprintf(shown->line, sizeof(shown->line), "%s", line);
    }
}

static void show_progress(const struct member_wait *w, const struct json_t *tree,
                          struct shown *shown)
{
    char name[PROGRESS_NAME];
    char line[96];
    const struct json_t *row = members_find(json_tree_get(tree, "members"), w->id);
    const struct json_t *lag = json_tree_get(row, "lag");
    const char *state = "catching up";
    if (w->goal != MEMBER_CAUGHT_UP) {
        return;
    }
    if (row == NULL || !json_tree_true(json_tree_get(row, "healthy")) || lag == NULL) {
        state = row == NULL ? "being added" : "not reachable yet";
        (void)snprintf(line, sizeof(line), "node %" PRIu64 ": %s", w->id, state);
    } else {
        uint64_t behind = json_tree_u64(lag, 0);
        shown->most = behind > shown->most ? behind : shown->most;
        progress_update(shown->most - behind, shown->most);
        (void)snprintf(line, sizeof(line), "node %" PRIu64 ": %" PRIu64 " entries behind", w->id,
                       behind);
    }
    print_change(shown, line);
    (void)snprintf(name, sizeof(name), "node %" PRIu64 " %s", w->id, state);
    progress_rename(name);
}

static void print_result(const struct member_wait *w, const struct json_t *tree)
{
    uint64_t leader = json_tree_u64(json_tree_get(tree, "leader"), 0);
    switch (w->goal) {
    case MEMBER_CAUGHT_UP:
        printf("node %" PRIu64 " has caught up as a learner; `holdfast member promote %" PRIu64
               "` makes it a voter\n",
               w->id, w->id);
        break;
    case MEMBER_GONE:
        printf("node %" PRIu64 " is removed; its id is never used again\n", w->id);
        break;
    case MEMBER_VOTES:
        printf("node %" PRIu64 " is a voter\n", w->id);
        break;
    case MEMBER_LEARNS:
        printf("node %" PRIu64 " is a learner\n", w->id);
        break;
    case MEMBER_LEADS:
        printf("node %" PRIu64 " is the leader\n", leader);
        break;
    case MEMBER_ANY:
        break;
    }
}

int member_wait_end(struct member_wait *w, uint64_t wait_ms, bool is_quiet)
{
    int64_t deadline_ms = clock_boot_ms() + (int64_t)wait_ms;
    struct shown shown = {.most = 0};
    progress_begin("waiting for the change of members", PROGRESS_COUNT, "entries", is_quiet);
    for (;;) {
        struct api_answer answer;
        int code = members_look(w->api, &answer);
        if (code != 0) {
            progress_end();
            return code;
        }
        bool is_done = is_reached(w, answer.tree);
        leave_removed_node(w, answer.tree);
        show_progress(w, answer.tree, &shown);
        if (is_done) {
            progress_end();
        }
        if (is_done && !is_quiet) {
            print_result(w, answer.tree);
        }
        api_answer_close(&answer);
        if (is_done) {
            return 0;
        }
        if (clock_boot_ms() >= deadline_ms) {
            cli_say("the change has started and is not in effect after %" PRIu64 " ms%s; "
                    "`holdfast status` shows its progress",
                    wait_ms,
                    w->goal == MEMBER_CAUGHT_UP ? ": is the node running, with `serve --join`?"
                                                : "");
            return EXIT_FAILED;
        }
        struct timespec pause = {0, POLL_MS * 1000000L};
        (void)nanosleep(&pause, NULL);
    }
}
