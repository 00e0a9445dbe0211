/* The Redis protocol for `holdfast bench`: a lock as in the documentation of Redis, SET name value
 * NX PX ttl with a unique value, released by a script that deletes the key if it still has that
 * value. Holdfast and, for comparison, Redis (bench/peers) get the same bytes.
 *
 * There are no sessions: opening one loads the script, and its digest is the session id. */
#include <inttypes.h>
#include <stdio.h>
#include <sys/random.h>

#include "bench/identity.h"
#include "bench/protocol.h"

enum { LOCK_TTL_MS = 30000, VALUE = 32, LINE_MAX_BYTES = 64 << 10 };

static const char release_script[] =
    "if redis.call(\"get\",KEYS[1]) == ARGV[1] then\n"
    "    return redis.call(\"del\",KEYS[1])\nelse\n    return 0\nend\n";

struct resp {
    enum bench_verb verb; /* of the request that is outstanding */
    bool waits_for_auth;  /* its answer comes first */
    uint64_t salt;        /* random: makes values unique across connections */
    uint64_t count;
    char value[VALUE]; /* of the last acquire */
};

static void *resp_open(const char *host, uint32_t slots)
{
    (void)host;
    hf_assert(slots == 1);
    struct resp *r = memory_alloc(memory_system(), sizeof(*r));
    *r = (struct resp){.count = 0};
    if (getrandom(&r->salt, sizeof(r->salt), 0) != (ssize_t)sizeof(r->salt)) {
        r->salt = (uint64_t)(uintptr_t)r;
    }
    return r;
}

static void resp_close(void *state)
{
    memory_free(memory_system(), state, sizeof(struct resp));
}

/* ---- requests ---- */

static void put_head(struct buffer *out, char kind, size_t value)
{
    char text[24];
    int len = snprintf(text, sizeof(text), "%c%zu\r\n", kind, value);
    buffer_append(out, text, (size_t)len);
}

static void put_word(struct buffer *out, struct slice word)
{
    put_head(out, '$', word.len);
    buffer_append_slice(out, word);
    buffer_append_text(out, "\r\n");
}

static void put_request(struct buffer *out, const struct slice *words, size_t count)
{
    put_head(out, '*', count);
    for (size_t i = 0; i < count; i++) {
        put_word(out, words[i]);
    }
    hf_assert(!out->overflowed);
}

static void resp_begin(void *state, struct buffer *out)
{
    struct resp *r = state;
    const struct slice words[] = {slice_of("AUTH"), slice_of(bench_identity_token())};
    r->waits_for_auth = words[1].len > 0;
    if (r->waits_for_auth) {
        put_request(out, words, 2);
    }
}

static void put_acquire(struct resp *r, const struct bench_request *call, struct buffer *out)
{
    char ttl[24];
    (void)snprintf(r->value, sizeof(r->value), "%016" PRIx64 "%" PRIu64, r->salt, r->count++);
    (void)snprintf(ttl, sizeof(ttl), "%d", LOCK_TTL_MS);
    const struct slice words[] = {slice_of("SET"), call->name,     slice_of(r->value),
                                  slice_of("NX"),  slice_of("PX"), slice_of(ttl)};
    put_request(out, words, sizeof(words) / sizeof(words[0]));
}

static void resp_request(void *state, uint32_t slot, const struct bench_request *call,
                         struct buffer *out)
{
    struct resp *r = state;
    hf_assert(slot == 0);
    r->verb = call->verb;
    if (call->verb == BENCH_ACQUIRE) {
        put_acquire(r, call, out);
    } else if (call->verb == BENCH_RELEASE) {
        const struct slice words[] = {slice_of("EVALSHA"), call->session, slice_of("1"), call->name,
                                      slice_of(r->value)};
        put_request(out, words, sizeof(words) / sizeof(words[0]));
    } else if (call->verb == BENCH_OPEN) {
        const struct slice words[] = {slice_of("SCRIPT"), slice_of("LOAD"),
                                      slice_of(release_script)};
        put_request(out, words, sizeof(words) / sizeof(words[0]));
    } else {
        const struct slice words[] = {slice_of("PING")}; /* nothing to renew or close */
        put_request(out, words, 1);
    }
}

/* ---- answers ---- */

/* A line and, for '$', the bytes after it. Returns its length; 0: incomplete. */
static size_t read_answer(struct slice bytes, struct slice *line, struct slice *bulk,
                          const char **problem)
{
    const uint8_t *end = bytes.len == 0 ? NULL : memchr(bytes.data, '\n', bytes.len);
    if (end == NULL) {
        *problem = bytes.len > LINE_MAX_BYTES ? "the line of the answer has no end" : NULL;
        return 0;
    }
    size_t taken = (size_t)(end - bytes.data) + 1;
    if (taken < 3 || end[-1] != '\r' || memchr("+-:$_", bytes.data[0], 5) == NULL) {
        *problem = "the answer is not in the Redis protocol";
        return 0;
    }
    *line = slice_make(bytes.data, taken - 2);
    *bulk = slice_make(NULL, 0);
    if (bytes.data[0] != '$' || bytes.data[1] == '-') {
        return taken;
    }
    size_t len = 0;
    for (size_t i = 1; i < line->len; i++) {
        len = len * 10 + (size_t)(line->data[i] - '0');
        if (line->data[i] < '0' || line->data[i] > '9' || len > LINE_MAX_BYTES) {
            *problem = "the length in the answer is invalid or too large";
            return 0;
        }
    }
    if (bytes.len < taken + len + 2) {
        return 0;
    }
    *bulk = slice_make(bytes.data + taken, len);
    return taken + len + 2;
}

static void set_failure(struct slice line, struct bench_answer *a)
{
    if (line.data[0] != '-') { /* not an error: nil, or 0 */
        (void)snprintf(a->code, sizeof(a->code), "refused");
        (void)snprintf(a->message, sizeof(a->message), "refused: another client holds the lock");
        return;
    }
    const uint8_t *space = memchr(line.data, ' ', line.len);
    size_t len = space == NULL ? line.len : (size_t)(space - line.data);
    (void)snprintf(a->code, sizeof(a->code), "%.*s", (int)(len - 1), (const char *)line.data + 1);
    (void)snprintf(a->message, sizeof(a->message), "%.*s", (int)(line.len - 1),
                   (const char *)line.data + 1);
}

/* Returns the length of the answer to AUTH; 0: incomplete, or `*problem` is set. */
static size_t take_auth(struct resp *r, struct slice bytes, const char **problem)
{
    struct slice line = bytes;
    struct slice bulk = bytes;
    size_t taken = read_answer(bytes, &line, &bulk, problem);
    if (taken == 0) {
        return 0;
    }
    if (line.data[0] != '+') {
        *problem = "the server refuses the token (AUTH)";
        return 0;
    }
    r->waits_for_auth = false;
    return taken;
}

static size_t resp_receive(void *state, struct slice bytes, struct buffer *out,
                           bench_answer_fn *on_answer, void *ctx, const char **problem)
{
    struct resp *r = state;
    struct bench_answer a = {.token = 1};
    struct slice line = bytes;
    struct slice bulk = bytes;
    (void)out;
    if (r->waits_for_auth) {
        size_t skipped = take_auth(r, bytes, problem);
        struct slice rest = slice_make(bytes.data + skipped, bytes.len - skipped);
        return skipped == 0 || rest.len == 0
                   ? skipped
                   : skipped + resp_receive(state, rest, out, on_answer, ctx, problem);
    }
    size_t taken = read_answer(bytes, &line, &bulk, problem);
    if (taken == 0) {
        return 0;
    }
    switch (r->verb) {
    case BENCH_OPEN:
        a.session = bulk;
        a.fine = bulk.len > 0 && bulk.len < BENCH_SESSION;
        break;
    case BENCH_ACQUIRE:
        a.fine = slice_equal(line, slice_of("+OK"));
        break;
    case BENCH_RELEASE:
        a.fine = slice_equal(line, slice_of(":1"));
        break;
    case BENCH_KEEPALIVE:
    case BENCH_CLOSE:
        a.fine = line.data[0] == '+';
        break;
    }
    if (!a.fine) {
        set_failure(line, &a);
    }
    on_answer(ctx, &a);
    return taken;
}

const struct bench_protocol bench_resp = {
    .name = "resp",
    .multiplexes = false,
    .sessions_follow = true,
    .open = resp_open,
    .close = resp_close,
    .begin = resp_begin,
    .request = resp_request,
    .receive = resp_receive,
};
