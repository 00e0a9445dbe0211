/* One node of raft_floor: libraft driven as in a node (replica/engine.h), with a log of its own;
 * and the leader's load. */
#include "raft_floor.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/buffer.h"
#include "bench/histogram.h"
#include "replica/engine.h"

enum {
    COMMAND = 64,
    OUTSTANDING_MAX = 256,
    RECORD_HEAD = 32, /* what a log adds to an entry */
    LOG_BYTES = 16 << 20,
    CACHE_BYTES = 1 << 20,
    OUT_MAX = 8 << 20,
    HEARTBEAT_MS = 50,
    LEADER_MS = 200,      /* node 1 campaigns first and alone, */
    FOLLOWER_MS = 600000, /* and as leader it does not step down on a busy machine */
    PENDING = 1024,
};

struct pending {
    uint64_t first;
    uint64_t last;
};

/* With --thread: one sync at a time, requested by `wanted`, reported by the eventfd. */
struct syncer {
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t cond;
    bool is_wanted;
    int done_fd; /* -1: the loop syncs by itself */
    int log_fd;
    unsigned covers; /* how many of those pending; 0: none is under way */
    uint64_t began_ns;
};

struct floor_node {
    uint64_t id;
    unsigned nodes;
    struct engine engine;
    struct replica_ports ports;
    int epoll;
    int fds[FLOOR_NODES_MAX + 1]; /* to each other node; -1: none */
    struct buffer in[FLOOR_NODES_MAX + 1];
    struct buffer out[FLOOR_NODES_MAX + 1];
    int log_fd;
    int vote_fd;
    off_t log_at;
    struct pending pending[PENDING]; /* written, not synced yet */
    unsigned pending_count;
    struct syncer syncer;
    uint8_t members[1024];
    size_t members_len;
    bool has_members; /* their entry was answered (E8) */
    struct histogram syncs;
};

static uint64_t now_ms(void)
{
    return floor_now_ns() / 1000000;
}

/* ---- what the engine requests ---- */

static void save_vote(void *ctx, uint64_t term, uint64_t vote)
{
    struct floor_node *n = ctx;
    uint64_t words[2] = {term, vote};
    if (pwrite(n->vote_fd, words, sizeof(words), 0) != (ssize_t)sizeof(words) ||
        fdatasync(n->vote_fd) != 0) {
        floor_die("the vote");
    }
}

/* Into the file, which was filled before, again from its start when it is full. The sync comes when
 * what is to be sent has left. */
static void write_entries(void *ctx, uint64_t first, const struct replica_entry *entries,
                          uint32_t count)
{
    struct floor_node *n = ctx;
    static uint8_t record[RECORD_HEAD + OUTSTANDING_MAX * COMMAND + 1024];
    for (uint32_t i = 0; i < count; i++) {
        size_t len = RECORD_HEAD + entries[i].bytes.len;
        hf_assert(len <= sizeof(record));
        if (entries[i].bytes.len > 0) {
            memcpy(record + RECORD_HEAD, entries[i].bytes.data, entries[i].bytes.len);
        }
        n->log_at = n->log_at + (off_t)len > LOG_BYTES ? 0 : n->log_at;
        if (pwrite(n->log_fd, record, len, n->log_at) != (ssize_t)len) {
            floor_die("the log");
        }
        n->log_at += (off_t)len;
    }
    hf_assert(n->pending_count < PENDING);
    n->pending[n->pending_count++] = (struct pending){first, first + count - 1};
}

static bool read_entry(void *ctx, uint64_t index, struct replica_entry *out)
{
    (void)ctx;
    (void)index;
    (void)out;
    return false; /* nobody is so far behind */
}

static void send_message(void *ctx, uint64_t peer, struct slice message)
{
    struct floor_node *n = ctx;
    uint32_t len = (uint32_t)message.len;
    buffer_append(&n->out[peer], &len, sizeof(len));
    buffer_append_slice(&n->out[peer], message);
    hf_assert(!n->out[peer].overflowed);
}

/* ---- one turn ---- */

static void flush(struct floor_node *n)
{
    for (unsigned i = 1; i <= n->nodes; i++) {
        struct slice bytes = buffer_bytes(&n->out[i]);
        if (bytes.len > 0) {
            ssize_t sent = send(n->fds[i], bytes.data, bytes.len, MSG_NOSIGNAL);
            if (sent != (ssize_t)bytes.len) { /* blocking: whole, or the other one is gone */
                _exit(0);
            }
            buffer_consume(&n->out[i], (size_t)sent);
        }
    }
}

static void hear(struct floor_node *n, unsigned from)
{
    uint8_t bytes[65536];
    ssize_t got = recv(n->fds[from], bytes, sizeof(bytes), MSG_DONTWAIT);
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) {
        _exit(0); /* the run is over */
    }
    buffer_append(&n->in[from], bytes, got > 0 ? (size_t)got : 0);
    for (;;) {
        struct slice all = buffer_bytes(&n->in[from]);
        struct engine_heard heard;
        uint32_t len = 0;
        if (all.len < sizeof(len)) {
            return;
        }
        memcpy(&len, all.data, sizeof(len));
        if (all.len - sizeof(len) < len) {
            return;
        }
        bool sound = engine_receive(&n->engine, from, slice_make(all.data + sizeof(len), len),
                                    now_ms(), &heard);
        hf_assert(sound);
        buffer_consume(&n->in[from], sizeof(len) + len);
    }
}

static void on_synced(struct floor_node *n, unsigned count, uint64_t began_ns)
{
    struct pending done[PENDING];
    memcpy(done, n->pending, count * sizeof(done[0]));
    histogram_add(&n->syncs, floor_now_ns() - began_ns);
    n->pending_count -= count;
    memmove(n->pending, n->pending + count, n->pending_count * sizeof(done[0]));
    for (unsigned i = 0; i < count; i++) {
        engine_written(&n->engine, done[i].last, now_ms());
    }
}

static void *sync_forever(void *ctx)
{
    struct syncer *s = ctx;
    const uint64_t one = 1;
    for (;;) {
        pthread_mutex_lock(&s->mutex);
        while (!s->is_wanted) {
            pthread_cond_wait(&s->cond, &s->mutex);
        }
        s->is_wanted = false;
        pthread_mutex_unlock(&s->mutex);
        if (fdatasync(s->log_fd) != 0 || write(s->done_fd, &one, sizeof(one)) != sizeof(one)) {
            floor_die("the log");
        }
    }
    return NULL;
}

static void start_syncer(struct floor_node *n)
{
    struct syncer *s = &n->syncer;
    struct epoll_event event = {.events = EPOLLIN, .data.u32 = 0};
    s->log_fd = n->log_fd;
    s->done_fd = eventfd(0, EFD_CLOEXEC);
    pthread_mutex_init(&s->mutex, NULL);
    pthread_cond_init(&s->cond, NULL);
    if (s->done_fd < 0 || epoll_ctl(n->epoll, EPOLL_CTL_ADD, s->done_fd, &event) != 0 ||
        pthread_create(&s->thread, NULL, sync_forever, s) != 0) {
        floor_die("a thread");
    }
}

static void request_syncer(struct floor_node *n)
{
    struct syncer *s = &n->syncer;
    if (s->covers == 0) {
        s->covers = n->pending_count;
        s->began_ns = floor_now_ns();
        pthread_mutex_lock(&s->mutex);
        s->is_wanted = true;
        pthread_cond_signal(&s->cond);
        pthread_mutex_unlock(&s->mutex);
    }
}

static void hear_syncer(struct floor_node *n)
{
    uint64_t times;
    unsigned count = n->syncer.covers;
    if (read(n->syncer.done_fd, &times, sizeof(times)) != sizeof(times)) {
        floor_die("the disk's thread");
    }
    n->syncer.covers = 0;
    on_synced(n, count, n->syncer.began_ns);
}

static void sync_log(struct floor_node *n)
{
    if (n->pending_count > 0 && n->syncer.done_fd >= 0) {
        request_syncer(n);
    } else if (n->pending_count > 0) {
        uint64_t began_ns = floor_now_ns();
        if (fdatasync(n->log_fd) != 0) {
            floor_die("the log");
        }
        on_synced(n, n->pending_count, began_ns);
    }
}

static void answer_members(struct floor_node *n)
{
    if (!n->has_members && raft_commit_index(&n->engine.raft) >= 1) {
        n->has_members = true;
        engine_configuration(&n->engine, 1, slice_make(n->members, n->members_len), now_ms());
    }
}

/* Waits for something to happen, unless there is something to send at once. */
static void turn(struct floor_node *n)
{
    struct epoll_event events[FLOOR_NODES_MAX + 1];
    flush(n);
    sync_log(n);
    flush(n);
    answer_members(n);
    entries_evict(&n->engine.log, raft_commit_index(&n->engine.raft));
    uint64_t due = raft_timeout(&n->engine.raft);
    uint64_t now = now_ms();
    int count =
        epoll_wait(n->epoll, events, FLOOR_NODES_MAX + 1, due <= now ? 0 : (int)(due - now));
    for (int i = 0; i < count; i++) {
        if (events[i].data.u32 == 0) {
            hear_syncer(n);
        } else {
            hear(n, events[i].data.u32);
        }
    }
    if (now_ms() >= raft_timeout(&n->engine.raft)) {
        engine_timeout(&n->engine, now_ms());
    }
}

/* ---- the leader's load ---- */

static void submit(struct floor_node *n, unsigned commands)
{
    static const uint8_t bytes[OUTSTANDING_MAX * COMMAND];
    enum hf_error error = engine_submit(&n->engine, REPLICA_COMMAND,
                                        slice_make(bytes, (size_t)commands * COMMAND), now_ms());
    hf_assert(error == HF_OK);
}

static uint64_t commit_one(struct floor_node *n, unsigned commands)
{
    uint64_t began = floor_now_ns();
    submit(n, commands);
    uint64_t index = entries_last(&n->engine.log);
    while (raft_commit_index(&n->engine.raft) < index) {
        turn(n);
        hf_assert(engine_is_leader(&n->engine));
    }
    return floor_now_ns() - began;
}

static struct floor_figures measure(struct floor_node *n, unsigned commands, double seconds)
{
    static struct histogram commits;
    uint64_t count = 0;
    memset(&commits, 0, sizeof(commits));
    for (unsigned i = 0; i < 100; i++) {
        commit_one(n, commands); /* warm up */
    }
    memset(&n->syncs, 0, sizeof(n->syncs));
    uint64_t began = floor_now_ns();
    uint64_t end = began + (uint64_t)(seconds * 1e9);
    while (floor_now_ns() < end) {
        histogram_add(&commits, commit_one(n, commands));
        count++;
    }
    return (struct floor_figures){
        .commands_per_second = (double)count * commands * 1e9 / (double)(floor_now_ns() - began),
        .p50_us = (double)histogram_at(&commits, 50000) / 1000,
        .p99_us = (double)histogram_at(&commits, 99000) / 1000,
        .sync_p50_us = (double)histogram_at(&n->syncs, 50000) / 1000,
    };
}

/* ---- a node's life ---- */

static int open_file(const char *folder, const char *name, uint64_t id)
{
    char path[512];
    (void)snprintf(path, sizeof(path), "%s/%s-%" PRIu64, folder, name, id);
    int fd = open(path, O_CREAT | O_TRUNC | O_RDWR | O_CLOEXEC, 0600);
    if (fd < 0) {
        floor_die(path);
    }
    return fd;
}

/* A sync of a file that does not grow and has its blocks costs no more than its data. */
static void fill(int fd, size_t bytes)
{
    static const uint8_t zeros[1 << 16];
    for (size_t at = 0; at < bytes; at += sizeof(zeros)) {
        if (write(fd, zeros, sizeof(zeros)) != (ssize_t)sizeof(zeros)) {
            floor_die("the log");
        }
    }
    if (fsync(fd) != 0) {
        floor_die("the log");
    }
}

static void start_engine(struct floor_node *n)
{
    const char *problem = "";
    struct replica_options options = {
        .memory = memory_system(),
        .id = n->id,
        .address = "floor",
        .seed = (uint32_t)n->id,
        .election_ms = n->id == 1 ? LEADER_MS : FOLLOWER_MS,
        .heartbeat_ms = HEARTBEAT_MS,
        .cache_bytes = CACHE_BYTES,
    };
    struct replica_entry first = {1, REPLICA_MEMBERS, slice_make(n->members, n->members_len)};
    struct replica_start start = {.term = 1, .first = 1, .count = 1};
    entries_init(&n->engine.log, options.memory, start.first, options.cache_bytes);
    entries_append(&n->engine.log, &first);
    n->ports = (struct replica_ports){.ctx = n,
                                      .save_vote = save_vote,
                                      .write = write_entries,
                                      .read = read_entry,
                                      .send = send_message};
    if (!engine_start(&n->engine, &options, &n->ports, &start, now_ms(), &problem)) {
        fprintf(stderr, "raft_floor: %s\n", problem);
        _exit(1);
    }
}

_Noreturn void floor_run_node(uint64_t id, const struct floor_settings *s,
                              const int fds[FLOOR_NODES_MAX + 1], int results)
{
    static struct floor_node n;
    struct replica_member members[FLOOR_NODES_MAX];
    char names[FLOOR_NODES_MAX][16];
    n.id = id;
    n.nodes = s->nodes;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    n.epoll = epoll_create1(EPOLL_CLOEXEC);
    for (unsigned i = 1; i <= s->nodes; i++) {
        struct epoll_event event = {.events = EPOLLIN, .data.u32 = i};
        n.fds[i] = fds[i];
        buffer_init(&n.in[i], memory_system(), OUT_MAX);
        buffer_init(&n.out[i], memory_system(), OUT_MAX);
        if (n.fds[i] >= 0 && epoll_ctl(n.epoll, EPOLL_CTL_ADD, n.fds[i], &event) != 0) {
            floor_die("epoll");
        }
        (void)snprintf(names[i - 1], sizeof(names[i - 1]), "floor:%u", i);
        members[i - 1] = (struct replica_member){.id = i, .address = names[i - 1], .voter = true};
    }
    n.members_len = replica_bootstrap_entry(members, s->nodes, n.members, sizeof(n.members));
    n.log_fd = open_file(s->folder, "log", id);
    n.vote_fd = open_file(s->folder, "vote", id);
    fill(n.log_fd, LOG_BYTES);
    n.syncer.done_fd = -1;
    if (s->has_thread) {
        start_syncer(&n);
    }
    start_engine(&n);
    if (id != 1) {
        for (;;) {
            turn(&n);
        }
    }
    while (!engine_is_leader(&n.engine) || !n.has_members) {
        turn(&n);
    }
    raft_set_election_timeout(&n.engine.raft, FOLLOWER_MS);
    struct floor_figures figures[FLOOR_RESULTS];
    for (unsigned i = 0; i < FLOOR_RESULTS; i++) {
        figures[i] = measure(&n, floor_outstanding[i], s->seconds);
    }
    _exit(write(results, figures, sizeof(figures)) == (ssize_t)sizeof(figures) ? 0 : 1);
}
