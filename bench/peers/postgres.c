/* Locks in PostgreSQL, by its protocol 3.0 with prepared statements. Two recipes:
 *
 *   postgres   a row in a table, as many services have it: INSERT ... ON CONFLICT takes it
 *              if it is free or expired, DELETE gives it back. Both are committed to disk.
 *   advisory   pg_try_advisory_lock, which lives in the server's memory and with the connection.
 *
 * bench/compare.py makes the table. Bind, Execute and Sync travel in one piece, so a step is one
 * round trip; it is answered when the server is ready for the next. */
#include <inttypes.h>
#include <stdio.h>
#include <sys/random.h>

#include "network_order.h"
#include "peers.h"

#define PROTOCOL_VERSION 196608u /* 3.0 */

enum { MESSAGE_MAX = 1 << 20, UUID = 37 };

struct recipe {
    const char *acquire;
    const char *release;
    bool has_lease; /* a row, with owner, lease and TTL */
};

static const struct recipe table = {
    "INSERT INTO distributed_locks (resource, owner_id, lease_id, expires_at) "
    "VALUES ($1, 'bench', $2::uuid, now() + ($3 || ' seconds')::interval) "
    "ON CONFLICT (resource) DO UPDATE SET owner_id = EXCLUDED.owner_id, "
    "lease_id = EXCLUDED.lease_id, expires_at = EXCLUDED.expires_at, updated_at = now() "
    "WHERE distributed_locks.expires_at < now() "
    "RETURNING resource, lease_id, fencing_token, expires_at",
    "DELETE FROM distributed_locks WHERE resource = $1 AND lease_id = $2::uuid",
    true,
};

static const struct recipe advisory = {
    "SELECT pg_try_advisory_lock(hashtextextended($1, 0))",
    "SELECT pg_advisory_unlock(hashtextextended($1, 0))",
    false,
};

struct postgres {
    const struct recipe *recipe;
    enum bench_verb verb;
    unsigned ready;  /* how often the server still has to say that it is */
    bool has_row;    /* of the answer so far: a row, or one deleted, or a truth */
    bool has_failed; /* and its `code` and `message` are set */
    uint64_t salt;
    uint64_t count;
    char lease[UUID];
    char code[BENCH_CODE];
    char message[BENCH_MESSAGE];
};

static void *open_with(const struct recipe *recipe, uint32_t slots)
{
    hf_assert(slots == 1);
    struct postgres *p = memory_alloc(memory_system(), sizeof(*p));
    *p = (struct postgres){.recipe = recipe};
    if (getrandom(&p->salt, sizeof(p->salt), 0) != (ssize_t)sizeof(p->salt)) {
        p->salt = (uint64_t)(uintptr_t)p;
    }
    return p;
}

static void *table_open(const char *host, uint32_t slots)
{
    (void)host;
    return open_with(&table, slots);
}

static void *advisory_open(const char *host, uint32_t slots)
{
    (void)host;
    return open_with(&advisory, slots);
}

static void postgres_close(void *state)
{
    memory_free(memory_system(), state, sizeof(struct postgres));
}

static void postgres_begin(void *state, struct buffer *out)
{
    (void)state;
    (void)out;
}

/* ---- requesting ---- */

/* With its closing NUL. */
static void put_text(struct buffer *out, const char *text)
{
    buffer_append(out, text, strlen(text) + 1);
}

static size_t begin_message(struct buffer *out, char type)
{
    put_u8(out, (uint8_t)type);
    return begin_length(out);
}

static void put_sync(struct postgres *p, struct buffer *out)
{
    end_length(out, begin_message(out, 'S'), true);
    p->ready++;
}

static void put_parse(struct buffer *out, const char *name, const char *statement)
{
    size_t at = begin_message(out, 'P');
    put_text(out, name);
    put_text(out, statement);
    put_u16(out, 0); /* it finds the types itself */
    end_length(out, at, true);
}

static void put_startup(struct postgres *p, struct buffer *out)
{
    size_t at = begin_length(out);
    put_u32(out, PROTOCOL_VERSION);
    put_text(out, "user");
    put_text(out, "postgres");
    put_text(out, "database");
    put_text(out, "postgres");
    put_u8(out, 0);
    end_length(out, at, true);
    p->ready++;
}

static void put_execute(struct postgres *p, struct buffer *out, const char *statement,
                        const struct slice *values, uint16_t count)
{
    size_t at = begin_message(out, 'B');
    put_text(out, ""); /* the unnamed portal */
    put_text(out, statement);
    put_u16(out, 0); /* values are texts */
    put_u16(out, count);
    for (uint16_t i = 0; i < count; i++) {
        put_u32(out, (uint32_t)values[i].len);
        buffer_append_slice(out, values[i]);
    }
    put_u16(out, 0); /* so are results */
    end_length(out, at, true);
    at = begin_message(out, 'E');
    put_text(out, "");
    put_u32(out, 0); /* all rows */
    end_length(out, at, true);
    put_sync(p, out);
}

static void make_lease(struct postgres *p)
{
    uint64_t count = p->count++;
    (void)snprintf(p->lease, sizeof(p->lease), "%08" PRIx32 "-%04x-4%03x-8000-%012" PRIx64,
                   (uint32_t)p->salt, (unsigned)(p->salt >> 32 & 0xffff),
                   (unsigned)(p->salt >> 48 & 0xfff), count & UINT64_C(0xffffffffffff));
}

static void postgres_request(void *state, uint32_t slot, const struct bench_request *request,
                             struct buffer *out)
{
    struct postgres *p = state;
    hf_assert(slot == 0);
    p->verb = request->verb;
    p->has_row = false;
    p->has_failed = false;
    p->ready = 0;
    if (request->verb == BENCH_OPEN) {
        put_startup(p, out);
        put_parse(out, "acquire", p->recipe->acquire);
        put_parse(out, "release", p->recipe->release);
        put_sync(p, out);
    } else if (request->verb == BENCH_ACQUIRE) {
        make_lease(p);
        const struct slice values[] = {request->name, slice_of(p->lease), slice_of("30")};
        put_execute(p, out, "acquire", values, p->recipe->has_lease ? 3 : 1);
    } else if (request->verb == BENCH_RELEASE) {
        const struct slice values[] = {request->name, slice_of(p->lease)};
        put_execute(p, out, "release", values, p->recipe->has_lease ? 2 : 1);
    } else {
        put_sync(p, out);
    }
}

/* ---- answers ---- */

/* Fields of an error: a letter and a text each. */
static void note_error(struct postgres *p, struct slice body)
{
    p->has_failed = true;
    (void)snprintf(p->code, sizeof(p->code), "unknown");
    p->message[0] = '\0';
    for (size_t at = 0; at < body.len && body.data[at] != 0;) {
        const char *text = (const char *)body.data + at + 1;
        size_t len = strnlen(text, body.len - at - 1);
        if (body.data[at] == 'C') {
            (void)snprintf(p->code, sizeof(p->code), "%.*s", (int)len, text);
        } else if (body.data[at] == 'M') {
            (void)snprintf(p->message, sizeof(p->message), "%.*s", (int)len, text);
        }
        at += len + 2;
    }
}

/* A row of the table is enough; an advisory lock answers with one column that is 't' or 'f'. */
static void note_row(struct postgres *p, struct slice body)
{
    p->has_row = p->recipe->has_lease || (body.len == 7 && body.data[6] == 't');
}

static void on_message(struct postgres *p, char type, struct slice body)
{
    if (type == 'E') {
        note_error(p, body);
    } else if (type == 'R' && get_be(body, 0, 4) != 0) {
        static const char words[] = "C28000\0Mthe server wants a password\0";
        note_error(p, slice_make(words, sizeof(words)));
    } else if (type == 'D') {
        note_row(p, body);
    } else if (type == 'C' && p->recipe->has_lease && p->verb == BENCH_RELEASE) {
        p->has_row = slice_equal(body, slice_make("DELETE 1", 9));
    } else if (type == 'Z') {
        p->ready--;
    }
}

static void answer(const struct postgres *p, bench_answer_fn *on_answer, void *ctx)
{
    struct bench_answer a = {.token = 1, .session = slice_of("connection")};
    bool wants_row = p->verb == BENCH_ACQUIRE || p->verb == BENCH_RELEASE;
    a.fine = !p->has_failed && (p->has_row || !wants_row);
    if (!a.fine) {
        (void)snprintf(a.code, sizeof(a.code), "%s", p->has_failed ? p->code : "refused");
        (void)snprintf(a.message, sizeof(a.message), "%s", p->has_failed ? p->message : "refused");
    }
    on_answer(ctx, &a);
}

static size_t postgres_receive(void *state, struct slice bytes, struct buffer *out,
                               bench_answer_fn *on_answer, void *ctx, const char **problem)
{
    struct postgres *p = state;
    size_t used = 0;
    (void)out;
    while (bytes.len - used >= 5 && p->ready > 0) {
        size_t len = (size_t)get_be(bytes, used + 1, 4);
        if (len < 4 || len > MESSAGE_MAX) {
            *problem = "an answer that is not PostgreSQL's";
            return 0;
        }
        if (bytes.len - used - 1 < len) {
            break;
        }
        on_message(p, (char)bytes.data[used], slice_make(bytes.data + used + 5, len - 4));
        used += 1 + len;
    }
    if (p->has_failed && p->verb == BENCH_OPEN) {
        p->ready = 0; /* it says no more before it closes */
    }
    if (used > 0 && p->ready == 0) {
        answer(p, on_answer, ctx);
    }
    return used;
}

const struct bench_protocol peer_postgres = {
    .name = "postgres",
    .sessions_follow = true,
    .open = table_open,
    .close = postgres_close,
    .begin = postgres_begin,
    .request = postgres_request,
    .receive = postgres_receive,
};

const struct bench_protocol peer_advisory = {
    .name = "advisory",
    .sessions_follow = true,
    .open = advisory_open,
    .close = postgres_close,
    .begin = postgres_begin,
    .request = postgres_request,
    .receive = postgres_receive,
};
