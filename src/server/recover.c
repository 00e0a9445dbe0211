/* `holdfast recover`: shows a data folder, requires a confirmation, and makes the folder the first
 * member of a new cluster.
 *
 * It refuses what it can detect: another process in the folder, the folder of another node, a
 * cluster that has its majority, a member that still answers. It cannot detect a majority
 * elsewhere, so the operator types the id of the cluster to confirm that there is none. */
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
#include "server/progress.h"
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
    char path[PATH_MAX]; /* of the data folder, without symbolic links */
    struct offline_state state;
    struct offline_new fresh;
};

static struct recover r;

/* clang-format off */
static const struct flag flags[] = {
    {"data", 0, FLAG_TEXT_SET(struct recover, data), "DIR", "data folder of the stopped node"},
    {"id", 0, FLAG_TEXT_SET(struct recover, id), "N", "id of that node"},
    {"cluster", 0, FLAG_TEXT_SET(struct recover, cluster), "N=HOST:PORT", "recover: id and peer address of that node in the new cluster. "
     "Without this flag, the folder is only shown"},
    {"reason", 0, FLAG_TEXT_SET(struct recover, reason), "TEXT", "reason, for the audit record"},
    {"actor", 0, FLAG_TEXT_SET(struct recover, actor), "NAME", "name of the operator, for the audit record (default: the current user)"},
    {"confirm", 0, FLAG_TEXT_SET(struct recover, confirm), "CLUSTER_ID", "confirm with the id of the lost cluster instead of typing it"},
    {"into", 0, FLAG_TEXT_SET(struct recover, into), "DIR", "leave the folder unchanged and create the new one here"},
    {"force", 0, FLAG_SWITCH(struct recover, force), NULL, "recover although other members answer or the node is not a voter"},
    {"json", 0, FLAG_SWITCH(struct recover, json), NULL, "show the folder as one JSON object"},
    {"help", 'h', FLAG_SWITCH(struct recover, help), NULL, "this list"},
    FLAGS_END,
};
/* clang-format on */

static void print_help(void)
{
    printf(
        "holdfast recover: creates a new cluster from the data folder of one node, if a majority\n"
        "of the voters is lost permanently. First show the folder of every remaining node:\n\n"
        "  holdfast recover --data DIR --id N\n\n"
        "Choose the node with the highest term and, among equal terms, the highest index. Stop "
        "all\n"
        "other nodes permanently. Then run:\n\n"
        "  holdfast recover --data DIR --id N --cluster N=HOST:PORT --reason TEXT\n\n"
        "All sessions are lost. Locks that were held cannot be acquired for the longest TTL.\n"
        "Fencing tokens increase by 2^42. The cluster gets a new id. The old folder is kept "
        "beside\n"
        "the new one. Other nodes join with empty folders (`serve --join`).\n\n");
    flags_print(flags, stdout);
}

/* ---- safety checks ---- */

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

static bool is_recoverable(void)
{
    const struct offline_member *self = find_self();
    if (self != NULL && self->voter && count_voters() == 1) {
        fprintf(stderr, "holdfast: this node is the only voter of its cluster, so it has a "
                        "majority: start it with `holdfast serve`, there is nothing to recover\n");
        return false;
    }
    if ((self == NULL || !self->voter) && !r.force) {
        fprintf(stderr,
                "holdfast: node %" PRIu64 " %s: its state may be old. Recover from a voter; if "
                "there is none, use --force\n",
                r.node, self == NULL ? "is no longer a member" : "is not a voter");
        return false;
    }
    return check_others_are_gone(&r.state, r.node) || r.force;
}

/* ---- confirmation ---- */

static bool is_confirmed(void)
{
    char cluster[CLUSTER_ID_TEXT];
    char typed[CLUSTER_ID_TEXT + 2] = "";
    const char *answer = r.confirm;
    cluster_id_format(r.state.cluster, cluster);
    if (answer == NULL && isatty(STDIN_FILENO)) {
        printf(
            "\nThis creates a new cluster with this state. If a majority of the old cluster runs "
            "now or later,\nboth clusters grant the same locks. Type the id of the old cluster "
            "to continue: ");
        fflush(stdout);
        if (fgets(typed, sizeof(typed), stdin) == NULL) {
            typed[0] = '\0';
        }
        typed[strcspn(typed, "\n")] = '\0';
        answer = typed;
    }
    if (answer == NULL) {
        fprintf(stderr,
                "holdfast: nothing was changed: to recover, add --confirm %s if you are sure "
                "that no majority of the old cluster runs now or later\n",
                cluster);
        return false;
    }
    if (strcmp(answer, cluster) != 0) {
        fprintf(stderr, "holdfast: nothing was changed: \"%s\" is not the id of this cluster\n",
                answer);
        return false;
    }
    return true;
}

/* ---- recovery ---- */

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
                "holdfast: %s remains from an interrupted recovery: it is either an incomplete new "
                "folder or the complete old one. Inspect it, move it away, and try again\n",
                beside);
        return false;
    }
    r.fresh.path = r.into != NULL ? r.into : beside;
    r.fresh.node = r.node;
    r.fresh.address = r.address;
    r.fresh.wall_ms = now_wall_ms();
    bool is_made = offline_make(&r.state, &r.fresh, cluster, problem);
    progress_end();
    if (!is_made) {
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
    if (!is_recoverable()) {
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
           "  the old folder is %s\n"
           "  start it:        holdfast serve --id %" PRIu64 " --data %s --cluster %s\n"
           "  then start each other node with an empty folder and --join, and add it "
           "(docs/OPERATION.md)\n"
           "  never start a node with a folder of the old cluster again\n",
           r.node, text, backup, r.node, r.into != NULL ? r.into : r.data, r.cluster);
    return 0;
}

int recover_main(int count, char **arguments)
{
    struct flag_words words;
    char problem[OFFLINE_PROBLEM];
    if (!flags_read("recover", flags, FLAGS_ANY_ORDER, count, arguments, &r, &words) ||
        !flags_words_check("recover", &words, 0)) {
        return EXIT_USAGE;
    }
    if (r.help) {
        print_help();
        return 0;
    }
    if (r.data == NULL) {
        fprintf(stderr, "holdfast: recover needs --data DIR, the folder of the stopped node\n");
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
    offline_show_progress(&r.state, r.json);
    bool is_read = offline_read_folder(&r.state, r.path, r.node, problem);
    progress_end();
    if (!is_read) {
        fprintf(stderr, "holdfast: %s\n", problem);
        return EXIT_START_FAILED;
    }
    (r.json ? offline_show_json : offline_show)(&r.state, r.path);
    fflush(stdout);
    int code = r.cluster == NULL ? 0 : recover();
    offline_close(&r.state);
    return code;
}
