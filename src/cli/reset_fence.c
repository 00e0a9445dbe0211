/* `holdfast reset-fence RESOURCE --reason TEXT`: sets the mark that fence checks compare with. */
#include <inttypes.h>
#include <stdio.h>

#include "cli/commands.h"
#include "cli/exits.h"
#include "cli/operate.h"

struct reset_fence_settings {
    struct cli_common common;
    const char *reason;
    const char *actor;
    uint64_t slot;
    uint64_t token;
};

const struct cli_option reset_fence_options[] = {
    {"reason", 'r', CLI_TEXT, offsetof(struct reset_fence_settings, reason), "TEXT",
     "reason, for the audit record; required"},
    {"token", 0, CLI_NUMBER, offsetof(struct reset_fence_settings, token), "TOKEN",
     "lowest token to accept (default: above all tokens issued so far)"},
    {"slot", 0, CLI_NUMBER, offsetof(struct reset_fence_settings, slot), "N",
     "slot of a semaphore (default: 0)"},
    {"actor", 0, CLI_TEXT, offsetof(struct reset_fence_settings, actor), "NAME",
     "name of the operator, for the audit record (default: USER@HOST)"},
    CLI_COMMON_OPTIONS(struct reset_fence_settings),
    CLI_OPTIONS_END,
};

int reset_fence_main(int count, char **arguments)
{
    struct reset_fence_settings o = {.common = CLI_COMMON_DEFAULT};
    struct cli_words words;
    struct api api;
    struct api_answer answer;
    if (!cli_options_read("reset-fence", reset_fence_options, CLI_ANY_ORDER, count, arguments, &o,
                          &words) ||
        !cli_words_check("reset-fence", &words, 1, 1) ||
        !operate_has_reason("reset-fence", o.reason) || !api_init(&api, &o.common)) {
        return EXIT_USAGE;
    }
    struct operate operate = {.name = words.items[0],
                              .reason = o.reason,
                              .actor = o.actor,
                              .slot = o.slot,
                              .token = o.token};
    int code = operate_call(&api, &operate, &answer);
    if (code != 0) {
        return code;
    }
    if (o.common.json) {
        api_print_json(&answer);
    } else {
        printf("%s: the fence check rejects tokens below %" PRIu64 " (before: %" PRIu64 ")%s\n",
               words.items[0], json_tree_u64(json_tree_get(answer.tree, "highest"), 0),
               json_tree_u64(json_tree_get(answer.tree, "previous"), 0),
               o.token == 0 ? "; holders must acquire again" : "");
    }
    api_answer_close(&answer);
    return 0;
}
