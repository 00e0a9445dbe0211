/* Sends a request of an operator, see operate.h. */
#include "cli/operate.h"

#include "cli/say.h"

bool operate_has_reason(const char *command, const char *reason)
{
    if (reason == NULL || reason[0] == '\0') {
        cli_say("%s: --reason TEXT is missing; the audit record stores it", command);
        return false;
    }
    return true;
}

static void write_body(const struct operate *o, struct buffer *body)
{
    char actor[256];
    char id[33];
    struct json_writer w;
    api_actor(actor, sizeof(actor));
    api_request_id(id);
    json_writer_init(&w, body);
    json_write_open(&w, '{');
    json_put_text(&w, "actor_id", o->actor != NULL ? o->actor : actor);
    json_put_text(&w, "reason", o->reason);
    json_put_text(&w, "request_id", id);
    if (o->now) {
        json_put_bool(&w, "now", true);
    }
    if (o->has_deadline) {
        json_put_u64(&w, "deadline_ms", o->deadline_ms);
    }
    if (o->verb == NULL) {
        json_put_text(&w, "resource", o->name);
        json_put_u64(&w, "slot", o->slot);
        if (o->token != 0) {
            json_put_u64(&w, "fencing_token", o->token);
        }
    }
    json_write_close(&w);
}

static void write_target(const struct operate *o, struct buffer *target)
{
    if (o->verb == NULL) {
        buffer_append_text(target, "/api/v1/fence/reset");
    } else {
        buffer_append_text(target, "/api/v1/locks/");
        http_escape(target, slice_of(o->name), true);
        buffer_append_byte(target, '/');
        buffer_append_text(target, o->verb);
    }
    buffer_append_byte(target, 0);
}

int operate_call(struct api *api, const struct operate *o, struct api_answer *answer)
{
    struct buffer target;
    struct buffer body;
    buffer_init(&target, memory_system(), API_TARGET);
    buffer_init(&body, memory_system(), 64 << 10);
    write_target(o, &target);
    write_body(o, &body);
    struct cli_request request = {"POST", (const char *)buffer_bytes(&target).data,
                                  buffer_bytes(&body), API_REPEAT};
    int code = api_call(api, &request, answer);
    buffer_close(&target);
    buffer_close(&body);
    return code;
}
