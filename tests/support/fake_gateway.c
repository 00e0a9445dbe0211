/* The gateway of fake_gateway.h. */
#include "fake_gateway.h"

#include <stdlib.h>

#include "core/view.h"
#include "service/request/memory_page.h"
#include "service/request/session_check.h"

enum { COMMAND_BYTES = 256 << 10 };

static void on_event(void *ctx, const struct event *event)
{
    struct fake_gateway *g = ctx;
    if (g->on_event != NULL) {
        g->on_event(g->on_event_ctx, event);
    }
    if (g->service != NULL) {
        service_on_event(g->service, event);
    }
}

static struct fake_call *add_call(struct fake_gateway *g, struct gateway_call *call, size_t len)
{
    struct fake_call *c = malloc(sizeof(*c) + len);
    hf_assert(c != NULL);
    memset(c, 0, sizeof(*c));
    c->call = call;
    c->len = len;
    if (g->last != NULL) {
        g->last->next = c;
    } else {
        g->first = c;
    }
    g->last = c;
    return c;
}

static void fake_submit(void *ctx, const struct command *command, struct gateway_call *call)
{
    struct fake_gateway *g = ctx;
    hf_assert(!g->is_inside); /* the replica must not be called back */
    uint8_t *bytes = malloc(COMMAND_BYTES);
    hf_assert(bytes != NULL);
    size_t len = command_encode(command, CORE_VERSION, bytes, COMMAND_BYTES);
    hf_assert(len > 0);
    struct fake_call *c = add_call(g, call, len + call->look.len);
    memcpy(c->bytes, bytes, len);
    if (call->look.len > 0) {
        memcpy(c->bytes + len, call->look.data, call->look.len);
        c->look = slice_make(c->bytes + len, call->look.len);
    }
    call->look = slice_make(NULL, 0);
    free(bytes);
    enum hf_error error = command_decode(slice_make(c->bytes, len), &c->command);
    hf_assert(error == HF_OK);
    g->submitted[command->type]++;
}

static void fake_barrier(void *ctx, struct gateway_call *call)
{
    struct fake_gateway *g = ctx;
    hf_assert(!g->is_inside);
    struct fake_call *c = add_call(g, call, call->look.len);
    c->is_barrier = true;
    if (leader_query_of(call->look) == QUERY_SESSION_NAMES) {
        memcpy(c->bytes, call->look.data, call->look.len);
        c->look = slice_make(c->bytes, call->look.len);
    }
    g->barriers++;
}

static const struct core *fake_core(void *ctx)
{
    return ((struct fake_gateway *)ctx)->core;
}

static void fake_status(void *ctx, struct gateway_status *out)
{
    struct fake_gateway *g = ctx;
    *out = g->status;
    out->epoch = core_epoch(g->core);
}

static struct id fake_random_id(void *ctx)
{
    struct fake_gateway *g = ctx;
    g->drawn++;
    return (struct id){UINT64_C(0x1d1d1d1d00000000) | g->drawn,
                       g->drawn * UINT64_C(0x9e3779b97f4a7c15)};
}

static uint64_t fake_wall_ms(void *ctx)
{
    return ((struct fake_gateway *)ctx)->wall_ms;
}

static uint64_t fake_boot_ms(void *ctx)
{
    return ((struct fake_gateway *)ctx)->boot_ms;
}

static uint64_t fake_cluster_ms(void *ctx)
{
    return ((struct fake_gateway *)ctx)->cluster_ms;
}

static uint32_t fake_members(void *ctx, struct gateway_member *out, uint32_t max)
{
    static const struct gateway_member members[] = {
        {1, "127.0.0.1:4654", "127.0.0.1:4653", true, true, 0, 7},
        {2, "127.0.0.1:4664", "127.0.0.1:4663", true, true, 7, 7},
        {3, "127.0.0.1:4674", "", false, false, UINT64_MAX, 0},
    };
    uint32_t count = max < 3 ? max : 3;
    memcpy(out, members, count * sizeof(members[0]));
    return count;
}

static void fake_change_member(void *ctx, enum gateway_change change, uint64_t id,
                               const char *address, struct gateway_change_call *call)
{
    struct fake_gateway *g = ctx;
    hf_assert(g->change == NULL && !g->is_inside);
    g->change = call;
    g->change_kind = change;
    g->change_id = id;
    g->change_address[0] = '\0';
    strncat(g->change_address, address, sizeof(g->change_address) - 1);
}

static void fake_snapshot_open(void *ctx, struct gateway_snapshot_call *call)
{
    struct fake_gateway *g = ctx;
    hf_assert(g->snapshot_count < 4);
    g->snapshots[g->snapshot_count++] = call;
    call->in_flight = g;
}

static bool fake_snapshot_read(void *ctx, struct gateway_snapshot_call *call, uint64_t offset,
                               void *to, size_t len)
{
    struct fake_gateway *g = ctx;
    hf_assert(call->in_flight == g);
    g->snapshot_reads++;
    for (size_t i = 0; i < len; i++) {
        ((uint8_t *)to)[i] = fake_snapshot_byte(offset + i);
    }
    return !g->snapshot_breaks;
}

static void fake_events(void *ctx, struct gateway_events *out)
{
    struct fake_gateway *g = ctx;
    *out = g->events;
}

static void fake_scan_events(void *ctx, const struct event_scan *scan,
                             struct gateway_scan_call *call)
{
    struct fake_gateway *g = ctx;
    hf_assert(g->scan == NULL);
    g->scan = call;
    g->scanned = *scan;
    g->scans++;
}

static void fake_scan_cancel(void *ctx, struct gateway_scan_call *call)
{
    struct fake_gateway *g = ctx;
    hf_assert(g->scan == call);
    g->scan = NULL;
}

static void fake_snapshot_close(void *ctx, struct gateway_snapshot_call *call)
{
    struct fake_gateway *g = ctx;
    uint32_t at = 0;
    while (g->snapshots[at] != call) {
        at++;
        hf_assert(at < g->snapshot_count);
    }
    call->in_flight = NULL;
    g->snapshots[at] = g->snapshots[--g->snapshot_count];
}

void fake_gateway_give(struct fake_gateway *g, uint64_t bytes)
{
    const struct gateway_snapshot about = {{1, 2}, g->index, 3, bytes};
    for (uint32_t i = g->snapshot_count; i-- > 0;) {
        g->snapshots[i]->done(g->snapshots[i], HF_OK, &about, NULL);
    }
}

static void make_core(struct fake_gateway *g, uint32_t version)
{
    struct core_options options = {.memory = memory_system(),
                                   .hash_key = 42,
                                   .on_event = on_event,
                                   .event_ctx = g,
                                   .version = version};
    g->core = core_new(&options);
    struct command lead;
    struct result result;
    command_init(&lead, COMMAND_LEAD);
    lead.lead.node = 1;
    fake_gateway_apply(g, &lead, &result);
}

void fake_gateway_open(struct fake_gateway *g)
{
    *g = (struct fake_gateway){
        .gateway = {.ctx = g,
                    .submit = fake_submit,
                    .barrier = fake_barrier,
                    .core = fake_core,
                    .status = fake_status,
                    .random_id = fake_random_id,
                    .wall_ms = fake_wall_ms,
                    .boot_ms = fake_boot_ms,
                    .cluster_ms = fake_cluster_ms,
                    .members = fake_members,
                    .change_member = fake_change_member,
                    .snapshot_open = fake_snapshot_open,
                    .snapshot_read = fake_snapshot_read,
                    .snapshot_close = fake_snapshot_close,
                    .events = fake_events,
                    .scan_events = fake_scan_events,
                    .scan_cancel = fake_scan_cancel},
        .index = 10,
        .cluster_ms = 1000000,
        .wall_ms = UINT64_C(1731660577123), /* 2024-11-15T08:49:37.123Z */
        .boot_ms = 5000,
        .status = {.node = 1,
                   .leader = 1,
                   .leader_client_address = "127.0.0.1:4653",
                   .term = 3,
                   .serving = true},
    };
    make_core(g, CORE_VERSION);
}

void fake_gateway_start_over(struct fake_gateway *g, uint32_t version)
{
    hf_assert(g->first == NULL);
    core_free(g->core);
    make_core(g, version);
}

void fake_gateway_close(struct fake_gateway *g)
{
    while (g->first != NULL) {
        struct fake_call *c = g->first;
        g->first = c->next;
        free(c);
    }
    core_free(g->core);
}

static void begin_entry(struct fake_gateway *g)
{
    core_begin(g->core, ++g->index, g->cluster_ms, g->wall_ms);
    g->entries++;
}

void fake_gateway_apply(struct fake_gateway *g, const struct command *command, struct result *out)
{
    begin_entry(g);
    core_apply(g->core, command, out);
}

/* What remains of a result when it has travelled: the texts point into a state that has moved on.
 */
static void strip(struct result *r)
{
    r->has_holder = false;
    r->holder = (struct holder_view){.mode = MODE_EXCLUSIVE};
    r->reserved_for = slice_make(NULL, 0);
    r->name = slice_make(NULL, 0);
    r->cycle_length = 0;
}

/* The tier EFFICIENCY is empty. */
static void answer_checks(struct fake_gateway *g, struct fake_call *c)
{
    struct buffer page;
    struct core_options options = {.memory = memory_system()};
    struct core *empty = core_new(&options);
    struct result result;
    core_apply(g->core, &c->command, &result);
    buffer_init(&page, memory_system(), SESSION_CHECKS_BYTES(SESSION_CHECKS_MAX));
    bool is_answered = session_checks_answer(g->core, empty, c->look, &page);
    hf_assert(is_answered);
    c->call->page = g->is_older ? slice_make(NULL, 0) : buffer_bytes(&page);
    c->call->done(c->call, HF_OK, &result);
    buffer_close(&page);
    core_free(empty);
}

/* What the leader's memory has of a session: nothing. */
static void answer_look(struct fake_gateway *g, struct fake_call *c)
{
    struct buffer page;
    buffer_init(&page, memory_system(), MEMORY_PAGE_BYTES);
    bool is_answered = memory_page_write(NULL, c->look, &page);
    hf_assert(is_answered && g->index > 0);
    c->call->page = buffer_bytes(&page);
    c->call->done(c->call, HF_OK, NULL);
    buffer_close(&page);
}

static void answer(struct fake_gateway *g, struct fake_call *c)
{
    struct result result = {.error = HF_OK};
    bool is_done = g->fails == HF_OK || g->does_before;
    if (c->look.len > 0 && g->fails == HF_OK) {
        (c->is_barrier ? answer_look : answer_checks)(g, c);
        return;
    }
    if (!c->is_barrier && is_done) {
        core_apply(g->core, &c->command, &result);
    }
    if (g->fails != HF_OK) {
        c->call->done(c->call, g->fails, NULL);
    } else {
        c->call->done(c->call, HF_OK, c->is_barrier ? NULL : &result);
    }
}

bool fake_gateway_deliver(struct fake_gateway *g)
{
    if (g->is_held || g->first == NULL) {
        return false;
    }
    struct fake_call *calls = g->first;
    bool any = false;
    if (!g->is_late) {
        g->first = g->last = NULL;
    }
    if (g->fails == HF_OK || g->does_before) { /* what is refused makes no entry */
        begin_entry(g);
    }
    g->is_inside = true;
    while (calls != NULL) {
        struct fake_call *c = calls;
        calls = c->next;
        if (g->is_late) {
            if (!c->is_applied && !c->is_barrier) {
                core_apply(g->core, &c->command, &c->result);
                strip(&c->result);
                c->is_applied = true;
                any = true;
            }
            continue;
        }
        answer(g, c);
        free(c);
        any = true;
    }
    g->is_inside = false;
    return any;
}

void fake_gateway_tell(struct fake_gateway *g)
{
    struct fake_call *calls = g->first;
    g->first = g->last = NULL;
    while (calls != NULL) {
        struct fake_call *c = calls;
        calls = c->next;
        hf_assert(c->is_applied);
        c->call->done(c->call, HF_OK, &c->result);
        free(c);
    }
}

void fake_gateway_pass(struct fake_gateway *g, uint64_t ms)
{
    g->cluster_ms += ms;
    g->wall_ms += ms;
    g->boot_ms += ms;
    while (core_next_due_ms(g->core) <= g->cluster_ms) {
        begin_entry(g);
    }
}
