/* The command `holdfast snapshot`. A backup is what `save` fetched, or a copy of a node's newest
 * snapshot-INDEX-TERM: such a file is whole when it has that name, and never changes. */
#include "server/snapshot_tool.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "server/flags.h"
#include "server/offline_show.h"
#include "server/recover_checks.h"
#include "server/serve.h"

static struct {
    const char *endpoints;
    const char *timeout;
    const char *data;
    const char *id;
    const char *cluster;
    const char *actor;
    const char *reason;
    bool json;
    bool force;
    bool help;
} given;

/* clang-format off */
static const struct flag flags[] = {
    {"--endpoints", "HOST:PORT,...", "save: nodes to ask, in turn (HOLDFAST_ENDPOINTS, else 127.0.0.1:4653)", &given.endpoints, NULL},
    {"--timeout", "DURATION", "save: until it begins to come (2m); after that, 30s without a byte are too long", &given.timeout, NULL},
    {"--json", NULL, "save, inspect: one JSON object", NULL, &given.json},
    {"--data", "DIR", "restore: the new folder, which is empty or not there", &given.data, NULL},
    {"--id", "N", "restore: the number of the node that will run on it", &given.id, NULL},
    {"--cluster", "N=HOST:PORT", "restore: that node, and where others will reach it", &given.cluster, NULL},
    {"--reason", "TEXT", "restore: for the audit trail", &given.reason, NULL},
    {"--actor", "NAME", "restore: for the audit trail (default: you)", &given.actor, NULL},
    {"--force", NULL, "save: even though there is such a file; restore: even though members of the old cluster answer", NULL, &given.force},
    {"--help", NULL, "this list", NULL, &given.help},
};
/* clang-format on */

enum { FLAGS = sizeof(flags) / sizeof(flags[0]) };

static void print_help(void)
{
    printf(
        "holdfast snapshot: backups.\n\n"
        "  holdfast snapshot save FILE [--endpoints HOST:PORT,...] [--force] [--json]\n"
        "        fetches one from a running cluster, with everything that was acknowledged "
        "before.\n"
        "        It is checked as it comes, and is there when it is whole; - is stdout\n"
        "  holdfast snapshot inspect FILE [--json]\n"
        "        checks every byte of it, and shows what it holds\n"
        "  holdfast snapshot restore FILE --data DIR --id N --cluster N=HOST:PORT --reason TEXT\n"
        "        makes it the folder of a new cluster's first member. All sessions end as lost,\n"
        "        names that were held stay closed for the longest TTL, tokens rise by 2^42\n\n");
    flags_print(stdout, flags, FLAGS);
}

static int inspect(const struct offline_state *state, const char *path)
{
    (given.json ? offline_show_json : offline_show)(state, path);
    return 0;
}

static int restore(struct offline_state *state, const char *path)
{
    char address[ADDRESS_TEXT];
    char problem[OFFLINE_PROBLEM];
    char text[CLUSTER_ID_TEXT];
    struct offline_new fresh = {.path = given.data, .address = address, .wall_ms = now_wall_ms()};
    struct id cluster;
    if (given.data == NULL || given.cluster == NULL) {
        fprintf(stderr, "holdfast: restore needs --data DIR, --id N and --cluster N=HOST:PORT\n");
        return EXIT_USAGE;
    }
    if (!check_node_id(given.id, &fresh.node) || !check_self(given.cluster, fresh.node, address) ||
        !check_audit(given.actor, given.reason, &fresh)) {
        return EXIT_USAGE;
    }
    offline_show(state, path);
    fflush(stdout);
    if (!check_others_are_gone(state, 0) && !given.force) {
        fprintf(stderr,
                "holdfast: or say --force, if the new cluster shall run beside the old one\n");
        return EXIT_START_FAILED;
    }
    if (!offline_make(state, &fresh, &cluster, problem)) {
        fprintf(stderr, "holdfast: %s\n", problem);
        return EXIT_START_FAILED;
    }
    cluster_id_format(cluster, text);
    printf("\nrestored: node %" PRIu64 " is the only member of the new cluster %s\n"
           "  start it:        holdfast serve --id %" PRIu64 " --data %s --cluster %s\n"
           "  then, each other node with an empty folder and --join, and add it "
           "(docs/OPERATION.md)\n",
           fresh.node, text, fresh.node, given.data, given.cluster);
    return 0;
}

/* inspect and restore: of a file that is there. */
static int use_file(const char *path, bool inspects)
{
    static struct offline_state state;
    char problem[OFFLINE_PROBLEM];
    if (!offline_read_file(&state, path, problem)) {
        fprintf(stderr, "holdfast: %s\n", problem);
        return EXIT_START_FAILED;
    }
    int code = inspects ? inspect(&state, path) : restore(&state, path);
    offline_close(&state);
    return code;
}

int snapshot_tool_main(int count, char **arguments,
                       int (*save)(const struct snapshot_save *request))
{
    struct flag_words words;
    if (!flags_read("snapshot", flags, FLAGS, count, arguments, 2, &words)) {
        return EXIT_USAGE;
    }
    if (given.help) {
        print_help();
        return 0;
    }
    const char *verb = words.count == 2 ? words.at[0] : "";
    if (strcmp(verb, "save") == 0) {
        struct snapshot_save request = {words.at[1], given.endpoints, given.timeout, given.json,
                                        given.force};
        return save(&request);
    }
    if (strcmp(verb, "inspect") == 0 || strcmp(verb, "restore") == 0) {
        return use_file(words.at[1], verb[0] == 'i');
    }
    fprintf(stderr,
            "holdfast: snapshot save FILE, snapshot inspect FILE, or snapshot restore FILE; "
            "`holdfast snapshot --help` says more\n");
    return EXIT_USAGE;
}
