/* What the tests of the HTTP API share: a world of it, its beginning and its end. To be included
 * first and once, since it holds the world. */
#ifndef HOLDFAST_TESTS_HTTP_TESTING_H
#define HOLDFAST_TESTS_HTTP_TESTING_H

#include "base_testing.h"

#include "core/view.h"
#include "http_world.h"

static struct http_world world;
static struct counted counted;

/* So small a ring of events that a test can fill it. */
static const struct service_options small_ring = {.event_bytes = 64 << 10};

static inline int set_up(void **state)
{
    counted_init(&counted);
    world_open(&world, &counted.memory, NULL);
    return 0;
}

static inline int set_up_with_small_ring(void **state)
{
    counted_init(&counted);
    world_open(&world, &counted.memory, &small_ring);
    return 0;
}

static inline int tear_down(void **state)
{
    const char *broken = core_check_invariants(world.gateway.core);
    if (broken != NULL) {
        fail_msg("%s", broken);
    }
    world_close(&world);
    assert_all_given_back(&counted);
    return 0;
}

/* Its id, to be freed. */
static inline char *open_session(struct http_client *c, const char *body)
{
    struct reply r = client_request_to(c, "POST", "/api/v1/sessions", body);
    assert_int_equal(r.status, 200);
    char *id = json_text_at(r.body, "session_id");
    reply_free(&r);
    return id;
}

#endif
