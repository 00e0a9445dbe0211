/* Every public call of libholdfast once against a real cluster: client_tour ENDPOINTS. Prints a
 * line for each thing that is not as it should be, and ends with the number of them. */
#include <holdfast.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

static unsigned wrong;

#define SHOULD(condition)                                                          \
    do {                                                                           \
        if (!(condition)) {                                                        \
            wrong++;                                                               \
            printf("%s:%d: %s (last error: %s)\n", __FILE__, __LINE__, #condition, \
                   hf_last_error());                                               \
        }                                                                          \
    } while (0)

static hf_client *open_client(const char *endpoints, const char *id)
{
    struct hf_options options = HF_OPTIONS;
    hf_client *client = NULL;
    options.client_id = id;
    options.session_ttl_ms = 10000;
    SHOULD(hf_client_open(&client, endpoints, &options) == 0);
    SHOULD(hf_client_wait_ready(client, 20000) == 0);
    return client;
}

static void modes(hf_client *a, hf_client *b)
{
    struct hf_lock_options shared = HF_LOCK_OPTIONS;
    struct hf_lock_options semaphore = HF_LOCK_OPTIONS;
    struct hf_lock_options too_many = HF_LOCK_OPTIONS;
    hf_lock *one = NULL;
    hf_lock *two = NULL;
    hf_lock *three = NULL;
    shared.mode = HF_SHARED;
    SHOULD(hf_acquire(a, "tour/rw", &shared, &one) == 0);
    SHOULD(hf_acquire(b, "tour/rw", &shared, &two) == 0);
    SHOULD(hf_acquire(b, "tour/rw", NULL, &three) == HF_ERR_HELD);
    SHOULD(hf_release(one) == 0);
    SHOULD(hf_release(two) == 0);

    semaphore.mode = HF_SEMAPHORE;
    semaphore.limit = 2;
    SHOULD(hf_acquire(a, "tour/sem", &semaphore, &one) == 0);
    SHOULD(hf_acquire(b, "tour/sem", &semaphore, &two) == 0);
    SHOULD(hf_lock_slot(one) != hf_lock_slot(two));
    SHOULD(hf_acquire(a, "tour/sem", &semaphore, &three) == HF_ERR_HELD);
    SHOULD(hf_acquire(a, "tour/sem", NULL, &three) == HF_ERR_MISMATCH);
    too_many = semaphore;
    too_many.limit = 3;
    SHOULD(hf_acquire(a, "tour/sem", &too_many, &three) == HF_ERR_MISMATCH);
    too_many.limit = 2;
    too_many.permits = 3;
    SHOULD(hf_acquire(a, "tour/sem", &too_many, &three) == HF_ERR_INVALID);
    SHOULD(hf_release(one) == 0);
    SHOULD(hf_release(two) == 0);
}

static void refusals(hf_client *a, hf_client *b)
{
    struct hf_lock_options wait = HF_LOCK_OPTIONS;
    struct hf_holder holder = {.size = sizeof(holder)};
    hf_lock *mine = NULL;
    hf_lock *other = NULL;
    SHOULD(hf_acquire(a, "tour/held", NULL, &mine) == 0);
    SHOULD(hf_acquire(b, "tour/held", NULL, &other) == HF_ERR_HELD);
    SHOULD(hf_last_holder(&holder) == 0);
    SHOULD(strcmp(holder.client_id, "anna") == 0);
    SHOULD(strstr(holder.metadata, "client_tour") != NULL);
    SHOULD(holder.expires_in_ms > 5000 && holder.expires_in_ms <= 10000);
    SHOULD(holder.held_for_ms >= 0 && holder.held_for_ms < 5000);
    wait.wait_ms = 50;
    SHOULD(hf_acquire(b, "tour/held", &wait, &other) == HF_ERR_TIMEOUT);
    /* Another handle of the same client is another owner: it queues like anybody. */
    SHOULD(hf_acquire(a, "tour/held", &wait, &other) == HF_ERR_TIMEOUT);
    SHOULD(hf_renew(mine, 2000) == 0);
    SHOULD(hf_lock_safe_for_ms(mine) <= 2000 && hf_lock_safe_for_ms(mine) > 500);
    SHOULD(hf_renew(mine, 10000) == 0);
    SHOULD(hf_lock_safe_for_ms(mine) > 5000);
    SHOULD(hf_release(mine) == 0);
}

static void several(hf_client *a, hf_client *b)
{
    const char *const names[] = {"tour/many/1", "tour/many/2", "tour/many/3"};
    const char *const same[] = {"tour/many/1", "tour/many/1"};
    hf_lock *all = NULL;
    hf_lock *one = NULL;
    char handle[HF_HANDLE_SIZE];
    SHOULD(hf_acquire_many(a, names, 3, NULL, &all) == 0);
    SHOULD(hf_acquire(b, "tour/many/2", NULL, &one) == HF_ERR_HELD);
    SHOULD(hf_renew(all, 0) == 0);
    SHOULD(hf_lock_export(all, handle, sizeof(handle)) == 0);
    SHOULD(hf_release(all) == 0);
    SHOULD(hf_acquire(b, "tour/many/2", NULL, &one) == 0);
    SHOULD(hf_acquire_many(a, names, 3, NULL, &all) == HF_ERR_HELD);
    SHOULD(hf_release(one) == 0);
    SHOULD(hf_acquire_many(a, same, 2, NULL, &all) == HF_ERR_INVALID);
    SHOULD(hf_release_exported(b, handle) != 0);
}

static void handed_over(hf_client *a, hf_client *b)
{
    char handle[HF_HANDLE_SIZE];
    hf_lock *lock = NULL;
    int64_t left_ms = 0;
    SHOULD(hf_acquire(a, "tour/handed", NULL, &lock) == 0);
    SHOULD(hf_lock_export(lock, handle, sizeof(handle)) == 0);
    SHOULD(hf_renew_exported(b, handle, 5000, &left_ms) == 0);
    SHOULD(left_ms > 3000 && left_ms <= 5000);
    SHOULD(hf_release_exported(b, handle) == 0);
    SHOULD(hf_release_exported(b, handle) == HF_ERR_LOST); /* it is gone already */
    SHOULD(hf_release(lock) == HF_ERR_LOST);
    SHOULD(hf_acquire(b, "tour/handed", NULL, &lock) == 0);
    SHOULD(hf_release(lock) == 0);
}

static void a_circle(hf_client *a, hf_client *b)
{
    /* An owner that holds nothing is skipped (S6.4), and each handle is an owner of its own: so no
     * circle is found here, and the wait just ends. */
    struct hf_lock_options how = HF_LOCK_OPTIONS;
    hf_lock *one = NULL;
    hf_lock *two = NULL;
    how.detect_deadlock = true;
    how.wait_ms = 50;
    SHOULD(hf_acquire(a, "tour/circle", &how, &one) == 0);
    SHOULD(hf_acquire(b, "tour/circle", &how, &two) == HF_ERR_TIMEOUT);
    SHOULD(hf_release(one) == 0);
}

struct heard {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    unsigned count;
    char text[64];
};

static void on_leader(hf_client *client, const struct hf_leader *leader, void *arg)
{
    struct heard *h = arg;
    pthread_mutex_lock(&h->mutex);
    h->count++;
    snprintf(h->text, sizeof(h->text), "%.20s %.30s", leader->vacant ? "nobody" : leader->client_id,
             leader->value);
    pthread_cond_broadcast(&h->changed);
    pthread_mutex_unlock(&h->mutex);
}

/* Waits until the leader is as in `text`. */
static void await(struct heard *h, const char *text)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 20;
    int error = 0;
    pthread_mutex_lock(&h->mutex);
    while (strcmp(h->text, text) != 0 && error == 0) {
        error = pthread_cond_timedwait(&h->changed, &h->mutex, &until);
    }
    SHOULD(strcmp(h->text, text) == 0);
    pthread_mutex_unlock(&h->mutex);
}

static void elections(hf_client *a, hf_client *b)
{
    struct heard h = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, ""};
    hf_lock *reign = NULL;
    hf_lock *other = NULL;
    hf_call *watch = NULL;
    SHOULD(hf_observe(b, "tour/chief", on_leader, &h, &watch) == 0);
    await(&h, "nobody ");
    SHOULD(hf_campaign(a, "tour/chief", "10.0.0.1", NULL, &reign) == 0);
    await(&h, "anna 10.0.0.1");
    SHOULD(hf_campaign(b, "tour/chief", "10.0.0.2", NULL, &other) == HF_ERR_HELD);
    SHOULD(hf_proclaim(reign, "10.0.0.9") == 0);
    await(&h, "anna 10.0.0.9");
    SHOULD(hf_acquire(b, "tour/chief", NULL, &other) == HF_ERR_MISMATCH);
    SHOULD(hf_release(reign) == 0);
    await(&h, "nobody ");
    SHOULD(hf_campaign(b, "tour/chief", "10.0.0.2", NULL, &other) == 0);
    await(&h, "bert 10.0.0.2");
    hf_call_cancel(watch);
    SHOULD(hf_release(other) == 0);
}

static void on_withdrawn(hf_client *client, int error, hf_lock *lock, void *arg)
{
    struct heard *h = arg;
    (void)client;
    (void)lock;
    SHOULD(error == HF_ERR_CANCELLED);
    pthread_mutex_lock(&h->mutex);
    snprintf(h->text, sizeof(h->text), "withdrawn");
    pthread_cond_broadcast(&h->changed);
    pthread_mutex_unlock(&h->mutex);
}

/* A wait that was withdrawn leaves the queue, although its session goes on. */
static void withdrawal(hf_client *a, hf_client *b)
{
    struct heard h = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, ""};
    struct hf_lock_options forever = HF_LOCK_OPTIONS;
    const char *name = "tour/wait";
    struct timespec pause = {0, 200000000};
    hf_lock *held = NULL;
    hf_lock *other = NULL;
    hf_call *call = NULL;
    forever.wait_ms = HF_WAIT_FOREVER;
    SHOULD(hf_acquire(a, name, NULL, &held) == 0);
    SHOULD(hf_acquire_async(b, &name, 1, &forever, on_withdrawn, &h, &call) == 0);
    nanosleep(&pause, NULL); /* until it waits at the service */
    hf_call_cancel(call);
    await(&h, "withdrawn");
    struct hf_holder holder = {.size = sizeof(holder), .queue_length = 1};
    for (int i = 0; i < 50 && holder.queue_length != 0; i++) {
        nanosleep(&pause, NULL);
        SHOULD(hf_acquire(b, name, NULL, &other) == HF_ERR_HELD);
        SHOULD(hf_last_holder(&holder) == 0);
    }
    SHOULD(holder.queue_length == 0);
    SHOULD(hf_release(held) == 0);
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: client_tour ENDPOINTS\n");
        return 64;
    }
    hf_client *a = open_client(argv[1], "anna");
    hf_client *b = open_client(argv[1], "bert");
    modes(a, b);
    refusals(a, b);
    several(a, b);
    handed_over(a, b);
    a_circle(a, b);
    elections(a, b);
    withdrawal(a, b);
    hf_client_close(a);
    hf_client_close(b);
    printf("%u wrong\n", wrong);
    return wrong == 0 ? 0 : 1;
}
