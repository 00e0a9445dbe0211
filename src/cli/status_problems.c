/* See status_problems.h. */
#include "cli/status_problems.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/human.h"

enum {
    LAG_ENTRIES = 10000,   /* a follower further behind than this is named */
    CERTIFICATE_DAYS = 14, /* as the node's log line `certificate_expires` */
    STATE_PERCENT = 80,    /* of state-max */
    STATE_FULL_PERCENT = 98,
    QUOTA_PERCENT = 90,     /* of a tenant's quota */
    DISK_FREE_PERCENT = 10, /* of the file system of the data folder */
    DISK_LAST_PERCENT = 2,
    APPEND_US = 50000, /* mean of the writes to the log; a healthy disk takes 1 to 5 ms */
    CLOCK_MS = 500,    /* difference of two nodes' clocks */
    DAY_S = 86400,
};

/* ---- output ---- */

__attribute__((format(printf, 5, 6))) static void add(struct status_problems *out,
                                                      enum status_severity severity,
                                                      const char *code, const char *action,
                                                      const char *format, ...)
{
    if (out->count == STATUS_PROBLEMS_MAX) {
        return;
    }
    size_t at = out->count++;
    while (at > 0 && out->items[at - 1].severity < severity) {
        out->items[at] = out->items[at - 1];
        at--;
    }
    struct status_problem *problem = &out->items[at];
    va_list list;
    problem->severity = severity;
    problem->code = code;
    va_start(list, format);
    (void)vsnprintf(problem->text, sizeof(problem->text), format, list);
    va_end(list);
    (void)snprintf(problem->action, sizeof(problem->action), "%s", action);
}

const char *status_severity_text(enum status_severity severity)
{
    static const char *const words[] = {"info", "warning", "critical"};
    return words[severity];
}

void status_problems_write(const struct status_problems *problems, struct json_writer *w)
{
    json_put_open(w, "problems", '[');
    for (size_t i = 0; i < problems->count; i++) {
        const struct status_problem *problem = &problems->items[i];
        json_write_open(w, '{');
        json_put_text(w, "code", problem->code);
        json_put_text(w, "severity", status_severity_text(problem->severity));
        json_put_text(w, "text", problem->text);
        json_put_text(w, "action", problem->action);
        json_write_close(w);
    }
    json_write_close(w);
}

/* ---- reading ---- */

static uint64_t number(const struct json_t *object, const char *key)
{
    return json_tree_u64(json_tree_get(object, key), 0);
}

static bool is_true(const struct json_t *object, const char *key)
{
    return json_tree_true(json_tree_get(object, key));
}

static unsigned percent(uint64_t part, uint64_t whole)
{
    return whole == 0 ? 0 : (unsigned)(100.0 * (double)part / (double)whole);
}

struct voters {
    unsigned count;
    unsigned healthy;
    unsigned needed;
    char silent[STATUS_TEXT / 2]; /* "2 (10.0.0.2:4654), 3 (10.0.0.3:4654)" */
};

static void add_name(char *list, size_t size, const struct json_t *member)
{
    size_t len = strlen(list);
    struct slice peer = json_tree_text(json_tree_get(member, "peer_address"));
    (void)snprintf(list + len, size - len, "%s%" PRIu64 " (%.*s)", len > 0 ? ", " : "",
                   number(member, "id"), (int)peer.len, (const char *)peer.data);
}

static struct voters count_voters(const struct json_t *members)
{
    struct voters v = {.count = 0};
    for (size_t i = 0; i < json_tree_count(members); i++) {
        const struct json_t *member = json_tree_at(members, i);
        if (is_true(member, "voter")) {
            v.count++;
            v.healthy += is_true(member, "healthy") ? 1 : 0;
            if (!is_true(member, "healthy")) {
                add_name(v.silent, sizeof(v.silent), member);
            }
        }
    }
    v.needed = v.count / 2 + 1;
    return v;
}

static unsigned count_answers(const struct status_facts *f)
{
    unsigned count = 0;
    const struct json_t *members = json_tree_get(f->cluster, "members");
    for (size_t i = 0; i < f->node_count; i++) {
        for (size_t j = 0; j < json_tree_count(members); j++) {
            const struct json_t *member = json_tree_at(members, j);
            count += f->nodes[i].view != NULL && number(member, "id") == f->nodes[i].id &&
                             is_true(member, "voter")
                         ? 1
                         : 0;
        }
    }
    return count;
}

/* ---- rules about the cluster ---- */

static void find_leader_problem(const struct status_facts *f, const struct voters *v,
                                struct status_problems *out)
{
    uint64_t leader = number(f->cluster, "leader");
    unsigned answers = count_answers(f);
    if (is_true(f->cluster, "serving")) {
        return;
    }
    if (v->healthy >= v->needed && leader != 0 && leader == number(f->cluster, "node")) {
        add(out, STATUS_CRITICAL, "not_serving",
            "wait some seconds; if it stays so, look at its log",
            "node %" PRIu64 " was elected and does not serve yet", leader);
    } else if (v->healthy >= v->needed && leader != 0) {
        add(out, STATUS_CRITICAL, "not_serving",
            "check the network between the two nodes; clients can use the other nodes",
            "node %" PRIu64 " does not reach the leader, node %" PRIu64, number(f->cluster, "node"),
            leader);
    } else if (v->healthy >= v->needed) {
        add(out, STATUS_CRITICAL, "no_leader",
            "an election takes about a second; if there is none after ten, look at the logs (raft, "
            "peer)",
            "no leader, although %u of %u voters answer", v->healthy, v->count);
    } else if (answers >= v->needed) {
        add(out, STATUS_CRITICAL, "no_leader",
            "repair the network between the nodes: each must reach the peer address of each other; "
            "their logs "
            "(peer) say why a connection fails",
            "no leader: %u of %u voters answer this command, but node %" PRIu64
            " does not reach %s",
            answers, v->count, number(f->cluster, "node"), v->silent);
    } else {
        add(out, STATUS_CRITICAL, "no_leader",
            "start the nodes that do not answer, or repair the network to them",
            "no leader, so no lock is granted: %u of %u voters answer and %u are needed; no answer "
            "from %s",
            v->healthy, v->count, v->needed, v->silent);
    }
}

static void find_silent_voters(const struct status_facts *f, const struct voters *v,
                               struct status_problems *out)
{
    unsigned spare = v->healthy >= v->needed ? v->healthy - v->needed : 0;
    if (!is_true(f->cluster, "serving") || v->healthy == v->count) {
        return;
    }
    if (spare == 0) {
        add(out, STATUS_WARNING, "member_unreachable",
            "start the node, or repair the network to it, before another one fails",
            "no answer from %s; if one more voter fails, the cluster stops", v->silent);
    } else {
        add(out, STATUS_WARNING, "member_unreachable",
            "start the node, or repair the network to it",
            "no answer from %s; the cluster survives %u more failure%s", v->silent, spare,
            spare == 1 ? "" : "s");
    }
}

static void find_member_problem(const struct json_t *member, uint64_t version,
                                struct status_problems *out)
{
    uint64_t id = number(member, "id");
    uint64_t lag = number(member, "lag");
    uint64_t supported = number(member, "state_version");
    bool votes = is_true(member, "voter");
    if (!votes && !is_true(member, "healthy")) {
        add(out, STATUS_WARNING, "member_unreachable",
            "start it with `holdfast serve --join`, or remove it with `holdfast member remove`",
            "the learner, node %" PRIu64 ", does not answer", id);
    } else if (lag > LAG_ENTRIES && votes) {
        add(out, STATUS_WARNING, "member_lagging",
            "check its disk and its network; it is no safe successor of the leader until it has "
            "caught up",
            "node %" PRIu64 " is %" PRIu64 " log entries behind the leader", id, lag);
    } else if (lag > LAG_ENTRIES) {
        add(out, STATUS_INFO, "member_lagging", "wait until it has caught up, then promote it",
            "the learner, node %" PRIu64 ", is %" PRIu64 " log entries behind the leader", id, lag);
    }
    if (supported != 0 && supported < version) {
        add(out, STATUS_CRITICAL, "version_mismatch", "upgrade the program of that node",
            "node %" PRIu64 " supports state version %" PRIu64 ", and version %" PRIu64
            " is in force",
            id, supported, version);
    }
}

/* The version in force is the newest that all members support. */
static void find_upgrade(const struct json_t *members, uint64_t version,
                         struct status_problems *out)
{
    char old[STATUS_TEXT / 2] = "";
    uint64_t newest = version;
    for (size_t i = 0; i < json_tree_count(members); i++) {
        uint64_t supported = number(json_tree_at(members, i), "state_version");
        newest = supported > newest ? supported : newest;
    }
    for (size_t i = 0; version != 0 && i < json_tree_count(members); i++) {
        uint64_t supported = number(json_tree_at(members, i), "state_version");
        if (supported != 0 && supported < newest) {
            add_name(old, sizeof(old), json_tree_at(members, i));
        }
    }
    if (old[0] != '\0') {
        add(out, STATUS_INFO, "version_mismatch",
            "finish the upgrade; until then features of the new version are refused",
            "state version %" PRIu64 " is in force; other members support %" PRIu64 ", not yet: %s",
            version, newest, old);
    }
}

static void find_state_problem(const struct json_t *state, struct status_problems *out)
{
    uint64_t max = number(state, "max_bytes");
    unsigned used = percent(number(state, "bytes"), max);
    if (max != 0 && used >= STATE_PERCENT) {
        add(out, used >= STATE_FULL_PERCENT ? STATUS_CRITICAL : STATUS_WARNING, "state_nearly_full",
            "release what is not needed, or raise state-max on all nodes (memory: about four times "
            "as much)",
            "the state uses %u %% of state-max; at the limit new locks are refused", used);
    }
}

static void find_backend_problem(const struct json_t *backend, struct status_problems *out)
{
    struct slice why = json_tree_text(json_tree_get(backend, "problem"));
    if (backend != NULL && !is_true(backend, "healthy")) {
        add(out, STATUS_WARNING, "efficiency_backend",
            "check the Redis server and the network to it",
            "the backend of the tier EFFICIENCY does not answer%s%.*s", why.len > 0 ? ": " : "",
            (int)why.len, (const char *)why.data);
    }
}

static void find_cluster_problems(const struct status_facts *f, struct status_problems *out)
{
    const struct json_t *members = json_tree_get(f->cluster, "members");
    uint64_t version = number(f->cluster, "state_version");
    struct voters v = count_voters(members);
    find_leader_problem(f, &v, out);
    find_silent_voters(f, &v, out);
    for (size_t i = 0; i < json_tree_count(members); i++) {
        find_member_problem(json_tree_at(members, i), version, out);
    }
    find_upgrade(members, version, out);
    find_state_problem(json_tree_get(f->cluster, "state"), out);
    find_backend_problem(json_tree_get(f->cluster, "efficiency"), out);
    if (is_true(f->cluster, "members_changing")) {
        add(out, STATUS_INFO, "members_changing", "wait; a change needs an answer of most voters",
            "a change of the members is not in effect yet");
    }
    if (v.count > 0 && v.count % 2 == 0) {
        add(out, STATUS_INFO, "even_voters", "add a voter, or demote one to a learner",
            "%u voters survive no more failures than %u", v.count, v.count - 1);
    }
}

/* ---- rules about one node ---- */

static void find_certificate_problem(uint64_t id, const struct json_t *certificate, const char *key,
                                     const char *what, struct status_problems *out)
{
    const struct json_t *left = json_tree_get(certificate, key);
    uint64_t left_s = json_tree_u64(left, 0);
    char span[HUMAN_TEXT];
    if (left == NULL || left_s > (uint64_t)CERTIFICATE_DAYS * DAY_S) {
        return;
    }
    const char *action = "replace the files; nodes notice it, and SIGHUP makes them look at once";
    if (left_s == 0) {
        add(out, STATUS_CRITICAL, "certificate_expired", action,
            "the %s of node %" PRIu64 " has expired: clients and nodes refuse it", what, id);
    } else {
        add(out, STATUS_WARNING, "certificate_expiring", action,
            "the %s of node %" PRIu64 " expires in %s", what, id, human_span(left_s * 1000, span));
    }
}

static void find_disk_problem(uint64_t id, const struct json_t *disk, struct status_problems *out)
{
    uint64_t total = number(disk, "total_bytes");
    uint64_t free_bytes = number(disk, "free_bytes");
    uint64_t append_us = number(disk, "append_us");
    unsigned left = percent(free_bytes, total);
    double mib = (double)free_bytes / (1 << 20);
    if (is_true(disk, "full")) {
        add(out, STATUS_CRITICAL, "disk_full", "free space there; the node continues by itself",
            "the disk of node %" PRIu64 " is full: it writes nothing", id);
    } else if (total != 0 && left < DISK_FREE_PERCENT) {
        add(out, left < DISK_LAST_PERCENT ? STATUS_CRITICAL : STATUS_WARNING, "disk_nearly_full",
            "free space there, or enlarge the file system of its data folder",
            "the disk of node %" PRIu64 " has %.0f MiB left (%u %%)", id, mib, left);
    }
    if (append_us > APPEND_US) {
        add(out, STATUS_WARNING, "disk_slow",
            "check what else uses the disk; `holdfast doctor` on that machine measures it",
            "the disk of node %" PRIu64 " is slow: a write to the log takes %.0f ms", id,
            (double)append_us / 1000);
    }
}

static bool is_healthy_member(const struct status_facts *f, uint64_t id)
{
    const struct json_t *members = json_tree_get(f->cluster, "members");
    for (size_t i = 0; i < json_tree_count(members); i++) {
        if (number(json_tree_at(members, i), "id") == id) {
            return is_true(json_tree_at(members, i), "healthy");
        }
    }
    return false;
}

static void find_event_log_problem(uint64_t id, const struct json_t *log,
                                   struct status_problems *out)
{
    uint64_t dropped = number(log, "dropped");
    uint64_t gaps = number(log, "gaps");
    if (dropped > 0) {
        add(out, STATUS_WARNING, "event_log_dropped",
            "check its disk; other nodes have these events, and it fetches them",
            "the event log of node %" PRIu64 " dropped %" PRIu64
            " events, because its disk was too slow or full",
            id, dropped);
    } else if (gaps > 0 && is_true(log, "gaps_stay")) {
        add(out, STATUS_INFO, "event_log_gap_stays",
            "start the nodes that are down: one of them may have the events, and each minute it is "
            "tried again; without them, history read here says since when it is complete",
            "the event log of node %" PRIu64 " has %" PRIu64
            " gap%s that no node in reach can fill",
            id, gaps, gaps == 1 ? "" : "s");
    } else if (gaps > 0) {
        add(out, STATUS_INFO, "event_log_gap",
            "wait: it fetches them from another node; history read here says since when it is "
            "complete",
            "the event log of node %" PRIu64 " has %" PRIu64 " gap%s", id, gaps,
            gaps == 1 ? "" : "s");
    }
}

static void find_node_problems(const struct status_facts *f, const struct status_node *node,
                               struct status_problems *out)
{
    const struct json_t *certificate = json_tree_get(node->view, "certificate");
    if (node->view == NULL) {
        if (is_healthy_member(f, node->id) && !node->is_denied && node->address[0] != '\0') {
            add(out, STATUS_WARNING, "client_address_unreachable",
                "check the network from here; if clients need another address, set "
                "advertise-client",
                "node %" PRIu64 " answers the other nodes, but not this command at %s: %s",
                node->id, node->address, node->problem);
        }
        return;
    }
    find_certificate_problem(node->id, certificate, "expires_in_seconds", "certificate", out);
    find_certificate_problem(node->id, certificate, "ca_expires_in_seconds", "CA", out);
    find_disk_problem(node->id, json_tree_get(node->view, "disk"), out);
    find_event_log_problem(node->id, json_tree_get(node->view, "event_log"), out);
}

/* The clock of the leader, else of the first that has one. */
static const struct status_node *reference_clock(const struct status_facts *f)
{
    const struct status_node *found = NULL;
    for (size_t i = 0; i < f->node_count; i++) {
        const struct status_node *node = &f->nodes[i];
        if (node->clock_error_ms != UINT64_MAX &&
            (found == NULL || node->id == number(f->cluster, "leader"))) {
            found = node;
        }
    }
    return found;
}

static void find_clock_problems(const struct status_facts *f, struct status_problems *out)
{
    const struct status_node *reference = reference_clock(f);
    const char *action =
        "check NTP on that machine (`timedatectl`); leases do not depend on it, but the times "
        "that are shown and certificates do";
    for (size_t i = 0; reference != NULL && i < f->node_count; i++) {
        const struct status_node *node = &f->nodes[i];
        if (node == reference || node->clock_error_ms == UINT64_MAX) {
            continue;
        }
        int64_t difference = node->clock_ms - reference->clock_ms;
        uint64_t size = (uint64_t)llabs(difference);
        if (size > CLOCK_MS + node->clock_error_ms + reference->clock_error_ms) {
            add(out, STATUS_WARNING, "clock_skew", action,
                "the clock of node %" PRIu64 " is %.1f s %s that of node %" PRIu64, node->id,
                (double)size / 1000, difference > 0 ? "ahead of" : "behind", reference->id);
        }
    }
}

/* ---- rules about what is stored ---- */

static void find_quota_problems(const struct json_t *tenants, struct status_problems *out)
{
    static const char *const names[] = {"locks", "sessions", "waiters", "watchers", "state_bytes"};
    const struct json_t *rows = json_tree_get(tenants, "tenants");
    for (size_t i = 0; i < json_tree_count(rows); i++) {
        const struct json_t *row = json_tree_at(rows, i);
        struct slice name = json_tree_text(json_tree_get(row, "name"));
        for (size_t j = 0; j < sizeof(names) / sizeof(names[0]); j++) {
            uint64_t limit = number(json_tree_get(row, "quotas"), names[j]);
            uint64_t used = number(json_tree_get(row, "usage"), names[j]);
            if (limit != 0 && percent(used, limit) >= QUOTA_PERCENT) {
                add(out, STATUS_WARNING, "quota_nearly_full",
                    "release what is not needed, or raise the quota with `holdfast auth apply`",
                    "tenant %.*s uses %" PRIu64 " of its quota of %" PRIu64 " %s", (int)name.len,
                    (const char *)name.data, used, limit, names[j]);
            }
        }
    }
}

static void find_sink_problems(const struct json_t *sinks, struct status_problems *out)
{
    const struct json_t *rows = json_tree_get(sinks, "sinks");
    for (size_t i = 0; i < json_tree_count(rows); i++) {
        const struct json_t *row = json_tree_at(rows, i);
        struct slice name = json_tree_text(json_tree_get(row, "name"));
        struct slice why =
            json_tree_text(json_tree_get(json_tree_get(row, "last_error"), "message"));
        if (slice_equal(json_tree_text(json_tree_get(row, "state")), slice_of("failing"))) {
            add(out, STATUS_WARNING, "sink_failing",
                "repair its receiver before the event log no longer reaches back to its position",
                "the event sink %.*s delivers nothing and is %" PRIu64 " entries behind: %.*s",
                (int)name.len, (const char *)name.data, number(row, "lag_entries"), (int)why.len,
                (const char *)why.data);
        }
    }
}

static void find_stats_problems(const struct json_t *stats, struct status_problems *out)
{
    uint64_t count = number(stats, "long_held");
    if (count > 0) {
        add(out, STATUS_WARNING, "long_held", "`holdfast alert list` shows them with their holders",
            "%" PRIu64 " hold%s last%s longer than the rule for the name allows", count,
            count == 1 ? "" : "s", count == 1 ? "s" : "");
    }
}

void status_problems_find(const struct status_facts *facts, struct status_problems *out)
{
    out->count = 0;
    find_cluster_problems(facts, out);
    for (size_t i = 0; i < facts->node_count; i++) {
        find_node_problems(facts, &facts->nodes[i], out);
    }
    find_clock_problems(facts, out);
    find_quota_problems(facts->tenants, out);
    find_stats_problems(facts->stats, out);
    find_sink_problems(facts->sinks, out);
}
