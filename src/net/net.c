/* The phases of a turn: when output is written, and remaining input is passed on. */
#include "net/net.h"

#include "net/connection.h"
#include "net/internal.h"

static void before_poll(uv_prepare_t *handle)
{
    struct net *net = handle->data;
    net_flush(net);
    if (net->on_sleep != NULL) {
        net->on_sleep(net->turn_ctx);
    }
}

static void after_poll(uv_check_t *handle)
{
    struct net *net = handle->data;
    connections_open(net);
    connections_feed(net);
    net_stay_awake(net, !list_is_empty(&net->ready) || !list_is_empty(&net->opening) ||
                            !list_is_empty(&net->opening_first));
    if (net->on_turn != NULL) {
        net->on_turn(net->turn_ctx);
    }
}

static void awake(uv_idle_t *handle)
{
    /* An active idle handle keeps the poll phase from sleeping. */
    (void)handle;
}

void net_init(struct net *net, uv_loop_t *loop, const struct memory *memory)
{
    memset(net, 0, sizeof(*net));
    net->loop = loop;
    net->memory = memory;
    list_init(&net->all);
    list_init(&net->dirty);
    list_init(&net->dirty_first);
    list_init(&net->ready);
    list_init(&net->opening);
    list_init(&net->opening_first);
    list_init(&net->opening_waits);
    net->openings_max = NET_OPENINGS;
    net->scratch = memory_alloc(memory, NET_SCRATCH);
    buffer_init(&net->forgotten, memory, NET_SCRATCH);
    buffer_init(&net->plain, memory, NET_PLAIN);
    uv_random(NULL, NULL, &net->random, sizeof(net->random), 0, NULL);
    net->random |= 1;
    /* These never fail, and must not keep the loop running. */
    uv_prepare_init(loop, &net->before_poll);
    uv_check_init(loop, &net->after_poll);
    uv_idle_init(loop, &net->awake);
    net->before_poll.data = net;
    net->after_poll.data = net;
    uv_prepare_start(&net->before_poll, before_poll);
    uv_check_start(&net->after_poll, after_poll);
    uv_unref((uv_handle_t *)&net->before_poll);
    uv_unref((uv_handle_t *)&net->after_poll);
}

void net_close(struct net *net)
{
    hf_assert(net->connections == 0 && list_is_empty(&net->dirty) &&
              list_is_empty(&net->dirty_first) && list_is_empty(&net->ready));
    uv_close((uv_handle_t *)&net->before_poll, NULL);
    uv_close((uv_handle_t *)&net->after_poll, NULL);
    uv_close((uv_handle_t *)&net->awake, NULL);
    buffer_close(&net->forgotten);
    buffer_close(&net->plain);
    memory_free(net->memory, net->scratch, NET_SCRATCH);
    net->scratch = NULL;
}

void net_stay_awake(struct net *net, bool stay)
{
    if (stay) {
        uv_idle_start(&net->awake, awake);
    } else {
        uv_idle_stop(&net->awake);
    }
}

uint32_t net_random(struct net *net, uint32_t below)
{
    /* xorshift64*: sufficient for jitter. */
    hf_assert(below > 0);
    net->random ^= net->random >> 12;
    net->random ^= net->random << 25;
    net->random ^= net->random >> 27;
    return (uint32_t)((net->random * UINT64_C(0x2545F4914F6CDD1D)) >> 32) % below;
}
