/* See elect_listen.h. The stream continues at another node if one fails. */
#include "cli/elect_listen.h"

#include <stdio.h>

#include "cli/exits.h"
#include "cli/human.h"
#include "cli/sse.h"
#include "transport/clock.h"

#define TEXT(s) (int)(s).len, (const char *)(s).data

static void print_line(const struct sse_event *e)
{
    struct fault fault;
    struct json_t *tree = json_tree_parse(e->data, &fault);
    bool is_first = strcmp(e->type, "leader") == 0;
    const struct json_t *leader = is_first ? json_tree_get(tree, "leader") : tree;
    struct slice client = json_tree_text(json_tree_get(leader, "client_id"));
    struct slice value = json_tree_text(json_tree_get(leader, "value"));
    char when[HUMAN_TEXT];
    printf("%s  ",
           human_time(json_tree_text(json_tree_get(leader, is_first ? "since" : "at")), when));
    if (client.len == 0) {
        printf("no leader\n");
    } else {
        printf("%.*s leads%s%.*s\n", TEXT(client), value.len > 0 ? ": " : "", TEXT(value));
    }
    json_tree_free(tree);
}

static bool is_leader_event(const struct sse_event *e)
{
    return strcmp(e->type, "leader") == 0 || strcmp(e->type, "leader_changed") == 0 ||
           strcmp(e->type, "proclaimed") == 0;
}

int elect_listen(const struct cli_common *common, const char *name, uint64_t changes)
{
    struct api api;
    struct sse sse;
    struct sse_event event;
    struct buffer target;
    if (!api_init(&api, common)) {
        return EXIT_USAGE;
    }
    buffer_init(&target, memory_system(), API_TARGET - 1);
    buffer_append_text(&target, "/api/v1/elections/");
    http_escape(&target, slice_of(name), true);
    buffer_append_text(&target, "/observe?");
    buffer_append_byte(&target, 0);
    int code = sse_open(&sse, &api, (const char *)buffer_bytes(&target).data, NULL);
    buffer_close(&target);
    if (code != 0) {
        return code;
    }
    for (uint64_t seen = 0; changes == 0 || seen < changes;) {
        enum sse_state state = sse_next(&sse, &event, clock_boot_ms() + 3600000);
        if (state == SSE_FAILED) {
            code = EXIT_UNREACHABLE;
            break;
        }
        if (state != SSE_EVENT || !is_leader_event(&event)) {
            continue;
        }
        seen++;
        if (common->json) {
            printf("{\"id\":\"%s\",\"event\":\"%s\",\"data\":%.*s}\n", event.id, event.type,
                   TEXT(event.data));
        } else {
            print_line(&event);
        }
        if (fflush(stdout) != 0) {
            break; /* stdout is closed */
        }
    }
    sse_close(&sse);
    return code;
}
