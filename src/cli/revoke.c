/* `holdfast revoke NAME --reason TEXT`: notifies the holders, and takes the lock away at the
 * deadline. */
#include <stdio.h>

#include "cli/commands.h"
#include "cli/exits.h"
#include "cli/human.h"
#include "cli/operate.h"

struct revoke_settings {
    struct cli_common common;
    const char *reason;
    const char *actor;
    uint64_t deadline_ms;
};

const struct cli_option revoke_options[] = {
    {"reason", 'r', CLI_TEXT, offsetof(struct revoke_settings, reason), "TEXT",
     "reason, for the holders and the audit record; required"},
    {"deadline", 'd', CLI_DURATION, offsetof(struct revoke_settings, deadline_ms), "DURATION",
     "time until the lock is taken away (default: 30s)"},
    {"actor", 0, CLI_TEXT, offsetof(struct revoke_settings, actor), "NAME",
     "name of the operator, for the audit record (default: USER@HOST)"},
    CLI_COMMON_OPTIONS(struct revoke_settings),
    CLI_OPTIONS_END,
};

int revoke_main(int count, char **arguments)
{
    struct revoke_settings o = {.common = CLI_COMMON_DEFAULT, .deadline_ms = 30000};
    struct cli_words words;
    struct api api;
    struct api_answer answer;
    if (!cli_options_read("revoke", revoke_options, CLI_ANY_ORDER, count, arguments, &o, &words) ||
        !cli_words_check("revoke", &words, 1, 1) || !operate_has_reason("revoke", o.reason) ||
        !api_init(&api, &o.common)) {
        return EXIT_USAGE;
    }
    struct operate operate = {.name = words.items[0],
                              .verb = "revoke",
                              .reason = o.reason,
                              .actor = o.actor,
                              .has_deadline = true,
                              .deadline_ms = o.deadline_ms};
    int code = operate_call(&api, &operate, &answer);
    if (code != 0) {
        return code;
    }
    if (o.common.json) {
        api_print_json(&answer);
    } else {
        char text[HUMAN_TEXT];
        unsigned holders = (unsigned)json_tree_u64(json_tree_get(answer.tree, "holders"), 0);
        uint64_t left_ms = json_tree_u64(json_tree_get(answer.tree, "revoked_in_ms"), 0);
        printf("%s: %u holder%s notified; the lock is taken away in %s\n", words.items[0], holders,
               holders == 1 ? "" : "s", human_span(left_ms, text));
    }
    api_answer_close(&answer);
    return 0;
}
