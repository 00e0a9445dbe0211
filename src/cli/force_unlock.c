/* `holdfast force-unlock NAME --reason TEXT`: takes a lock away from all its holders. */
#include <stdio.h>

#include "cli/commands.h"
#include "cli/exits.h"
#include "cli/human.h"
#include "cli/operate.h"

struct force_unlock_settings {
    struct cli_common common;
    const char *reason;
    const char *actor;
    bool now;
};

const struct cli_option force_unlock_options[] = {
    {"reason", 'r', CLI_TEXT, offsetof(struct force_unlock_settings, reason), "TEXT",
     "reason, for the audit record; required"},
    {"now", 0, CLI_FLAG, offsetof(struct force_unlock_settings, now), NULL,
     "skip the lock-delay: another client can acquire it while the holder still runs"},
    {"actor", 0, CLI_TEXT, offsetof(struct force_unlock_settings, actor), "NAME",
     "name of the operator, for the audit record (default: USER@HOST)"},
    CLI_COMMON_OPTIONS(struct force_unlock_settings),
    CLI_OPTIONS_END,
};

int force_unlock_main(int count, char **arguments)
{
    struct force_unlock_settings o = {.common = CLI_COMMON_DEFAULT};
    struct cli_words words;
    struct api api;
    struct api_answer answer;
    if (!cli_options_read("force-unlock", force_unlock_options, CLI_ANY_ORDER, count, arguments, &o,
                          &words) ||
        !cli_words_check("force-unlock", &words, 1, 1) ||
        !operate_has_reason("force-unlock", o.reason) || !api_init(&api, &o.common)) {
        return EXIT_USAGE;
    }
    struct operate operate = {.name = words.items[0],
                              .verb = "force-unlock",
                              .reason = o.reason,
                              .actor = o.actor,
                              .now = o.now};
    int code = operate_call(&api, &operate, &answer);
    if (code != 0) {
        return code;
    }
    if (o.common.json) {
        api_print_json(&answer);
    } else {
        unsigned holders = (unsigned)json_tree_u64(json_tree_get(answer.tree, "holders"), 0);
        printf("%s: %u holder%s removed%s\n", words.items[0], holders, holders == 1 ? "" : "s",
               json_tree_true(json_tree_get(answer.tree, "more"))
                   ? "; there are more, run the command again"
                   : "");
    }
    api_answer_close(&answer);
    return 0;
}
