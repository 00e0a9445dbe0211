/* The command `holdfast recover`: shows what a folder holds, asks to be sure, and makes it the
 * first member of a new cluster.
 *
 * Everything it can find out by itself, it refuses by itself: another process in the folder,
 * another node's folder, a cluster that has its majority, a member that still answers. What it
 * cannot know, that no majority runs somewhere else, it makes the operator say: by typing the
 * cluster's id. */
#include "server/recover.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "server/flags.h"
#include "server/folder_swap.h"
#include "server/offline_show.h"
#include "server/recover_checks.h"
#include "server/serve.h"

struct recover {
    const char *data;
    const char *id;
    const char *cluster;
    const char *into;
    const char *confirm;
    const char *actor;
    const char *reason;
    bool force;
    bool json;
    bool help;

    uint64_t node;
    char address[ADDRESS_TEXT];
    char path[PATH_MAX]; /* of the data folder, without links */
    struct offline_state state;
    struct offline_new fresh;
};

static struct recover r;

/* clang-format off */
static const struct flag flags[] = {
    {"--data", "DIR", "the folder of the stopped node", &r.data, NULL},
    {"--id", "N", "the number of that node", &r.id, NULL},
    {"--cluster", "N=HOST:PORT", "recover: N is that node, and where others will reach it. Without "
     "this, the folder is only shown", &r.cluster, NULL},
    {"--reason", "TEXT", "for the audit trail", &r.reason, NULL},
    {"--actor", "NAME", "for the audit trail (default: you)", &r.actor, NULL},
    {"--confirm", "CLUSTER_ID", "the id of the lost cluster, where nobody can be asked to type it",
     &r.confirm, NULL},
    {"--into", "DIR", "leave the folder as it is, and make the new one here", &r.into, NULL},
    {"--force", NULL, "even though other members answer, or the node is no voter", NULL, &r.force},
    {"--json", NULL, "show the folder as one JSON object", NULL, &r.json},
    {"--help", NULL, "this list", NULL, &r.help},
};
/* clang-format on */

enum { FLAGS = sizeof(flags) / sizeof(flags[0]) };

static void print_help(void)
{
    printf(
        "holdfast recover: a new cluster out of one node's folder, for when most voters are lost\n"
        "for good. Look first, on every node that is left:\n\n"
        "  holdfast recover --data DIR --id N\n\n"
        "Take the one with the highest term, and of those with the highest index. Stop all others "
        "for\ngood. Then:\n\n"
        "  holdfast recover --data DIR --id N --cluster N=HOST:PORT --reason TEXT\n\n"
        "All sessions end as lost, names that were held stay closed for the longest TTL, tokens "
        "rise by\n2^42, the cluster gets a new id. The old folder is kept beside the new one. "
        "Others join with empty\nfolders (`serve --join`).\n\n");
    flags_print(stdout, flags, FLAGS);
}

/* ---- is it sensible? ---- */

static const struct offline_member *find_self(void)
{
    for (uint32_t i = 0; i < r.state.member_count; i++) {
        if (r.state.members[i].id == r.node) {
            return &r.state.members[i];
        }
    }
    return NULL;
}

static unsigned count_voters(void)
{
    unsigned count = 0;
    for (uint32_t i = 0; i < r.state.member_count; i++) {
        count += r.state.members[i].voter;
    }
    return count;
}

static bool is_sensible(void)
{
    const struct offline_member *self = find_self();
    if (self != NULL && self->voter && count_voters() == 1) {
        fprintf(stderr, "holdfast: this node is the only voter of its cluster, so it has its "
                        "majority: start it, there is nothing to recover\n");
        return false;
    }
    if ((self == NULL || !self->voter) && !r.force) {
        fprintf(stderr,
                "holdfast: node %" PRIu64 " %s: its state may be old. Recover from a voter, or say "
                "--force\n",
                r.node, self == NULL ? "is no member any more" : "is no voter");
        return false;
    }
    return check_others_are_gone(&r.state, r.node) || r.force;
}

/* ---- is it wanted? ---- */

static bool is_confirmed(void)
{
    char cluster[CLUSTER_ID_TEXT];
    char typed[CLUSTER_ID_TEXT + 2] = "";
    const char *said = r.confirm;
    cluster_id_format(r.state.cluster, cluster);
    if (said == NULL && isatty(STDIN_FILENO)) {
        printf("\nA new cluster will begin with this state. If a majority of the old one runs "
               "anywhere, or comes\nback, both will grant the same locks. Type the id of the old "
               "cluster to go on: ");
        fflush(stdout);
        if (fgets(typed, sizeof(typed), stdin) == NULL) {
            typed[0] = '\0';
        }
        typed[strcspn(typed, "\n")] = '\0';
        said = typed;
    }
    if (said == NULL) {
        fprintf(stderr,
                "holdfast: nothing was changed: to recover, add --confirm %s when you are sure "
                "that no majority of the old cluster runs or will come back\n",
                cluster);
        return false;
    }
    if (strcmp(said, cluster) != 0) {
        fprintf(stderr, "holdfast: nothing was changed: \"%s\" is not the id of this cluster\n",
                said);
        return false;
    }
    return true;
}

/* ---- doing it ---- */

static bool make(struct id *cluster, char backup[PATH_MAX + 64])
{
    char problem[OFFLINE_PROBLEM];
    char beside[PATH_MAX + 16];
    char stamp[32];
    time_t now = time(NULL);
    struct tm when;
    snprintf(beside, sizeof(beside), "%s.recovering", r.path);
    if (r.into == NULL && access(beside, F_OK) == 0) {
        fprintf(stderr,
                "holdfast: %s is left over from a recovery that did not end: either half of a new "
                "folder or all of the old one. Look at it, move it away, and try again\n",
                beside);
        return false;
    }
    r.fresh.path = r.into != NULL ? r.into : beside;
    r.fresh.node = r.node;
    r.fresh.address = r.address;
    r.fresh.wall_ms = now_wall_ms();
    if (!offline_make(&r.state, &r.fresh, cluster, problem)) {
        fprintf(stderr, "holdfast: nothing was changed: %s\n", problem);
        return false;
    }
    if (r.into != NULL) {
        snprintf(backup, PATH_MAX + 64, "%s", r.path);
        return true;
    }
    gmtime_r(&now, &when);
    strftime(stamp, sizeof(stamp), "%Y%m%dT%H%M%SZ", &when);
    snprintf(backup, PATH_MAX + 64, "%s.before-%s", r.path, stamp);
    if (!folder_swap(r.path, beside, backup)) {
        offline_remove(beside);
        return false;
    }
    return true;
}

static int recover(void)
{
    char backup[PATH_MAX + 64];
    char text[CLUSTER_ID_TEXT];
    struct id cluster;
    if (!is_sensible()) {
        return EXIT_START_FAILED;
    }
    if (!check_audit(r.actor, r.reason, &r.fresh) || !is_confirmed()) {
        return EXIT_USAGE;
    }
    if (!make(&cluster, backup)) {
        return EXIT_START_FAILED;
    }
    cluster_id_format(cluster, text);
    printf("\nrecovered: node %" PRIu64 " is the only member of the new cluster %s\n"
           "  the state from before is in %s\n"
           "  start it:        holdfast serve --id %" PRIu64 " --data %s --cluster %s\n"
           "  then, each other node with an empty folder and --join, and add it "
           "(docs/OPERATION.md)\n"
           "  never start a node on a folder of the old cluster again\n",
           r.node, text, backup, r.node, r.into != NULL ? r.into : r.data, r.cluster);
    return 0;
}

int recover_main(int count, char **arguments)
{
    struct flag_words words;
    char problem[OFFLINE_PROBLEM];
    if (!flags_read("recover", flags, FLAGS, count, arguments, 0, &words)) {
        return EXIT_USAGE;
    }
    if (r.help) {
        print_help();
        return 0;
    }
    if (r.data == NULL) {
        fprintf(stderr, "holdfast: --data DIR is needed: the folder of the stopped node\n");
        return EXIT_USAGE;
    }
    if (!check_node_id(r.id, &r.node) ||
        (r.cluster != NULL && !check_self(r.cluster, r.node, r.address))) {
        return EXIT_USAGE;
    }
    if (realpath(r.data, r.path) == NULL) {
        fprintf(stderr, "holdfast: there is no folder %s\n", r.data);
        return EXIT_START_FAILED;
    }
    if (!offline_read_folder(&r.state, r.path, r.node, problem)) {
        fprintf(stderr, "holdfast: %s\n", problem);
        return EXIT_START_FAILED;
    }
    (r.json ? offline_show_json : offline_show)(&r.state, r.path);
    fflush(stdout);
    int code = r.cluster == NULL ? 0 : recover();
    offline_close(&r.state);
    return code;
}
