/* See members.h. */
#include "cli/members.h"

#include <inttypes.h>

#include "cli/columns.h"

enum {
    LEADER_MS = 1000, /* timeout of the leader's view, which is optional */
    STATE_MIN_MS = 200,
};

const struct json_t *members_find(const struct json_t *members, uint64_t id)
{
    for (size_t i = 0; i < json_tree_count(members); i++) {
        const struct json_t *row = json_tree_at(members, i);
        if (json_tree_u64(json_tree_get(row, "id"), 0) == id) {
            return row;
        }
    }
    return NULL;
}

int members_look(struct api *api, struct api_answer *answer)
{
    int code = api_get(api, "/api/v1/cluster", answer);
    if (code != 0) {
        return code;
    }
    uint64_t leader = json_tree_u64(json_tree_get(answer->tree, "leader"), 0);
    uint64_t node = json_tree_u64(json_tree_get(answer->tree, "node"), 0);
    const struct json_t *row = members_find(json_tree_get(answer->tree, "members"), leader);
    struct slice address = json_tree_text(json_tree_get(row, "client_address"));
    struct api_answer better;
    struct api to = {.count = 1, .timeout_ms = LEADER_MS, .is_quiet = true};
    if (leader != node && address.len > 0 && address.len < HTTP_ENDPOINT) {
        memcpy(to.endpoints[0], address.data, address.len);
        if (api_get(&to, "/api/v1/cluster", &better) == 0) {
            api_answer_close(answer);
            *answer = better;
        }
    }
    return 0;
}

enum members_state members_state(struct api *api)
{
    enum members_state state = MEMBERS_UNREACHED;
    uint64_t each_ms = api->timeout_ms / api->count;
    struct api one = {.count = 1, .is_quiet = true};
    one.timeout_ms = each_ms > STATE_MIN_MS ? each_ms : STATE_MIN_MS;
    for (unsigned i = 0; i < api->count && state != MEMBERS_SERVING; i++) {
        struct api_answer answer;
        memcpy(one.endpoints[0], api->endpoints[i], sizeof(one.endpoints[0]));
        one.has_said[0] = false;
        if (api_get(&one, "/api/v1/cluster", &answer) == 0) {
            bool serves = json_tree_true(json_tree_get(answer.tree, "serving"));
            state = serves ? MEMBERS_SERVING : MEMBERS_IDLE;
            api_answer_close(&answer);
        }
        memcpy(api->problems[i], one.problems[0], sizeof(one.problems[0]));
    }
    return state;
}

void members_print(const struct json_t *members)
{
    struct columns t;
    columns_init(&t, 6);
    static const char *const heading[] = {"ID", "ROLE", "HEALTH", "BEHIND", "CLIENTS", "PEERS"};
    for (unsigned i = 0; i < 6; i++) {
        columns_text(&t, heading[i]);
    }
    for (size_t i = 0; i < json_tree_count(members); i++) {
        const struct json_t *row = json_tree_at(members, i);
        bool is_healthy = json_tree_true(json_tree_get(row, "healthy"));
        const struct json_t *lag = json_tree_get(row, "lag");
        struct slice client = json_tree_text(json_tree_get(row, "client_address"));
        columns_printf(&t, "%" PRIu64, json_tree_u64(json_tree_get(row, "id"), 0));
        columns_slice(&t, json_tree_text(json_tree_get(row, "role")));
        columns_text(&t, is_healthy ? "healthy" : "unreachable");
        columns_colour(&t, is_healthy ? COLOUR_GREEN : COLOUR_RED);
        if (lag != NULL) {
            columns_printf(&t, "%" PRIu64, json_tree_u64(lag, 0));
        } else {
            columns_text(&t, "-");
        }
        columns_slice(&t, client.len > 0 ? client : slice_of("-"));
        columns_slice(&t, json_tree_text(json_tree_get(row, "peer_address")));
    }
    columns_print(&t, stdout);
    columns_close(&t);
}
