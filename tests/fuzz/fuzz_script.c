/* Explores the states of the core: the bytes are read as a sequence of small commands over a tiny
 * world (a handful of sessions, names, lease ids, nodes) with steps of time in between, and
 * libFuzzer looks for sequences that reach new code. It is built with limits so small that a few
 * commands hit them (HOLDFAST_TINY_LIMITS in base/limits.h), so backlogs, unfinished handing over
 * and full rings are everyday here.
 *
 * After each command the invariants must hold. Two cores with different hash keys run side by side,
 * and at any time the second is thrown away and made anew from a snapshot of the first: they must
 * say the same, to the last event, and give the same snapshot in the end. */
#include "../support/core_harness.h"

#include "base/limits.h"
#include "core/view.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { SESSIONS = 12, NAMES = 6, RECENT = 12, NODES = 4 };

struct side {
    struct core *core;
    uint64_t print; /* of all its events and results */
};

/* What an acquire used and got. */
struct recent {
    uint32_t lease;
    uint64_t token;
    uint64_t attachment;
};

struct world {
    const uint8_t *at;
    const uint8_t *end;
    struct side sides[2];
    uint64_t index;
    uint64_t now_ms;
    uint32_t leases; /* given out so far */
    uint32_t transacts;
    struct recent recent[RECENT];
    unsigned recent_at;
    uint64_t streams[SESSIONS];
    bool is_open[SESSIONS]; /* as far as we know */
};

static _Noreturn void die(const char *what, const char *text)
{
    fprintf(stderr, "fuzz_script: %s: %s\n", what, text);
    abort();
}

/* A choice among `options`, 0 when the bytes have run out. */
static uint32_t pick(struct world *w, uint32_t options)
{
    return w->at == w->end ? 0 : *w->at++ % options;
}

static struct slice pick_word(struct world *w, const char *const *words, uint32_t count)
{
    return slice_of(words[pick(w, count)]);
}

/* ---- the world ---- */

static struct id session_id(uint32_t i)
{
    return (struct id){100 + i, 1};
}

/* Every 32nd is the id of a session, which it must not be mistaken for. */
static struct id lease_id(uint32_t i)
{
    return i % 32 == 31 ? session_id(i / 32 % SESSIONS) : (struct id){200 + i, 2};
}

/* Mostly a session that is open. */
static struct id pick_session(struct world *w)
{
    uint32_t which = pick(w, SESSIONS * 2);
    for (uint32_t i = 0; which >= 2 && i < SESSIONS; i++) {
        if (w->is_open[(which + i) % SESSIONS]) {
            return session_id((which + i) % SESSIONS);
        }
    }
    return session_id(which % SESSIONS);
}

/* Mostly a new one. */
static uint32_t pick_lease(struct world *w)
{
    uint32_t which = pick(w, RECENT * 2);
    return which == 0 && w->recent_at > 0 ? w->recent[which].lease : ++w->leases;
}

static struct recent *pick_recent(struct world *w)
{
    return &w->recent[pick(w, RECENT)];
}

static struct slice pick_name(struct world *w)
{
    static const char *const names[NAMES] = {"a", "b", "c", "d", "e/f", "g"};
    return pick_word(w, names, NAMES);
}

static struct slice pick_client(struct world *w)
{
    static const char *const clients[] = {"ann", "bob", "cy"};
    return pick_word(w, clients, 3);
}

static const uint32_t ttls[] = {100, 1000, 8000, 60000};

/* ---- running ---- */

static void check(const struct core *core)
{
    const char *broken = core_check_invariants(core);
    if (broken != NULL) {
        die("broken invariant", broken);
    }
}

static void compare(const struct world *w)
{
    if (w->sides[0].print != w->sides[1].print) {
        die("two cores differ", "they said different things");
    }
}

static void remember(struct world *w, const struct command *c, const struct result *r)
{
    uint64_t session = c->session.high - session_id(0).high;
    if (c->type == COMMAND_SESSION_OPEN) {
        w->is_open[c->session_open.id.high - session_id(0).high] = r->error == HF_OK;
    } else if (r->error == HF_SESSION_EXPIRED || c->type == COMMAND_SESSION_CLOSE) {
        w->is_open[session] = false;
    } else if (c->type == COMMAND_STREAM_UP && r->error == HF_OK) {
        w->streams[session] = r->attachment;
    } else if (c->type == COMMAND_ACQUIRE && r->error == HF_OK && r->outcome != OUTCOME_REFUSED) {
        struct recent *recent = &w->recent[w->recent_at++ % RECENT];
        recent->lease = w->leases;
        recent->token = r->token;
        recent->attachment = r->attachment;
    }
}

static void run(struct world *w, const struct command *c)
{
    uint8_t bytes[4096];
    size_t len = command_encode(c, CORE_VERSION, bytes, sizeof(bytes));
    struct command decoded;
    if (len == 0 || command_decode(slice_make(bytes, len), &decoded) != HF_OK) {
        die("a command", "it did not survive its encoding");
    }
    for (unsigned i = 0; i < 2; i++) {
        struct result r;
        core_apply(w->sides[i].core, &decoded, &r);
        print_result(&w->sides[i].print, &r);
        if (i == 0) {
            remember(w, c, &r);
        }
    }
    check(w->sides[0].core);
    compare(w);
}

static void begin(struct world *w, uint64_t later_ms)
{
    w->now_ms += later_ms;
    w->index++;
    for (unsigned i = 0; i < 2; i++) {
        core_begin(w->sides[i].core, w->index, w->now_ms, w->index * 7);
    }
    check(w->sides[0].core);
    compare(w);
}

/* The second core is made anew from the first. Snapshots are taken between entries, so another
 * begins: events are numbered within theirs. */
static void restore(struct world *w, uint32_t piece)
{
    struct bytes snapshots[2] = {snapshot_of(w->sides[0].core), snapshot_of(w->sides[1].core)};
    if (!bytes_equal(&snapshots[0], &snapshots[1])) {
        die("two cores differ", "in their snapshots");
    }
    core_free(w->sides[1].core);
    struct core_options options = {.memory = memory_system(),
                                   .hash_key = w->index * 31 + piece,
                                   .on_event = print_event,
                                   .event_ctx = &w->sides[1].print};
    enum hf_error error;
    struct snapshot_problem problem;
    w->sides[1].core =
        core_from(&options, snapshots[0].data, snapshots[0].len, piece + 1, &error, &problem);
    if (w->sides[1].core == NULL) {
        die("a snapshot was refused", problem.text);
    }
    check(w->sides[1].core);
    bytes_free(&snapshots[1]);
    snapshots[1] = snapshot_of(w->sides[1].core);
    if (!bytes_equal(&snapshots[0], &snapshots[1])) {
        die("two cores differ", "a restored one writes another snapshot");
    }
    bytes_free(&snapshots[0]);
    bytes_free(&snapshots[1]);
    begin(w, 0);
}

/* ---- commands ---- */

static void pick_once(struct world *w, struct command *c)
{
    static const char *const ids[] = {"r1", "r2", "r3"};
    uint32_t how = pick(w, 8);
    if (how >= 5) {
        c->request_id = slice_of(ids[how - 5]);
    } else if (how >= 3 && !id_is_zero(c->session)) {
        c->seq = 1 + pick(w, 12);
        c->acked_through = how == 4 ? pick(w, 12) : 0;
    }
}

static void pick_names(struct world *w, struct command_acquire *a)
{
    uint32_t count = pick(w, 8);
    a->names.count = count < 5 ? 1 : count < 7 ? 2 : 3;
    for (uint32_t i = 0; i < a->names.count; i++) {
        a->names.at[i] = pick_name(w);
    }
}

static void do_acquire(struct world *w, bool is_shared)
{
    static const uint64_t waits[] = {0, 60, 5000, WAIT_FOREVER};
    static const char *const owners[] = {"", "x"};
    struct command c;
    command_init(&c, COMMAND_ACQUIRE);
    c.tenant = pick(w, 16) == 15 ? 1 : 0;
    if (pick(w, 2) == 0) {
        c.session = pick_session(w);
    }
    struct command_acquire *a = &c.acquire;
    a->lease = lease_id(pick_lease(w));
    a->node = pick(w, NODES);
    a->client = pick_client(w);
    a->owner = pick_word(w, owners, 2);
    pick_names(w, a);
    if (a->names.count == 1) {
        a->mode = is_shared ? MODE_SHARED : pick(w, MODE_COUNT);
    }
    if (a->mode == MODE_SEMAPHORE) {
        a->limit = 2 + pick(w, 2) * 2;
        a->permits = 1 + pick(w, 3);
    }
    uint32_t ttl = pick(w, 5);
    a->ttl_ms = ttl == 4 && !id_is_zero(c.session) ? 0 : ttls[ttl % 4];
    a->wait_ms = waits[pick(w, 4)];
    a->delay_ms = pick(w, 4) == 3 ? 300 : 0;
    a->flags = pick(w, ACQUIRE_KEY);
    uint32_t data = pick(w, 4);
    bool may_be_key =
        id_is_zero(c.session) && a->mode == MODE_EXCLUSIVE && a->names.count == 1 && data >= 2;
    a->flags |= may_be_key ? ACQUIRE_KEY : 0;
    a->metadata = slice_of(data == 3 ? "{}" : "");
    a->value = slice_of(data == 2 && (a->mode == MODE_ELECTION || may_be_key) ? "v" : "");
    pick_once(w, &c);
    run(w, &c);
}

/* Several wait for names in turn, all through one node. */
static void do_burst(struct world *w)
{
    uint32_t count = 2 + pick(w, 9);
    uint32_t node = pick(w, NODES);
    uint32_t width = 1 + pick(w, NAMES);
    for (uint32_t i = 0; i < count; i++) {
        static const char *const names[NAMES] = {"a", "b", "c", "d", "e/f", "g"};
        struct command c;
        command_init(&c, COMMAND_ACQUIRE);
        c.acquire.lease = lease_id(++w->leases);
        c.acquire.node = node;
        c.acquire.client = slice_of("many");
        c.acquire.names.count = 1;
        c.acquire.names.at[0] = slice_of(names[i % width]);
        c.acquire.ttl_ms = 1000;
        c.acquire.wait_ms = 15000;
        run(w, &c);
    }
}

static void do_session(struct world *w, enum command_type type)
{
    struct command c;
    command_init(&c, type);
    if (type == COMMAND_SESSION_OPEN) {
        c.session_open.id = session_id(pick(w, SESSIONS));
        c.session_open.client = pick_client(w);
        c.session_open.ttl_ms = ttls[pick(w, 4)];
        c.session_open.linger_ms = pick(w, 2) * 200;
        c.session_open.metadata = slice_of(pick(w, 2) == 1 ? "{}" : "");
        pick_once(w, &c);
    } else {
        c.session = pick_session(w);
        if (type == COMMAND_STREAM_DOWN) {
            uint64_t latest = w->streams[c.session.high - session_id(0).high];
            c.stream_down.stream = latest + (pick(w, 8) == 7);
        }
    }
    run(w, &c);
}

static void do_keepalive(struct world *w)
{
    struct command c;
    command_init(&c, COMMAND_KEEPALIVE);
    uint8_t packed[SESSIONS * 16] = {0};
    uint32_t which = pick(w, 256) * 37; /* some */
    uint32_t count = 0;
    for (uint32_t i = 0; i < SESSIONS; i++) {
        if (which >> i & 1) {
            packed[count * 16] = (uint8_t)session_id(i).high;
            packed[count * 16 + 8] = (uint8_t)session_id(i).low;
            count++;
        }
    }
    c.keepalive.sessions = (struct ids){count, packed};
    run(w, &c);
}

static void do_connection(struct world *w, enum command_type type)
{
    struct command c;
    command_init(&c, type);
    if (type == COMMAND_NODE_GONE) {
        c.node_gone.node = pick(w, NODES);
    } else {
        const struct recent *recent = pick_recent(w);
        uint64_t attachment = recent->attachment + (pick(w, 8) == 7);
        if (type == COMMAND_CANCEL) {
            c.cancel.lease = lease_id(recent->lease);
            c.cancel.attachment = attachment;
        } else {
            c.detach.lease = lease_id(recent->lease);
            c.detach.attachment = attachment;
        }
    }
    run(w, &c);
}

static void do_holder(struct world *w, enum command_type type)
{
    struct command c;
    command_init(&c, type);
    if (pick(w, 4) == 3) {
        c.session = pick_session(w);
    }
    const struct recent *recent = pick_recent(w);
    uint64_t some_token = recent->token == 0 ? 1024 : recent->token;
    if (type == COMMAND_PROCLAIM) {
        c.proclaim.name = pick_name(w);
        c.proclaim.token = some_token;
        c.proclaim.value = slice_of("new");
    } else {
        struct id lease = {0, 0};
        uint64_t token = 0;
        struct slice name = slice_make(NULL, 0);
        if (pick(w, 4) != 3) {
            lease = lease_id(recent->lease);
        } else {
            token = some_token;
            name = pick(w, 4) == 3 ? name : pick_name(w);
        }
        if (type == COMMAND_RELEASE) {
            c.release.lease = lease;
            c.release.token = token;
            c.release.name = name;
        } else {
            c.renew.lease = lease;
            c.renew.token = token;
            c.renew.name = name;
            c.renew.ttl_ms = pick(w, 2) == 1 ? ttls[pick(w, 4)] : 0;
        }
    }
    pick_once(w, &c);
    run(w, &c);
}

static void do_operator(struct world *w, bool force)
{
    struct command c;
    command_init(&c, force ? COMMAND_FORCE_UNLOCK : COMMAND_REVOKE);
    if (force) {
        c.force_unlock.name = pick_name(w);
        c.force_unlock.actor = slice_of("op");
        c.force_unlock.reason = slice_of("why");
        c.force_unlock.now = pick(w, 2);
    } else {
        c.revoke.name = pick_name(w);
        c.revoke.actor = slice_of("op");
        c.revoke.reason = slice_of("why");
        c.revoke.grace_ms = pick(w, 3) * 100;
    }
    pick_once(w, &c);
    run(w, &c);
}

static void do_fence(struct world *w)
{
    struct command c;
    command_init(&c, COMMAND_FENCE_CHECK);
    c.fence_check.resource = pick_name(w);
    c.fence_check.slot = pick(w, 2);
    uint32_t way = pick(w, 16); /* two of them: reset, with a token and without */
    c.fence_check.token = way == 8 ? LIMIT_NUMBER - 1 : 1 + way % 8;
    if (way >= 14) {
        struct slice resource = c.fence_check.resource;
        uint32_t slot = c.fence_check.slot;
        command_init(&c, COMMAND_FENCE_RESET);
        c.fence_reset.resource = resource;
        c.fence_reset.slot = slot;
        c.fence_reset.token = way == 14 ? 5 : 0;
        c.fence_reset.actor = slice_of("op");
        c.fence_reset.reason = slice_of("why");
    }
    pick_once(w, &c);
    run(w, &c);
}

/* What to do with a key; the names of counters are among those of locks. */
static struct effect pick_effect(struct world *w)
{
    struct effect e = {.kind = (enum effect_kind)(1 + pick(w, EFFECT_COUNT - 1)),
                       .name = pick_name(w)};
    uint32_t how = pick(w, 8);
    switch (e.kind) {
    case EFFECT_PUT:
        e.lease = lease_id(pick_lease(w));
        e.ttl_ms = how == 0 ? 0 : ttls[how % 4];
        e.flags = how & 1 ? (uint32_t)EFFECT_HASH : how & 4 ? (uint32_t)EFFECT_LIST : 0u;
        e.value = slice_of(how & 2 ? "value" : "");
        break;
    case EFFECT_EXPIRE:
        e.ttl_ms = how == 0 ? 0 : ttls[how % 4];
        break;
    case EFFECT_DROP:
        e.flags = how < 4 ? 0 : how == 4 ? EFFECT_FORCED | EFFECT_NOW : EFFECT_FORCED;
        break;
    case EFFECT_COUNTER:
        e.number = (int64_t)how - 4;
        e.flags = how < 2 ? EFFECT_TTL : how == 2 ? EFFECT_PERSIST : 0;
        e.ttl_ms = how < 2 ? ttls[how] : 0;
        break;
    default:
        e.value = slice_of("topic");
        break;
    }
    return e;
}

static void do_transact(struct world *w)
{
    uint8_t bytes[2][512];
    struct packer checks = packer_make(bytes[0], sizeof(bytes[0]));
    struct packer effects = packer_make(bytes[1], sizeof(bytes[1]));
    for (uint32_t left = 1 + pick(w, 3); left > 0; left--) {
        struct effect e = pick_effect(w);
        struct key_view view;
        view_key(w->sides[0].core, 0, e.name, &view);
        if (pick(w, 2) == 0) {
            view.version.changes += pick(w, 8) == 7;
            (void)pack_check(&checks, &(struct key_check){e.name, view.version});
        }
        (void)pack_effect(&effects, &e);
    }
    struct command c;
    command_init(&c, COMMAND_TRANSACT);
    c.transact.id = (struct id){300 + (pick(w, 4) == 0 ? pick(w, 4) : ++w->transacts + 4), 3};
    c.transact.client = pick_client(w);
    c.transact.actor = slice_of("resp");
    c.transact.reason = slice_of("DEL");
    c.transact.checks = packer_list(&checks);
    c.transact.effects = packer_list(&effects);
    run(w, &c);
}

static void do_simple(struct world *w, enum command_type type)
{
    struct command c;
    command_init(&c, type);
    run(w, &c);
}

static void step(struct world *w)
{
    static const uint16_t times_ms[] = {0, 0, 1, 20, 40, 70, 100, 150, 300, 1000, 2500, 10000};
    switch (pick(w, 32)) {
    case 0:
    case 1:
        begin(w, times_ms[pick(w, sizeof(times_ms) / sizeof(times_ms[0]))]);
        return;
    case 2:
        do_burst(w);
        return;
    case 3:
    case 4:
    case 31:
        do_session(w, COMMAND_SESSION_OPEN);
        return;
    case 5:
        do_keepalive(w);
        return;
    case 6:
        do_session(w, COMMAND_SESSION_CLOSE);
        return;
    case 7:
        do_session(w, COMMAND_STREAM_UP);
        return;
    case 8:
        do_session(w, COMMAND_STREAM_DOWN);
        return;
    case 9:
        do_connection(w, COMMAND_CANCEL);
        return;
    case 10:
        do_connection(w, COMMAND_DETACH);
        return;
    case 11:
        do_connection(w, COMMAND_NODE_GONE);
        return;
    case 12:
    case 13:
    case 14:
        do_holder(w, COMMAND_RELEASE);
        return;
    case 15:
        do_holder(w, COMMAND_RENEW);
        return;
    case 16:
        do_holder(w, COMMAND_PROCLAIM);
        return;
    case 17:
        do_operator(w, true);
        return;
    case 18:
        do_operator(w, false);
        return;
    case 19:
        do_fence(w);
        return;
    case 20:
        do_simple(w, COMMAND_LEAD);
        return;
    case 21:
        restore(w, pick(w, 256));
        return;
    case 22:
    case 23:
        do_acquire(w, true);
        return;
    case 24:
    case 25:
        do_transact(w);
        return;
    default:
        do_acquire(w, false);
        return;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct world w;
    w = (struct world){.at = data, .end = data + size, .now_ms = 1000};
    for (unsigned i = 0; i < 2; i++) {
        struct core_options options = {.memory = memory_system(),
                                       .hash_key = 11 + i,
                                       .on_event = print_event,
                                       .event_ctx = &w.sides[i].print,
                                       .version = CORE_VERSION};
        w.sides[i].core = core_new(&options);
    }
    begin(&w, 0);
    while (w.at < w.end) {
        step(&w);
    }
    restore(&w, 63);
    /* Whatever was left over gets done: then nothing is pending but deadlines. */
    for (unsigned i = 0; core_next_due_ms(w.sides[0].core) <= w.now_ms; i++) {
        if (i == 1000) {
            die("no end", "work is left over and over again");
        }
        begin(&w, 0);
    }
    restore(&w, 4095);
    core_free(w.sides[0].core);
    core_free(w.sides[1].core);
    return 0;
}
