/* One node as a process: settings, limits, signals and exit codes. */
#include "server/serve.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include <uv.h>

#include "node/node.h"
#include "server/config.h"
#include "server/dashboard.h"
#include "server/data_folder.h"
#include "server/log.h"
#include "server/pages.h"
#include "server/progress.h"
#include "server/sandbox.h"
#include "server/service_manager.h"
#include "server/usable_memory.h"

struct serve {
    int count;
    char **arguments;
    struct config config;
    char server_names[CONFIG_NAMES + 4 * (ADDRESS_HOST_MAX + 2)];
    struct log_sink log;
    struct journal journal;
    uv_loop_t loop;
    uv_signal_t term, interrupt, hangup, user;
    uv_async_t refused; /* a system call */
    struct node *node;
    struct service_manager manager;
    const char *loading; /* step of the load that has a line; static */
    bool stopping;
};

/* ---- callbacks of the node ---- */

static void on_loading(void *ctx, const char *step, bool is_bytes, uint64_t done, uint64_t total)
{
    struct serve *s = ctx;
    if (step == NULL) {
        progress_end();
    } else {
        if (step != s->loading) {
            s->loading = step;
            progress_begin(step, is_bytes ? PROGRESS_BYTES : PROGRESS_COUNT, "entries", false);
        }
        progress_update(done, total);
        service_manager_loading(&s->manager, step, done, total);
    }
}

static void on_ready(void *ctx, uint64_t leader)
{
    struct serve *s = ctx;
    if (s->config.ready_fd != 0) {
        char text[64];
        int len = snprintf(text, sizeof(text), "ready %llu\n", (unsigned long long)leader);
        ssize_t written = write((int)s->config.ready_fd, text, (size_t)len);
        (void)written; /* the parent process may have ended */
        close((int)s->config.ready_fd);
        s->config.ready_fd = 0;
    }
}

/* After a disk failure the node must exit at once. */
static void on_failed(void *ctx, const char *text)
{
    struct serve *s = ctx;
    journal_note(&s->journal, ERROR, NODE, "failed", JOURNAL_TEXT("reason", text));
    fprintf(stderr, "holdfast: node %llu ends: %s\n", (unsigned long long)s->config.id, text);
    _exit(EXIT_DISK_FAILED);
}

static void on_stopped(void *ctx)
{
    struct serve *s = ctx;
    uv_close((uv_handle_t *)&s->term, NULL);
    uv_close((uv_handle_t *)&s->interrupt, NULL);
    uv_close((uv_handle_t *)&s->hangup, NULL);
    uv_close((uv_handle_t *)&s->user, NULL);
    uv_close((uv_handle_t *)&s->refused, NULL);
    service_manager_close(&s->manager);
    journal_note(&s->journal, INFO, NODE, "stopped", JOURNAL_TEXT("data", s->config.data));
}

static bool page(void *ctx, struct slice path, struct buffer *out, const char **content_type)
{
    struct serve *s = ctx;
    return s->node != NULL && pages_write(s->node, path, out, content_type);
}

/* ---- signals ---- */

static void on_stop_signal(uv_signal_t *handle, int number)
{
    struct serve *s = handle->data;
    if (s->stopping) {
        fprintf(stderr, "holdfast: second stop signal: exiting now\n");
        _exit(128 + number);
    }
    s->stopping = true;
    service_manager_stopping(&s->manager);
    node_stop(s->node);
}

static void set_levels_again(struct serve *s, const char *text)
{
    struct log_levels before = s->log.levels;
    char reason[sizeof(s->config.log_level) + 64];
    char actor[32];
    (void)log_levels_parse(text, &s->log.levels); /* config_load has checked it */
    if (memcmp(&before, &s->log.levels, sizeof(before)) != 0) {
        (void)snprintf(actor, sizeof(actor), "node-%llu", (unsigned long long)s->config.id);
        (void)snprintf(reason, sizeof(reason), "node %llu: %s (read again after SIGHUP)",
                       (unsigned long long)s->config.id, text);
        node_note_setting(s->node, slice_of("log-level"), slice_of(actor), slice_of(reason));
    }
}

static void on_hangup(uv_signal_t *handle, int number)
{
    (void)number;
    struct serve *s = handle->data;
    static struct config again;
    struct buffer problems;
    service_manager_reloading(&s->manager);
    buffer_init(&problems, memory_system(), 1 << 16);
    if (config_load(&again, s->count, s->arguments, &problems)) {
        set_levels_again(s, again.log_level);
        if (s->log.path != NULL && !log_sink_open(&s->log, s->log.path)) {
            journal_note(&s->journal, ERROR, NODE, "log_not_opened",
                         JOURNAL_TEXT("path", s->log.path),
                         JOURNAL_TEXT("reason", strerror(errno)));
        }
        journal_note(&s->journal, INFO, NODE, "settings_read_again",
                     JOURNAL_TEXT("log_level", again.log_level));
    } else {
        journal_note(&s->journal, ERROR, NODE, "settings_wrong",
                     JOURNAL_SLICE("problems", buffer_bytes(&problems)));
    }
    buffer_close(&problems);
    node_reload_tls(s->node);
    node_reload_secret(s->node);
    node_reload_sinks(s->node);
    service_manager_reloaded(&s->manager);
}

/* Takes a snapshot: before an upgrade, or to compare two nodes. */
static void on_user_signal(uv_signal_t *handle, int number)
{
    (void)number;
    struct serve *s = handle->data;
    node_take_snapshot(s->node);
}

static void start_signals(struct serve *s)
{
    struct {
        uv_signal_t *handle;
        int number;
        uv_signal_cb on_signal;
    } all[] = {
        {&s->term, SIGTERM, on_stop_signal},
        {&s->interrupt, SIGINT, on_stop_signal},
        {&s->hangup, SIGHUP, on_hangup},
        {&s->user, SIGUSR1, on_user_signal},
    };
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        uv_signal_init(&s->loop, all[i].handle);
        all[i].handle->data = s;
        uv_signal_start(all[i].handle, all[i].on_signal, all[i].number);
    }
}

/* ---- the process ---- */

static void prepare_process(void)
{
    struct rlimit files;
    sandbox_prepare();
    (void)umask(027); /* of the log file; data files are 0600 */
    /* The list of system calls has no io_uring, which newer versions of libuv would use. */
    (void)setenv("UV_USE_IO_URING", "0", 1);
    signal(SIGPIPE, SIG_IGN);
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &files);
    }
    /* S12.5: while a snapshot's child runs, the first write to a page copies it. A huge page would
     * be a copy of 2 MiB. */
    (void)prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
}

/* Storage creates the data folder itself and syncs its name. */
static bool make_parents(const char *path)
{
    char part[CONFIG_PATH];
    for (size_t i = 1; path[i] != '\0'; i++) {
        if (path[i] == '/') {
            snprintf(part, sizeof(part), "%.*s", (int)i, path);
            if (mkdir(part, 0700) != 0 && errno != EEXIST) {
                fprintf(stderr, "holdfast: cannot create the folder %s: %s\n", part,
                        strerror(errno));
                return false;
            }
        }
    }
    return true;
}

/* 0 becomes an eighth of the usable memory. */
static uint64_t connection_bytes(const struct config *c)
{
    enum { SHARE = 8 };
    const uint64_t least = UINT64_C(64) << 20;
    if (c->connection_bytes != 0) {
        return c->connection_bytes;
    }
    uint64_t share = usable_memory("/proc/self/cgroup", "/sys/fs/cgroup") / SHARE;
    return share < least ? least : share;
}

/* 0 becomes a quarter of the usable memory. The rest is for a snapshot, free blocks of the pool and
 * remembered requests. */
static uint64_t state_bytes(const struct config *c)
{
    enum { SHARE = 4 };
    const uint64_t least = UINT64_C(1) << 20;
    if (c->state_bytes != 0) {
        return c->state_bytes;
    }
    uint64_t share = usable_memory("/proc/self/cgroup", "/sys/fs/cgroup") / SHARE;
    return share < least ? least : share;
}

/* Names that clients may use in Host: the setting, and the hosts of the configured addresses. */
static void fill_names(struct serve *s)
{
    const struct config *c = &s->config;
    struct address advertised = {.host = ""};
    if (c->advertise_client[0] != '\0') {
        (void)address_parse(c->advertise_client, &advertised); /* config_check has accepted it */
    }
    int len = snprintf(s->server_names, sizeof(s->server_names), "%s,%s,%s,%s,%s", c->server_names,
                       c->client.host, c->peer.host, c->resp.host, advertised.host);
    hf_assert(len > 0 && (size_t)len < sizeof(s->server_names));
}

static void fill_options(struct serve *s, struct node_options *o)
{
    const struct config *c = &s->config;
    fill_names(s);
    *o = (struct node_options){
        .loop = &s->loop,
        .memory = memory_system(),
        .journal = &s->journal,
        .id = c->id,
        .data = c->data,
        .cluster_name = c->cluster_name,
        .program_version = HOLDFAST_VERSION,
        .member_count = c->member_count,
        .bootstrap = c->bootstrap,
        .join = c->join,
        .client = c->client,
        .peer = c->peer,
        .resp = c->resp,
        .resp_is_configured = config_was_set(c, "resp"),
        .resp_is_off = config_is_off(&c->resp),
        .resp_del_refused = c->resp_del == RESP_DEL_REFUSE,
        .resp_ping_serving = c->resp_ping == RESP_PING_SERVING,
        .resp_password = c->resp_password,
        .auth = c->auth == AUTH_ON,
        .tls = {.certificate = c->tls_cert, .key = c->tls_key, .ca = c->tls_ca},
        .tls_min = (enum tls_version)c->tls_min,
        .peer_secret_file = c->peer_secret_file,
        .peer_secret_optional = c->peer_secret_required == PEER_SECRET_OPTIONAL,
        .server_names = s->server_names,
        .resp_tier = (enum tier)c->resp_tier,
        .election_ms = (uint32_t)c->election_ms,
        .heartbeat_ms = (uint32_t)c->heartbeat_ms,
        .request_ms = (uint32_t)c->request_ms,
        .slow_ms = (uint32_t)c->slow_ms,
        .ttl_min_ms = (uint32_t)c->ttl_min_ms,
        .resp_ttl_min_ms = c->resp_ttl_min_ms,
        .resp_ttl_max_ms = c->resp_ttl_max_ms,
        .resp_value_max = (uint32_t)c->resp_value_max,
        .snapshot_bytes = c->snapshot_bytes,
        .connection_bytes = connection_bytes(c),
        .state_max = state_bytes(c),
        .segment_bytes = (uint32_t)c->segment_bytes,
        .events_max_bytes = c->events_max_bytes,
        .events_max_age_ms = c->events_max_age_ms,
        .log_by_thread = c->disk_io == DISK_IO_THREAD,
        .max_clients = (uint32_t)c->max_clients,
        .max_clients_per_address = (uint32_t)c->max_clients_per_address,
        .has_redis = c->has_redis,
        .redis = c->redis_settings,
        .sinks = {.file = {c->sink_file, c->sink_file_max_bytes, (uint32_t)c->sink_file_keep},
                  .kafka = {c->sink_kafka_brokers, c->sink_kafka_topic, c->sink_kafka_config,
                            c->id},
                  .webhook = {c->sink_webhook_url, c->sink_webhook_secret_file, c->sink_webhook_ca,
                              c->sink_webhook_http == SINK_HTTP_ALLOW,
                              (uint32_t)c->sink_webhook_timeout_ms},
                  .prefix = c->sink_prefix},
        .ctx = s,
        .asset = dashboard_asset,
        .page = page,
        .on_loading = on_loading,
        .on_ready = on_ready,
        .on_failed = on_failed,
        .on_stopped = on_stopped,
    };
    memcpy(o->members, c->members, sizeof(o->members));
    memcpy(o->client_advertised, c->advertise_client, sizeof(o->client_advertised));
    if (o->client_advertised[0] == '\0' && c->client.host[0] == '\0') {
        /* The wildcard address cannot be advertised. */
        struct address advertised = {.port = c->client.port};
        memcpy(advertised.host, c->members[0].address.host, sizeof(advertised.host));
        for (uint32_t i = 0; i < c->member_count; i++) {
            if (c->members[i].id == c->id) {
                memcpy(advertised.host, c->members[i].address.host, sizeof(advertised.host));
            }
        }
        address_format(&advertised, o->client_advertised, sizeof(o->client_advertised));
    }
}

static void log_refused_calls(uv_async_t *handle)
{
    struct serve *s = handle->data;
    char name[SANDBOX_NAME];
    while (sandbox_next_refused(name)) {
        journal_note(&s->journal, WARN, NODE, "system_call_refused", JOURNAL_TEXT("call", name),
                     JOURNAL_TEXT("next", "report this as a bug; `sandbox = off` allows the call"));
    }
}

/* In a signal handler; uv_async_send is allowed there. */
static void on_refused_call(void *ctx)
{
    struct serve *s = ctx;
    (void)uv_async_send(&s->refused);
}

/* Before the first byte of a client or a peer is read. */
static bool enter_sandbox(struct serve *s)
{
    char problem[SANDBOX_PROBLEM];
    uv_async_init(&s->loop, &s->refused, log_refused_calls);
    s->refused.data = s;
    if (s->config.sandbox == CONFIG_SANDBOX_OFF) {
        journal_note(&s->journal, WARN, NODE, "sandbox_off",
                     JOURNAL_TEXT("next", "remove `sandbox = off` to restrict system calls"));
        return true;
    }
    if (!sandbox_enter(on_refused_call, s, problem)) {
        fprintf(stderr, "holdfast: sandbox: %s\n", problem);
        return false;
    }
    return true;
}

static int run(struct serve *s)
{
    char problem[NODE_PROBLEM];
    static struct node_options options;
    fill_options(s, &options);
    s->node = node_new(&options, problem);
    progress_end();
    if (s->node == NULL) {
        fprintf(stderr, "holdfast: %s\n", problem);
        return EXIT_START_FAILED;
    }
    start_signals(s);
    if (!enter_sandbox(s)) {
        return EXIT_START_FAILED;
    }
    char client[ADDRESS_TEXT];
    char peer[ADDRESS_TEXT];
    char resp[ADDRESS_TEXT];
    address_format(&s->config.client, client, sizeof(client));
    address_format(&s->config.peer, peer, sizeof(peer));
    address_format(&s->config.resp, resp, sizeof(resp));
    journal_note(&s->journal, INFO, NODE, "started", JOURNAL_TEXT("client", client),
                 JOURNAL_TEXT("peer", peer),
                 JOURNAL_TEXT("resp", node_resp_port(s->node) != 0 ? resp : "off"),
                 JOURNAL_TEXT("data", s->config.data), JOURNAL_NUMBER("pid", (uint64_t)getpid()));
    service_manager_start(&s->manager, &s->loop, s->node);
    uv_run(&s->loop, UV_RUN_DEFAULT);
    node_free(s->node);
    return 0;
}

static int print_and_close(struct buffer *text, FILE *to, const char *prefix, int code)
{
    struct slice left = buffer_bytes(text);
    while (left.len > 0) {
        const uint8_t *end = memchr(left.data, '\n', left.len);
        size_t len = end == NULL ? left.len : (size_t)(end - left.data) + 1;
        fprintf(to, "%s%.*s", prefix, (int)len, (const char *)left.data);
        left = slice_make(left.data + len, left.len - len);
    }
    buffer_close(text);
    return code;
}

int serve_main(int count, char **arguments)
{
    static struct serve s;
    struct buffer text;
    buffer_init(&text, memory_system(), 1 << 16);
    s.count = count;
    s.arguments = arguments;
    if (!config_load(&s.config, count, arguments, &text)) {
        print_and_close(&text, stderr, "holdfast: ", 0);
        fprintf(stderr, "holdfast: `holdfast serve --help` lists the settings\n");
        return EXIT_USAGE;
    }
    if (s.config.help) {
        printf(
            "holdfast serve: runs one node. Without settings it is a cluster of one node.\n\n"
            "Each setting can also be the variable HOLDFAST_NAME, or a line `name = value` in the\n"
            "file of --config. A flag overrides the variable, which overrides the file.\n\n"
            "SIGTERM transfers leadership, finishes open requests and stops the node. SIGHUP "
            "reads\n"
            "log-level and the files of tls-cert, tls-key, tls-ca, peer-secret-file and of sinks\n"
            "again and reopens the log file. SIGUSR1 takes a snapshot.\n\n");
        config_print_help(&text);
        return print_and_close(&text, stdout, "", 0);
    }
    if (s.config.check) {
        config_print(&s.config, &text);
        return print_and_close(&text, stdout, "", 0);
    }
    buffer_close(&text);
    prepare_process();
    if (!make_parents(s.config.data)) {
        return EXIT_START_FAILED;
    }
    log_sink_init(&s.log, STDERR_FILENO, (enum config_log_format)s.config.log_format, s.config.id);
    (void)log_levels_parse(s.config.log_level, &s.log.levels);
    if (s.config.log_file[0] != '\0' && !log_sink_open(&s.log, s.config.log_file)) {
        fprintf(stderr, "holdfast: log-file: %s cannot be written: %s\n", s.config.log_file,
                strerror(errno));
        return EXIT_START_FAILED;
    }
    s.journal = log_sink_journal(&s.log);
    static char problem[DATA_FOLDER_PROBLEM];
    if (!data_folder_restrict(s.config.data, &s.journal, problem)) {
        fprintf(stderr, "holdfast: %s\n", problem);
        return EXIT_START_FAILED;
    }
    service_manager_open_environment(&s.manager, &s.journal);
    uv_loop_init(&s.loop);
    int code = run(&s);
    uv_loop_close(&s.loop);
    log_sink_close(&s.log);
    return code;
}
