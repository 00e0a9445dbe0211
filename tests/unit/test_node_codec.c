/* Tests of what nodes say to each other, as bytes: results, frames, introductions; and of the file
 * with the stores that are known. */
#include "base_testing.h"

#include <fcntl.h>

#include "base/tier.h"
#include "core/effect.h"
#include "events/event_codec.h"
#include "node/forward/result_codec.h"
#include "node/peers/known_stores.h"
#include "node/peers/peer_protocol.h"
#include "service/request/memory_page.h"
#include "storage/disk_posix.h"
#include "temporary.h"

/* ---- results ---- */

static struct slice text(const char *words)
{
    return slice_make(words, strlen(words));
}

static void assert_text(struct slice got, const char *words)
{
    assert_int_equal(got.len, strlen(words));
    assert_memory_equal(got.data, words, got.len);
}

/* Every field has a value of its own, so that a forgotten or a swapped one shows. */
static void fill_result(struct result *r, const struct cycle_step *cycle, uint32_t cycle_length)
{
    *r = (struct result){.type = COMMAND_ACQUIRE,
                         .error = HF_OK,
                         .outcome = OUTCOME_REFUSED,
                         .reason = REASON_DEADLOCK,
                         .ended = ENDED_FORCED,
                         .replayed = true,
                         .deadlock_unchecked = true,
                         .accepted = true,
                         .mode = MODE_SEMAPHORE,
                         .token = LIMIT_NUMBER - 1,
                         .lease = {3, 4},
                         .deadline_ms = 5,
                         .ttl_ms = 6,
                         .attachment = 7,
                         .wait_deadline_ms = UINT64_MAX,
                         .delayed_until_ms = 9,
                         .highest = 10,
                         .slot = 11,
                         .depth = 12,
                         .queue_length = 13,
                         .queue_position = 14,
                         .count = 15,
                         .more = true,
                         .has_holder = true,
                         .holders = 16,
                         .holder = {.client = text("client"),
                                    .owner = text("owner"),
                                    .metadata = text("{\"a\":1}"),
                                    .mode = MODE_SHARED,
                                    .permits = 17,
                                    .since_ms = 18,
                                    .deadline_ms = 19,
                                    .trace = text("a-trace")},
                         .reserved_for = text("somebody"),
                         .name = text("the/name"),
                         .cycle = cycle,
                         .cycle_length = cycle_length};
}

static void a_result_survives_the_way_with_every_field(void **state)
{
    (void)state;
    struct cycle_step cycle[2] = {{text("c1"), text("o1"), text("n1")},
                                  {text("c2"), text(""), text("n2")}};
    struct result sent;
    struct result got;
    struct result_scratch scratch;
    struct buffer bytes;
    buffer_init(&bytes, memory_system(), RESULT_BYTES_MAX);
    fill_result(&sent, cycle, 2);
    assert_true(result_encode(&sent, CORE_VERSION, &bytes));
    assert_true(result_decode(buffer_bytes(&bytes), &scratch, &got));
    assert_text(got.holder.client, "client");
    assert_text(got.holder.owner, "owner");
    assert_text(got.holder.metadata, "{\"a\":1}");
    assert_text(got.holder.trace, "a-trace");
    assert_text(got.reserved_for, "somebody");
    assert_text(got.name, "the/name");
    assert_int_equal(got.cycle_length, 2);
    assert_text(got.cycle[0].client, "c1");
    assert_text(got.cycle[0].owner, "o1");
    assert_text(got.cycle[1].name, "n2");
    /* What is left after the pointers are put aside must be the same to the last byte. */
    sent.holder.client = sent.holder.owner = sent.holder.metadata = sent.holder.trace = text("");
    got.holder.client = got.holder.owner = got.holder.metadata = got.holder.trace =
        sent.holder.client;
    sent.reserved_for = sent.name = got.reserved_for = got.name = sent.holder.client;
    sent.cycle = got.cycle = NULL;
    assert_memory_equal(&sent, &got, sizeof(sent));
    /* Cut anywhere, or with anything behind it, it is not taken. */
    struct slice all = buffer_bytes(&bytes);
    for (size_t len = 0; len < all.len; len++) {
        assert_false(result_decode(slice_make(all.data, len), &scratch, &got));
    }
    buffer_append_byte(&bytes, 0);
    assert_false(result_decode(buffer_bytes(&bytes), &scratch, &got));
    buffer_close(&bytes);
}

static void a_keep_alive_brings_an_answer_for_each_session(void **state)
{
    (void)state;
    static uint8_t alive[LIMIT_KEEPALIVE_IDS];
    for (uint32_t i = 0; i < LIMIT_KEEPALIVE_IDS; i++) {
        alive[i] = i % 3 == 0 ? HF_OK : i % 3 == 1 ? HF_SESSION_NOT_FOUND : HF_SESSION_EXPIRED;
    }
    struct result sent = {.type = COMMAND_KEEPALIVE, .count = LIMIT_KEEPALIVE_IDS, .alive = alive};
    struct result got;
    struct result_scratch scratch;
    struct buffer bytes;
    buffer_init(&bytes, memory_system(), RESULT_BYTES_MAX);
    assert_true(result_encode(&sent, CORE_VERSION, &bytes));
    assert_true(result_decode(buffer_bytes(&bytes), &scratch, &got));
    assert_int_equal(got.count, LIMIT_KEEPALIVE_IDS);
    assert_memory_equal(got.alive, alive, sizeof(alive));
    buffer_close(&bytes);
}

static void random_bytes_are_no_result(void **state)
{
    (void)state;
    struct random random;
    random_init(&random, "random_bytes_are_no_result");
    struct cycle_step cycle[1] = {{text("c"), text("o"), text("n")}};
    struct result result;
    struct result_scratch scratch;
    struct buffer bytes;
    buffer_init(&bytes, memory_system(), RESULT_BYTES_MAX);
    fill_result(&result, cycle, 1);
    assert_true(result_encode(&result, CORE_VERSION, &bytes));
    size_t len = buffer_len(&bytes);
    for (int i = 0; i < 100000; i++) {
        uint8_t copy[512];
        assert_true(len <= sizeof(copy));
        memcpy(copy, buffer_bytes(&bytes).data, len);
        for (uint32_t flips = 1 + random_below(&random, 4); flips > 0; flips--) {
            copy[random_below(&random, (uint32_t)len)] = (uint8_t)random_next(&random);
        }
        if (result_decode(slice_make(copy, len), &scratch, &result)) {
            assert_true(result.reason < REASON_COUNT && result.error < HF_ERROR_COUNT);
            assert_true(result.cycle_length <= LIMIT_DEADLOCK_CYCLE);
        }
    }
    buffer_close(&bytes);
}

/* ---- frames ---- */

static void frames_come_out_as_they_went_in(void **state)
{
    (void)state;
    struct buffer bytes;
    buffer_init(&bytes, memory_system(), 1 << 20);
    assert_true(peer_frame_append(&bytes, PEER_MESSAGE, text("first")));
    assert_true(peer_frame_append(&bytes, PEER_PING, text("")));
    struct slice left = buffer_bytes(&bytes);
    enum peer_frame type;
    struct slice payload;
    for (size_t len = 0; len < 10; len++) {
        assert_int_equal(peer_frame_parse(slice_make(left.data, len), 100, &type, &payload), 0);
    }
    assert_int_equal(peer_frame_parse(left, 100, &type, &payload), 10);
    assert_int_equal(type, PEER_MESSAGE);
    assert_text(payload, "first");
    left = slice_make(left.data + 10, left.len - 10);
    assert_int_equal(peer_frame_parse(left, 100, &type, &payload), 5);
    assert_int_equal(type, PEER_PING);
    assert_int_equal(payload.len, 0);
    buffer_close(&bytes);
}

static void frames_that_are_too_long_or_of_no_type_are_refused(void **state)
{
    (void)state;
    enum peer_frame type;
    struct slice payload;
    static const uint8_t too_long[] = {101, 0, 0, 0, PEER_HELLO};
    static const uint8_t empty[] = {0, 0, 0, 0, PEER_HELLO};
    static const uint8_t no_type[] = {1, 0, 0, 0, 0};
    static const uint8_t new_type[] = {1, 0, 0, 0, PEER_FRAMES};
    assert_int_equal(peer_frame_parse(slice_make(too_long, 5), 100, &type, &payload), -1);
    assert_int_equal(peer_frame_parse(slice_make(empty, 5), 100, &type, &payload), -1);
    assert_int_equal(peer_frame_parse(slice_make(no_type, 5), 100, &type, &payload), -1);
    assert_int_equal(peer_frame_parse(slice_make(new_type, 5), 100, &type, &payload), -1);
    /* An HTTP client that took the wrong port is noticed at its first bytes. */
    assert_int_equal(peer_frame_parse(text("GET / HTTP/1.1\r\n"), 8192, &type, &payload), -1);
}

static void an_introduction_survives_the_way(void **state)
{
    (void)state;
    uint8_t stores[48];
    size_t len = peer_stores_put(stores, 2, (struct id){7, 8});
    len += peer_stores_put(stores + len, 3, (struct id){9, 10});
    struct peer_introduction sent = {.oldest = 1,
                                     .newest = 3,
                                     .purpose = PEER_FOR_SNAPSHOT,
                                     .cluster = {1, 2},
                                     .cluster_name = text("production"),
                                     .node = 4,
                                     .to = 5,
                                     .store = {5, 6},
                                     .life = 77,
                                     .number = 88,
                                     .client_address = text("localhost:4653"),
                                     .stores = slice_make(stores, len),
                                     .state = 2,
                                     .peer_address = text("10.0.0.4:4654"),
                                     .used_ids = 9,
                                     .state_max = 5};
    uint8_t bytes[PEER_GREETING_MAX];
    len = peer_introduction_encode(&sent, bytes, sizeof(bytes));
    assert_true(len > 0);
    struct peer_introduction got;
    assert_true(peer_introduction_decode(slice_make(bytes, len), &got));
    assert_int_equal(got.newest, 3);
    assert_int_equal(got.purpose, PEER_FOR_SNAPSHOT);
    assert_true(id_equal(got.cluster, sent.cluster) && id_equal(got.store, sent.store));
    assert_text(got.cluster_name, "production");
    assert_text(got.client_address, "localhost:4653");
    assert_int_equal(got.node, 4);
    assert_int_equal(got.to, 5);
    assert_int_equal(got.life, 77);
    assert_int_equal(got.number, 88);
    uint64_t node;
    struct id store;
    assert_true(peer_stores_next(&got.stores, &node, &store));
    assert_true(node == 2 && store.high == 7 && store.low == 8);
    assert_true(peer_stores_next(&got.stores, &node, &store));
    assert_true(node == 3 && store.low == 10);
    assert_false(peer_stores_next(&got.stores, &node, &store));
    assert_int_equal(got.state, 2);
    assert_text(got.peer_address, "10.0.0.4:4654");
    assert_int_equal(got.used_ids, 9);
    assert_int_equal(got.state_max, 5);
    size_t fifth = len - 1; /* versions that said less */
    size_t fourth = fifth - 1;
    size_t third = fourth - 1;
    size_t second = third - 1 - sent.peer_address.len;
    size_t first = second - 1;
    assert_true(peer_introduction_decode(slice_make(bytes, fourth), &got));
    assert_int_equal(got.used_ids, 9);
    assert_int_equal(got.state_max, 0);
    assert_true(peer_introduction_decode(slice_make(bytes, third), &got));
    assert_text(got.peer_address, "10.0.0.4:4654");
    assert_int_equal(got.used_ids, 0);
    assert_true(peer_introduction_decode(slice_make(bytes, second), &got));
    assert_int_equal(got.state, 2);
    assert_int_equal(got.peer_address.len, 0);
    assert_true(peer_introduction_decode(slice_make(bytes, first), &got));
    assert_int_equal(got.state, 1);
    for (size_t cut = 0; cut < len; cut++) {
        assert_true(
            peer_introduction_decode(slice_make(bytes, cut), &got) ==
            (cut == first || cut == second || cut == third || cut == fourth || cut == fifth));
    }
    sent.life = UINT64_MAX; /* nobody starts so often */
    uint8_t old[PEER_GREETING_MAX];
    assert_false(peer_introduction_decode(
        slice_make(old, peer_introduction_encode(&sent, old, sizeof(old))), &got));
    bytes[0] ^= 1; /* not one of us */
    assert_false(peer_introduction_decode(slice_make(bytes, len), &got));
    assert_int_equal(peer_introduction_encode(&sent, bytes, 20), 0);
}

/* ---- known stores ---- */

static void known_stores_are_kept_and_damage_is_named(void **state)
{
    (void)state;
    const char *folder = temporary_folder(NULL);
    struct disk *disk;
    struct problem problem;
    struct known_stores known;
    assert_int_equal(disk_posix_new(folder, &disk, &problem), STORAGE_OK);
    assert_int_equal(known_stores_load(&known, disk, &problem), STORAGE_OK);
    assert_int_equal(known.count, 0);
    for (uint64_t node = 1; node <= KNOWN_STORES_MAX; node++) {
        assert_true(known_stores_add(&known, node, (struct id){node * 3, ~node}));
    }
    assert_false(known_stores_add(&known, 9999, (struct id){1, 1}));
    assert_int_equal(known_stores_save(&known, disk, &problem), STORAGE_OK);
    struct known_stores again;
    assert_int_equal(known_stores_load(&again, disk, &problem), STORAGE_OK);
    assert_memory_equal(&known, &again, sizeof(known));
    assert_true(known_stores_find(&again, 7)->store.high == 21);
    assert_null(known_stores_find(&again, 9999));

    char path[320];
    snprintf(path, sizeof(path), "%s/%s", folder, KNOWN_STORES_NAME);
    int fd = open(path, O_RDWR);
    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, "8", 1, 40), 1);
    close(fd);
    assert_int_equal(known_stores_load(&again, disk, &problem), STORAGE_CORRUPT);
    assert_non_null(strstr(problem.text, KNOWN_STORES_NAME));
    disk_posix_free(disk);
    temporary_remove(folder);
}

static bool follow(struct known_stores *known, const uint64_t *before, uint32_t before_count,
                   const uint64_t *now, uint32_t now_count)
{
    return known_stores_follow(known, (struct known_members){before, before_count},
                               (struct known_members){now, now_count});
}

/* S12.1: an id that was removed is never used again, however many there were. */
static void removed_ids_become_a_floor(void **state)
{
    (void)state;
    const char *folder = temporary_folder(NULL);
    struct disk *disk;
    struct problem problem;
    struct known_stores known = {0};
    assert_int_equal(disk_posix_new(folder, &disk, &problem), STORAGE_OK);
    uint64_t members[3] = {1, 2, 3};
    for (uint64_t id = 1; id <= 3; id++) {
        assert_true(known_stores_add(&known, id, (struct id){id, id}));
    }
    for (uint64_t id = 4; id < 4 + 10 * KNOWN_STORES_MAX; id++) { /* each replaces the second */
        uint64_t now[3] = {1, id, 3};
        assert_false(known_stores_is_used(&known, id));
        assert_true(known_stores_add(&known, id, (struct id){id, id}));
        assert_true(follow(&known, members, 3, now, 3) || id > 4);
        members[1] = id;
    }
    assert_int_equal(known.count, 3);
    assert_int_equal(known.removed, members[1] - 1);
    assert_true(known_stores_is_used(&known, 2) && known_stores_is_used(&known, 1000));
    assert_false(known_stores_is_used(&known, members[1] + 1));
    assert_false(follow(&known, members, 3, members, 3));
    assert_true(known_stores_find(&known, 3)->store.low == 3); /* below it, and a member */
    assert_int_equal(known_stores_save(&known, disk, &problem), STORAGE_OK);
    struct known_stores again;
    assert_int_equal(known_stores_load(&again, disk, &problem), STORAGE_OK);
    assert_int_equal(again.removed, known.removed);
    assert_int_equal(again.used, known.used);
    assert_int_equal(again.count, 3);
    disk_posix_free(disk);
    temporary_remove(folder);
}

/* What a member tells is believed as long as it leaves ids to use. */
static void the_highest_ids_do_not_become_a_floor(void **state)
{
    (void)state;
    struct known_stores known = {0};
    uint64_t before[2] = {1, UINT32_MAX};
    assert_true(known_stores_add(&known, 1, (struct id){1, 1}));
    assert_true(known_stores_add(&known, UINT32_MAX, (struct id){2, 2}));
    assert_false(follow(&known, before, 2, before, 1));
    assert_true(known_stores_is_used(&known, UINT32_MAX)); /* by its entry */
    assert_false(known_stores_is_used(&known, 2));
    assert_false(known_stores_raise_used(&known, UINT32_MAX));
    assert_false(known_stores_raise_used(&known, UINT64_MAX));
    assert_true(known_stores_raise_used(&known, 7));
    assert_false(known_stores_raise_used(&known, 5));
    assert_true(known_stores_is_used(&known, 6));
    assert_int_equal(known.removed, 0);
}

/* A list that an older version has filled. */
static void a_full_list_makes_space_for_a_member(void **state)
{
    (void)state;
    struct known_stores known = {0};
    uint64_t members[2] = {1, 2};
    for (uint64_t id = 1; id <= KNOWN_STORES_MAX; id++) {
        assert_true(known_stores_add(&known, id, (struct id){id, id}));
    }
    known_stores_evict(&known, (struct known_members){members, 2});
    assert_null(known_stores_find(&known, 3));
    assert_true(known_stores_is_used(&known, 3));
    assert_non_null(known_stores_find(&known, 2));
    assert_true(known_stores_add(&known, 1000, (struct id){1, 1}));
    assert_int_equal(known.removed, 0); /* it may be a member that this node has not heard of */
}

static void an_event_survives_the_way_with_every_field(void **state)
{
    (void)state;
    struct event sent;
    struct event got;
    uint8_t bytes[EVENT_BYTES_MAX];
    memset(&sent, 0x11, sizeof(sent)); /* a field that is forgotten would come out as zero */
    memset(&got, 0, sizeof(got));
    sent.type = EVENT_WAIT_ENDED;
    sent.tier = TIER_EFFICIENCY;
    sent.reason = REASON_TIMEOUT;
    sent.ended = ENDED_FORCED;
    sent.mode = MODE_SEMAPHORE;
    sent.name = text("the/name");
    sent.client = text("client");
    sent.owner = text("owner");
    sent.actor = text("actor");
    sent.text = text("text");
    sent.trace = text("a-trace");
    size_t len = event_encode(&sent, CORE_VERSION, bytes);
    assert_true(len > 0);
    assert_true(event_decode(slice_make(bytes, len), &got));
    assert_text(got.name, "the/name");
    assert_text(got.client, "client");
    assert_text(got.owner, "owner");
    assert_text(got.actor, "actor");
    assert_text(got.text, "text");
    assert_text(got.trace, "a-trace");
    for (size_t cut = 0; cut < len; cut++) {
        assert_false(event_decode(slice_make(bytes, cut), &got));
    }
    static uint8_t longer[EVENT_BYTES_MAX + 1]; /* the format in two bytes instead of one */
    longer[0] = bytes[0] | 0x80;
    longer[1] = 0;
    memcpy(longer + 2, bytes + 1, len - 1);
    assert_false(event_decode(slice_make(longer, len + 1), &got));
    assert_true(event_decode(slice_make(bytes, len), &got));
    got.name = sent.name;
    got.client = sent.client;
    got.owner = sent.owner;
    got.actor = sent.actor;
    got.text = sent.text;
    got.trace = sent.trace;
    assert_int_equal(got.type, sent.type);
    assert_int_equal(got.tier, sent.tier);
    assert_int_equal(got.tenant, sent.tenant);
    assert_int_equal(got.index, sent.index);
    assert_int_equal(got.ordinal, sent.ordinal);
    assert_int_equal(got.part, sent.part);
    assert_int_equal(got.parts, sent.parts);
    assert_int_equal(got.node, sent.node);
    assert_int_equal(got.at_ms, sent.at_ms);
    assert_int_equal(got.wall_ms, sent.wall_ms);
    assert_int_equal(got.token, sent.token);
    assert_int_equal(got.attachment, sent.attachment);
    assert_int_equal(got.deadline_ms, sent.deadline_ms);
    assert_true(id_equal(got.session, sent.session) && id_equal(got.lease, sent.lease));
    assert_int_equal(got.reason, sent.reason);
    assert_int_equal(got.ended, sent.ended);
    assert_int_equal(got.mode, sent.mode);
    assert_int_equal(got.slot, sent.slot);
}

/* ---- pages of the tier EFFICIENCY ---- */

struct page_count {
    uint32_t locks;
    uint32_t grants;
    uint32_t waiters;
    uint32_t sessions;
    uint32_t names;
    struct waiter_view waiter;
};

static void count_lock(void *ctx, const struct lock_view *lock)
{
    struct page_count *count = ctx;
    assert_int_equal(lock->tier, TIER_EFFICIENCY);
    assert_true(slice_starts_with(lock->name, text("page/")));
    count->locks++;
}

static void count_grant(void *ctx, const struct grant_view *grant)
{
    struct page_count *count = ctx;
    assert_text(grant->holder.client, "client");
    assert_text(grant->holder.metadata, "{\"a\":1}");
    assert_int_equal(grant->token, 1024);
    count->grants++;
}

static void count_waiter(void *ctx, const struct waiter_view *waiter)
{
    struct page_count *count = ctx;
    count->waiter = *waiter;
    count->waiters++;
}

static void count_session(void *ctx, const struct session_view *session)
{
    struct page_count *count = ctx;
    assert_true(session->is_private);
    assert_int_equal(session->tier, TIER_EFFICIENCY);
    count->sessions++;
}

static void acquire_in(struct core *core, const char *name, uint64_t lease, uint64_t wait_ms)
{
    struct command c;
    struct result result;
    command_init(&c, COMMAND_ACQUIRE);
    c.acquire.lease = (struct id){1, lease};
    c.acquire.node = 2;
    c.acquire.client = text("client");
    c.acquire.names.count = 1;
    c.acquire.names.at[0] = text(name);
    c.acquire.ttl_ms = 1000;
    c.acquire.wait_ms = wait_ms;
    c.acquire.metadata = text("{\"a\":1}");
    core_begin(core, core_index(core) + 1, 1000, 1000);
    core_apply(core, &c, &result);
    assert_int_equal(result.error, HF_OK);
}

static struct slice page_of(const struct core *core, enum memory_page_kind kind, const char *name,
                            struct buffer *out)
{
    uint8_t bytes[MEMORY_REQUEST_BYTES];
    struct memory_request pending = {
        .version = CORE_VERSION, .kind = kind, .limit = 100, .name = text(name)};
    size_t len = memory_request_encode(&pending, bytes);
    buffer_truncate(out, 0);
    assert_true(memory_page_write(core, slice_make(bytes, len), out));
    assert_false(memory_page_write(core, slice_make(bytes, len - 1), out));
    return buffer_bytes(out);
}

static void count_name(void *ctx, const struct session_name_view *name)
{
    struct page_count *count = ctx;
    assert_int_equal(name->tier, TIER_EFFICIENCY);
    if (name->is_held) {
        assert_text(name->name, "page/1");
        assert_int_equal(name->queue_length, 1);
        count_grant(ctx, &name->grant);
    } else {
        assert_text(name->name, "page/1");
        count_waiter(ctx, &name->waiter);
    }
    count->names++;
}

static struct slice names_of(const struct core *core, uint32_t tenant, uint64_t lease,
                             struct buffer *out)
{
    uint8_t bytes[MEMORY_REQUEST_BYTES];
    struct memory_request request = {.version = CORE_VERSION,
                                     .kind = MEMORY_SESSION_NAMES,
                                     .tenant = tenant,
                                     .limit = 100,
                                     .session = {1, lease}};
    size_t len = memory_request_encode(&request, bytes);
    buffer_truncate(out, 0);
    assert_true(memory_page_write(core, slice_make(bytes, len), out));
    assert_false(memory_page_write(core, slice_make(bytes, len - 1), out));
    return buffer_bytes(out);
}

static void a_page_has_the_names_of_one_session(void **state)
{
    (void)state;
    struct core_options options = {.memory = memory_system(), .hash_key = 3};
    struct core *core = core_new(&options);
    struct buffer out;
    buffer_init(&out, memory_system(), MEMORY_PAGE_BYTES);
    acquire_in(core, "page/1", 1, 0);
    acquire_in(core, "page/1", 2, 5000);
    acquire_in(core, "page/2", 3, 0);
    struct page_count count = {0};
    struct slice page = names_of(core, 0, 1, &out);
    assert_int_equal(memory_page_session_names(page, count_name, &count), VIEW_NAMES_END);
    assert_int_equal(memory_page_sessions(page, count_session, &count), VIEW_END);
    assert_true(count.grants == 1 && count.waiters == 0 && count.sessions == 1);
    for (size_t cut = 0; cut < page.len; cut++) { /* what is cut off is not shown */
        struct page_count part = {0};
        assert_int_equal(memory_page_session_names(slice_make(page.data, cut), count_name, &part),
                         VIEW_NAMES_END);
        assert_true(part.names <= 1);
    }
    page = names_of(core, 0, 2, &out);
    (void)memory_page_session_names(page, count_name, &count);
    assert_true(count.waiters == 1 && count.waiter.wait_deadline_ms == 6000);
    count = (struct page_count){0};
    /* Of another tenant, unknown, of a node that does not lead. */
    const struct core *cores[] = {core, core, NULL};
    for (uint32_t i = 0; i < 3; i++) {
        page = names_of(cores[i], i == 0, i == 1 ? 9 : 1, &out);
        assert_int_equal(memory_page_session_names(page, count_name, &count), VIEW_NAMES_END);
        (void)memory_page_sessions(page, count_session, &count);
    }
    assert_true(count.names == 0 && count.sessions == 0);
    buffer_close(&out);
    core_free(core);
}

static void a_page_shows_what_the_state_does(void **state)
{
    (void)state;
    struct core_options options = {.memory = memory_system(), .hash_key = 3};
    struct core *core = core_new(&options);
    struct buffer out;
    struct page_count count = {0};
    struct lock_view lock;
    buffer_init(&out, memory_system(), MEMORY_PAGE_BYTES);
    acquire_in(core, "page/1", 1, 0);
    acquire_in(core, "page/1", 2, 5000);
    acquire_in(core, "page/2", 3, 0);
    acquire_in(core, "other", 4, 0);
    struct slice page = page_of(core, MEMORY_LOCKS, "page/", &out);
    assert_int_equal(memory_page_locks(page, count_lock, &count), VIEW_END);
    assert_int_equal(count.locks, 2);
    page = page_of(core, MEMORY_LOCK, "page/1", &out);
    assert_true(memory_page_lock(page, &lock));
    assert_int_equal(lock.queue_length, 1);
    memory_page_holders(page, count_grant, count_waiter, &count);
    assert_int_equal(count.grants, 1);
    assert_int_equal(count.waiters, 1);
    assert_int_equal(count.waiter.node, 2);
    assert_int_equal(count.waiter.wait_deadline_ms, 6000);
    for (size_t cut = 0; cut < page.len;
         cut++) { /* what is cut off is not shown, and harms nobody */
        (void)memory_page_locks(slice_make(page.data, cut), count_lock, &count);
    }
    page = page_of(core, MEMORY_SESSIONS, "", &out);
    assert_int_equal(memory_page_sessions(page, count_session, &count), VIEW_END);
    assert_int_equal(count.sessions, 4);
    assert_false(memory_page_lock(page_of(core, MEMORY_LOCK, "free", &out), &lock));
    assert_false(memory_page_lock(page_of(NULL, MEMORY_LOCK, "page/1", &out), &lock));
    assert_false(memory_page_lock(text(""), &lock));
    buffer_close(&out);
    core_free(core);
}

/* Rows have a limit, and no list shows it. */
static void a_page_has_no_long_value_of_a_key(void **state)
{
    (void)state;
    static uint8_t value[LIMIT_KEY_VALUE], bytes[LIMIT_TRANSACT_BYTES];
    struct core_options options = {
        .memory = memory_system(), .hash_key = 3, .version = CORE_VERSION};
    struct core *core = core_new(&options);
    struct packer effects = packer_make(bytes, sizeof(bytes));
    struct effect put = {.kind = EFFECT_PUT, .ttl_ms = 1000};
    struct buffer out;
    struct lock_view lock;
    struct command c;
    struct result result;
    buffer_init(&out, memory_system(), MEMORY_PAGE_BYTES);
    put.name = text("page/long");
    put.value = slice_make(value, LIMIT_KEY_VALUE);
    put.lease = (struct id){1, 1};
    assert_true(pack_effect(&effects, &put));
    put.name = text("page/short");
    put.value = slice_make(value, LIMIT_VALUE);
    put.lease = (struct id){1, 2};
    assert_true(pack_effect(&effects, &put));
    command_init(&c, COMMAND_TRANSACT);
    c.transact.id = (struct id){2, 1};
    c.transact.client = text("client");
    c.transact.effects = packer_list(&effects);
    core_begin(core, core_index(core) + 1, 1000, 1000);
    core_apply(core, &c, &result);
    assert_int_equal(result.error, HF_OK);
    assert_true(memory_page_lock(page_of(core, MEMORY_LOCK, "page/long", &out), &lock));
    assert_text(lock.first.holder.client, "client");
    assert_int_equal(lock.first.value.len, 0);
    assert_true(memory_page_lock(page_of(core, MEMORY_LOCK, "page/short", &out), &lock));
    assert_int_equal(lock.first.value.len, LIMIT_VALUE);
    buffer_close(&out);
    core_free(core);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_result_survives_the_way_with_every_field),
        cmocka_unit_test(a_keep_alive_brings_an_answer_for_each_session),
        cmocka_unit_test(random_bytes_are_no_result),
        cmocka_unit_test(an_event_survives_the_way_with_every_field),
        cmocka_unit_test(a_page_shows_what_the_state_does),
        cmocka_unit_test(a_page_has_the_names_of_one_session),
        cmocka_unit_test(a_page_has_no_long_value_of_a_key),
        cmocka_unit_test(frames_come_out_as_they_went_in),
        cmocka_unit_test(frames_that_are_too_long_or_of_no_type_are_refused),
        cmocka_unit_test(an_introduction_survives_the_way),
        cmocka_unit_test(known_stores_are_kept_and_damage_is_named),
        cmocka_unit_test(removed_ids_become_a_floor),
        cmocka_unit_test(the_highest_ids_do_not_become_a_floor),
        cmocka_unit_test(a_full_list_makes_space_for_a_member),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
