/* Phases and the loop of the load, see load_state.h. */
#include "bench/load.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "bench/load_state.h"

enum { EVENTS = 256, TURN_MS = 100 };

static volatile sig_atomic_t interrupted;

static void on_interrupt(int signal)
{
    (void)signal;
    interrupted = 1;
}

uint64_t bench_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * SECOND + (uint64_t)now.tv_nsec;
}

static uint64_t cpu_ns(void)
{
    struct timespec used;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    return (uint64_t)used.tv_sec * SECOND + (uint64_t)used.tv_nsec;
}

/* ---- errors ---- */

static void count_error(struct bench_result *r, const char *code)
{
    unsigned i = 0;
    while (i < r->codes && strcmp(r->by_code[i].code, code) != 0) {
        i++;
    }
    if (i == BENCH_CODES) {
        i = BENCH_CODES - 1;
        (void)snprintf(r->by_code[i].code, BENCH_CODE, "others");
    } else if (i == r->codes) {
        r->codes++;
        (void)snprintf(r->by_code[i].code, BENCH_CODE, "%s", code);
    }
    r->by_code[i].count++;
    r->errors++;
}

/* An error in PREPARE ends the run: the load would not be the requested one. Errors in MEASURE are
 * counted. */
void load_error(struct load *l, const char *code, const char *message)
{
    if (l->phase == PHASE_PREPARE && !l->failed) {
        l->failed = true;
        (void)snprintf(l->problem, BENCH_PROBLEM, "%s", message);
    } else if (l->phase == PHASE_MEASURE) {
        count_error(l->result, code);
        (void)snprintf(l->result->last_error, BENCH_MESSAGE, "%s", message);
    }
}

/* ---- timers ---- */

static bool timer_before(const void *ctx, ref a, ref b)
{
    (void)ctx;
    return a < b;
}

static void timer_moved(void *ctx, ref who, uint32_t position)
{
    struct load *l = ctx;
    uint32_t clients = (uint32_t)l->settings->clients;
    if (who <= clients) {
        l->clients[who - 1].timer = position;
    } else {
        l->lines[who - 1 - clients].timer = position;
    }
}

static const struct heap_ops timer_ops = {timer_before, timer_moved};

void load_set_timer(struct load *l, uint32_t *position, ref who, uint64_t at_ns)
{
    if (*position != 0) {
        heap_remove(&l->timers, *position);
    }
    if (at_ns != UINT64_MAX) {
        heap_insert(&l->timers, at_ns, who);
    }
}

static void run_timers(struct load *l)
{
    uint32_t clients = (uint32_t)l->settings->clients;
    uint64_t now_ns = bench_now_ns();
    while (heap_min_at(&l->timers) <= now_ns) {
        ref who = heap_min(&l->timers);
        if (who <= clients) {
            struct bench_client *c = &l->clients[who - 1];
            load_set_timer(l, &c->timer, who, UINT64_MAX);
            client_next(c);
            line_flush(c->line);
        } else {
            struct line *s = &l->lines[who - 1 - clients];
            load_set_timer(l, &s->timer, who, UINT64_MAX);
            line_connect(s);
        }
    }
}

/* The timeout of epoll has a resolution of 1 ms, too coarse for --rate. */
static void arm_timer(struct load *l)
{
    uint64_t at_ns = heap_min_at(&l->timers);
    if (at_ns == l->timer_ns) {
        return;
    }
    struct itimerspec spec = {{0, 0}, {0, 0}};
    if (at_ns != UINT64_MAX) {
        spec.it_value.tv_sec = (time_t)(at_ns / SECOND);
        spec.it_value.tv_nsec = (long)(at_ns % SECOND);
    }
    l->timer_ns = at_ns;
    int status = timerfd_settime(l->timer_fd, TFD_TIMER_ABSTIME, &spec, NULL);
    hf_assert(status == 0);
}

static void on_timer(struct load *l)
{
    uint64_t times;
    ssize_t got = read(l->timer_fd, &times, sizeof(times));
    (void)got; /* only the wake-up matters */
    l->timer_ns = UINT64_MAX;
}

/* ---- phases ---- */

static void kick_all(struct load *l)
{
    l->at_gate = 0;
    for (uint32_t i = 0; i < l->settings->clients; i++) {
        l->clients[i].at_gate = false;
    }
    for (uint32_t i = 0; i < l->settings->clients; i++) {
        client_next(&l->clients[i]);
        line_flush(l->clients[i].line);
    }
}

static void begin_phase(struct load *l, enum bench_phase phase, uint64_t now_ns)
{
    const struct bench_settings *s = l->settings;
    struct bench_result *r = l->result;
    if (l->phase == PHASE_PREPARE) {
        r->held_ns = now_ns - l->phase_ns;
        for (uint32_t i = 0; i < s->clients; i++) {
            /* Evenly, so that clients do not begin in one burst. */
            uint64_t rate = s->contended ? ARRIVALS : s->rate;
            l->clients[i].due_ns = rate == 0 ? 0 : now_ns + SECOND * i / rate;
        }
    }
    if (l->phase == PHASE_MEASURE) {
        r->measured_ns = now_ns - l->phase_ns;
        r->cpu_ns = cpu_ns() - r->cpu_ns;
    }
    if (phase == PHASE_MEASURE) {
        r->cpu_ns = cpu_ns();
        r->reconnects = 0;
    }
    bool was_cycling = l->phase == PHASE_WARM;
    l->phase = phase;
    l->phase_ns = now_ns;
    l->progress_ns = now_ns;
    l->answer_ns = now_ns;
    if (!was_cycling) {
        kick_all(l); /* from WARM to MEASURE all clients continue */
    }
}

static void step_phase(struct load *l, uint64_t now_ns)
{
    const struct bench_settings *s = l->settings;
    uint64_t passed_ms = (now_ns - l->phase_ns) / MS;
    bool all_at_gate = l->at_gate == s->clients;
    bool silent = now_ns - l->answer_ns > SILENCE_MS * MS;
    /* Do not wait for a long queue: remaining sessions expire by their TTL. */
    bool enough = s->contended && passed_ms > SILENCE_MS;
    if (interrupted && l->phase < PHASE_CLOSE) {
        l->result->interrupted = true;
        if (l->phase == PHASE_PREPARE) {
            l->failed = true;
            (void)snprintf(l->problem, BENCH_PROBLEM, "interrupted before the load began");
        }
        begin_phase(l, PHASE_CLOSE, now_ns);
    } else if (l->phase == PHASE_PREPARE && l->failed) {
        begin_phase(l, PHASE_CLOSE, now_ns);
    } else if (l->phase == PHASE_PREPARE && silent) {
        load_error(l, "silence", "no node answers");
    } else if (l->phase == PHASE_PREPARE && all_at_gate) {
        begin_phase(l, PHASE_WARM, now_ns);
    } else if (l->phase == PHASE_WARM && passed_ms >= s->warmup_ms) {
        begin_phase(l, PHASE_MEASURE, now_ns);
    } else if (l->phase == PHASE_MEASURE && passed_ms >= s->measure_ms) {
        begin_phase(l, PHASE_CLOSE, now_ns);
    } else if (l->phase == PHASE_CLOSE && (all_at_gate || silent || enough)) {
        begin_phase(l, PHASE_OVER, now_ns);
    }
}

/* About ten times per second. */
static void check_overdue(struct load *l, uint64_t now_ns)
{
    static const char *const names[] = {"preparing", "warming up", "measuring", "cleaning up", ""};
    const struct bench_settings *s = l->settings;
    uint64_t patience_ms = s->contended ? load_ttl_ms(s) : REQUEST_MS;
    for (uint32_t i = 0; i < s->clients; i++) {
        struct bench_client *c = &l->clients[i];
        if (c->waits_for_answer && line_is_up(c->line) && now_ns > c->sent_ns + patience_ms * MS) {
            line_give_up(c->line, "no_answer", "a request was not answered in time");
        }
    }
    if (l->on_progress != NULL && now_ns - l->progress_ns >= SECOND) {
        struct bench_progress progress = {
            .phase = names[l->phase],
            .passed_ns = now_ns - l->phase_ns,
            .total_ns = l->phase == PHASE_WARM      ? s->warmup_ms * MS
                        : l->phase == PHASE_MEASURE ? s->measure_ms * MS
                                                    : 0,
            .done = l->phase == PHASE_PREPARE ? l->held_locks : l->result->cycles,
            .so_far = l->result,
        };
        l->progress_ns = now_ns;
        l->on_progress(&progress);
    }
}

static void run(struct load *l)
{
    struct epoll_event events[EVENTS];
    uint64_t checked_ns = 0;
    for (uint32_t i = 0; i < l->settings->connections; i++) {
        line_connect(&l->lines[i]);
    }
    while (l->phase != PHASE_OVER) {
        arm_timer(l);
        int count = epoll_wait(l->epoll, events, EVENTS, TURN_MS);
        hf_assert(count >= 0 || errno == EINTR);
        for (int i = 0; i < count; i++) {
            if (events[i].data.ptr == NULL) {
                on_timer(l);
            } else {
                line_on_event(events[i].data.ptr, events[i].events);
            }
        }
        run_timers(l);
        uint64_t now_ns = bench_now_ns();
        step_phase(l, now_ns);
        if (now_ns - checked_ns >= TURN_MS * MS) {
            checked_ns = now_ns;
            check_overdue(l, now_ns);
        }
    }
}

/* ---- start and end ---- */

static bool raise_file_limit(uint64_t connections, char problem[BENCH_PROBLEM])
{
    struct rlimit limit;
    uint64_t wanted = connections + 64;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= wanted) {
        return true;
    }
    limit.rlim_cur = wanted < limit.rlim_max ? wanted : limit.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur < wanted) {
        (void)snprintf(problem, BENCH_PROBLEM,
                       "this process may open only %llu files, too few for the connections; raise "
                       "the limit (ulimit -n) or use fewer connections",
                       (unsigned long long)limit.rlim_max);
        return false;
    }
    return true;
}

static void *zeroed(size_t count, size_t size)
{
    size_t total = count * size + 1; /* never empty */
    void *block = memory_alloc(memory_system(), total);
    memset(block, 0, total);
    return block;
}

static void drop(void *block, size_t count, size_t size)
{
    memory_free(memory_system(), block, count * size + 1);
}

/* Evenly over the connections. */
static void open_clients(struct load *l)
{
    uint32_t clients = (uint32_t)l->settings->clients;
    uint32_t lines = (uint32_t)l->settings->connections;
    uint32_t next = 0;
    for (uint32_t i = 0; i < lines; i++) {
        struct line *s = &l->lines[i];
        s->load = l;
        s->number = i;
        s->first_client = next;
        s->clients = clients / lines + (i < clients % lines ? 1 : 0);
        for (uint32_t slot = 0; slot < s->clients; slot++, next++) {
            l->clients[next] =
                (struct bench_client){.load = l, .line = s, .number = next, .slot = slot};
        }
        bool opened = line_open(s);
        hf_assert(opened);
    }
}

static void open_load(struct load *l)
{
    const struct bench_settings *s = l->settings;
    struct bench_result *r = l->result;
    l->held_sessions = (uint32_t)((s->held + BENCH_HELD_PER_SESSION - 1) / BENCH_HELD_PER_SESSION);
    l->held = zeroed(l->held_sessions, sizeof(*l->held));
    l->clients = zeroed(s->clients, sizeof(*l->clients));
    l->lines = zeroed(s->connections, sizeof(*l->lines));
    heap_init(&l->timers, memory_system(), &timer_ops, l);
    l->timer_ns = UINT64_MAX;
    l->phase_ns = l->progress_ns = l->answer_ns = bench_now_ns();
    if (getrandom(&l->run, sizeof(l->run), 0) != (ssize_t)sizeof(l->run)) {
        l->run = (uint32_t)l->phase_ns;
    }
    if (s->samples != NULL) {
        r->sample_capacity = BENCH_SAMPLES_MAX;
        r->samples = memory_alloc(memory_system(), sizeof(*r->samples) * r->sample_capacity);
    }
    l->epoll = epoll_create1(EPOLL_CLOEXEC);
    l->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    hf_assert(l->epoll >= 0 && l->timer_fd >= 0);
    struct epoll_event event = {.events = EPOLLIN};
    int status = epoll_ctl(l->epoll, EPOLL_CTL_ADD, l->timer_fd, &event);
    hf_assert(status == 0);
    open_clients(l);
}

static void close_load(struct load *l)
{
    const struct bench_settings *s = l->settings;
    for (uint32_t i = 0; i < s->connections; i++) {
        line_close(&l->lines[i]);
    }
    heap_close(&l->timers);
    close(l->timer_fd);
    close(l->epoll);
    drop(l->held, l->held_sessions, sizeof(*l->held));
    drop(l->clients, s->clients, sizeof(*l->clients));
    drop(l->lines, s->connections, sizeof(*l->lines));
}

bool bench_load_run(const struct bench_settings *settings, const struct bench_targets *targets,
                    bench_progress_fn *on_progress, struct bench_result *result,
                    char problem[BENCH_PROBLEM])
{
    struct load l = {.settings = settings,
                     .targets = targets,
                     .result = result,
                     .on_progress = on_progress,
                     .problem = problem};
    *result = (struct bench_result){.cycles = 0};
    if (!raise_file_limit(settings->connections, problem)) {
        return false;
    }
    struct sigaction act = {.sa_handler = on_interrupt};
    sigaction(SIGINT, &act, NULL);
    sigaction(SIGTERM, &act, NULL);
    open_load(&l);
    run(&l);
    close_load(&l);
    return !l.failed;
}

void bench_result_close(struct bench_result *result)
{
    if (result->samples != NULL) {
        memory_free(memory_system(), result->samples,
                    sizeof(*result->samples) * result->sample_capacity);
        result->samples = NULL;
    }
}
