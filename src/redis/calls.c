/* Commands sent to Redis, with deadlines: script calls, the greeting, PING. */
#include "redis/link_state.h"

#include <stdio.h>

#include "base/buffer.h"

/* 64 names of 512 bytes with a prefix, and the arguments. */
#define LINK_COMMAND_MAX (256u << 10)

static uint64_t now_us(void)
{
    return uv_hrtime() / 1000;
}

static void put_count(struct buffer *out, char kind, uint64_t count)
{
    char text[24];
    int len = snprintf(text, sizeof(text), "%c%llu\r\n", kind, (unsigned long long)count);
    buffer_append(out, text, (size_t)len);
}

static void put_word(struct buffer *out, struct slice word)
{
    put_count(out, '$', word.len);
    buffer_append_slice(out, word);
    buffer_append_text(out, "\r\n");
}

static struct link_command *command_new(struct redis_link *l, enum link_command_kind kind,
                                        const struct buffer *bytes)
{
    struct slice body = buffer_bytes(bytes);
    hf_assert(!bytes->overflowed);
    struct link_command *s = memory_alloc(l->options.net->memory, sizeof(*s) + body.len);
    *s = (struct link_command){.link = l, .kind = kind, .begun_us = now_us(), .len = body.len};
    memcpy(s->bytes, body.data, body.len);
    list_init(&s->all);
    return s;
}

static void command_free(struct redis_link *l, struct link_command *s)
{
    list_remove(&s->all);
    l->view.outstanding -= s->kind == LINK_COMMAND_CALL;
    memory_free(l->options.net->memory, s, sizeof(*s) + s->len);
}

static void on_reply(redisAsyncContext *context, void *reply, void *data);

static void send_command(struct redis_link *l, struct link_command *s)
{
    if (s->kind == LINK_COMMAND_CALL || s->kind == LINK_COMMAND_TRIAL) {
        memcpy(s->bytes + s->digest_at, l->digests[s->script], DIGEST);
    }
    s->deadline_ms = link_now_ms(l) + l->options.timeout_ms;
    list_append(&l->sent, &s->all);
    int status =
        redisAsyncFormattedCommand(l->context, on_reply, s, (const char *)s->bytes, s->len);
    hf_assert(status == REDIS_OK); /* hiredis refuses only on a context being freed */
}

static void send_words(struct redis_link *l, enum link_command_kind kind, uint32_t script,
                       const char *words[], uint32_t count)
{
    struct buffer bytes;
    buffer_init(&bytes, l->options.net->memory, LINK_COMMAND_MAX);
    put_count(&bytes, '*', count);
    for (uint32_t i = 0; i < count; i++) {
        put_word(&bytes, slice_of(words[i]));
    }
    struct link_command *s = command_new(l, kind, &bytes);
    s->script = script;
    buffer_close(&bytes);
    send_command(l, s);
}

static void load_script(struct redis_link *l, uint32_t script)
{
    const char *words[] = {"SCRIPT", "LOAD", l->options.scripts[script]};
    send_words(l, LINK_COMMAND_LOAD, script, words, 3);
}

void calls_greet(struct redis_link *l)
{
    const struct redis_link_options *o = &l->options;
    l->greetings = 1u + (o->password[0] != '\0' ? 1u : 0u) + o->script_count;
    if (o->password[0] != '\0' && o->user[0] != '\0') {
        const char *words[] = {"AUTH", o->user, o->password};
        send_words(l, LINK_COMMAND_AUTH, 0, words, 3);
    } else if (o->password[0] != '\0') {
        const char *words[] = {"AUTH", o->password};
        send_words(l, LINK_COMMAND_AUTH, 0, words, 2);
    }
    char db[16];
    snprintf(db, sizeof(db), "%u", o->db);
    const char *words[] = {"SELECT", db};
    send_words(l, LINK_COMMAND_SELECT, 0, words, 2);
    for (uint32_t i = 0; i < o->script_count; i++) {
        load_script(l, i);
    }
}

void calls_send_waiting(struct redis_link *l)
{
    while (l->phase == LINK_UP && !list_is_empty(&l->unsent)) {
        send_command(l, LIST_OBJECT(list_take(&l->unsent), struct link_command, all));
    }
}

static void refuse(struct redis_link *l, struct link_command *s, const char *problem)
{
    s->problem = problem;
    list_append(&l->refused, &s->all);
}

void calls_refuse_waiting(struct redis_link *l, const char *problem)
{
    while (!list_is_empty(&l->unsent)) {
        refuse(l, LIST_OBJECT(list_take(&l->unsent), struct link_command, all), problem);
    }
}

static struct link_command *call_new(struct redis_link *l, enum link_command_kind kind,
                                     const struct redis_call *call)
{
    hf_assert(call->script < l->options.script_count && !l->closing);
    hf_assert(call->key_count + call->argument_count <= REDIS_ARGUMENTS_MAX);
    struct buffer bytes;
    buffer_init(&bytes, l->options.net->memory, LINK_COMMAND_MAX);
    char keys[16];
    uint32_t count = call->key_count + call->argument_count;
    put_count(&bytes, '*', 3 + count);
    put_word(&bytes, slice_of("EVALSHA"));
    put_count(&bytes, '$', DIGEST);
    size_t digest_at = buffer_bytes(&bytes).len;
    buffer_append(&bytes, l->digests[call->script], DIGEST);
    buffer_append_text(&bytes, "\r\n");
    snprintf(keys, sizeof(keys), "%u", call->key_count);
    put_word(&bytes, slice_of(keys));
    for (uint32_t i = 0; i < count; i++) {
        put_word(&bytes, call->at[i]);
    }
    struct link_command *s = command_new(l, kind, &bytes);
    buffer_close(&bytes);
    s->script = call->script;
    s->digest_at = digest_at;
    return s;
}

void calls_try(struct redis_link *l)
{
    send_command(l, call_new(l, LINK_COMMAND_TRIAL, l->options.trial));
}

void redis_link_call(struct redis_link *l, const struct redis_call *call, redis_done_fn done,
                     void *owner)
{
    struct link_command *s = call_new(l, LINK_COMMAND_CALL, call);
    s->done = done;
    s->owner = owner;
    s->deadline_ms = link_now_ms(l) + l->options.timeout_ms;
    l->view.calls++;
    l->view.outstanding++;
    if (l->breaker.state != REDIS_CLOSED) {
        refuse(l, s, "the circuit breaker is open");
    } else if (l->view.outstanding > REDIS_CALLS_MAX) {
        refuse(l, s, "too many calls are outstanding");
    } else {
        list_append(&l->unsent, &s->all);
        calls_send_waiting(l);
    }
    link_set_timer(l);
}

static void report(struct redis_link *l, struct link_command *s, enum redis_outcome outcome,
                   const redisReply *reply, const char *problem)
{
    struct redis_answer answer = {.outcome = outcome, .reply = reply, .problem = problem};
    redis_done_fn done = s->done;
    void *owner = s->owner;
    uint64_t took_us = now_us() - s->begun_us;
    l->view.answered += outcome == REDIS_ANSWERED;
    l->view.refused += outcome == REDIS_REFUSED;
    l->view.not_sent += outcome == REDIS_NOT_SENT;
    l->view.doubts += outcome == REDIS_DOUBT;
    if (outcome == REDIS_ANSWERED) {
        l->view.answer_us += took_us;
        l->view.answer_worst_us =
            took_us > l->view.answer_worst_us ? took_us : l->view.answer_worst_us;
    }
    command_free(l, s);
    if (!l->closing) {
        done(owner, &answer);
    }
}

static bool starts_with(const redisReply *reply, const char *word)
{
    return reply->len >= strlen(word) && memcmp(reply->str, word, strlen(word)) == 0;
}

/* Redis lacks the script (SCRIPT FLUSH, another server): nothing was done. */
static void load_and_send_again(struct redis_link *l, struct link_command *s)
{
    l->view.reloads++;
    s->reloaded = true;
    load_script(l, s->script);
    send_command(l, s);
}

static void on_call_error(struct redis_link *l, struct link_command *s, const redisReply *reply)
{
    char problem[128];
    snprintf(problem, sizeof(problem), "%.*s", (int)(reply->len < 120 ? reply->len : 120),
             reply->str);
    /* The server has changed since the greeting: reconnect. */
    bool lost = starts_with(reply, "READONLY") || starts_with(reply, "NOAUTH") ||
                starts_with(reply, "LOADING") || starts_with(reply, "MASTERDOWN");
    if (l->phase == LINK_UP && lost) {
        link_lost(l, problem);
    } else {
        link_failed(l, problem);
    }
    if (s->kind == LINK_COMMAND_TRIAL) {
        command_free(l, s);
    } else {
        report(l, s, REDIS_REFUSED, NULL, problem);
    }
}

static void on_call_reply(struct redis_link *l, struct link_command *s, const redisReply *reply)
{
    if (reply->type != REDIS_REPLY_ERROR) {
        link_succeeded(l);
        if (s->kind == LINK_COMMAND_TRIAL) {
            command_free(l, s);
        } else {
            report(l, s, REDIS_ANSWERED, reply, NULL);
        }
    } else if (starts_with(reply, "NOSCRIPT") && !s->reloaded && l->phase == LINK_UP) {
        load_and_send_again(l, s);
    } else {
        on_call_error(l, s, reply);
    }
}

static void on_own_reply(struct redis_link *l, struct link_command *s, const redisReply *reply)
{
    char problem[160];
    enum link_command_kind kind = s->kind;
    bool right = reply->type != REDIS_REPLY_ERROR;
    if (kind == LINK_COMMAND_LOAD && right) {
        right = reply->type == REDIS_REPLY_STRING && reply->len == DIGEST;
        if (right) {
            memcpy(l->digests[s->script], reply->str, DIGEST);
        }
    }
    command_free(l, s);
    if (right && l->phase == LINK_GREETING) {
        link_greeted(l);
    } else if (!right && l->context != NULL) {
        static const char *const words[] = {[LINK_COMMAND_AUTH] = "AUTH",
                                            [LINK_COMMAND_SELECT] = "SELECT",
                                            [LINK_COMMAND_LOAD] = "SCRIPT LOAD",
                                            [LINK_COMMAND_PING] = "PING"};
        snprintf(problem, sizeof(problem), "%s: %.*s", words[kind],
                 (int)(reply->len < 120 ? reply->len : 120), reply->str != NULL ? reply->str : "");
        link_lost(l, problem);
    }
}

static void on_reply(redisAsyncContext *context, void *data, void *owner)
{
    struct link_command *s = owner;
    struct redis_link *l = s->link;
    const redisReply *reply = data;
    if (reply == NULL) {
        if (l->context == context) {
            /* hiredis frees the context and accepts no more commands. */
            l->context = NULL;
            link_lost(l, context->errstr);
        }
        if (s->kind == LINK_COMMAND_CALL) {
            report(l, s, REDIS_DOUBT, NULL, "the connection was lost before the reply");
        } else {
            command_free(l, s);
        }
        return;
    }
    if (l->context == context) {
        l->reply_ms = link_now_ms(l);
    }
    if (s->kind == LINK_COMMAND_CALL || s->kind == LINK_COMMAND_TRIAL) {
        on_call_reply(l, s, reply);
    } else {
        on_own_reply(l, s, reply);
    }
    link_set_timer(l);
}

static uint64_t first_deadline(const struct list *list)
{
    return list_is_empty(list) ? UINT64_MAX
                               : LIST_OBJECT(list->next, struct link_command, all)->deadline_ms;
}

static void report_refused(struct redis_link *l)
{
    while (!list_is_empty(&l->refused)) {
        struct link_command *s = LIST_OBJECT(list_take(&l->refused), struct link_command, all);
        report(l, s, REDIS_NOT_SENT, NULL, s->problem);
    }
}

void calls_on_time(struct redis_link *l)
{
    uint64_t now = link_now_ms(l);
    while (first_deadline(&l->unsent) <= now) {
        refuse(l, LIST_OBJECT(l->unsent.next, struct link_command, all), "no connection in time");
    }
    if (first_deadline(&l->sent) <= now && l->phase == LINK_UP) {
        /* If the loop is late, the reply may be in the socket. */
        redisAsyncHandleRead(l->context);
    }
    if (first_deadline(&l->sent) <= now && l->phase == LINK_UP) {
        l->view.timeouts++;
        link_lost(l, "no reply in time");
    }
    if (l->phase == LINK_UP && list_is_empty(&l->sent) && now - l->reply_ms >= l->options.idle_ms) {
        const char *words[] = {"PING"};
        l->view.pings++;
        send_words(l, LINK_COMMAND_PING, 0, words, 1);
    }
    report_refused(l);
}

uint64_t calls_next_ms(const struct redis_link *l)
{
    if (!list_is_empty(&l->refused)) {
        return 0;
    }
    uint64_t due = first_deadline(&l->unsent);
    if (l->phase == LINK_UP) {
        uint64_t sent = first_deadline(&l->sent);
        uint64_t ping = list_is_empty(&l->sent) ? l->reply_ms + l->options.idle_ms : UINT64_MAX;
        due = sent < due ? sent : due;
        due = ping < due ? ping : due;
    }
    return due;
}

void calls_forget(struct redis_link *l)
{
    struct list *const lists[] = {&l->unsent, &l->sent, &l->refused};
    for (unsigned i = 0; i < 3; i++) {
        while (!list_is_empty(lists[i])) {
            command_free(l, LIST_OBJECT(lists[i]->next, struct link_command, all));
        }
    }
}
