/* Many calls of libholdfast, each written down, for chaos.py to check.
 *
 *   storm ENDPOINTS SECONDS THREADS CYCLES_PER_SECOND SEED FILE
 *
 * Each thread takes and gives back locks at an even pace: mostly names of its own, now and then one
 * of those that the other clients of the run want, too. Two threads share a client. A record is
 * what one call saw: when it began and ended, how it ended, the token, and for a grant until when
 * the client says that it is safe (S5). history.py reads them. */
#include <holdfast.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    THREADS_MAX = 64,
    WANTED = 6,         /* as in history.py */
    WANTED_PERCENT = 8, /* of the cycles */
    WAIT_MS = 300,
    TTL_MS = 2000,
    CALL_MS = 4000,
    HOLD_MS = 15, /* at most, of a wanted one */
};

enum kind { ACQUIRE, CLAIM, RELEASE };

/* Little-endian machines only, as those of the tests are; 48 bytes. */
struct record {
    uint64_t invoked_us; /* CLOCK_MONOTONIC */
    uint64_t returned_us;
    uint64_t token;
    uint64_t until_us; /* CLAIM */
    uint32_t thread;
    uint32_t name; /* below WANTED: that one; else one of the thread's own */
    uint8_t kind;
    uint8_t error; /* an hf_error */
    uint8_t waits;
    uint8_t unused[5];
};

struct worker {
    pthread_t thread;
    hf_client *client;
    uint32_t number;
    uint64_t seed;
    uint64_t period_us;
    FILE *out;
};

static atomic_bool is_over;
static pthread_mutex_t writing = PTHREAD_MUTEX_INITIALIZER;

static uint64_t now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

static void sleep_us(uint64_t us)
{
    struct timespec time = {(time_t)(us / 1000000), (long)(us % 1000000) * 1000};
    nanosleep(&time, NULL);
}

static uint64_t draw(struct worker *w)
{
    w->seed ^= w->seed << 13;
    w->seed ^= w->seed >> 7;
    w->seed ^= w->seed << 17;
    return w->seed;
}

static void note(struct worker *w, const struct record *record)
{
    pthread_mutex_lock(&writing);
    if (fwrite(record, sizeof(*record), 1, w->out) != 1) {
        perror("storm: the history");
        exit(1);
    }
    pthread_mutex_unlock(&writing);
}

/* What the client says of itself: one that was lost on the way says nothing. It counts whole
 * milliseconds, of which the present one may be almost over; S5's 5 ms cover that. */
static void claim(struct worker *w, hf_lock *lock, struct record about)
{
    about.invoked_us = now_us();
    int64_t safe_ms = hf_lock_safe_for_ms(lock);
    about.returned_us = now_us();
    about.until_us = about.invoked_us + (uint64_t)(safe_ms > 0 ? safe_ms - 1 : 0) * 1000;
    about.kind = CLAIM;
    if (safe_ms > 1) {
        note(w, &about);
    }
}

static void cycle(struct worker *w, uint32_t number)
{
    struct hf_lock_options how = HF_LOCK_OPTIONS;
    struct record about = {.thread = w->number, .name = WANTED + number, .kind = ACQUIRE};
    char name[48];
    hf_lock *lock;
    if (draw(w) % 100 < WANTED_PERCENT) {
        about.name = (uint32_t)(draw(w) % WANTED);
        about.waits = draw(w) % 2 == 0;
        how.wait_ms = about.waits ? WAIT_MS : 0;
        snprintf(name, sizeof(name), "wanted-%u", about.name);
    } else {
        snprintf(name, sizeof(name), "storm-%u-%u", w->number, about.name);
    }
    about.invoked_us = now_us();
    int error = hf_acquire(w->client, name, &how, &lock);
    about.returned_us = now_us();
    about.error = (uint8_t)error;
    about.token = error == 0 ? hf_lock_token(lock) : 0;
    about.waits = 1; /* in a session every grant counts from the last keep-alive (S5.1) */
    note(w, &about);
    if (error != 0) {
        return;
    }
    claim(w, lock, about);
    if (about.name < WANTED) {
        sleep_us(draw(w) % (HOLD_MS * 1000));
        claim(w, lock, about);
    }
    about.kind = RELEASE;
    about.invoked_us = now_us();
    about.error = (uint8_t)hf_release(lock);
    about.returned_us = now_us();
    note(w, &about);
}

static void *work(void *arg)
{
    struct worker *w = arg;
    uint64_t due_us = now_us() + draw(w) % w->period_us;
    for (uint32_t i = 0; !atomic_load(&is_over); i++) {
        uint64_t now = now_us();
        if (due_us > now) {
            sleep_us(due_us - now);
        }
        cycle(w, i);
        due_us += w->period_us;
        now = now_us();
        /* What a fault held up is not made good: a storm, not a flood. */
        due_us = due_us < now ? now : due_us;
    }
    return NULL;
}

static hf_client *open_client(const char *endpoints)
{
    struct hf_options options = HF_OPTIONS;
    hf_client *client;
    options.session_ttl_ms = TTL_MS;
    options.call_timeout_ms = CALL_MS;
    if (hf_client_open(&client, endpoints, &options) != 0) {
        fprintf(stderr, "storm: %s\n", hf_last_error());
        exit(1);
    }
    return client;
}

int main(int argc, char **argv)
{
    struct worker workers[THREADS_MAX];
    unsigned threads = argc == 7 ? (unsigned)strtoul(argv[3], NULL, 10) : 0;
    unsigned rate = argc == 7 ? (unsigned)strtoul(argv[4], NULL, 10) : 0;
    if (threads == 0 || threads > THREADS_MAX || rate == 0) {
        fprintf(stderr, "usage: storm ENDPOINTS SECONDS THREADS CYCLES_PER_SECOND SEED FILE\n");
        return 64;
    }
    FILE *out = fopen(argv[6], "wb");
    if (out == NULL) {
        perror(argv[6]);
        return 1;
    }
    for (unsigned i = 0; i < threads; i++) {
        struct worker *w = &workers[i];
        *w = (struct worker){.number = i,
                             .seed = (strtoull(argv[5], NULL, 10) + 1) * 0x9e3779b97f4a7c15 + i + 1,
                             .period_us = (uint64_t)threads * 1000000 / rate,
                             .out = out,
                             .client = i % 2 == 1 ? workers[i - 1].client : open_client(argv[1])};
        if (pthread_create(&w->thread, NULL, work, w) != 0) {
            return 1;
        }
    }
    sleep_us(strtoull(argv[2], NULL, 10) * 1000000);
    atomic_store(&is_over, true);
    for (unsigned i = 0; i < threads; i++) {
        pthread_join(workers[i].thread, NULL);
    }
    for (unsigned i = 0; i < threads; i += 2) {
        hf_client_close(workers[i].client);
    }
    if (fclose(out) != 0) {
        perror(argv[6]);
        return 1;
    }
    return 0;
}
