/* `holdfast status`: leader, members, whether the cluster serves, what is wrong and what to do. Each member
 * is requested at its own address too, for its disk, its certificate and its clock. */
#include <inttypes.h>
#include <time.h>

#include "base/limits.h"
#include "cli/api.h"
#include "cli/columns.h"
#include "cli/commands.h"
#include "cli/exits.h"
#include "cli/human.h"
#include "cli/members.h"
#include "cli/say.h"
#include "cli/status_problems.h"
#include "transport/clock.h"

enum { NODE_MS = 1000 }; /* timeout of one member */

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

/* ---- facts ---- */

struct status_view {
    struct api_answer cluster; /* of the leader if possible */
    struct status_node nodes[LIMIT_NODES];
    struct api_answer answers[LIMIT_NODES]; /* of nodes that have a view */
    char addresses[LIMIT_NODES][HTTP_ENDPOINT];
    char node_problems[LIMIT_NODES][HTTP_PROBLEM];
    size_t count;
    struct api_answer stats, tenants, sinks;
    bool has_stats, has_tenants, has_sinks;
};

static int64_t wall_ms(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* The node read its clock between the request and the answer: half of that time is the error. */
static void note_clock(struct status_node *node, int64_t before_ms, int64_t took_ms)
{
    const struct json_t *clock = json_tree_get(node->view, "wall_ms");
    node->clock_error_ms = UINT64_MAX;
    if (clock != NULL) {
        node->clock_ms = (int64_t)json_tree_u64(clock, 0) - (before_ms + took_ms / 2);
        node->clock_error_ms = (uint64_t)(took_ms / 2) + 1;
    }
}

static void look_at(struct status_view *v, const struct json_t *member, uint64_t timeout_ms)
{
    size_t i = v->count++;
    struct status_node *node = &v->nodes[i];
    struct slice address = json_tree_text(json_tree_get(member, "client_address"));
    struct api to = {.count = 1, .is_quiet = true};
    to.timeout_ms = timeout_ms < NODE_MS ? timeout_ms : NODE_MS;
    *node = (struct status_node){.id = json_tree_u64(json_tree_get(member, "id"), 0),
                                 .address = v->addresses[i],
                                 .problem = v->node_problems[i],
                                 .clock_error_ms = UINT64_MAX};
    if (address.len == 0 || address.len >= HTTP_ENDPOINT) {
        return;
    }
    (void)snprintf(v->addresses[i], HTTP_ENDPOINT, "%.*s", (int)address.len,
                   (const char *)address.data);
    memcpy(to.endpoints[0], v->addresses[i], HTTP_ENDPOINT);
    int64_t before_ms = wall_ms();
    int64_t began_ms = clock_boot_ms();
    int code = api_get(&to, "/api/v1/cluster", &v->answers[i]);
    memcpy(v->node_problems[i], to.problems[0], HTTP_PROBLEM);
    node->is_denied = code == EXIT_DENIED;
    if (code == 0) {
        node->view = v->answers[i].tree;
        note_clock(node, before_ms, clock_boot_ms() - began_ms);
    }
}

/* Not for everybody; without them fewer problems are found. */
static bool look_quietly(const struct api *api, const char *target, struct api_answer *answer)
{
    struct api quiet = *api;
    quiet.is_quiet = true;
    quiet.timeout_ms = quiet.timeout_ms < NODE_MS ? quiet.timeout_ms : NODE_MS;
    return api_get(&quiet, target, answer) == 0;
}

static int look(struct api *api, struct status_view *v)
{
    int code = members_look(api, &v->cluster);
    if (code != 0) {
        return code;
    }
    const struct json_t *members = json_tree_get(v->cluster.tree, "members");
    for (size_t i = 0; i < json_tree_count(members) && v->count < LIMIT_NODES; i++) {
        look_at(v, json_tree_at(members, i), api->timeout_ms);
    }
    if (json_tree_true(json_tree_get(v->cluster.tree, "serving"))) {
        v->has_stats = look_quietly(api, "/api/v1/stats", &v->stats);
        v->has_tenants = look_quietly(api, "/api/v1/auth/tenants", &v->tenants);
        v->has_sinks = look_quietly(api, "/api/v1/sinks", &v->sinks);
    }
    return 0;
}

static void find_problems(const struct status_view *v, struct status_problems *out)
{
    struct status_facts facts = {.cluster = v->cluster.tree,
                                 .nodes = v->nodes,
                                 .node_count = v->count,
                                 .stats = v->has_stats ? v->stats.tree : NULL,
                                 .tenants = v->has_tenants ? v->tenants.tree : NULL,
                                 .sinks = v->has_sinks ? v->sinks.tree : NULL};
    status_problems_find(&facts, out);
}

static void close_view(struct status_view *v)
{
    api_answer_close(&v->cluster);
    for (size_t i = 0; i < v->count; i++) {
        if (v->nodes[i].view != NULL) {
            api_answer_close(&v->answers[i]);
        }
    }
    if (v->has_stats) {
        api_answer_close(&v->stats);
    }
    if (v->has_tenants) {
        api_answer_close(&v->tenants);
    }
    if (v->has_sinks) {
        api_answer_close(&v->sinks);
    }
}

/* ---- output ---- */

static void print_problems(const struct status_problems *problems)
{
    static const enum cli_colour colours[] = {COLOUR_DIM, COLOUR_YELLOW, COLOUR_RED};
    bool has_colour = cli_has_colour(stdout);
    if (problems->count == 0) {
        printf("\nno problem found\n");
    }
    for (size_t i = 0; i < problems->count; i++) {
        const struct status_problem *problem = &problems->items[i];
        enum cli_colour colour = colours[problem->severity];
        printf("\n%s%s%s: %s\n  next: %s\n", cli_colour_on(colour, has_colour),
               status_severity_text(problem->severity), cli_colour_off(colour, has_colour),
               problem->text, problem->action);
    }
}

/* The object of /api/v1/cluster with one more key. */
static void print_json(const struct json_t *cluster, const struct status_problems *problems)
{
    struct buffer text;
    struct json_writer w;
    buffer_init(&text, memory_system(), API_ANSWER_MAX);
    json_writer_init(&w, &text);
    json_write_open(&w, '{');
    status_problems_write(problems, &w);
    json_write_close(&w);
    struct slice own = buffer_bytes(&text);
    struct buffer all;
    buffer_init(&all, memory_system(), API_ANSWER_MAX);
    json_tree_write(cluster, &all);
    struct slice object = buffer_bytes(&all);
    hf_assert(object.len > 2 && object.data[object.len - 1] == '}' && own.len > 2);
    printf("%.*s,%.*s\n", (int)object.len - 1, (const char *)object.data, (int)own.len - 1,
           (const char *)own.data + 1);
    buffer_close(&all);
    buffer_close(&text);
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
    static struct status_view view;
    static struct status_problems problems;
    if (!flags_read("status", status_options, FLAGS_ANY_ORDER, count, arguments, &o, &words) ||
        !cli_words_check("status", &words, 0, 0) || !api_init(&api, &o.common)) {
        return EXIT_USAGE;
    }
    int code = look(&api, &view);
    if (code != 0) {
        return code;
    }
    bool is_serving = json_tree_true(json_tree_get(view.cluster.tree, "serving"));
    find_problems(&view, &problems);
    if (o.common.json) {
        print_json(view.cluster.tree, &problems);
    } else {
        print_text(view.cluster.tree, is_serving);
        print_problems(&problems);
    }
    close_view(&view);
    if (!is_serving) {
        (void)fflush(stdout);
        cli_say(MEMBERS_NO_MAJORITY);
        return EXIT_UNREACHABLE;
    }
    return 0;
}
