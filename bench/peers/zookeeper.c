/* ZooKeeper's own lock recipe (its documentation, "ZooKeeper Recipes and Solutions: Locks"), which
 * its C recipe and Curator follow: create an ephemeral sequential node under the lock's node, list
 * its children, hold the lock when one's own is the first; delete it to give it back.
 *
 * The lock's node has to be there before. To make it anew for every name would cost two writes more
 * a cycle; so each client makes one when it comes, and takes its lock under that again and again.
 *
 * A message is its length and then fields in network order; texts have their length before them. */
#include <inttypes.h>
#include <stdio.h>

#include "network_order.h"
#include "peers.h"

enum {
    CREATE = 1,
    DELETE = 2,
    CHILDREN = 8,
    PING = 11,
    CLOSE_SESSION = -11,

    PING_XID = -2,
    ALL_PERMISSIONS = 31,
    EPHEMERAL_SEQUENTIAL = 3,
    FRAME_MAX = 1 << 20,
    PATH = 128,
};

enum step { CONNECT, MAKE_PARENT, MAKE_NODE, LIST, OTHER };

struct zookeeper {
    enum bench_verb verb;
    enum step step;
    uint32_t xid;
    char parent[PATH];
    char node[PATH];
};

static void *zookeeper_open(const char *host, uint32_t slots)
{
    (void)host;
    hf_assert(slots == 1);
    struct zookeeper *z = memory_alloc(memory_system(), sizeof(*z));
    *z = (struct zookeeper){.xid = 0};
    return z;
}

static void zookeeper_close(void *state)
{
    memory_free(memory_system(), state, sizeof(struct zookeeper));
}

static void zookeeper_begin(void *state, struct buffer *out)
{
    struct zookeeper *z = state;
    (void)out;
    z->xid = 0;
}

/* ---- requesting ---- */

static void put_text(struct buffer *out, const char *text)
{
    size_t len = strlen(text);
    put_u32(out, (uint32_t)len);
    buffer_append(out, text, len);
}

static size_t begin_request(struct zookeeper *z, struct buffer *out, int32_t type)
{
    size_t at = begin_length(out);
    put_u32(out, type == PING ? (uint32_t)PING_XID : ++z->xid);
    put_u32(out, (uint32_t)type);
    return at;
}

static void request_connect(struct buffer *out, uint64_t timeout_ms)
{
    static const uint8_t password[16];
    size_t at = begin_length(out);
    put_u32(out, 0); /* version */
    put_u64(out, 0); /* the last transaction seen */
    put_u32(out, (uint32_t)timeout_ms);
    put_u64(out, 0); /* a new session */
    put_u32(out, sizeof(password));
    buffer_append(out, password, sizeof(password));
    put_u8(out, 0); /* not read-only */
    end_length(out, at, false);
}

static void request_create(struct zookeeper *z, struct buffer *out, const char *path,
                           uint32_t flags)
{
    size_t at = begin_request(z, out, CREATE);
    put_text(out, path);
    put_u32(out, 0); /* no data */
    put_u32(out, 1); /* one rule of access */
    put_u32(out, ALL_PERMISSIONS);
    put_text(out, "world");
    put_text(out, "anyone");
    put_u32(out, flags);
    end_length(out, at, false);
}

static void request_children(struct zookeeper *z, struct buffer *out)
{
    size_t at = begin_request(z, out, CHILDREN);
    put_text(out, z->parent);
    put_u8(out, 0); /* no watch */
    end_length(out, at, false);
}

static void request_delete(struct zookeeper *z, struct buffer *out)
{
    size_t at = begin_request(z, out, DELETE);
    put_text(out, z->node);
    put_u32(out, UINT32_MAX); /* whatever its version */
    end_length(out, at, false);
}

static void zookeeper_request(void *state, uint32_t slot, const struct bench_request *request,
                              struct buffer *out)
{
    struct zookeeper *z = state;
    char path[PATH + 8];
    hf_assert(slot == 0);
    z->verb = request->verb;
    z->step = OTHER;
    switch (request->verb) {
    case BENCH_OPEN:
        z->step = CONNECT;
        request_connect(out, request->ttl_ms);
        break;
    case BENCH_ACQUIRE:
        z->step = MAKE_NODE;
        (void)snprintf(path, sizeof(path), "%s/lock-", z->parent);
        request_create(z, out, path, EPHEMERAL_SEQUENTIAL);
        break;
    case BENCH_RELEASE:
        request_delete(z, out);
        break;
    case BENCH_KEEPALIVE:
    case BENCH_CLOSE:
        end_length(out, begin_request(z, out, request->verb == BENCH_CLOSE ? CLOSE_SESSION : PING),
                   false);
        break;
    }
}

/* ---- answers ---- */

enum { REPLY_HEAD = 16 }; /* xid, transaction, error */

static bool read_text(struct slice frame, size_t at, char *out, size_t size)
{
    size_t len = (size_t)get_be(frame, at, 4);
    if (len == 0 || len >= size || frame.len < at + 4 || frame.len - at - 4 < len) {
        return false;
    }
    memcpy(out, frame.data + at + 4, len);
    out[len] = '\0';
    return true;
}

/* Whether our node is the first of the children: their names end in numbers of ten digits. */
static bool is_first(const struct zookeeper *z, struct slice frame)
{
    char child[PATH];
    const char *own = strrchr(z->node, '/') + 1;
    size_t count = (size_t)get_be(frame, REPLY_HEAD, 4);
    size_t at = REPLY_HEAD + 4;
    bool seen = false;
    for (size_t i = 0; i < count; i++) {
        if (!read_text(frame, at, child, sizeof(child)) || strcmp(child, own) < 0) {
            return false;
        }
        seen = seen || strcmp(child, own) == 0;
        at += 4 + strlen(child);
    }
    return seen;
}

static void fail(struct bench_answer *a, int32_t error)
{
    a->fine = false;
    (void)snprintf(a->code, sizeof(a->code), "zookeeper_%d", error);
    (void)snprintf(a->message, sizeof(a->message), "ZooKeeper's error %d", error);
}

static bool on_connected(struct zookeeper *z, struct slice frame, struct buffer *out)
{
    uint64_t session = get_be(frame, 8, 8);
    (void)snprintf(z->parent, sizeof(z->parent), "/bench-%016" PRIx64, session);
    z->step = MAKE_PARENT;
    request_create(z, out, z->parent, 0);
    return session != 0;
}

/* One step of what was requested. True: it is answered. */
static bool on_frame(struct zookeeper *z, struct slice frame, struct buffer *out,
                     struct bench_answer *a)
{
    int32_t error = z->step == CONNECT ? 0 : (int32_t)get_be(frame, 12, 4);
    if (error != 0 || (z->step != CONNECT && frame.len < REPLY_HEAD)) {
        fail(a, error);
        return true;
    }
    switch (z->step) {
    case CONNECT:
        if (!on_connected(z, frame, out)) {
            fail(a, -1);
            return true;
        }
        return false;
    case MAKE_PARENT:
        a->session = slice_of(z->parent);
        return true;
    case MAKE_NODE:
        if (!read_text(frame, REPLY_HEAD, z->node, sizeof(z->node))) {
            fail(a, -1);
            return true;
        }
        z->step = LIST;
        request_children(z, out);
        return false;
    case LIST:
        a->token = 1;
        if (!is_first(z, frame)) {
            fail(a, -1);
        }
        return true;
    case OTHER:
        break;
    }
    return true;
}

static size_t zookeeper_receive(void *state, struct slice bytes, struct buffer *out,
                                bench_answer_fn *on_answer, void *ctx, const char **problem)
{
    struct zookeeper *z = state;
    size_t len = (size_t)get_be(bytes, 0, 4);
    if (len > FRAME_MAX) {
        *problem = "an answer that is not ZooKeeper's";
        return 0;
    }
    if (bytes.len < 4 || bytes.len - 4 < len) {
        return 0;
    }
    struct bench_answer a = {.fine = true};
    if (on_frame(z, slice_make(bytes.data + 4, len), out, &a)) {
        on_answer(ctx, &a);
    }
    return 4 + len;
}

const struct bench_protocol peer_zookeeper = {
    .name = "zookeeper",
    .sessions_follow = true,
    .open = zookeeper_open,
    .close = zookeeper_close,
    .begin = zookeeper_begin,
    .request = zookeeper_request,
    .receive = zookeeper_receive,
};
