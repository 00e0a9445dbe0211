/* The adapter of libholdfast for this suite; README.md has the protocol.
 *
 * The main thread reads commands. What blocks in the library runs on a thread of its own; an acquire
 * is asynchronous, since only then it can be cancelled. One mutex guards handles and calls. It may be
 * held during calls of the library that do not wait. Nothing is freed: a process is one scenario. */
#include <errno.h>
#include <holdfast.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "adapter_lines.h"
#include "wire/json_tree.h"

enum { HANDLES = 64, CALLS = 1024, NAMES = 16 };

static const char *const features[] = {
    "shared", "semaphore", "multi", "lead",   "efficiency", "max_hold",           "lock_delay",
    "renew",  "cancel",    "safe",  "revoke", "jeopardy",   "slow_callback",      "fork",
    "fence",  "threads",   "tls",   "token",  "circuit",    "client_certificate", "try_acquire",
};

struct handle {
    char name[64];
    hf_lock *lock; /* NULL: released, which frees it */
    uint64_t token;
    int64_t slow_callback_ms;
};

/* A command, or an acquire in progress. */
struct command {
    const struct json_t *words;
    uint64_t id;
    struct handle *handle;
    hf_call *call; /* NULL: not in progress */
    bool is_try;
    bool is_semaphore;
};

static hf_client *client;
static bool is_closed;
static hf_fence *fence;
static struct handle handles[HANDLES];
static struct command *commands[CALLS];
static unsigned command_count;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

/* ---- Arguments ---- */

/* A copy that stays valid, or NULL. */
static const char *text_of(const struct json_t *words, const char *key)
{
    struct slice text = json_tree_text(json_tree_get(words, key));
    return json_tree_get(words, key) == NULL ? NULL : strndup((const char *)text.data, text.len);
}

static uint32_t u32_of(const struct json_t *words, const char *key)
{
    return (uint32_t)json_tree_u64(json_tree_get(words, key), 0);
}

static bool is_word(const struct json_t *words, const char *key, const char *text)
{
    return slice_equal(json_tree_text(json_tree_get(words, key)), slice_of(text));
}

/* With the mutex. The handle of this name, made if there is none. */
static struct handle *handle_of(const struct json_t *words)
{
    const char *name = text_of(words, "handle");
    for (unsigned i = 0; i < HANDLES; i++) {
        if (handles[i].name[0] == '\0') {
            (void)snprintf(handles[i].name, sizeof(handles[i].name), "%s", name);
        }
        if (strcmp(handles[i].name, name) == 0) {
            return &handles[i];
        }
    }
    abort();
}

/* ---- Events ---- */

static void sleep_ms(int64_t ms)
{
    struct timespec time = {ms / 1000, ms % 1000 * 1000000};
    while (nanosleep(&time, &time) != 0 && errno == EINTR) {
    }
}

static void on_event(hf_client *c, const struct hf_event *event, void *arg)
{
    static const char *const names[] = {
        [HF_EVENT_SAFE] = "safe",
        [HF_EVENT_JEOPARDY] = "jeopardy",
        [HF_EVENT_LOST] = "lost",
        [HF_EVENT_REVOKE_REQUESTED] = "revoke_requested",
    };
    const struct handle *handle = arg;
    struct json_writer w;
    (void)c;
    if (event->type > HF_EVENT_REVOKE_REQUESTED) {
        return;
    }
    sleep_ms(handle->slow_callback_ms);
    struct buffer line;
    line_begin(&line, &w);
    json_put_text(&w, "event", names[event->type]);
    json_put_text(&w, "handle", handle->name);
    if (event->type == HF_EVENT_REVOKE_REQUESTED) {
        json_put_i64(&w, "deadline_ms", event->deadline_ms);
    } else {
        json_put_text(&w, "why", event->text);
    }
    line_end(&line, &w);
}

/* ---- Acquire ---- */

static void put_grant(struct json_writer *w, const void *arg)
{
    const struct command *command = arg;
    const hf_lock *lock = command->handle->lock;
    if (command->is_try) {
        json_put_bool(w, "acquired", lock != NULL);
    }
    if (lock != NULL) {
        line_put_token(w, command->handle->token);
        json_put_i64(w, "safe_for_ms", hf_lock_safe_for_ms(lock));
        if (command->is_semaphore) {
            json_put_u64(w, "slot", hf_lock_slot(lock));
        }
    }
}

static void acquired(hf_client *c, int error, hf_lock *lock, void *arg)
{
    struct command *command = arg;
    (void)c;
    pthread_mutex_lock(&mutex);
    command->call = NULL;
    if (error == 0) {
        command->handle->lock = lock;
        command->handle->token = hf_lock_token(lock);
    }
    bool is_refused = command->is_try && (error == HF_ERR_HELD || error == HF_ERR_DELAYED);
    if (is_refused) {
        command->handle->lock = NULL;
    }
    if (error == 0 || is_refused) {
        line_answer_ok(command->id, put_grant, command);
    } else {
        line_answer_error(command->id, error);
    }
    pthread_mutex_unlock(&mutex);
}

static struct hf_lock_options lock_options(const struct command *command)
{
    const struct json_t *words = command->words;
    struct hf_lock_options options = HF_LOCK_OPTIONS;
    const struct json_t *wait = json_tree_get(words, "wait_ms");
    /* Absent, or -1, which is not a u64. */
    options.wait_ms = command->is_try ? 0
                      : wait == NULL  ? HF_WAIT_FOREVER
                                      : (int64_t)json_tree_double(wait, HF_WAIT_FOREVER);
    options.ttl_ms = u32_of(words, "ttl_ms");
    options.mode = is_word(words, "mode", "shared")      ? HF_SHARED
                   : is_word(words, "mode", "semaphore") ? HF_SEMAPHORE
                                                         : HF_EXCLUSIVE;
    options.tier = is_word(words, "tier", "EFFICIENCY") ? HF_EFFICIENCY : HF_CORRECTNESS;
    options.limit = u32_of(words, "limit");
    options.permits = u32_of(words, "permits");
    options.lock_delay_ms = u32_of(words, "lock_delay_ms");
    options.max_hold_ms = u32_of(words, "max_hold_ms");
    options.on_event = on_event;
    options.arg = command->handle;
    return options;
}

static void begin_acquire(struct command *command, bool is_lead)
{
    const struct json_t *many = json_tree_get(command->words, "names");
    const char *names[NAMES] = {text_of(command->words, "name")};
    size_t count = many == NULL ? 1 : json_tree_count(many);
    hf_assert(count <= NAMES);
    for (size_t i = 0; many != NULL && i < count; i++) {
        struct slice name = json_tree_text(json_tree_at(many, i));
        names[i] = strndup((const char *)name.data, name.len);
    }
    pthread_mutex_lock(&mutex);
    struct handle *handle = command->handle = handle_of(command->words);
    handle->slow_callback_ms = u32_of(command->words, "slow_callback_ms");
    command->is_semaphore = is_word(command->words, "mode", "semaphore");
    struct hf_lock_options options = lock_options(command);
    const char *value = text_of(command->words, "value");
    int error = is_lead ? hf_campaign_async(client, names[0], value == NULL ? "" : value, &options,
                                            acquired, command, &command->call)
                        : hf_acquire_async(client, names, count, &options, acquired, command,
                                           &command->call);
    if (error != 0) {
        line_answer_error(command->id, error);
    }
    pthread_mutex_unlock(&mutex);
}

static void do_acquire(struct command *command)
{
    begin_acquire(command, false);
}

static void do_try_acquire(struct command *command)
{
    command->is_try = true;
    begin_acquire(command, false);
}

static void do_lead(struct command *command)
{
    begin_acquire(command, true);
}

static void do_cancel(struct command *command)
{
    uint64_t id = json_tree_u64(json_tree_get(command->words, "command"), 0);
    pthread_mutex_lock(&mutex);
    for (unsigned i = 0; i < command_count; i++) {
        if (commands[i]->id == id && commands[i]->call != NULL) {
            hf_call_cancel(commands[i]->call);
            commands[i]->call = NULL;
        }
    }
    pthread_mutex_unlock(&mutex);
    line_answer(command->id, 0);
}

/* ---- Of a handle ---- */

static void put_safe(struct json_writer *w, const void *arg)
{
    json_put_i64(w, "safe_for_ms", hf_lock_safe_for_ms(arg));
}

static void do_check(struct command *command)
{
    pthread_mutex_lock(&mutex);
    const hf_lock *lock = handle_of(command->words)->lock;
    int error = lock == NULL ? 0 : hf_lock_check(lock);
    if (lock == NULL) {
        line_answer_with_words(command->id, "released", "released", "it was released");
    } else if (error != 0) {
        line_answer_error(command->id, error);
    } else {
        line_answer_ok(command->id, put_safe, lock);
    }
    pthread_mutex_unlock(&mutex);
}

static void put_handle_token(struct json_writer *w, const void *arg)
{
    const struct handle *handle = arg;
    line_put_token(w, handle->lock != NULL ? hf_lock_token(handle->lock) : handle->token);
}

static void do_token(struct command *command)
{
    pthread_mutex_lock(&mutex);
    line_answer_ok(command->id, put_handle_token, handle_of(command->words));
    pthread_mutex_unlock(&mutex);
}

static void do_renew(struct command *command)
{
    pthread_mutex_lock(&mutex);
    hf_lock *lock = handle_of(command->words)->lock;
    pthread_mutex_unlock(&mutex);
    if (lock == NULL) {
        line_answer_with_words(command->id, "released", "released", "it was released");
        return;
    }
    int error = hf_renew(lock, u32_of(command->words, "ttl_ms"));
    if (error != 0) {
        line_answer_error(command->id, error);
    } else {
        line_answer_ok(command->id, put_safe, lock);
    }
}

static void do_release(struct command *command)
{
    pthread_mutex_lock(&mutex);
    struct handle *handle = handle_of(command->words);
    hf_lock *lock = handle->lock;
    /* A lost lock is still there: hf_release reports the loss, and later checks do. */
    if (lock != NULL && hf_lock_check(lock) == HF_ERR_LOST) {
        line_answer_error(command->id, HF_ERR_LOST);
        pthread_mutex_unlock(&mutex);
        return;
    }
    handle->lock = NULL;
    pthread_mutex_unlock(&mutex);
    line_answer(command->id, hf_release(lock));
}

/* ---- The client ---- */

static void do_open(struct command *command)
{
    const struct json_t *words = command->words;
    const struct json_t *list = json_tree_get(words, "endpoints");
    struct hf_options options = HF_OPTIONS;
    char endpoints[1024] = "";
    for (size_t i = 0; i < json_tree_count(list); i++) {
        struct slice one = json_tree_text(json_tree_at(list, i));
        size_t used = strlen(endpoints);
        (void)snprintf(endpoints + used, sizeof(endpoints) - used, "%s%.*s", i == 0 ? "" : ",",
                       (int)one.len, (const char *)one.data);
    }
    options.session_ttl_ms = u32_of(words, "session_ttl_ms");
    options.call_timeout_ms = u32_of(words, "timeout_ms");
    options.client_id = text_of(words, "client_id");
    options.ca = text_of(words, "ca");
    options.cert = text_of(words, "cert");
    options.key = text_of(words, "key");
    options.server_name = text_of(words, "server_name");
    options.token_file = text_of(words, "token_file");
    options.tenant = text_of(words, "tenant");
    line_answer(command->id, hf_client_open(&client, endpoints, &options));
}

static void do_close(struct command *command)
{
    pthread_mutex_lock(&mutex);
    is_closed = true; /* the library frees the handles */
    for (unsigned i = 0; i < HANDLES; i++) {
        handles[i].lock = NULL;
    }
    pthread_mutex_unlock(&mutex);
    hf_client_close(client);
    line_answer(command->id, 0);
}

static void do_fence_check(struct command *command)
{
    const char *token = text_of(command->words, "token");
    int error = hf_fence_guard(fence, text_of(command->words, "resource"),
                               token == NULL ? 0 : strtoull(token, NULL, 10), NULL);
    line_answer(command->id, error);
}

/* ---- Fork ---- */

/* In the child: how many uses did not refuse. */
static unsigned use_after_fork(hf_lock *lock, unsigned *uses)
{
    char text[HF_HANDLE_SIZE];
    struct hf_lock_options options = HF_LOCK_OPTIONS;
    struct hf_client_stats stats = {.size = sizeof(stats)};
    hf_lock *other = NULL;
    const bool refused[] = {
        hf_lock_check(lock) != 0,
        hf_lock_safe_for_ms(lock) == 0,
        hf_renew(lock, 5000) == HF_ERR_INVALID,
        hf_release(lock) == HF_ERR_INVALID,
        hf_release_async(lock, NULL, NULL) == HF_ERR_INVALID,
        hf_acquire(client, "n", &options, &other) == HF_ERR_INVALID,
        hf_campaign(client, "n", "", &options, &other) == HF_ERR_INVALID,
        hf_client_wait_ready(client, 10) == HF_ERR_INVALID,
        hf_lock_export(lock, text, sizeof(text)) == HF_ERR_INVALID,
        hf_client_stats(client, &stats) == HF_ERR_INVALID,
    };
    unsigned not_raised = 0;
    *uses = sizeof(refused) / sizeof(refused[0]);
    for (unsigned i = 0; i < *uses; i++) {
        not_raised += !refused[i];
    }
    return not_raised;
}

static void put_uses(struct json_writer *w, const void *arg)
{
    const unsigned *counts = arg;
    json_put_u64(w, "uses", counts[0]);
    json_put_u64(w, "not_raised", counts[1]);
}

static void do_fork_check(struct command *command)
{
    unsigned counts[2] = {0, 0};
    int ends[2];
    pthread_mutex_lock(&mutex);
    hf_lock *lock = handle_of(command->words)->lock;
    pthread_mutex_unlock(&mutex);
    if (pipe(ends) != 0) {
        abort();
    }
    pid_t child = fork();
    if (child == 0) {
        (void)alarm(5); /* a use that hangs */
        counts[1] = use_after_fork(lock, &counts[0]);
        (void)!write(ends[1], counts, sizeof(counts));
        _exit(0);
    }
    (void)close(ends[1]);
    ssize_t got = read(ends[0], counts, sizeof(counts));
    (void)close(ends[0]);
    (void)waitpid(child, NULL, 0);
    if (got == (ssize_t)sizeof(counts)) {
        line_answer_ok(command->id, put_uses, counts);
    } else {
        line_answer_with_words(command->id, "other", "hung", "a use in the child did not return");
    }
}

/* ---- Commands ---- */

enum { ARGUMENTS = 16 };

static const struct kind {
    const char *name;
    void (*run)(struct command *command);
    bool blocks; /* it runs on a thread of its own */
    const char *arguments[ARGUMENTS];
} kinds[] = {
    /* clang-format off */
    {"open", do_open, false, {"endpoints", "session_ttl_ms", "timeout_ms", "client_id", "ca", "cert", "key", "server_name",
                              "token_file", "tenant"}},
    {"acquire", do_acquire, false, {"handle", "name", "names", "ttl_ms", "wait_ms", "mode", "limit", "permits", "tier",
                                    "max_hold_ms", "lock_delay_ms", "slow_callback_ms"}},
    {"try_acquire", do_try_acquire, false, {"handle", "name", "names", "ttl_ms", "mode", "limit", "permits", "tier"}},
    {"lead", do_lead, false, {"handle", "name", "value", "ttl_ms", "wait_ms"}},
    {"cancel", do_cancel, false, {"command"}},
    {"check", do_check, false, {"handle", "thread"}},
    {"token", do_token, false, {"handle"}},
    {"renew", do_renew, true, {"handle", "ttl_ms"}},
    {"release", do_release, true, {"handle"}},
    {"fence_check", do_fence_check, false, {"resource", "token"}},
    {"fork_check", do_fork_check, true, {"handle"}},
    {"close", do_close, true, {NULL}},
    /* clang-format on */
};

struct task {
    const struct kind *kind;
    struct command *command;
};

static void *task_main(void *arg)
{
    struct task *task = arg;
    task->kind->run(task->command);
    return NULL;
}

static void on_thread(const struct kind *kind, struct command *command)
{
    pthread_t thread;
    struct task *task = calloc(1, sizeof(*task));
    *task = (struct task){kind, command};
    if (pthread_create(&thread, NULL, task_main, task) != 0) {
        abort();
    }
    (void)pthread_detach(thread);
}

static bool has_only(const struct json_t *words, const struct kind *kind)
{
    const char *keys[ARGUMENTS + 3] = {"id", "do"};
    memcpy(keys + 2, kind->arguments, sizeof(kind->arguments));
    return json_tree_other_key(words, keys) == NULL;
}

static void run_line(struct slice line)
{
    struct fault fault;
    struct command *command = calloc(1, sizeof(*command));
    command->words = json_tree_parse(line, &fault);
    command->id = json_tree_u64(json_tree_get(command->words, "id"), 0);
    hf_assert(command_count < CALLS);
    pthread_mutex_lock(&mutex);
    commands[command_count++] = command;
    bool is_late = is_closed;
    pthread_mutex_unlock(&mutex);
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        if (!is_word(command->words, "do", kinds[i].name) || !has_only(command->words, &kinds[i])) {
            continue;
        }
        if (is_late) { /* the library has no client any more */
            line_answer_with_words(command->id, "closed", "closed", "the client was closed");
        } else if (kinds[i].blocks || json_tree_true(json_tree_get(command->words, "thread"))) {
            on_thread(&kinds[i], command);
        } else {
            kinds[i].run(command);
        }
        return;
    }
    line_answer_with_words(command->id, "unsupported", "unsupported",
                           "no such command or argument");
}

static void say_hello(void)
{
    struct json_writer w;
    struct buffer line;
    line_begin(&line, &w);
    json_put_u64(&w, "hello", 1);
    json_put_text(&w, "client", "c");
    json_put_text(&w, "clock", "boottime");
    json_put_open(&w, "features", '[');
    for (size_t i = 0; i < sizeof(features) / sizeof(features[0]); i++) {
        json_write_string(&w, slice_of(features[i]));
    }
    json_write_close(&w);
    line_end(&line, &w);
}

int main(void)
{
    char *line = NULL;
    size_t size = 0;
    if (hf_fence_open_memory(&fence) != 0) {
        return 1;
    }
    say_hello();
    for (ssize_t len = getline(&line, &size, stdin); len > 0; len = getline(&line, &size, stdin)) {
        run_line(slice_make((const uint8_t *)line, (size_t)len));
    }
    _exit(0);
}
