/* The world of forward_world.h. */
#include "base_testing.h"

#include "core/policy.h"
#include "forward_world.h"
#include "service/request/memory_page.h"

struct forward_fake fake;
static struct counted counted;

/* ---- the replica and the peers, as the test controls them ---- */

void replica_status(const struct replica *r, struct replica_time now, struct replica_status *out)
{
    (void)r;
    (void)now;
    *out = fake.status;
}

enum hf_error replica_submit(struct replica *r, const struct command *command, void *cookie,
                             struct replica_time now)
{
    (void)r;
    (void)now;
    if (fake.submit_error != HF_OK) {
        return fake.submit_error;
    }
    fake.leases[fake.submitted] = command->acquire.lease;
    fake.bytes_len = command_encode(command, CORE_VERSION, fake.bytes, sizeof(fake.bytes));
    fake.cookies[fake.submitted++] = cookie;
    return HF_OK;
}

void replica_note_refused(struct replica *r, const struct command *command)
{
    (void)r;
    (void)command;
    fake.noted_refused++;
}

bool replica_is_serving(const struct replica *r)
{
    (void)r;
    return fake.status.serving;
}

struct slice replica_submitted(const struct replica *r)
{
    (void)r;
    return slice_make(fake.bytes, fake.bytes_len);
}

enum hf_error replica_barrier(struct replica *r, void *cookie, bool for_peer,
                              struct replica_time now)
{
    (void)for_peer;
    (void)r;
    (void)now;
    if (!fake.status.serving) {
        return HF_UNAVAILABLE;
    }
    fake.cookies[fake.submitted++] = cookie;
    fake.barriers++;
    return HF_OK;
}

uint32_t core_version(const struct core *core)
{
    (void)core;
    return fake.state_version != 0 ? fake.state_version : CORE_VERSION;
}

const struct policy *core_policy(const struct core *core)
{
    return (const struct policy *)(const void *)core;
}

enum hf_error authorise_command(const struct policy *p, const struct command *command,
                                struct denial *denial)
{
    assert_null(p);
    assert_int_not_equal(command->principal, 0);
    *denial = (struct denial){.right = (enum right)fake.denies};
    return fake.denies == 0 ? HF_OK : HF_DENIED;
}

const char *right_name(enum right right)
{
    return right == RIGHT_LOCK ? "lock" : "another";
}

const struct core *replica_core(const struct replica *r)
{
    (void)r;
    return NULL;
}

uint64_t core_index(const struct core *core)
{
    (void)core;
    return fake.core_index;
}

uint64_t core_epoch(const struct core *core)
{
    (void)core;
    return 7;
}

uint64_t replica_cluster_ms(const struct replica *r, struct replica_time at)
{
    (void)r;
    return at.boot_us / 1000 + 500;
}

bool replica_has_majority(struct replica *r, struct replica_time at)
{
    (void)r;
    (void)at;
    return !fake.no_majority;
}

enum hf_error admission_check(struct admission *a, const struct core *replicated,
                              const struct core *memory, const struct command *command,
                              uint64_t now_us, struct admitted *adds)
{
    assert_null(replicated);
    assert_null(memory);
    assert_int_equal(now_us, fake.now_ms * 1000);
    adds->bytes = fake.adds;
    bool is_over = fake.limits_tenant && command->tenant == fake.limited_tenant;
    a->is_tenant_busy = is_over && fake.quota == HF_BUSY;
    a->refusal = (struct quota_refusal){QUOTA_WAITERS, 7, 250};
    return is_over ? fake.quota : fake.admission;
}

void admission_take(struct admission *a, const struct admitted *adds, uint64_t now_us)
{
    (void)a;
    (void)adds;
    assert_int_equal(now_us, fake.now_ms * 1000);
    fake.tokens++;
}

void admission_propose(struct admission *a, const struct admitted *adds, struct admitted *sum)
{
    a->pending += adds->bytes;
    sum->bytes += adds->bytes;
}

void admission_settle(struct admission *a, struct admitted *sum)
{
    a->pending -= sum->bytes;
    sum->bytes = 0;
}

struct quota_tenant *quota_tenant_get(struct quota_book *book, uint32_t number)
{
    assert_null(book);
    assert_int_equal(number, fake.limited_tenant);
    return &fake.quota_tenant;
}

bool peers_view(const struct peers *p, uint64_t id, struct peer_view *out)
{
    (void)p;
    *out =
        (struct peer_view){.id = id, .state = fake.peer_version, .state_max = fake.peer_state_max};
    return true;
}

enum tier_taken memory_tier_submit(struct memory_tier *t, enum tier requested,
                                   const struct command *command, void *cookie, struct tier_time at)
{
    (void)t;
    assert_true(at.majority);
    fake.queried_tier = requested;
    fake.offered++;
    if (requested == TIER_CORRECTNESS && !fake.tier_answers) {
        return TIER_PROPOSE;
    }
    if (fake.taken == TIER_TAKEN && fake.tells_at_once) {
        struct result result = {.type = command->type, .token = 1025};
        forward_on_tier_result(fake.forward, cookie, &result);
    } else if (fake.taken == TIER_TAKEN) {
        fake.cookies[fake.submitted++] = cookie;
    }
    return fake.taken;
}

bool memory_tier_is_for_log(const struct memory_tier *t, enum tier requested,
                            const struct command *command)
{
    (void)t;
    (void)command;
    return requested == TIER_CORRECTNESS && !fake.tier_answers;
}

bool memory_page_write(const struct core *core, struct slice request, struct buffer *out)
{
    assert_null(core);
    return buffer_append_text(out, "page of ") && buffer_append_slice(out, request);
}

bool memory_tier_is_counted(const struct command *command)
{
    return command->type == COMMAND_ACQUIRE;
}

uint64_t memory_tier_on_proposed(struct memory_tier *t, const struct command *command)
{
    (void)t;
    (void)command;
    return ++fake.proposed;
}

void memory_tier_on_settled(struct memory_tier *t, uint64_t number)
{
    (void)t;
    assert_int_equal(number, ++fake.settled);
}

bool peers_request(struct peers *p, uint64_t id, uint64_t number, uint8_t kind, struct slice body)
{
    (void)p;
    if (!fake.link_up) {
        return false;
    }
    fake.formats[fake.requests] = body.len > 0 ? body.data[0] : 0;
    fake.peers[fake.requests] = id;
    fake.kinds[fake.requests] = kind;
    fake.request_len = body.len < sizeof(fake.request) ? body.len : sizeof(fake.request);
    if (fake.request_len > 0) {
        memcpy(fake.request, body.data, fake.request_len);
    }
    fake.numbers[fake.requests++] = number;
    return true;
}

bool peers_answer(struct peers *p, uint64_t id, uint64_t link, uint64_t number, uint8_t status,
                  struct slice body)
{
    (void)p;
    (void)id;
    (void)link;
    (void)number;
    fake.answer_status = status;
    fake.answers++;
    buffer_truncate(&fake.answer_body, 0);
    buffer_append_slice(&fake.answer_body, body);
    return true;
}

uint32_t peers_protocol(const struct peers *p, uint64_t id, bool dialled)
{
    (void)p;
    (void)id;
    (void)dialled;
    return fake.protocol;
}

/* ---- a world with one forward ---- */

static struct replica_time now(void *ctx)
{
    (void)ctx;
    return (struct replica_time){.boot_us = fake.now_ms * 1000};
}

static void on_interest(void *ctx, uint64_t peer, uint64_t link, uint8_t level)
{
    (void)ctx;
    assert_int_equal(peer, 2);
    assert_int_equal(link, 10);
    fake.interest = level;
}

static bool on_event(void *ctx, uint64_t peer, struct slice body)
{
    (void)ctx;
    assert_int_equal(peer, 2);
    assert_int_equal(body.len, 5);
    fake.events++;
    return true;
}

static struct forward *begin_as(struct memory_tier *tier, struct admission *admission, bool auth)
{
    memset(&fake, 0, sizeof(fake));
    counted_init(&counted);
    buffer_init(&fake.answer_body, memory_system(), 1 << 18);
    fake.now_ms = 1000;
    fake.protocol = PEER_PROTOCOL_OLDEST;
    struct forward_options options = {.memory = &counted.memory,
                                      .node = 1,
                                      .give_up_ms = 3000,
                                      .now = now,
                                      .auth = auth,
                                      .admission = admission,
                                      .tier = tier,
                                      .on_interest = on_interest,
                                      .on_event = on_event};
    struct forward *f = forward_new(&options);
    forward_connect(f, (struct replica *)&fake, (struct peers *)&fake);
    fake.forward = f;
    return f;
}

struct forward *forward_begin(void)
{
    return begin_as(NULL, NULL, false);
}

struct forward *forward_begin_with_tier(void)
{
    return begin_as((struct memory_tier *)(void *)&fake, NULL, false);
}

struct forward *forward_begin_with_auth(void)
{
    return begin_as((struct memory_tier *)(void *)&fake, NULL, true);
}

struct forward *forward_begin_with_limit(struct admission *admission)
{
    return begin_as((struct memory_tier *)(void *)&fake, admission, false);
}

uint64_t forward_memory_in_use(void)
{
    return counted.bytes;
}

void forward_end(struct forward *f)
{
    forward_free(f);
    buffer_close(&fake.answer_body);
    assert_all_given_back(&counted);
}

void forward_lead(void)
{
    fake.status = (struct replica_status){
        .id = 1, .leader = 1, .is_leader = true, .serving = true, .term = 5};
}

void forward_follow(struct forward *f, uint64_t leader)
{
    fake.status = (struct replica_status){.id = 1, .leader = leader, .term = 6};
    fake.link_up = leader != 0;
    forward_on_change(f);
}

void forward_pass(struct forward *f, uint64_t ms)
{
    for (uint64_t i = 0; i < ms; i += 20) {
        fake.now_ms += 20;
        forward_run(f);
    }
}

/* ---- calls, and their answers ---- */

void forward_make_acquire(struct command *command, uint64_t lease)
{
    command_init(command, COMMAND_ACQUIRE);
    command->tenant = fake.tenant;
    command->principal = fake.principal;
    command->request_id = slice_of("the-request");
    command->acquire.lease = (struct id){1, lease};
    command->acquire.client = slice_of("client");
    command->acquire.names.count = 1;
    command->acquire.names.at[0] = slice_of("name");
    command->acquire.ttl_ms = 1000;
}

struct slice forward_encode_acquire(uint8_t *buffer, size_t size)
{
    struct command command;
    forward_make_acquire(&command, 5);
    return slice_make(buffer, command_encode(&command, CORE_VERSION, buffer, size));
}

void forward_on_done(struct gateway_call *call, enum hf_error error, const struct result *result)
{
    struct forwarded_call *made = call->owner;
    made->answers++;
    made->error = error;
    made->has_result = result != NULL;
    if (result != NULL) {
        made->result = *result;
    }
}

static void request_in(struct forward *f, struct forwarded_call *made, uint64_t source,
                       uint64_t lease, enum tier tier)
{
    struct command command;
    forward_make_acquire(&command, lease);
    *made = (struct forwarded_call){.call = {.done = forward_on_done,
                                             .owner = made,
                                             .tier = tier,
                                             .is_own = fake.is_own,
                                             .source = source}};
    forward_submit(f, &command, &made->call);
    assert_int_equal(made->answers, 0); /* never before the call returned */
}

void forward_request(struct forward *f, struct forwarded_call *made, uint64_t lease)
{
    request_in(f, made, 0, lease, TIER_CORRECTNESS);
}

void forward_request_of(struct forward *f, struct forwarded_call *made, uint64_t source,
                        uint64_t lease)
{
    request_in(f, made, source, lease, TIER_CORRECTNESS);
}

void forward_request_memory(struct forward *f, struct forwarded_call *made, uint64_t lease)
{
    request_in(f, made, 0, lease, TIER_EFFICIENCY);
}

void forward_request_barrier(struct forward *f, struct forwarded_call *made)
{
    *made = (struct forwarded_call){.call = {.done = forward_on_done, .owner = made}};
    forward_barrier(f, &made->call);
}

void forward_answer_remotely(struct forward *f, uint32_t request, uint8_t status, uint64_t token)
{
    struct buffer body;
    buffer_init(&body, memory_system(), RESULT_BYTES_MAX);
    if (status == DONE) {
        struct result result = {.type = COMMAND_ACQUIRE, .token = token};
        assert_true(result_encode(&result, CORE_VERSION, &body));
    }
    assert_true(forward_on_answer(f, fake.peers[request], fake.numbers[request], status,
                                  buffer_bytes(&body)));
    buffer_close(&body);
}
