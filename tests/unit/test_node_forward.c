/* Tests of forwarding: the states of a call, with a replica and peers that the test plays. What
 * counts is S8.4: UNAVAILABLE only when it was surely done nowhere. */
#include "base_testing.h"

#include "node/forward.h"
#include "node/result_codec.h"
#include "service/memory_page.h"

/* ---- the replica and the peers, as the test plays them ---- */

enum { MANY = 64 };

static struct {
    struct replica_status status;
    enum hf_error submit_error;
    void *cookies[MANY];
    struct id leases[MANY];
    uint32_t submitted;
    uint32_t barriers;
    uint64_t core_index;
    uint64_t now_ms;
    bool link_up;
    uint64_t numbers[MANY];
    uint64_t peers[MANY];
    uint8_t kinds[MANY];
    uint32_t requests;
    uint8_t answer_status;
    uint32_t answers;
    struct buffer answer_body;
    enum tier_taken taken; /* what the tier EFFICIENCY says */
    bool tells_at_once;
    enum tier asked;
    uint32_t offered;
    uint32_t proposed;
    uint32_t settled;
    uint8_t interest;
    uint32_t events;
    struct forward *forward;
} fake;

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
    fake.cookies[fake.submitted++] = cookie;
    return HF_OK;
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
    return true;
}

enum tier_taken memory_tier_submit(struct memory_tier *t, enum tier asked,
                                   const struct command *command, void *cookie, struct tier_time at)
{
    (void)t;
    assert_true(at.majority);
    fake.asked = asked;
    fake.offered++;
    if (asked == TIER_CORRECTNESS) {
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

bool memory_page_write(const struct core *core, struct slice ask, struct buffer *out)
{
    assert_null(core);
    return buffer_append_text(out, "page of ") && buffer_append_slice(out, ask);
}

bool memory_tier_is_counted(const struct command *command)
{
    return command->type == COMMAND_ACQUIRE;
}

void memory_tier_on_proposed(struct memory_tier *t, const struct command *command)
{
    (void)t;
    (void)command;
    fake.proposed++;
}

void memory_tier_on_settled(struct memory_tier *t)
{
    (void)t;
    fake.settled++;
}

bool peers_request(struct peers *p, uint64_t id, uint64_t number, uint8_t kind, struct slice body)
{
    (void)p;
    (void)body;
    if (!fake.link_up) {
        return false;
    }
    fake.peers[fake.requests] = id;
    fake.kinds[fake.requests] = kind;
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

/* ---- a world with one forward ---- */

enum { DONE = 1, NOT_DONE = 2, UNKNOWN = 3, BUSY = 4, MALFORMED = 5, EVENT = 7 };
enum { COMMAND = 1, BARRIER = 2, MEMORY = 4, INTEREST = 5, LOOK = 6 };

struct asked {
    struct gateway_call call;
    int answers;
    enum hf_error error;
    struct result result;
    bool has_result;
};

static struct replica_time now(void *ctx)
{
    (void)ctx;
    return (struct replica_time){.boot_us = fake.now_ms * 1000};
}

static void on_done(struct gateway_call *call, enum hf_error error, const struct result *result)
{
    struct asked *asked = call->owner;
    asked->answers++;
    asked->error = error;
    asked->has_result = result != NULL;
    if (result != NULL) {
        asked->result = *result;
    }
}

static struct counted counted;

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

static struct forward *begin_as(struct memory_tier *tier)
{
    memset(&fake, 0, sizeof(fake));
    counted_init(&counted);
    buffer_init(&fake.answer_body, memory_system(), 1 << 18);
    fake.now_ms = 1000;
    struct forward_options options = {.memory = &counted.memory,
                                      .node = 1,
                                      .give_up_ms = 3000,
                                      .now = now,
                                      .tier = tier,
                                      .on_interest = on_interest,
                                      .on_event = on_event};
    struct forward *f = forward_new(&options);
    forward_connect(f, (struct replica *)&fake, (struct peers *)&fake);
    fake.forward = f;
    return f;
}

static struct forward *begin(void)
{
    return begin_as(NULL);
}

static struct forward *begin_with_tier(void)
{
    return begin_as((struct memory_tier *)(void *)&fake);
}

static void end(struct forward *f)
{
    forward_free(f);
    buffer_close(&fake.answer_body);
    assert_all_given_back(&counted);
}

static void lead(void)
{
    fake.status = (struct replica_status){
        .id = 1, .leader = 1, .is_leader = true, .serving = true, .term = 5};
}

static void follow(struct forward *f, uint64_t leader)
{
    fake.status = (struct replica_status){.id = 1, .leader = leader, .term = 6};
    fake.link_up = leader != 0;
    forward_on_change(f);
}

static void make_acquire(struct command *command, uint64_t lease)
{
    command_init(command, COMMAND_ACQUIRE);
    command->request_id = slice_of("the-request");
    command->acquire.lease = (struct id){1, lease};
    command->acquire.client = slice_of("client");
    command->acquire.names.count = 1;
    command->acquire.names.at[0] = slice_of("name");
    command->acquire.ttl_ms = 1000;
}

static void ask(struct forward *f, struct asked *asked, uint64_t lease)
{
    struct command command;
    make_acquire(&command, lease);
    *asked = (struct asked){.call = {.done = on_done, .owner = asked}};
    forward_submit(f, &command, &asked->call);
    assert_int_equal(asked->answers, 0); /* never before the call returned */
}

static void ask_barrier(struct forward *f, struct asked *asked)
{
    *asked = (struct asked){.call = {.done = on_done, .owner = asked}};
    forward_barrier(f, &asked->call);
}

static void answer_remotely(struct forward *f, uint32_t request, uint8_t status, uint64_t token)
{
    struct buffer body;
    buffer_init(&body, memory_system(), RESULT_BYTES_MAX);
    if (status == DONE) {
        struct result result = {.type = COMMAND_ACQUIRE, .token = token};
        assert_true(result_encode(&result, &body));
    }
    assert_true(forward_on_answer(f, fake.peers[request], fake.numbers[request], status,
                                  buffer_bytes(&body)));
    buffer_close(&body);
}

static void pass(struct forward *f, uint64_t ms)
{
    for (uint64_t i = 0; i < ms; i += 20) {
        fake.now_ms += 20;
        forward_run(f);
    }
}

/* ---- here ---- */

static void on_the_leader_it_is_submitted_and_answered(void **state)
{
    (void)state;
    struct forward *f = begin();
    struct asked a;
    lead();
    ask(f, &a, 7);
    forward_run(f);
    assert_int_equal(fake.submitted, 1);
    assert_int_equal(fake.leases[0].low, 7);
    struct result result = {.token = 42};
    forward_on_result(f, fake.cookies[0], REPLICA_DONE, &result);
    assert_int_equal(a.answers, 1);
    assert_int_equal(a.error, HF_OK);
    assert_int_equal(a.result.token, 42);
    assert_int_equal(forward_outstanding(f), 0);
    end(f);
}

static void a_busy_replica_gets_it_later_and_in_order(void **state)
{
    (void)state;
    struct forward *f = begin();
    struct asked a;
    struct asked b;
    lead();
    fake.submit_error = HF_BUSY;
    ask(f, &a, 1);
    ask(f, &b, 2);
    forward_run(f);
    assert_int_equal(fake.submitted, 0);
    fake.submit_error = HF_OK;
    pass(f, 20);
    assert_int_equal(fake.submitted, 2);
    assert_int_equal(fake.leases[0].low, 1);
    assert_int_equal(fake.leases[1].low, 2);
    end(f);
}

static void what_was_not_done_here_is_tried_at_the_next_leader(void **state)
{
    (void)state;
    struct forward *f = begin();
    struct asked a;
    lead();
    ask(f, &a, 1);
    forward_run(f);
    follow(f, 2);
    forward_on_result(f, fake.cookies[0], REPLICA_NOT_DONE, NULL);
    forward_run(f);
    assert_int_equal(fake.requests, 1);
    assert_int_equal(fake.peers[0], 2);
    answer_remotely(f, 0, DONE, 43);
    assert_int_equal(a.result.token, 43);
    end(f);
}

static void after_lost_leadership_the_first_to_tell_wins(void **state)
{
    (void)state;
    struct forward *f = begin();
    struct asked a;
    lead();
    ask(f, &a, 1);
    forward_run(f);
    follow(f, 2); /* in flight here: the outcome is not known */
    forward_run(f);
    assert_int_equal(fake.requests, 1);
    struct result result = {.token = 44};
    forward_on_result(f, fake.cookies[0], REPLICA_DONE, &result);
    assert_int_equal(a.answers, 1);
    assert_int_equal(a.result.token, 44);
    answer_remotely(f, 0, DONE, 45); /* too late, and not told twice */
    assert_int_equal(a.answers, 1);
    end(f);
}

/* ---- there ---- */

static void a_follower_sends_it_to_the_leader(void **state)
{
    (void)state;
    struct forward *f = begin();
    struct asked a;
    follow(f, 3);
    ask(f, &a, 1);
    forward_run(f);
    assert_int_equal(fake.requests, 1);
    assert_int_equal(fake.peers[0], 3);
    assert_int_equal(fake.kinds[0], COMMAND);
    assert_true(forward_on_answer(f, 4, fake.numbers[0], DONE, slice_of("")));
    assert_int_equal(a.answers, 0); /* another node has no say in it */
    answer_remotely(f, 0, DONE, 46);
    assert_int_equal(a.result.token, 46);
    end(f);
}

static void a_broken_link_means_the_same_bytes_once_more(void **state)
{
    (void)state;
    struct forward *f = begin();
    struct asked a;
    follow(f, 3);
    ask(f, &a, 1);
    forward_run(f);
    fake.link_up = false;
    forward_on_down(f, 3);
    forward_run(f);
    assert_int_equal(fake.requests, 1);
    fake.link_up = true;
    pass(f, 40);
    assert_int_equal(fake.requests, 2);
    assert_true(fake.numbers[0] != fake.numbers[1]);
    answer_remotely(f, 0, DONE, 1); /* of the older attempt: nobody listens any more */
    assert_int_equal(a.answers, 0);
    answer_remotely(f, 1, DONE, 47);
    assert_int_equal(a.result.token, 47);
    end(f);
}

static void another_leader_is_asked_without_waiting_for_the_old_one(void **state)
{
    (void)state;
    struct forward *f = begin();
    struct asked a;
    follow(f, 3);
    ask(f, &a, 1);
    forward_run(f);
    follow(f, 4);
    forward_run(f);
    assert_int_equal(fake.requests, 2);
    assert_int_equal(fake.peers[1], 4);
    answer_remotely(f, 1, DONE, 48);
    assert_int_equal(a.result.token, 48);
    end(f);
}

static void what_came_to_nothing_everywhere_is_unavailable(void **state)
{
    (void)state;
    struct forward *f = begin();
    struct asked a;
    follow(f, 0);
    ask(f, &a, 1);
    pass(f, 2900);
    assert_int_equal(a.answers, 0);
    pass(f, 200);
    assert_int_equal(a.answers, 1);
    assert_int_equal(a.error, HF_UNAVAILABLE);
    /* The next one need not wait: there is no leader, and has been none for long. */
    ask(f, &a, 2);
    forward_run(f);
    assert_int_equal(a.answers, 1);
    assert_int_equal(a.error, HF_UNAVAILABLE);
    end(f);
}

static void refusals_leave_no_doubt(void **state)
{
    (void)state;
    struct forward *f = begin();
    struct asked a;
    follow(f, 3);
    ask(f, &a, 1);
    forward_run(f);
    answer_remotely(f, 0, NOT_DONE, 0);
    follow(f, 0);
    pass(f, 3100);
    assert_int_equal(a.error, HF_UNAVAILABLE);
    end(f);
}

static void what_may_have_been_done_is_outcome_unknown(void **state)
{
    (void)state;
    for (int way = 0; way < 4; way++) {
        struct forward *f = begin();
        struct asked a;
        follow(f, 3);
        if (way == 3) {
            lead();
        }
        ask(f, &a, 1);
        forward_run(f);
        if (way == 0) { /* sent, and never answered */
            pass(f, 20);
        } else if (way == 1) { /* the link broke */
            fake.link_up = false;
            forward_on_down(f, 3);
        } else if (way == 2) { /* the leader itself does not know */
            answer_remotely(f, 0, UNKNOWN, 0);
        } /* or it is in flight here */
        follow(f, 0);
        pass(f, 3100);
        assert_int_equal(a.answers, 1);
        assert_int_equal(a.error, HF_OUTCOME_UNKNOWN);
        if (way == 3) { /* the replica tells at last: nobody is asked */
            forward_on_result(f, fake.cookies[0], REPLICA_NOT_DONE, NULL);
        }
        assert_int_equal(a.answers, 1);
        end(f);
    }
}

static void an_operators_command_without_a_request_id_is_not_sent_twice(void **state)
{
    (void)state;
    struct forward *f = begin();
    struct command command;
    struct asked a = {.call = {.done = on_done, .owner = &a}};
    command_init(&command, COMMAND_FORCE_UNLOCK);
    command.force_unlock.name = slice_of("name");
    command.force_unlock.actor = slice_of("actor");
    command.force_unlock.reason = slice_of("reason");
    follow(f, 3);
    forward_submit(f, &command, &a.call);
    forward_run(f);
    assert_int_equal(fake.requests, 1);
    forward_on_down(f, 3);
    assert_int_equal(a.answers, 1);
    assert_int_equal(a.error, HF_OUTCOME_UNKNOWN);
    end(f);
}

/* ---- barriers ---- */

static void a_barrier_on_a_follower_waits_for_its_own_state(void **state)
{
    (void)state;
    struct forward *f = begin();
    struct asked a;
    follow(f, 3);
    fake.core_index = 99;
    ask_barrier(f, &a);
    forward_run(f);
    assert_int_equal(fake.kinds[0], BARRIER);
    static const uint8_t index[8] = {101};
    assert_true(forward_on_answer(f, 3, fake.numbers[0], DONE, slice_make(index, 8)));
    forward_run(f);
    assert_int_equal(a.answers, 0);
    fake.core_index = 101;
    forward_run(f);
    assert_int_equal(a.answers, 1);
    assert_int_equal(a.error, HF_OK);
    assert_false(a.has_result);
    end(f);
}

static void a_barrier_that_is_not_reached_is_unavailable_and_never_unknown(void **state)
{
    (void)state;
    struct forward *f = begin();
    struct asked a;
    lead();
    ask_barrier(f, &a);
    forward_run(f);
    assert_int_equal(fake.barriers, 1);
    follow(f, 0);
    forward_on_barrier(f, fake.cookies[0], false);
    pass(f, 3100);
    assert_int_equal(a.error, HF_UNAVAILABLE);
    end(f);
}

/* ---- the first command, and a full disk ---- */

static void everything_waits_for_the_first_command(void **state)
{
    (void)state;
    struct forward *f = begin();
    struct asked first = {.call = {.done = on_done, .owner = &first}};
    struct asked a;
    struct command gone;
    command_init(&gone, COMMAND_NODE_GONE);
    gone.node_gone.node = 1;
    lead();
    forward_submit_first(f, &gone, &first.call);
    ask(f, &a, 1);
    forward_run(f);
    assert_int_equal(fake.submitted, 1);
    struct result result = {.token = 0};
    forward_on_result(f, fake.cookies[0], REPLICA_DONE, &result);
    assert_int_equal(first.answers, 1);
    forward_run(f);
    assert_int_equal(fake.submitted, 2);
    end(f);
}

static void a_full_disk_refuses_commands_and_lets_reads_through(void **state)
{
    (void)state;
    struct forward *f = begin();
    struct asked a;
    struct asked read;
    lead();
    forward_set_read_only(f, true, false);
    ask(f, &a, 1);
    ask_barrier(f, &read);
    forward_run(f);
    assert_int_equal(fake.barriers, 1);
    assert_int_equal(fake.submitted, 1);
    forward_on_barrier(f, fake.cookies[0], true);
    assert_int_equal(read.error, HF_OK);
    assert_int_equal(read.answers, 1);
    assert_int_equal(a.answers, 0); /* another node may lead soon */
    pass(f, 3100);
    assert_int_equal(a.error, HF_DISK_FULL);
    forward_set_read_only(f, true, true);
    ask(f, &a, 2);
    forward_run(f);
    assert_int_equal(a.error, HF_DISK_FULL); /* there is no other */
    end(f);
}

/* ---- requests of other nodes ---- */

static struct slice encoded_acquire(uint8_t *buffer, size_t size)
{
    struct command command;
    make_acquire(&command, 5);
    return slice_make(buffer, command_encode(&command, buffer, size));
}

static void a_forwarded_command_is_submitted_and_its_result_relayed(void **state)
{
    (void)state;
    struct forward *f = begin();
    uint8_t buffer[512];
    lead();
    assert_true(forward_on_request(f, 2, 10, 77, COMMAND, encoded_acquire(buffer, 512)));
    assert_int_equal(fake.leases[0].low, 5);
    struct result result = {.type = COMMAND_ACQUIRE, .token = 50};
    forward_on_result(f, fake.cookies[0], REPLICA_DONE, &result);
    assert_int_equal(fake.answer_status, DONE);
    struct result_scratch scratch;
    assert_true(result_decode(buffer_bytes(&fake.answer_body), &scratch, &result));
    assert_int_equal(result.token, 50);
    end(f);
}

static void a_forwarded_command_is_refused_where_it_cannot_be_done(void **state)
{
    (void)state;
    struct forward *f = begin();
    uint8_t buffer[512];
    struct slice good = encoded_acquire(buffer, 512);
    fake.submit_error = HF_UNAVAILABLE;
    assert_true(forward_on_request(f, 2, 10, 77, COMMAND, good));
    assert_int_equal(fake.answer_status, NOT_DONE);
    fake.submit_error = HF_BUSY;
    assert_true(forward_on_request(f, 2, 10, 78, COMMAND, good));
    assert_int_equal(fake.answer_status, BUSY);
    fake.submit_error = HF_OK;
    assert_true(forward_on_request(f, 2, 10, 79, COMMAND, slice_of("nonsense")));
    assert_int_equal(fake.answer_status, MALFORMED);
    assert_true(forward_on_request(f, 2, 10, 80, 99, slice_of("")));
    assert_int_equal(fake.answer_status, MALFORMED);
    assert_true(forward_on_request(f, 2, 10, 81, COMMAND, good));
    forward_on_result(f, fake.cookies[0], REPLICA_UNKNOWN, NULL);
    assert_int_equal(fake.answer_status, UNKNOWN);
    assert_int_equal(fake.answers, 5);
    end(f);
}

static void a_forwarded_barrier_is_answered_with_the_index(void **state)
{
    (void)state;
    struct forward *f = begin();
    lead();
    fake.core_index = 300;
    assert_true(forward_on_request(f, 2, 10, 77, BARRIER, slice_of("")));
    forward_on_barrier(f, fake.cookies[0], true);
    assert_int_equal(fake.answer_status, DONE);
    static const uint8_t index[8] = {44, 1};
    assert_memory_equal(buffer_bytes(&fake.answer_body).data, index, 8);
    end(f);
}

/* ---- the tier EFFICIENCY ---- */

static char seen[64];

static void on_page(struct gateway_call *call, enum hf_error error, const struct result *result)
{
    assert_int_equal(error, HF_OK);
    assert_null(result);
    snprintf(seen, sizeof(seen), "%.*s", (int)call->page.len, (const char *)call->page.data);
}

static void who_looks_gets_the_page_with_the_barrier(void **state)
{
    (void)state;
    struct forward *f = begin_with_tier();
    struct gateway_call here = {.done = on_page, .look = slice_of("names")};
    lead();
    forward_barrier(f, &here);
    forward_run(f);
    forward_on_barrier(f, fake.cookies[0], true);
    assert_string_equal(seen, "page of names");
    /* For another node: behind the index; and there the own state has to get so far first. */
    fake.core_index = 300;
    assert_true(forward_on_request(f, 2, 10, 77, LOOK, slice_of("more")));
    assert_true(forward_on_request(f, 2, 10, 78, LOOK, slice_of("")));
    assert_int_equal(fake.answer_status, MALFORMED);
    forward_on_barrier(f, fake.cookies[1], true);
    assert_int_equal(fake.answer_status, DONE);
    struct slice body = buffer_bytes(&fake.answer_body);
    assert_int_equal(body.len, 8 + strlen("page of more"));
    seen[0] = '\0';
    fake.core_index = 299;
    follow(f, 2);
    struct gateway_call there = {.done = on_page, .look = slice_of("more")};
    forward_barrier(f, &there);
    forward_run(f);
    assert_int_equal(fake.kinds[0], LOOK);
    assert_true(forward_on_answer(f, 2, fake.numbers[0], DONE, body));
    forward_run(f);
    assert_string_equal(seen, "");
    fake.core_index = 300;
    forward_run(f);
    assert_string_equal(seen, "page of more");
    end(f);
}

static void an_older_leader_that_knows_no_pages_is_asked_for_the_barrier_alone(void **state)
{
    (void)state;
    struct forward *f = begin_with_tier();
    static const uint8_t index[8] = {1};
    struct gateway_call call = {.done = on_page, .look = slice_of("names")};
    snprintf(seen, sizeof(seen), "nothing yet");
    fake.core_index = 1;
    follow(f, 2);
    forward_barrier(f, &call);
    forward_run(f);
    assert_int_equal(fake.kinds[0], LOOK);
    assert_true(forward_on_answer(f, 2, fake.numbers[0], MALFORMED, slice_of("")));
    forward_run(f);
    assert_int_equal(fake.kinds[1], BARRIER);
    assert_true(forward_on_answer(f, 2, fake.numbers[1], DONE, slice_make(index, 8)));
    forward_run(f);
    assert_string_equal(seen, ""); /* and there is nothing to show */
    end(f);
}

static void ask_memory(struct forward *f, struct asked *asked, uint64_t lease)
{
    struct command command;
    make_acquire(&command, lease);
    *asked = (struct asked){.call = {.done = on_done, .owner = asked, .tier = TIER_EFFICIENCY}};
    forward_submit(f, &command, &asked->call);
    assert_int_equal(asked->answers, 0); /* never before the call returned */
}

static void the_leaders_memory_answers_at_once_and_nothing_is_proposed(void **state)
{
    (void)state;
    struct forward *f = begin_with_tier();
    struct asked a;
    lead();
    fake.taken = TIER_TAKEN;
    fake.tells_at_once = true;
    ask_memory(f, &a, 7);
    assert_false(forward_has_answered(f));
    forward_run(f);
    assert_int_equal(fake.asked, TIER_EFFICIENCY);
    assert_int_equal(a.answers, 1);
    assert_int_equal(a.result.token, 1025);
    assert_true(forward_has_answered(f));
    assert_false(forward_has_answered(f));
    assert_int_equal(fake.submitted, 0);
    assert_int_equal(forward_outstanding(f), 0);
    end(f);
}

static void what_memory_confirms_later_is_answered_then(void **state)
{
    (void)state;
    struct forward *f = begin_with_tier();
    struct asked a;
    struct asked b;
    lead();
    fake.taken = TIER_TAKEN;
    ask_memory(f, &a, 7);
    ask_memory(f, &b, 8);
    forward_run(f);
    assert_int_equal(a.answers, 0);
    struct result result = {.token = 1026};
    forward_on_tier_result(f, fake.cookies[1], &result);
    assert_int_equal(b.answers, 1);
    forward_on_tier_result(f, fake.cookies[0], NULL); /* the leadership ended: not known */
    assert_int_equal(a.answers, 0);                   /* it is asked again, under the same id */
    pass(f, 6000);
    assert_int_equal(a.answers, 1);
    assert_int_equal(a.error, HF_OUTCOME_UNKNOWN);
    end(f);
}

static void what_memory_holds_back_is_in_nobodys_way(void **state)
{
    (void)state;
    struct forward *f = begin_with_tier();
    struct asked a;
    struct asked b;
    lead();
    fake.taken = TIER_LATER;
    ask_memory(f, &a, 7);
    forward_run(f);
    assert_int_equal(a.answers, 0);
    ask(f, &b, 8);
    forward_run(f);
    assert_int_equal(fake.submitted, 1);
    assert_int_equal(fake.leases[0].low, 8);
    fake.taken = TIER_TAKEN;
    fake.tells_at_once = true;
    pass(f, 20);
    assert_int_equal(a.answers, 1);
    fake.taken = TIER_LATER;
    ask_memory(f, &a, 9);
    pass(f, 3100); /* no majority all the while: surely not done */
    assert_int_equal(a.answers, 1);
    assert_int_equal(a.error, HF_UNAVAILABLE);
    end(f);
}

static void an_acquire_for_the_log_is_counted_until_it_is_settled(void **state)
{
    (void)state;
    struct forward *f = begin_with_tier();
    struct asked a;
    lead();
    ask(f, &a, 7);
    forward_run(f);
    assert_int_equal(fake.proposed, 1);
    assert_int_equal(fake.settled, 0);
    forward_on_result(f, fake.cookies[0], REPLICA_NOT_DONE, NULL);
    assert_int_equal(fake.settled, 1);
    pass(f, 20);
    assert_int_equal(fake.proposed, 2);
    struct result result = {.token = 2048};
    forward_on_result(f, fake.cookies[1], REPLICA_DONE, &result);
    assert_int_equal(fake.settled, 2);
    assert_int_equal(a.answers, 1);
    end(f);
}

static void a_follower_says_which_tier_and_hears_the_epoch(void **state)
{
    (void)state;
    struct forward *f = begin_with_tier();
    struct asked a;
    follow(f, 2);
    ask_memory(f, &a, 7);
    forward_run(f);
    assert_int_equal(fake.offered, 0);
    assert_int_equal(fake.kinds[0], MEMORY);
    struct buffer body;
    buffer_init(&body, memory_system(), RESULT_BYTES_MAX + 64);
    static const uint8_t head[16] = {9, 0, 0, 0, 0, 0, 0, 0, 0x10, 0x27};
    struct result result = {.type = COMMAND_ACQUIRE, .token = 9217};
    assert_true(buffer_append(&body, head, sizeof(head)));
    assert_true(result_encode(&result, &body));
    assert_true(forward_on_answer(f, 2, fake.numbers[0], DONE, buffer_bytes(&body)));
    buffer_close(&body);
    assert_int_equal(a.answers, 1);
    assert_int_equal(a.result.token, 9217);
    assert_int_equal(forward_epoch(f), 9);
    assert_int_equal(forward_heard_ms(f), 10000);
    end(f);
}

static void a_forwarded_request_of_memory_is_answered_with_the_epoch(void **state)
{
    (void)state;
    struct forward *f = begin_with_tier();
    uint8_t buffer[512];
    struct slice good = encoded_acquire(buffer, 512);
    lead();
    fake.taken = TIER_LATER;
    assert_true(forward_on_request(f, 2, 10, 77, MEMORY, good));
    assert_int_equal(fake.answer_status, BUSY);
    fake.taken = TIER_TAKEN;
    fake.tells_at_once = true;
    assert_true(forward_on_request(f, 2, 10, 78, MEMORY, good));
    assert_int_equal(fake.answer_status, DONE);
    static const uint8_t epoch[8] = {7};
    assert_memory_equal(buffer_bytes(&fake.answer_body).data, epoch, 8);
    assert_int_equal(fake.submitted, 0);
    end(f);
}

static void events_and_wishes_need_no_answer(void **state)
{
    (void)state;
    struct forward *f = begin_with_tier();
    assert_true(forward_on_request(f, 2, 10, 0, INTEREST, slice_of("\x02")));
    assert_int_equal(fake.interest, 2);
    assert_false(forward_on_request(f, 2, 10, 0, INTEREST, slice_of("")));
    assert_int_equal(fake.answers, 0);
    assert_true(forward_on_answer(f, 2, 0, EVENT, slice_of("bytes")));
    assert_int_equal(fake.events, 1);
    end(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(on_the_leader_it_is_submitted_and_answered),
        cmocka_unit_test(a_busy_replica_gets_it_later_and_in_order),
        cmocka_unit_test(what_was_not_done_here_is_tried_at_the_next_leader),
        cmocka_unit_test(after_lost_leadership_the_first_to_tell_wins),
        cmocka_unit_test(a_follower_sends_it_to_the_leader),
        cmocka_unit_test(a_broken_link_means_the_same_bytes_once_more),
        cmocka_unit_test(another_leader_is_asked_without_waiting_for_the_old_one),
        cmocka_unit_test(what_came_to_nothing_everywhere_is_unavailable),
        cmocka_unit_test(refusals_leave_no_doubt),
        cmocka_unit_test(what_may_have_been_done_is_outcome_unknown),
        cmocka_unit_test(an_operators_command_without_a_request_id_is_not_sent_twice),
        cmocka_unit_test(a_barrier_on_a_follower_waits_for_its_own_state),
        cmocka_unit_test(a_barrier_that_is_not_reached_is_unavailable_and_never_unknown),
        cmocka_unit_test(everything_waits_for_the_first_command),
        cmocka_unit_test(a_full_disk_refuses_commands_and_lets_reads_through),
        cmocka_unit_test(a_forwarded_command_is_submitted_and_its_result_relayed),
        cmocka_unit_test(a_forwarded_command_is_refused_where_it_cannot_be_done),
        cmocka_unit_test(a_forwarded_barrier_is_answered_with_the_index),
        cmocka_unit_test(the_leaders_memory_answers_at_once_and_nothing_is_proposed),
        cmocka_unit_test(what_memory_confirms_later_is_answered_then),
        cmocka_unit_test(what_memory_holds_back_is_in_nobodys_way),
        cmocka_unit_test(an_acquire_for_the_log_is_counted_until_it_is_settled),
        cmocka_unit_test(a_follower_says_which_tier_and_hears_the_epoch),
        cmocka_unit_test(a_forwarded_request_of_memory_is_answered_with_the_epoch),
        cmocka_unit_test(events_and_wishes_need_no_answer),
        cmocka_unit_test(who_looks_gets_the_page_with_the_barrier),
        cmocka_unit_test(an_older_leader_that_knows_no_pages_is_asked_for_the_barrier_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
