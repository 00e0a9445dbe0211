/* grpc.health.v1.Health: whether this node serves. */
#include <grpc/health/v1/health.pb-c.h>

#include "service/grpc/rpc.h"

typedef Grpc__Health__V1__HealthCheckResponse HealthResponse;
#define STATUS(word) GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__##word

static bool is_serving(const struct service *s)
{
    struct gateway_status status;
    s->gateway.status(s->gateway.ctx, &status);
    return status.leader != 0 && status.serving && !s->draining;
}

/* "" is the whole node. */
static bool is_service(const char *name)
{
    size_t count;
    const struct rpc_method *methods = rpc_methods(&count);
    size_t len = strlen(name);
    if (len == 0) {
        return true;
    }
    for (size_t i = 0; i < count; i++) {
        const char *path = methods[i].path + 1;
        if (strncmp(path, name, len) == 0 && path[len] == '/') {
            return true;
        }
    }
    return false;
}

static void render_health(struct api_request *x, const struct result *r, struct json_writer *w)
{
    HealthResponse out = GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__INIT;
    out.status = is_serving(x->service) ? STATUS(SERVING) : STATUS(NOT_SERVING);
    rpc_put(x, &out.base);
}

void rpc_health(struct api_request *x, const void *message)
{
    const Grpc__Health__V1__HealthCheckRequest *m = message;
    if (is_service(m->service)) {
        api_request_answer_json(x, 200, render_health);
    } else {
        api_request_fail(x, HF_NOT_FOUND, "service: there is no such service here");
    }
}

static void send_status(struct api_request *x)
{
    HealthResponse out = GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__INIT;
    out.status = is_serving(x->service) ? STATUS(SERVING) : STATUS(NOT_SERVING);
    rpc_send(x, &out.base);
}

void rpc_health_watch(struct api_request *x, const void *message)
{
    const Grpc__Health__V1__HealthCheckRequest *m = message;
    struct service *s = x->service;
    rpc_stream(x);
    if (!is_service(m->service)) { /* the standard requires to keep the watch open */
        HealthResponse out = GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__INIT;
        out.status = STATUS(SERVICE_UNKNOWN);
        rpc_send(x, &out.base);
        return;
    }
    if (list_is_empty(&s->health_watches)) {
        s->was_serving = is_serving(s);
    }
    list_append(&s->health_watches, &stream_of(x)->health);
    send_status(x);
}

void rpc_health_over(struct api_request *x)
{
    list_remove(&stream_of(x)->health);
}

void rpc_health_drain(struct api_request *x)
{
    if (!list_is_empty(&stream_of(x)->health)) {
        send_status(x);
    }
    rpc_finish(x, HF_UNAVAILABLE, "the node is stopping; use another node");
}

void rpc_health_run(struct service *s)
{
    if (list_is_empty(&s->health_watches) || is_serving(s) == s->was_serving) {
        return;
    }
    s->was_serving = !s->was_serving;
    for (struct list *link = s->health_watches.next; link != &s->health_watches;
         link = link->next) {
        send_status(&LIST_OBJECT(link, struct stream, health)->x);
    }
}
