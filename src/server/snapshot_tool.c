/* `holdfast snapshot`. A backup is a file that `save` fetched, or a copy of the newest
 * snapshot-INDEX-TERM of a node: a file with that name is complete and never changes. */
#include "server/snapshot_tool.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "server/flags.h"
#include "server/offline_show.h"
#include "server/progress.h"
#include "server/recover_checks.h"
#include "server/serve.h"

static struct given {
    const char *endpoints;
    uint64_t timeout_ms;
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
    {"endpoints", 0, FLAG_TEXT_SET(struct given, endpoints), "HOST:PORT,...", "save: nodes to try in turn (default: HOLDFAST_ENDPOINTS, else 127.0.0.1:4653)"},
    {"timeout", 0, FLAG_DURATION(struct given, timeout_ms), "DURATION", "save: time until the first byte (default: 2m); later, 30s without a byte are an error"},
    {"json", 0, FLAG_SWITCH(struct given, json), NULL, "save, inspect: print one JSON object"},
    {"data", 0, FLAG_TEXT_SET(struct given, data), "DIR", "restore: the new data folder, which must be empty or not exist"},
    {"id", 0, FLAG_TEXT_SET(struct given, id), "N", "restore: id of the node that will use the folder"},
    {"cluster", 0, FLAG_TEXT_SET(struct given, cluster), "N=HOST:PORT", "restore: id and peer address of that node"},
    {"reason", 0, FLAG_TEXT_SET(struct given, reason), "TEXT", "restore: reason, for the audit record"},
    {"actor", 0, FLAG_TEXT_SET(struct given, actor), "NAME", "restore: name of the operator, for the audit record (default: the current user)"},
    {"force", 0, FLAG_SWITCH(struct given, force), NULL, "save: replace an existing file; restore: continue although members of the old cluster answer"},
    {"help", 'h', FLAG_SWITCH(struct given, help), NULL, "this list"},
    FLAGS_END,
};
/* clang-format on */

static void print_help(void)
{
    printf(
        "holdfast snapshot: saves, inspects and restores backups.\n\n"
        "  holdfast snapshot save FILE [--endpoints HOST:PORT,...] [--force] [--json]\n"
        "        fetches a snapshot from a running cluster, with everything acknowledged before.\n"
        "        It is checked while it is received; FILE appears when it is complete. "
        "- is stdout\n"
        "  holdfast snapshot inspect FILE [--json]\n"
        "        checks every byte of the file and shows its contents\n"
        "  holdfast snapshot restore FILE --data DIR --id N --cluster N=HOST:PORT --reason TEXT\n"
        "        creates the data folder of the first member of a new cluster. All sessions are\n"
        "        lost. Locks that were held cannot be acquired for the longest TTL. Fencing "
        "tokens\n"
        "        increase by 2^42\n\n");
    flags_print(flags, stdout);
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
        fprintf(stderr, "holdfast: if the new cluster is to run beside the old one, use --force\n");
        return EXIT_START_FAILED;
    }
    bool is_made = offline_make(state, &fresh, &cluster, problem);
    progress_end();
    if (!is_made) {
        fprintf(stderr, "holdfast: %s\n", problem);
        return EXIT_START_FAILED;
    }
    cluster_id_format(cluster, text);
    printf("\nrestored: node %" PRIu64 " is the only member of the new cluster %s\n"
           "  start it:        holdfast serve --id %" PRIu64 " --data %s --cluster %s\n"
           "  then start each other node with an empty folder and --join, and add it "
           "(docs/OPERATION.md)\n",
           fresh.node, text, fresh.node, given.data, given.cluster);
    return 0;
}

/* inspect and restore. */
static int use_file(const char *path, bool inspects)
{
    static struct offline_state state;
    char problem[OFFLINE_PROBLEM];
    offline_show_progress(&state, given.json);
    bool is_read = offline_read_file(&state, path, problem);
    progress_end();
    if (!is_read) {
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
    if (!flags_read("snapshot", flags, FLAGS_ANY_ORDER, count, arguments, &given, &words) ||
        !flags_words_check("snapshot", &words, 2)) {
        return EXIT_USAGE;
    }
    if (given.help) {
        print_help();
        return 0;
    }
    const char *verb = words.count == 2 ? words.items[0] : "";
    if (strcmp(verb, "save") == 0) {
        struct snapshot_save request = {words.items[1], given.endpoints, given.timeout_ms,
                                        given.json, given.force};
        return save(&request);
    }
    if (strcmp(verb, "inspect") == 0 || strcmp(verb, "restore") == 0) {
        return use_file(words.items[1], verb[0] == 'i');
    }
    fprintf(stderr,
            "holdfast: use snapshot save FILE, snapshot inspect FILE or snapshot restore FILE; "
            "see `holdfast snapshot --help`\n");
    return EXIT_USAGE;
}
