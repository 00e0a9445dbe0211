/* A program that uses libholdfast as others do, for test_client.py to watch.
 *
 *   client_probe hold ENDPOINTS NAME TTL_MS
 *       takes the lock and prints "acquired TOKEN SAFE_FOR_MS LEASE", then every event; each line
 *       on stdin is an order: check, export, release. Ends with stdin.
 *   client_probe tiers ENDPOINTS NAME TTL_MS
 *       takes NAME-fast in the tier EFFICIENCY and NAME-safe in the other, both in one session, and
 *       prints "acquired TOKEN TOKEN", then every event; `check` tells about both.
 *   client_probe load ENDPOINTS SECONDS THREADS
 *       takes and gives back a few names from many threads, and looks for broken promises:
 *       a call past its deadline, an error without a type, a token that comes twice or goes back, a
 *       lock granted while an earlier holder was not notified that it had lost it.
 *
 * Half of the load's threads share one client, the others have one each. */
#include <holdfast.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    NAMES = 4,
    THREADS_MAX = 64,
    WAIT_MS = 1500,
    CALL_MS = 3000,
    TTL_MS = 4000,
    SHORT_TTL_MS = 1000, /* of the clients that are not shared: some locks do get lost */
    PAUSE_MS = 2000,
    SLACK_MS = 1500, /* a busy machine may run a thread so much later than it could */
};

static int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_BOOTTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void say(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void say(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vprintf(format, arguments);
    va_end(arguments);
    fflush(stdout);
}

static const char *event_name(enum hf_event_type type)
{
    static const char *const names[] = {"?",      "safe",      "jeopardy",    "lost",
                                        "revoke", "connected", "disconnected"};
    return (unsigned)type < sizeof(names) / sizeof(names[0]) ? names[type] : "?";
}

/* ---- hold ---- */

static void print_event(hf_client *client, const struct hf_event *event, void *arg)
{
    say("%s %s %lld %s\n", event->lock != NULL ? "lock" : "client", event_name(event->type),
        (long long)event->safe_for_ms, event->text);
}

static int hold(const char *endpoints, const char *name, uint32_t ttl_ms)
{
    struct hf_options options = HF_OPTIONS;
    struct hf_lock_options how = HF_LOCK_OPTIONS;
    hf_client *client;
    hf_lock *lock;
    char order[64];
    char text[HF_HANDLE_SIZE];
    options.session_ttl_ms = ttl_ms;
    options.on_event = print_event;
    how.wait_ms = HF_WAIT_FOREVER;
    int error = hf_client_open(&client, endpoints, &options);
    error = error != 0 ? error : hf_acquire(client, name, &how, &lock);
    if (error != 0) {
        say("failed %s: %s\n", hf_error_name(error), hf_last_error());
        return 1;
    }
    say("acquired %llu %lld %s\n", (unsigned long long)hf_lock_token(lock),
        (long long)hf_lock_safe_for_ms(lock), hf_lock_lease(lock));
    while (lock != NULL && fgets(order, sizeof(order), stdin) != NULL) {
        if (strcmp(order, "check\n") == 0) {
            say("check %s %lld %s\n", hf_error_name(hf_lock_check(lock)),
                (long long)hf_lock_safe_for_ms(lock), hf_lock_loss(lock));
        } else if (strcmp(order, "export\n") == 0) {
            say("export %s %s\n", hf_error_name(hf_lock_export(lock, text, sizeof(text))), text);
        } else if (strcmp(order, "release\n") == 0) {
            say("release %s\n", hf_error_name(hf_release(lock)));
            lock = NULL;
        }
    }
    hf_client_close(client);
    return 0;
}

/* ---- tiers ---- */

static int take_tier(hf_client *client, const char *name, const char *suffix, enum hf_tier tier,
                     hf_lock **out)
{
    char whole[128];
    struct hf_lock_options how = HF_LOCK_OPTIONS;
    how.wait_ms = HF_WAIT_FOREVER;
    how.tier = tier;
    (void)snprintf(whole, sizeof(whole), "%s-%s", name, suffix);
    return hf_acquire(client, whole, &how, out);
}

static int tiers(const char *endpoints, const char *name, uint32_t ttl_ms)
{
    struct hf_options options = HF_OPTIONS;
    hf_client *client;
    hf_lock *fast;
    hf_lock *safe;
    char order[64];
    options.session_ttl_ms = ttl_ms;
    options.on_event = print_event;
    int error = hf_client_open(&client, endpoints, &options);
    error = error != 0 ? error : take_tier(client, name, "fast", HF_EFFICIENCY, &fast);
    error = error != 0 ? error : take_tier(client, name, "safe", HF_CORRECTNESS, &safe);
    if (error != 0) {
        say("failed %s: %s\n", hf_error_name(error), hf_last_error());
        return 1;
    }
    say("acquired %llu %llu\n", (unsigned long long)hf_lock_token(fast),
        (unsigned long long)hf_lock_token(safe));
    while (fgets(order, sizeof(order), stdin) != NULL) {
        say("fast %s %s\n", hf_error_name(hf_lock_check(fast)), hf_lock_loss(fast));
        say("safe %s %s\n", hf_error_name(hf_lock_check(safe)), hf_lock_loss(safe));
    }
    hf_client_close(client);
    return 0;
}

/* ---- load ---- */

/* Who believes to hold a name, and the last token that it was given with. */
struct name {
    pthread_mutex_t mutex;
    hf_lock *holder;
    uint64_t token;
};

static struct name names[NAMES];
static atomic_bool is_over;
static atomic_ulong granted;
static atomic_ulong not_granted;
static atomic_ulong lost;
static atomic_ulong unreachable;
static atomic_ulong unknown;
static atomic_ulong broken;
static atomic_ulong lost_events;
static atomic_long longest_ms;

static void broken_promise(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void broken_promise(const char *format, ...)
{
    char text[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    atomic_fetch_add(&broken, 1);
    fprintf(stderr, "broken promise: %s\n", text);
}

static void count_event(hf_client *client, const struct hf_event *event, void *arg)
{
    if (event->type == HF_EVENT_LOST && event->lock != NULL) {
        atomic_fetch_add(&lost_events, 1);
    }
}

static void check_time(const char *what, int64_t begun_ms, int64_t most_ms)
{
    long took_ms = (long)(now_ms() - begun_ms);
    long before_ms = atomic_load(&longest_ms);
    while (took_ms > before_ms && !atomic_compare_exchange_weak(&longest_ms, &before_ms, took_ms)) {
    }
    if (took_ms > most_ms + SLACK_MS) {
        broken_promise("%s took %ld ms, and had %lld", what, took_ms, (long long)most_ms);
    }
}

static void check_error(const char *what, int error)
{
    switch (error) {
    case HF_ERR_TIMEOUT:
    case HF_ERR_HELD:
        atomic_fetch_add(&not_granted, 1);
        break;
    case HF_ERR_UNREACHABLE:
        atomic_fetch_add(&unreachable, 1);
        break;
    case HF_ERR_UNKNOWN:
        atomic_fetch_add(&unknown, 1);
        break;
    case HF_ERR_LOST:
        atomic_fetch_add(&lost, 1);
        break;
    default:
        broken_promise("%s ended with %s: %s", what, hf_error_name(error), hf_last_error());
    }
}

static void note_grant(struct name *n, hf_lock *lock)
{
    uint64_t token = hf_lock_token(lock);
    pthread_mutex_lock(&n->mutex);
    if (token <= n->token) {
        broken_promise("token %llu after %llu", (unsigned long long)token,
                       (unsigned long long)n->token);
    }
    /* Granted by its own clock, too: a lock that was lost on the way is no grant any more. */
    if (n->holder != NULL && hf_lock_check(n->holder) == 0 && hf_lock_check(lock) == 0) {
        broken_promise("token %llu was granted while the holder of %llu was not notified",
                       (unsigned long long)token, (unsigned long long)hf_lock_token(n->holder));
    }
    n->token = token > n->token ? token : n->token;
    n->holder = lock;
    pthread_mutex_unlock(&n->mutex);
}

static void note_release(struct name *n, hf_lock *lock)
{
    pthread_mutex_lock(&n->mutex);
    if (n->holder == lock) {
        n->holder = NULL;
    }
    pthread_mutex_unlock(&n->mutex);
}

static void pause_ms(long ms)
{
    struct timespec time = {ms / 1000, (ms % 1000) * 1000000};
    nanosleep(&time, NULL);
}

static void one_round(hf_client *client, unsigned which)
{
    struct hf_lock_options how = HF_LOCK_OPTIONS;
    char name[16];
    hf_lock *lock;
    struct name *n = &names[which % NAMES];
    snprintf(name, sizeof(name), "load-%u", which % NAMES);
    how.wait_ms = which % 3 == 0 ? 0 : WAIT_MS;
    int64_t begun_ms = now_ms();
    int error = hf_acquire(client, name, &how, &lock);
    check_time("acquire", begun_ms, how.wait_ms + CALL_MS);
    if (error != 0) {
        check_error("acquire", error);
        pause_ms(5);
        return;
    }
    atomic_fetch_add(&granted, 1);
    note_grant(n, lock);
    if (which % 499 == 0) {
        pause_ms(PAUSE_MS); /* some hold it over a change of the leader */
    }
    note_release(n, lock);
    begun_ms = now_ms();
    error = hf_release(lock);
    check_time("release", begun_ms, CALL_MS);
    if (error != 0) {
        check_error("release", error);
    }
}

struct worker {
    pthread_t thread;
    hf_client *client;
    unsigned number;
};

static void *work(void *arg)
{
    struct worker *w = arg;
    for (unsigned i = w->number; !atomic_load(&is_over); i += 7) {
        one_round(w->client, i);
    }
    return NULL;
}

static hf_client *open_client(const char *endpoints, uint32_t ttl_ms)
{
    struct hf_options options = HF_OPTIONS;
    hf_client *client;
    options.session_ttl_ms = ttl_ms;
    options.call_timeout_ms = CALL_MS;
    options.on_event = count_event;
    if (hf_client_open(&client, endpoints, &options) != 0) {
        fprintf(stderr, "%s\n", hf_last_error());
        exit(1);
    }
    return client;
}

static int load(const char *endpoints, unsigned seconds, unsigned threads)
{
    struct worker workers[THREADS_MAX];
    hf_client *shared = open_client(endpoints, TTL_MS);
    for (unsigned i = 0; i < NAMES; i++) {
        pthread_mutex_init(&names[i].mutex, NULL);
    }
    for (unsigned i = 0; i < threads; i++) {
        workers[i].number = i;
        workers[i].client = i % 2 == 0 ? shared : open_client(endpoints, SHORT_TTL_MS);
        if (pthread_create(&workers[i].thread, NULL, work, &workers[i]) != 0) {
            return 1;
        }
    }
    pause_ms((long)seconds * 1000);
    atomic_store(&is_over, true);
    for (unsigned i = 0; i < threads; i++) {
        pthread_join(workers[i].thread, NULL);
        if (workers[i].client != shared) {
            hf_client_close(workers[i].client);
        }
    }
    hf_client_close(shared);
    say("{\"granted\":%lu,\"not_granted\":%lu,\"lost\":%lu,\"unreachable\":%lu,\"unknown\":%lu,"
        "\"lost_events\":%lu,\"longest_ms\":%ld,\"broken\":%lu}\n",
        atomic_load(&granted), atomic_load(&not_granted), atomic_load(&lost),
        atomic_load(&unreachable), atomic_load(&unknown), atomic_load(&lost_events),
        atomic_load(&longest_ms), atomic_load(&broken));
    return atomic_load(&broken) == 0 ? 0 : 1;
}

int main(int argc, char **argv)
{
    if (argc == 5 && strcmp(argv[1], "hold") == 0) {
        return hold(argv[2], argv[3], (uint32_t)strtoul(argv[4], NULL, 10));
    }
    if (argc == 5 && strcmp(argv[1], "tiers") == 0) {
        return tiers(argv[2], argv[3], (uint32_t)strtoul(argv[4], NULL, 10));
    }
    if (argc == 5 && strcmp(argv[1], "load") == 0) {
        unsigned threads = (unsigned)strtoul(argv[4], NULL, 10);
        if (threads >= 1 && threads <= THREADS_MAX) {
            return load(argv[2], (unsigned)strtoul(argv[3], NULL, 10), threads);
        }
    }
    fprintf(stderr, "usage: client_probe hold|tiers ENDPOINTS NAME TTL_MS\n"
                    "       client_probe load ENDPOINTS SECONDS THREADS\n");
    return 64;
}
