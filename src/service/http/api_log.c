/* Log levels by subsystem, changed at run time: on this node only, until its next start. */
#include <stdio.h>

#include "service/http/api.h"
#include "service/http/body.h"

enum { LEVEL_MAX = 255 };

#define NO_ACTOR "unknown"

static const struct json_field level_fields[] = {
    BODY_TEXT(log_level, true, 1, LEVEL_MAX),
    BODY_TEXT(actor_id, false, 1, LIMIT_ACTOR),
};

static void put_level(void *ctx, const char *subsystem, const char *level)
{
    struct json_writer *w = ctx;
    json_put_text(w, subsystem, level);
}

static void render_levels(struct api_request *x, const struct result *r, struct json_writer *w)
{
    struct service *s = x->service;
    json_put_u64(w, "node", s->node);
    json_put_open(w, "levels", '{');
    s->options.log.each(s->options.log.ctx, put_level, w);
    json_write_close(w);
}

static bool is_allowed(struct api_request *x)
{
    if (!x->is_operator) {
        api_request_fail(x, HF_DENIED, NULL);
    } else if (x->service->options.log.each == NULL) {
        api_request_fail(x, HF_NOT_FOUND, NULL);
    } else {
        return true;
    }
    return false;
}

void api_log_level(struct api_request *x)
{
    if (is_allowed(x)) {
        api_request_answer_json(x, 200, render_levels);
    }
}

/* Who is authenticated counts more than what the body says. */
static void note_change(struct api_request *x, struct slice actor, const char *levels)
{
    struct service *s = x->service;
    char reason[LEVEL_MAX + 32];
    uint8_t text[PRINCIPAL_TEXT];
    if (s->gateway.note_setting == NULL) {
        return;
    }
    if (x->caller.id.principal != 0) {
        struct slice principal =
            policy_principal_text(service_policy(s), x->caller.id.principal, text);
        actor = principal.len > 0 ? principal : actor;
    }
    int len = snprintf(reason, sizeof(reason), "node %u: %s", s->node, levels);
    hf_assert(len > 0 && (size_t)len < sizeof(reason));
    s->gateway.note_setting(s->gateway.ctx, slice_of("log-level"),
                            actor.len > 0 ? actor : slice_of(NO_ACTOR),
                            slice_make(reason, (size_t)len));
}

void api_log_level_set(struct api_request *x)
{
    struct body b;
    char text[LEVEL_MAX + 1];
    if (!is_allowed(x) || !BODY_READ(x, &b, level_fields)) {
        return;
    }
    (void)snprintf(text, sizeof(text), "%.*s", (int)b.f.log_level.len,
                   (const char *)b.f.log_level.data);
    const struct service_log *log = &x->service->options.log;
    const char *wrong = log->set(log->ctx, text);
    if (wrong == NULL) {
        note_change(x, b.f.actor_id, text);
    }
    body_close(&b);
    if (wrong == NULL) {
        api_request_answer_json(x, 200, render_levels);
    } else {
        struct fault fault;
        (void)fault_set(&fault, HF_FIELD_RANGE, "log_level: %s", wrong);
        api_request_fault(x, &fault);
    }
}
