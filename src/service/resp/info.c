/* INFO and CONFIG GET. */
#include "service/resp/conn.h"

#include <inttypes.h>

#include "service/resp/number.h"

static void put_server(struct resp_conn *conn, struct buffer *out)
{
    uint64_t now_ms = service_boot_ms(conn->service);
    buffer_printf(out,
                  "redis_version:%s\r\nredis_mode:standalone\r\nserver_name:holdfast\r\n"
                  "uptime_in_seconds:%" PRIu64 "\r\n",
                  RESP_REDIS_VERSION, (now_ms - resp_shared(conn)->born_ms) / 1000);
}

static void put_clients(struct resp_conn *conn, struct buffer *out)
{
    const struct resp_shared *shared = resp_shared(conn);
    if (!resp_sees_node(conn)) {
        return;
    }
    buffer_printf(out, "connected_clients:%" PRIu64 "\r\npubsub_clients:%" PRIu64 "\r\n",
                  shared->conn_count, service_subscribers(conn->service));
}

static void put_memory(struct resp_conn *conn, struct buffer *out)
{
    struct core_stats stats;
    if (!resp_sees_node(conn)) {
        buffer_append_text(out, "maxmemory_policy:noeviction\r\n");
        return;
    }
    core_stats(service_core(conn->service), &stats);
    buffer_printf(out, "used_memory:%" PRIu64 "\r\nmaxmemory_policy:noeviction\r\n", stats.bytes);
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
                  "\r\ntotal_error_replies:%" PRIu64 "\r\n",
                  shared->connections, shared->commands, shared->errors);
}

/* Each node accepts all requests: clients need no other. */
static void put_replication(struct resp_conn *conn, struct buffer *out)
{
    struct gateway_status status;
    conn->service->gateway.status(conn->service->gateway.ctx, &status);
    buffer_printf(out,
                  "role:master\r\nconnected_slaves:0\r\nholdfast_node:%" PRIu64
                  "\r\nholdfast_leader:%" PRIu64 "\r\nholdfast_serving:%d\r\n",
                  status.node, status.leader, status.serving);
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
    {"SERVER", "Server", put_server},    {"CLIENTS", "Clients", put_clients},
    {"MEMORY", "Memory", put_memory},    {"PERSISTENCE", "Persistence", put_persistence},
    {"STATS", "Stats", put_stats},       {"REPLICATION", "Replication", put_replication},
    {"CLUSTER", "Cluster", put_cluster}, {"KEYSPACE", "Keyspace", put_keyspace},
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
