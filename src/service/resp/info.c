/* INFO and CONFIG GET. */
#include "service/resp/conn.h"

#include <inttypes.h>

#include "service/resp/number.h"

/* Of "HOST:PORT". */
static const char *port_of(const char *address)
{
    const char *colon = strrchr(address, ':');
    return colon == NULL ? "0" : colon + 1;
}

static void put_server(struct resp_conn *conn, struct buffer *out)
{
    const struct service *s = conn->service;
    uint64_t up_s = (service_boot_ms(s) - resp_shared(conn)->born_ms) / 1000;
    buffer_printf(
        out,
        "redis_version:%s\r\nredis_git_sha1:00000000\r\nredis_git_dirty:0\r\n"
        "redis_build_id:0\r\nredis_mode:standalone\r\narch_bits:%zu\r\n"
        "run_id:%s\r\ntcp_port:%s\r\nserver_time_usec:%" PRIu64 "\r\n"
        "uptime_in_seconds:%" PRIu64 "\r\nuptime_in_days:%" PRIu64 "\r\nserver_name:holdfast\r\n",
        RESP_REDIS_VERSION, 8 * sizeof(void *), resp_shared(conn)->run_id, port_of(conn->local),
        s->gateway.wall_ms(s->gateway.ctx) * 1000, up_s, up_s / 86400);
}

static uint64_t count_blocked(const struct resp_shared *shared)
{
    uint64_t count = shared->wait_count;
    for (struct list *link = shared->conns.next; link != &shared->conns; link = link->next) {
        count += resp_acquire_waits(LIST_OBJECT(link, struct resp_conn, link));
    }
    return count;
}

static void put_clients(struct resp_conn *conn, struct buffer *out)
{
    const struct resp_shared *shared = resp_shared(conn);
    if (!resp_sees_node(conn)) {
        return;
    }
    buffer_printf(out,
                  "connected_clients:%" PRIu64 "\r\nblocked_clients:%" PRIu64
                  "\r\ntracking_clients:0\r\npubsub_clients:%" PRIu64 "\r\n",
                  shared->conn_count, count_blocked(shared), service_subscribers(conn->service));
}

static void put_memory(struct resp_conn *conn, struct buffer *out)
{
    struct core_stats stats;
    if (!resp_sees_node(conn)) {
        buffer_append_text(out, "maxmemory_policy:noeviction\r\n");
        return;
    }
    core_stats(service_core(conn->service), &stats);
    struct resp_script_cache scripts = resp_script_cache(conn->service);
    buffer_printf(out,
                  "used_memory:%" PRIu64 "\r\nused_memory_scripts:%zu\r\n"
                  "number_of_cached_scripts:%" PRIu32 "\r\nnumber_of_functions:0\r\n"
                  "number_of_libraries:0\r\nmaxmemory:0\r\nmaxmemory_policy:noeviction\r\n",
                  stats.bytes, scripts.bytes, scripts.count);
}

static void put_persistence(struct resp_conn *conn, struct buffer *out)
{
    (void)conn;
    buffer_append_text(out, "loading:0\r\naof_enabled:1\r\n");
}

static void put_stats(struct resp_conn *conn, struct buffer *out)
{
    const struct resp_shared *shared = resp_shared(conn);
    if (!resp_sees_node(conn)) {
        return;
    }
    buffer_printf(out,
                  "total_connections_received:%" PRIu64 "\r\ntotal_commands_processed:%" PRIu64
                  "\r\ntotal_error_replies:%" PRIu64 "\r\npubsub_patterns:%" PRIu32 "\r\n",
                  shared->connections, shared->commands, shared->errors, shared->pattern_count);
}

/* Each node accepts all requests: clients need no other. */
static void put_replication(struct resp_conn *conn, struct buffer *out)
{
    struct gateway_status status;
    conn->service->gateway.status(conn->service->gateway.ctx, &status);
    buffer_printf(out,
                  "role:master\r\nconnected_slaves:0\r\nmaster_failover_state:no-failover\r\n"
                  "master_replid:%s\r\nmaster_repl_offset:0\r\nsecond_repl_offset:-1\r\n"
                  "repl_backlog_active:0\r\nholdfast_node:%" PRIu64 "\r\nholdfast_leader:%" PRIu64
                  "\r\nholdfast_serving:%d\r\n",
                  resp_shared(conn)->run_id, status.node, status.leader, status.serving);
}

static void put_keyspace(struct resp_conn *conn, struct buffer *out)
{
    struct core_stats stats;
    if (!resp_sees_node(conn)) {
        return;
    }
    core_stats(service_core(conn->service), &stats);
    if (stats.names > 0) {
        buffer_printf(out, "db0:keys=%" PRIu64 ",expires=%" PRIu64 ",avg_ttl=0\r\n", stats.names,
                      stats.names);
    }
}

static void put_nothing(struct resp_conn *conn, struct buffer *out)
{
    (void)conn;
    (void)out;
}

static void put_cluster(struct resp_conn *conn, struct buffer *out)
{
    (void)conn;
    buffer_append_text(out, "cluster_enabled:0\r\n");
}

static const struct {
    const char *word;
    const char *title;
    void (*put)(struct resp_conn *conn, struct buffer *out);
} sections[] = {
    {"SERVER", "Server", put_server},       {"CLIENTS", "Clients", put_clients},
    {"MEMORY", "Memory", put_memory},       {"PERSISTENCE", "Persistence", put_persistence},
    {"STATS", "Stats", put_stats},          {"REPLICATION", "Replication", put_replication},
    {"MODULES", "Modules", put_nothing},    {"CLUSTER", "Cluster", put_cluster},
    {"KEYSPACE", "Keyspace", put_keyspace},
};

static bool is_section_requested(const char *word, const struct slice *args, uint32_t count)
{
    if (count == 1) {
        return true;
    }
    for (uint32_t i = 1; i < count; i++) {
        if (resp_is_word(args[i], word) || resp_is_word(args[i], "ALL") ||
            resp_is_word(args[i], "DEFAULT") || resp_is_word(args[i], "EVERYTHING")) {
            return true;
        }
    }
    return false;
}

void resp_info(struct resp_conn *conn, const struct slice *args, uint32_t count)
{
    struct resp_writer w = resp_conn_writer(conn);
    struct buffer text;
    buffer_init(&text, conn->service->memory, 1 << 14);
    for (size_t i = 0; i < sizeof(sections) / sizeof(sections[0]); i++) {
        if (is_section_requested(sections[i].word, args, count)) {
            buffer_printf(&text, "%s# %s\r\n", buffer_len(&text) > 0 ? "\r\n" : "",
                          sections[i].title);
            sections[i].put(conn, &text);
        }
    }
    resp_bulk(&w, buffer_bytes(&text));
    buffer_close(&text);
}

static const char *const settings[][2] = {
    {"appendfsync", "always"},
    {"appendonly", "yes"},
    {"databases", "16"},
    {"maxmemory", "0"},
    {"maxmemory-policy", "noeviction"},
    {"save", ""},
};

void resp_config(struct resp_conn *conn, const struct slice *args, uint32_t count)
{
    struct resp_writer w = resp_conn_writer(conn);
    const size_t all = sizeof(settings) / sizeof(settings[0]);
    bool is_found[sizeof(settings) / sizeof(settings[0])] = {false};
    uint32_t found = 0;
    if (!resp_is_word(args[1], "GET") || count < 3) {
        resp_conn_error(conn, "ERR",
                        "only CONFIG GET is supported; holdfast-serve(1) describes the settings");
        return;
    }
    for (size_t i = 0; i < all; i++) {
        for (uint32_t j = 2; j < count && !is_found[i]; j++) {
            is_found[i] = resp_matches(args[j], slice_of(settings[i][0]));
        }
        found += is_found[i];
    }
    resp_map(&w, found);
    for (size_t i = 0; i < all; i++) {
        if (is_found[i]) {
            resp_text(&w, settings[i][0]);
            resp_text(&w, settings[i][1]);
        }
    }
}
