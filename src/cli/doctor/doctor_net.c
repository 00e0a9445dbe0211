/* Ports, members, and what running nodes say: reachability, cluster, versions, clocks. */
#include <errno.h>
#include <inttypes.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "cli/doctor/doctor.h"
#include "cli/exits.h"
#include "cli/members.h"
#include "transport/clock.h"
#include "transport/wait.h"

enum {
    CONNECT_MS = 1000,
    SLOW_CONNECT_MS = 50, /* heartbeats are sent each 100 ms */
    CLOCK_MS = 500,       /* difference of two clocks, beside the error of the measurement */
};

/* ---- ports ---- */

/* 0: free. Else errno, or -1: the name cannot be resolved. */
static int try_listen(const struct address *address)
{
    struct addrinfo hints = {.ai_flags = AI_PASSIVE | AI_NUMERICSERV, .ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    char port[8];
    int reason = 0;
    int on = 1;
    (void)snprintf(port, sizeof(port), "%u", address->port);
    if (getaddrinfo(address->host[0] == '\0' ? NULL : address->host, port, &hints, &found) != 0) {
        return -1;
    }
    int fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0 ||
        bind(fd, found->ai_addr, found->ai_addrlen) != 0 || listen(fd, 1) != 0) {
        reason = errno;
    }
    if (fd >= 0) {
        (void)close(fd);
    }
    freeaddrinfo(found);
    return reason;
}

static void check_port(const char *setting, const struct address *address, bool is_running,
                       struct doctor_report *r)
{
    char text[ADDRESS_TEXT];
    address_format(address, text, sizeof(text));
    int reason = try_listen(address);
    if (reason == 0) {
        doctor_add(r, DOCTOR_OK, "port", NULL, "%s %s is free", setting, text);
    } else if (reason == EADDRINUSE && is_running) {
        doctor_add(r, DOCTOR_OK, "port", NULL, "%s %s is in use by this node, which runs", setting,
                   text);
    } else if (reason == EADDRINUSE) {
        doctor_add(r, DOCTOR_FAIL, "port",
                   "find the process with `ss -ltnp`, end it, or choose another port",
                   "%s %s is in use, and not by a node that answers as this one", setting, text);
    } else {
        doctor_add(r, DOCTOR_FAIL, "port", "correct the address: it must be one of this machine",
                   "this process may not listen on %s %s: %s", setting, text,
                   reason < 0 ? "the name cannot be resolved" : strerror(reason));
    }
}

/* ---- members ---- */

/* Of the list of `cluster`, in force; else of the settings. */
static void check_peer(uint64_t id, const char *text, uint64_t timeout_ms, bool is_self,
                       struct doctor_report *r)
{
    struct transport t;
    struct host_port address;
    if (!host_port_parse(text, strlen(text), NULL, &address)) {
        doctor_add(r, DOCTOR_FAIL, "peer", "correct the address",
                   "node %" PRIu64 ": \"%s\" is not HOST:PORT", id, text);
        return;
    }
    transport_init(&t);
    int64_t began_ms = clock_boot_ms();
    bool is_open = transport_open(
        &t, &address, began_ms + (int64_t)(timeout_ms < CONNECT_MS ? timeout_ms : CONNECT_MS));
    int64_t took_ms = clock_boot_ms() - began_ms;
    if (is_open && took_ms > SLOW_CONNECT_MS) {
        doctor_add(
            r, DOCTOR_WARN, "peer", "check the network; a slow one delays each lock and elections",
            "node %" PRIu64 " at %s accepts a connection after %" PRId64 " ms", id, text, took_ms);
    } else if (is_open) {
        doctor_add(r, DOCTOR_OK, "peer", NULL,
                   "node %" PRIu64 " at %s accepts a connection (%" PRId64 " ms)", id, text,
                   took_ms);
    } else if (is_self) {
        doctor_add(r, DOCTOR_OK, "peer", NULL,
                   "node %" PRIu64 " at %s is this node, which does not run", id, text);
    } else {
        doctor_add(r, DOCTOR_WARN, "peer",
                   "start it, or check the address, the network and firewalls between the machines",
                   "node %" PRIu64 " at %s does not answer: %s", id, text,
                   t.problem != NULL ? t.problem : "no answer");
    }
    transport_close(&t);
}

struct doctor_member {
    uint64_t id;
    char address[HTTP_ENDPOINT]; /* of its client port */
    struct api_answer answer;
    bool has_answer;
    int64_t clock_ms; /* its clock minus ours */
    int64_t error_ms; /* of that; -1: it sent none */
};

static int64_t wall_ms(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void request_member(struct doctor_member *m, uint64_t timeout_ms, struct doctor_report *r)
{
    struct api one = {.count = 1, .is_quiet = true};
    one.timeout_ms = timeout_ms < CONNECT_MS ? timeout_ms : CONNECT_MS;
    memcpy(one.endpoints[0], m->address, sizeof(m->address));
    int64_t before_ms = wall_ms();
    int64_t began_ms = clock_boot_ms();
    int code = api_get(&one, "/api/v1/cluster", &m->answer);
    int64_t took_ms = clock_boot_ms() - began_ms;
    m->error_ms = -1;
    if (code == EXIT_DENIED) {
        doctor_add(r, DOCTOR_OK, "member", NULL,
                   "node %" PRIu64 " at %s answers in %" PRId64
                   " ms and wants a token (--token-file)",
                   m->id, m->address, took_ms);
        return;
    }
    if (code != 0) {
        doctor_add(r, DOCTOR_WARN, "member",
                   "start it, or check the network; if clients need another address, set "
                   "advertise-client there",
                   "node %" PRIu64 " at %s does not answer clients: %s", m->id, m->address,
                   one.problems[0]);
        return;
    }
    m->has_answer = true;
    uint64_t node = json_tree_u64(json_tree_get(m->answer.tree, "node"), 0);
    const struct json_t *clock = json_tree_get(m->answer.tree, "wall_ms");
    if (node != m->id) {
        doctor_add(r, DOCTOR_FAIL, "member", "correct advertise-client of both nodes",
                   "%s should be node %" PRIu64 " and is node %" PRIu64, m->address, m->id, node);
    } else {
        doctor_add(r, DOCTOR_OK, "member", NULL, "node %" PRIu64 " at %s answers in %" PRId64 " ms",
                   m->id, m->address, took_ms);
    }
    if (clock != NULL) {
        m->clock_ms = (int64_t)json_tree_u64(clock, 0) - (before_ms + took_ms / 2);
        m->error_ms = took_ms / 2 + 1;
    }
}

static void check_clock_of(const struct doctor_member *m, struct doctor_report *r)
{
    if (m->error_ms < 0) {
        return;
    }
    int64_t size = llabs(m->clock_ms);
    if (size > CLOCK_MS + m->error_ms) {
        doctor_add(r, DOCTOR_WARN, "member-clock", "check NTP on both machines (`timedatectl`)",
                   "the clock of node %" PRIu64 " is %.1f s %s that of this machine", m->id,
                   (double)size / 1000, m->clock_ms > 0 ? "ahead of" : "behind");
    } else {
        doctor_add(r, DOCTOR_OK, "member-clock", NULL,
                   "the clock of node %" PRIu64 " differs by %" PRId64 " ms, give or take %" PRId64,
                   m->id, m->clock_ms, m->error_ms);
    }
}

struct doctor_texts {
    struct slice text;                 /* of the first node that has one */
    const struct doctor_member *first; /* that node */
    const struct doctor_member *other; /* the first one that has another; NULL: none */
    struct slice other_text;
    size_t count; /* nodes that have one */
};

/* A text of the answers of all nodes that answer; earlier programs may not have it. */
static struct doctor_texts compare_texts(const struct doctor_member *members, size_t count,
                                         const char *key)
{
    struct doctor_texts t = {.count = 0};
    for (size_t i = 0; i < count; i++) {
        struct slice text = slice_make(NULL, 0);
        if (members[i].has_answer) {
            text = json_tree_text(json_tree_get(members[i].answer.tree, key));
        }
        if (text.len == 0) {
            continue;
        }
        if (t.count++ == 0) {
            t.text = text;
            t.first = &members[i];
        } else if (t.other == NULL && !slice_equal(text, t.text)) {
            t.other = &members[i];
            t.other_text = text;
        }
    }
    return t;
}

/* All nodes that answer belong to one cluster. */
static void check_clusters(const struct doctor_member *members, size_t count,
                           struct doctor_report *r)
{
    struct doctor_texts t = compare_texts(members, count, "cluster_id");
    if (t.other != NULL) {
        doctor_add(r, DOCTOR_FAIL, "cluster",
                   "give each cluster its own addresses; a node of another cluster is refused",
                   "nodes %" PRIu64 " and %" PRIu64 " belong to different clusters", t.first->id,
                   t.other->id);
    } else if (t.count > 0) {
        doctor_add(r, DOCTOR_OK, "cluster", NULL, "%zu node%s of the cluster %.*s", t.count,
                   t.count == 1 ? "" : "s", (int)t.text.len, (const char *)t.text.data);
    }
}

static void check_programs(const struct doctor_member *members, size_t count,
                           struct doctor_report *r)
{
    struct doctor_texts t = compare_texts(members, count, "program_version");
    if (t.other != NULL) {
        doctor_add(r, DOCTOR_WARN, "program", "finish the upgrade",
                   "node %" PRIu64 " runs holdfast %.*s, node %" PRIu64 " %.*s", t.first->id,
                   (int)t.text.len, (const char *)t.text.data, t.other->id, (int)t.other_text.len,
                   (const char *)t.other_text.data);
    } else if (t.count > 0) {
        doctor_add(r, DOCTOR_OK, "program", NULL, "%zu node%s holdfast %.*s", t.count,
                   t.count == 1 ? " runs" : "s run", (int)t.text.len, (const char *)t.text.data);
    }
}

/* The newest state version that each program supports. */
static void check_versions(const struct json_t *cluster, struct doctor_report *r)
{
    const struct json_t *members = json_tree_get(cluster, "members");
    uint64_t newest = 0;
    uint64_t oldest = UINT64_MAX;
    uint64_t oldest_id = 0;
    for (size_t i = 0; i < json_tree_count(members); i++) {
        const struct json_t *row = json_tree_at(members, i);
        uint64_t version = json_tree_u64(json_tree_get(row, "state_version"), 0);
        newest = version > newest ? version : newest;
        if (version != 0 && version < oldest) {
            oldest = version;
            oldest_id = json_tree_u64(json_tree_get(row, "id"), 0);
        }
    }
    if (newest == 0) {
        return;
    }
    if (oldest < newest) {
        doctor_add(r, DOCTOR_WARN, "version", "finish the upgrade",
                   "the program of node %" PRIu64 " supports state version %" PRIu64
                   ", others support %" PRIu64,
                   oldest_id, oldest, newest);
    } else {
        doctor_add(r, DOCTOR_OK, "version", NULL,
                   "all known members support state version %" PRIu64, newest);
    }
}

static size_t request_members(const struct json_t *cluster, uint64_t timeout_ms,
                              struct doctor_member *members, struct doctor_report *r)
{
    const struct json_t *list = json_tree_get(cluster, "members");
    size_t count = 0;
    for (size_t i = 0; i < json_tree_count(list) && count < LIMIT_NODES; i++) {
        const struct json_t *row = json_tree_at(list, i);
        struct slice address = json_tree_text(json_tree_get(row, "client_address"));
        struct doctor_member *m = &members[count++];
        *m = (struct doctor_member){.id = json_tree_u64(json_tree_get(row, "id"), 0),
                                    .error_ms = -1};
        if (address.len > 0 && address.len < sizeof(m->address)) {
            (void)snprintf(m->address, sizeof(m->address), "%.*s", (int)address.len,
                           (const char *)address.data);
            request_member(m, timeout_ms, r);
            check_clock_of(m, r);
        }
    }
    return count;
}

/* As the settings name them, until a node tells who is a member now. */
static void check_peers(const struct config *c, const struct json_t *cluster, uint64_t timeout_ms,
                        struct doctor_report *r)
{
    const struct json_t *list = json_tree_get(cluster, "members");
    char text[ADDRESS_TEXT];
    for (size_t i = 0; i < json_tree_count(list); i++) {
        const struct json_t *row = json_tree_at(list, i);
        struct slice address = json_tree_text(json_tree_get(row, "peer_address"));
        uint64_t id = json_tree_u64(json_tree_get(row, "id"), 0);
        (void)snprintf(text, sizeof(text), "%.*s", (int)address.len, (const char *)address.data);
        check_peer(id, text, timeout_ms, id == c->id, r);
    }
    for (uint32_t i = 0; json_tree_count(list) == 0 && i < c->member_count; i++) {
        address_format(&c->members[i].address, text, sizeof(text));
        check_peer(c->members[i].id, text, timeout_ms, c->members[i].id == c->id, r);
    }
}

/* The address of this node as the others know it, or as it listens. */
static bool is_this_node_running(const struct config *c, uint64_t timeout_ms)
{
    struct api own = {.count = 1, .is_quiet = true};
    struct address client = c->client;
    struct api_answer answer;
    if (client.host[0] == '\0') {
        (void)snprintf(client.host, sizeof(client.host), "127.0.0.1");
    }
    address_format(&client, own.endpoints[0], sizeof(own.endpoints[0]));
    own.timeout_ms = timeout_ms < CONNECT_MS ? timeout_ms : CONNECT_MS;
    int code = api_get(&own, "/api/v1/cluster", &answer);
    bool is_it = code == EXIT_DENIED;
    if (code == 0) {
        is_it = json_tree_u64(json_tree_get(answer.tree, "node"), 0) == c->id;
        api_answer_close(&answer);
    }
    return is_it;
}

void doctor_check_net(const struct config *c, const struct api *given, uint64_t timeout_ms,
                      struct doctor_report *r)
{
    static struct doctor_member members[LIMIT_NODES];
    struct api api;
    struct api_answer answer = {.tree = NULL};
    bool is_running = given != NULL && is_this_node_running(c, timeout_ms);
    bool has_answer = false;
    check_port("client", &c->client, is_running, r);
    check_port("peer", &c->peer, is_running, r);
    if (!config_is_off(&c->resp) && config_was_set(c, "resp")) {
        check_port("resp", &c->resp, is_running, r);
    }
    if (given != NULL) {
        api = *given;
        api.is_quiet = true;
        has_answer = members_look(&api, &answer) == 0;
    }
    check_peers(c, has_answer ? answer.tree : NULL, timeout_ms, r);
    if (!has_answer) {
        doctor_add(
            r, DOCTOR_OK, "member", NULL,
            "no node answers a request, so versions, clocks and client addresses are not known "
            "(--endpoints names others)");
        return;
    }
    size_t count = request_members(answer.tree, timeout_ms, members, r);
    check_clusters(members, count, r);
    check_versions(answer.tree, r);
    check_programs(members, count, r);
    for (size_t i = 0; i < count; i++) {
        if (members[i].has_answer) {
            api_answer_close(&members[i].answer);
        }
    }
    api_answer_close(&answer);
}
