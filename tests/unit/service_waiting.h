/* What the tests about waiting share: one name, "n", its holders and its queue. To be included
 * first and once, since it holds the world. */
#ifndef HOLDFAST_TESTS_SERVICE_WAITING_H
#define HOLDFAST_TESTS_SERVICE_WAITING_H

#include "base_testing.h"

#include "core/view.h"
#include "http_world.h"

static struct http_world world;
static struct counted counted;

static inline int set_up(void **state)
{
    counted_init(&counted);
    world_open(&world, &counted.memory, NULL);
    return 0;
}

static inline int tear_down(void **state)
{
    world.gateway.is_held = false;
    world.gateway.fails = HF_OK;
    world_run(&world);
    struct service_stats stats;
    for (size_t i = 0; i < WORLD_CLIENTS; i++) {
        client_close(&world.clients[i]);
    }
    world_pass(&world, 1000);
    service_stats(world.service, &stats);
    assert_int_equal(stats.waiting, 0);
    assert_int_equal(stats.connections, 0);
    const char *broken = core_check_invariants(world.gateway.core);
    if (broken != NULL) {
        fail_msg("%s", broken);
    }
    world_close(&world);
    assert_all_given_back(&counted);
    return 0;
}

#define TARGET "/api/v1/locks/n/acquire"

static inline void expect_nothing(struct http_client *c)
{
    struct reply r = client_reply(c);
    assert_int_equal(r.status, 0);
}

static inline void expect_reply(struct http_client *c, int status, const char *expected)
{
    struct reply r = client_reply(c);
    if (r.status != status) {
        fail_msg("%d instead of %d: %s", r.status, status, r.body == NULL ? "" : r.body);
    }
    expect_json(r.body, expected);
    reply_free(&r);
}

/* Sends a request that is not answered yet. */
static inline struct http_client *waiter(const char *body)
{
    struct http_client *c = world_client(&world, false);
    struct reply r = client_request_to(c, "POST", TARGET, body);
    if (r.status != 0) {
        fail_msg("should wait, and says %s", r.body);
    }
    return c;
}

static inline struct http_client *holder(const char *client)
{
    struct http_client *c = world_client(&world, false);
    char body[100];
    (void)snprintf(body, sizeof(body), "{\"client_id\":\"%s\"}", client);
    expect(c, "POST", TARGET, body, 200, "acquired=true");
    return c;
}

static inline struct lock_view look(void)
{
    struct lock_view lock = {.holders = 0};
    (void)view_lock(world.gateway.core, 0, slice_of("n"), &lock);
    return lock;
}

static inline void release(struct http_client *c, const char *client, uint64_t token)
{
    char body[100];
    (void)snprintf(body, sizeof(body), "{\"client_id\":\"%s\",\"fencing_token\":%llu}", client,
                   (unsigned long long)token);
    expect(c, "POST", "/api/v1/locks/n/release", body, 200, "released=true");
}

#endif
