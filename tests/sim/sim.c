/* The simulator: a cluster of production nodes in a world of faults, decided by one seed.
 *
 *   sim [--seed N] [--seeds N] [--seconds S] [--within S] [--jobs N] [--keep-going] [--calm]
 *       [--trace] [--picture FILE] [--overlook RULES]
 *
 * Runs S simulated seconds with faults and then some without, in which everybody must make progress
 * again and all nodes must come to the same state. With several seeds each one is a process, so
 * that one that crashes or hangs is named like any other. The first failure ends the run, unless
 * `keep-going` is given: then the report says how often each kind of violation came. `overlook`
 * names rules of the engine whose breach is only counted. `within` is real time: no more seeds are
 * begun after it, and the report says how many there were. */
#define _DEFAULT_SOURCE
#include "times.h"
#include "world.h"

#include <errno.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { HEAL_US = 6000000, PROGRESS_US = 6000000, REST_US = 3000000, HANG_SECONDS = 120 };

/* ---- one world ---- */

static void run_for(uint64_t us)
{
    uint64_t until_us = world.now_us + us;
    while (world.now_us < until_us && world_step()) {
    }
}

static void watch(struct happening *h)
{
    (void)h;
    truth_watch();
    happen(50000, watch, 0);
}

static void one_world(const struct sim_options *options)
{
    memset(&world, 0, sizeof(world));
    world.options = *options;
    world.random = options->seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
    for (int i = 0; i < 10; i++) {
        (void)chance();
    }
    world.now_us = 1000000;
    weather_draw(&world.weather);
    if (options->calm) {
        world.weather = (struct weather){.snapshot_bytes = 500000};
    }
    heap_begin();
    nodes_begin();
    clients_begin();
    times_begin();
    faults_schedule();
    happen(50000, watch, 0);
    run_for(options->seconds * 1000000);
    faults_stop();
    run_for(HEAL_US);
    uint64_t before = clients_least_done();
    uint64_t tier_before = world.counts.tier_granted;
    run_for(PROGRESS_US);
    if (leader_now() == NULL) {
        violation("there is no leader %d s after the faults stopped",
                  (HEAL_US + PROGRESS_US) / 1000000);
    }
    if (leader_now() != NULL && core_version(replica_core(leader_now()->replica)) != CORE_VERSION) {
        violation("the state is of version %u, and all members know %u",
                  core_version(replica_core(leader_now()->replica)), CORE_VERSION);
    }
    if (clients_least_done() == before) {
        violation("a client got no answer for %d s after the faults stopped",
                  PROGRESS_US / 1000000);
    }
    if (world.counts.tier_granted == tier_before) {
        violation("the tier EFFICIENCY granted nothing for %d s after the faults stopped",
                  PROGRESS_US / 1000000);
    }
    for (int i = 0; members_are_stuck(); i++) {
        if (i == 50) {
            violation("a change of members does not end after the faults stopped");
        }
        run_for(37000);
    }
    clients_stop();
    faults_release();
    run_for(REST_US);
    char why[200];
    for (int i = 0; !check_all_agree(why, sizeof(why)); i++) {
        if (i == 30) {
            violation("long after the faults stopped %s", why);
        }
        run_for(37000); /* they tick along */
    }
    clients_check();
    nodes_end();
    checks_end();
    same_entries_end();
    truth_end();
    times_end();
    clients_end();
    network_end();
    world_close();
}

/* ---- many ---- */

static volatile sig_atomic_t interrupted;

static void on_interrupt(int signal)
{
    (void)signal;
    interrupted = 1;
}

static void add(struct counts *sum, const struct counts *from)
{
    const uint64_t *f = (const uint64_t *)from;
    uint64_t *to = (uint64_t *)sum;
    for (size_t i = 0; i < sizeof(*sum) / sizeof(uint64_t); i++) {
        to[i] += f[i];
    }
}

/* The signal SIGPROF ends a process that used HANG_SECONDS of a core. Real time would be wrong: a
 * world at low priority on a busy machine may wait for minutes. */
static void limit_core_time(void)
{
    struct itimerval limit = {.it_value = {.tv_sec = HANG_SECONDS}};
    if (setitimer(ITIMER_PROF, &limit, NULL) != 0) {
        perror("sim: setitimer");
        exit(70);
    }
}

struct worker {
    pid_t pid;
    uint64_t seed;
};

struct shared {
    struct counts counts[64]; /* of each worker */
    char said[64][SAID_MAX];
};

static void start(struct worker *w, struct counts *counts, char *said, struct sim_options options)
{
    options.seed = w->seed;
    options.said = said;
    said[0] = '\0';
    fflush(stdout);
    w->pid = fork();
    if (w->pid == 0) {
        (void)signal(SIGINT, SIG_DFL);
        limit_core_time();
        one_world(&options);
        *counts = world.counts;
        _exit(0);
    }
    if (w->pid < 0) {
        perror("sim: fork");
        exit(70);
    }
}

/* ---- kinds of violations ---- */

static struct violation_kind {
    char text[SAID_MAX]; /* without its numbers */
    uint64_t seeds;
    uint64_t first; /* some of them */
    uint64_t second;
} kinds[64];
static uint32_t kind_count;

static void note_kind(const char *said, uint64_t seed)
{
    char text[SAID_MAX];
    size_t len = 0;
    for (const char *c = said; *c != '\0' && len + 1 < sizeof(text); c++) {
        bool is_rule = c > said && c[-1] == 'E'; /* E13 keeps its number */
        if (*c < '0' || *c > '9' || is_rule || (len > 1 && text[len - 2] == 'E')) {
            text[len++] = *c;
        } else if (len == 0 || text[len - 1] != '#') {
            text[len++] = '#';
        }
    }
    text[len] = '\0';
    uint32_t i = 0;
    while (i < kind_count && strcmp(kinds[i].text, text) != 0) {
        i++;
    }
    if (i == sizeof(kinds) / sizeof(kinds[0])) {
        return;
    }
    if (i == kind_count) {
        kind_count++;
        snprintf(kinds[i].text, sizeof(kinds[i].text), "%s", text);
        kinds[i].first = seed;
    } else if (kinds[i].second == 0) {
        kinds[i].second = seed;
    }
    kinds[i].seeds++;
}

static void report_kinds(void)
{
    for (uint32_t done = 0; done < kind_count; done++) {
        struct violation_kind *most = &kinds[0];
        for (uint32_t i = 1; i < kind_count; i++) {
            most = kinds[i].seeds > most->seeds ? &kinds[i] : most;
        }
        printf("%6llu  %s (seeds %llu, %llu)\n", ull(most->seeds), most->text, ull(most->first),
               ull(most->second));
        most->seeds = 0;
    }
}

static bool ended_well(const struct worker *w, int status, char *said)
{
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
        return true;
    }
    if (WIFSIGNALED(status)) {
        const char *how = WTERMSIG(status) == SIGPROF ? "it hangs" : strsignal(WTERMSIG(status));
        fprintf(stderr, "VIOLATION seed %llu: %s\nreplay: make sim SEED=%llu TRACE=1\n",
                ull(w->seed), how, ull(w->seed));
        snprintf(said, SAID_MAX, "%s", how);
    }
    note_kind(said, w->seed);
    return false;
}

static double real_seconds(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

struct plan {
    uint64_t seeds;
    double until_seconds; /* real time */
    int jobs;
    bool keep_going; /* after a failure */
};

/* How many passed. */
static uint64_t run_seeds(const struct sim_options *options, const struct plan *plan,
                          struct counts *sum, uint64_t *failed)
{
    uint64_t seeds = plan->seeds;
    int jobs = plan->jobs;
    struct worker workers[64] = {{0, 0}};
    struct shared *shared =
        mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) {
        perror("sim: mmap");
        exit(70);
    }
    bool live = isatty(STDERR_FILENO);
    uint64_t next = 0;
    uint64_t passed = 0;
    int running = 0;
    while (running > 0 || (next < seeds && !interrupted)) {
        if (next > 0 && real_seconds() > plan->until_seconds) {
            seeds = next;
        }
        for (int i = 0; i < jobs && next < seeds && !interrupted; i++) {
            if (workers[i].pid == 0) {
                workers[i].seed = options->seed + next++;
                start(&workers[i], &shared->counts[i], shared->said[i], *options);
                running++;
            }
        }
        int status;
        pid_t pid = wait(&status);
        for (int i = 0; i < jobs && pid > 0; i++) {
            if (workers[i].pid == pid) {
                workers[i].pid = 0;
                running--;
                if (ended_well(&workers[i], status, shared->said[i])) {
                    passed++;
                    add(sum, &shared->counts[i]);
                } else if (!interrupted) {
                    (*failed)++;
                }
            }
        }
        if (live && passed % 10 == 0) {
            fprintf(stderr, "\r%llu of %llu ", ull(passed), ull(seeds));
        }
        if (*failed > 0 && !plan->keep_going) {
            for (int i = 0; i < jobs; i++) {
                if (workers[i].pid > 0) {
                    (void)kill(workers[i].pid, SIGKILL);
                    (void)waitpid(workers[i].pid, NULL, 0);
                }
            }
            break;
        }
    }
    if (live) {
        fprintf(stderr, "\r                    \r");
    }
    munmap(shared, sizeof(*shared));
    return passed;
}

/* ---- the report ---- */

static double cpu_seconds(int who)
{
    struct rusage u;
    getrusage(who, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
           (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

static void report(const struct sim_options *options, uint64_t seeds, const struct counts *c)
{
    double simulated = (double)seeds *
                       ((double)options->seconds + (double)(HEAL_US + PROGRESS_US + REST_US) / 1e6);
    double cpu = cpu_seconds(RUSAGE_SELF) + cpu_seconds(RUSAGE_CHILDREN);
    printf("%llu seeds of %llu s with faults: %.0f commands/s, %llu granted, %llu refused, %llu "
           "expired, %llu reads, %llu unavailable, %llu unknown, %llu requested again\n",
           ull(seeds), ull(options->seconds), (double)c->commands / simulated, ull(c->granted),
           ull(c->refused), ull(c->expired), ull(c->reads), ull(c->unavailable), ull(c->unknown),
           ull(c->retries));
    printf("nodes: %llu entries, %llu elections, %llu snapshots, %llu installed, %llu member "
           "changes (%llu of the leader), %llu transfers, %llu messages of nodes that are no "
           "members\n",
           ull(c->entries), ull(c->elections), ull(c->snapshots), ull(c->installs), ull(c->changes),
           ull(c->leader_removals), ull(c->transfers), ull(c->not_heard));
    printf("faults: %llu crashes (%llu power cuts), %llu blackouts, %llu disks stopped, %llu cuts, "
           "%llu isolations, %llu corners, %llu beheadings, %llu pauses, %llu slow disks, %llu "
           "full, %llu wiped "
           "(%llu refusals), "
           "%llu bits flipped (%llu found)\n",
           ull(c->crashes), ull(c->power_cuts), ull(c->blackouts), ull(c->stops), ull(c->cuts),
           ull(c->isolations), ull(c->corners), ull(c->beheadings), ull(c->pauses),
           ull(c->slow_disks), ull(c->full_disks), ull(c->wiped), ull(c->refused_stores),
           ull(c->flips), ull(c->damage_found));
    printf(
        "small: %llu worlds begin with one or two voters, %.1f %% of the time one votes, %.1f %% "
        "two; %llu new numbers wanted, %llu promotions cut off, %llu leaders left (%llu refused), "
        "%llu with a transfer, %llu powerless, %llu late demotions, %llu kept down\n",
        ull(c->small_worlds), (double)c->sole_voter_us / simulated / 1e4,
        (double)c->two_voters_us / simulated / 1e4, ull(c->retargets), ull(c->promotions_cut),
        ull(c->leaders_left), ull(c->leaders_refused), ull(c->transfers_in_change),
        ull(c->voters_cut_power), ull(c->late_timeouts), ull(c->kept_down));
    printf(
        "late: %llu stalls with %llu messages and %llu lost, %llu of an earlier term; %llu rivals "
        "(%llu beaten in their term), %llu late pre-votes, %llu candidates cut off, %llu sources "
        "of a snapshot died, %llu followers not heard; %llu quiet windows, %llu checked; %llu "
        "overlooked\n",
        ull(c->stalls), ull(c->parked), ull(c->lost_in_stall), ull(c->late_messages),
        ull(c->rivals), ull(c->rivals_won), ull(c->late_pre_votes), ull(c->candidates_cut),
        ull(c->installs_beheaded), ull(c->answers_lost), ull(c->windows), ull(c->windows_checked),
        ull(c->overlooked));
    printf("fence: %llu checks, %llu late writes, %llu refused; %llu taken away; counters raised "
           "%llu times, %llu on changes not applied yet, %llu conflicts; histories: %llu "
           "checked, %llu "
           "undecided\n",
           ull(c->fence_checks), ull(c->stale_writes), ull(c->fence_rejections), ull(c->taken),
           ull(c->raised), ull(c->built), ull(c->conflicts), ull(c->histories), ull(c->undecided));
    printf("times: %llu ended by max_hold, %llu long holds reported, %llu commands with if_token, "
           "%llu of "
           "them refused\n",
           ull(c->max_holds), ull(c->long_held), ull(c->if_tokens), ull(c->token_mismatches));
    printf("keys: %llu transactions done, %llu conflicts\n", ull(c->key_changes),
           ull(c->key_conflicts));
    printf(
        "principals: %llu changes of the policy, %llu removed (%llu answered), %llu granted, %llu "
        "denied, %llu waiters denied\n",
        ull(c->policy_changes), ull(c->revocations), ull(c->revocations_answered),
        ull(c->granted_to_principals), ull(c->denied), ull(c->waits_denied));
    printf(
        "tier EFFICIENCY: %llu granted, %llu lost by the epoch, %llu refused as of the other tier, "
        "%llu put off; %llu blocks of tokens requested, %llu granted of them\n",
        ull(c->tier_granted), ull(c->tier_lost), ull(c->tier_wrong), ull(c->tier_later),
        ull(c->tier_reserved), ull(c->tier_of_block));
    printf("%.0f s simulated in %.2f s of a core: %.0f times real time per core\n", simulated, cpu,
           simulated / cpu);
}

static uint64_t number(const char *text)
{
    char *end;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    if (errno != 0 || end == text || *end != '\0') {
        fprintf(stderr, "sim: \"%s\" is not a number\n", text);
        exit(64);
    }
    return value;
}

int main(int argc, char **argv)
{
    struct sim_options options = {.seed = 1, .seconds = 60};
    struct plan plan = {.seeds = 1};
    uint64_t within = 0; /* no limit */
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    uint64_t jobs = cores < 1 ? 1 : (uint64_t)cores;
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        if (strcmp(argv[i], "--trace") == 0) {
            options.trace = true;
            continue;
        }
        if (strcmp(argv[i], "--keep-going") == 0) {
            plan.keep_going = true;
            continue;
        }
        if (strcmp(argv[i], "--calm") == 0) {
            options.calm = true;
            continue;
        }
        if (strcmp(argv[i], "--seed") == 0) {
            options.seed = number(value);
        } else if (strcmp(argv[i], "--seeds") == 0) {
            plan.seeds = number(value);
        } else if (strcmp(argv[i], "--seconds") == 0) {
            options.seconds = number(value);
        } else if (strcmp(argv[i], "--within") == 0) {
            within = number(value);
        } else if (strcmp(argv[i], "--jobs") == 0) {
            jobs = number(value);
        } else if (strcmp(argv[i], "--picture") == 0) {
            options.picture = value;
        } else if (strcmp(argv[i], "--overlook") == 0) {
            options.overlook = value;
        } else {
            fprintf(stderr, "usage: sim [--seed N] [--seeds N] [--seconds S] [--within S] "
                            "[--jobs N] [--keep-going] [--calm] [--trace] [--picture FILE] "
                            "[--overlook RULES]\n");
            return 64;
        }
        i++;
    }
    struct counts sum = {0};
    if (plan.seeds == 1 && !plan.keep_going) { /* here, for a debugger */
        one_world(&options);
        report(&options, 1, &world.counts);
        printf("1 passed, 0 failed\n");
        return 0;
    }
    uint64_t failed = 0;
    (void)signal(SIGINT, on_interrupt);
    plan.jobs = jobs < 1 ? 1 : jobs > 64 ? 64 : (int)jobs;
    plan.until_seconds = within == 0 ? 1e18 : real_seconds() + (double)within;
    uint64_t passed = run_seeds(&options, &plan, &sum, &failed);
    if (passed > 0) {
        report(&options, passed, &sum);
    }
    report_kinds();
    printf("%llu passed, %llu failed\n", ull(passed), ull(failed));
    return failed > 0 || interrupted ? 1 : 0;
}
