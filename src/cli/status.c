/* `holdfast status`: leader, members, whether the cluster serves. */
#include <inttypes.h>

#include "cli/api.h"
#include "cli/columns.h"
#include "cli/commands.h"
#include "cli/exits.h"
#include "cli/human.h"
#include "cli/members.h"
#include "cli/say.h"

struct status_settings {
    struct cli_common common;
};

const struct flag status_options[] = {
    CLI_COMMON_OPTIONS(struct status_settings),
    FLAGS_END,
};

/* Bytes that count against state-max; not from older nodes. */
static void print_state(const struct json_t *state)
{
    const double mib = 1 << 20;
    uint64_t bytes = json_tree_u64(json_tree_get(state, "bytes"), 0);
    uint64_t max = json_tree_u64(json_tree_get(state, "max_bytes"), 0);
    if (max != 0) {
        printf("state %.1f of %.1f MiB (%.0f %% of state-max)\n\n", (double)bytes / mib,
               (double)max / mib, 100.0 * (double)bytes / (double)max);
    }
}

/* Of the node that answers; only with TLS. */
static void print_certificate(const struct json_t *certificate)
{
    char until[HUMAN_TEXT];
    char span[HUMAN_TEXT];
    uint64_t left_s = json_tree_u64(json_tree_get(certificate, "expires_in_seconds"), 0);
    human_time(json_tree_text(json_tree_get(certificate, "expires_at")), until);
    if (left_s == 0) {
        printf("certificate EXPIRED at %s\n\n", until);
    } else {
        printf("certificate expires in %s, at %s\n\n", human_span(left_s * 1000, span), until);
    }
}

static void print_text(const struct json_t *tree, bool is_serving)
{
    bool has_colour = cli_has_colour(stdout);
    enum cli_colour colour = is_serving ? COLOUR_GREEN : COLOUR_RED;
    const struct json_t *leader = json_tree_get(tree, "leader");
    printf("%s%s%s  ", cli_colour_on(colour, has_colour), is_serving ? "serving" : "not serving",
           cli_colour_off(colour, has_colour));
    if (leader != NULL) {
        printf("leader: node %" PRIu64, json_tree_u64(leader, 0));
    } else {
        printf("no leader");
    }
    printf("  term %" PRIu64 "  reported by node %" PRIu64 "\n\n",
           json_tree_u64(json_tree_get(tree, "term"), 0),
           json_tree_u64(json_tree_get(tree, "node"), 0));
    if (json_tree_get(tree, "state") != NULL) {
        print_state(json_tree_get(tree, "state"));
    }
    if (json_tree_get(tree, "certificate") != NULL) {
        print_certificate(json_tree_get(tree, "certificate"));
    }
    members_print(json_tree_get(tree, "members"));
}

int status_main(int count, char **arguments)
{
    struct status_settings o = {CLI_COMMON_DEFAULT};
    struct flag_words words;
    struct api api;
    struct api_answer answer;
    if (!flags_read("status", status_options, FLAGS_ANY_ORDER, count, arguments, &o, &words) ||
        !cli_words_check("status", &words, 0, 0) || !api_init(&api, &o.common)) {
        return EXIT_USAGE;
    }
    int code = members_look(&api, &answer);
    if (code != 0) {
        return code;
    }
    bool is_serving = json_tree_true(json_tree_get(answer.tree, "serving"));
    if (o.common.json) {
        api_print_json(&answer);
    } else {
        print_text(answer.tree, is_serving);
    }
    api_answer_close(&answer);
    if (!is_serving) {
        (void)fflush(stdout);
        cli_say(MEMBERS_NO_MAJORITY);
        return EXIT_UNREACHABLE;
    }
    return 0;
}
