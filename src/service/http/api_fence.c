/* Checks a fencing token (S11). */
#include "service/http/api.h"
#include "service/http/body.h"
#include "service/request/acquire.h"

static const struct json_field check_fields[] = {
    BODY_TEXT(resource, true, 1, LIMIT_NAME),
    BODY_TOKEN(true),
    BODY_NUMBER(slot, false, 0, LIMIT_HOLDERS - 1),
    BODY_REQUEST_ID,
};

/* Advisory: the service cannot verify that the resource calls it inside its own serialised
 * write. */
static void render_check(struct api_request *x, const struct result *r, struct json_writer *w)
{
    json_put_bool(w, "accepted", r->accepted);
    json_put_u64(w, "highest", r->highest);
    json_put_bool(w, "advisory", true);
    json_put_text(w, "reason", reason_name(r->reason));
}

void fence_check(struct api_request *x, const struct body *b, render_fn render)
{
    struct command c;
    struct id unused;
    bool is_given;
    command_init(&c, COMMAND_FENCE_CHECK);
    caller_sign(&c, x->caller.id);
    c.fence_check.resource = b->f.resource;
    c.fence_check.slot = (uint32_t)b->f.slot;
    c.fence_check.token = b->f.fencing_token;
    if (body_request_id(x, b, BODY_ID_OWN, &c, &unused, &is_given) && body_check(x, &c)) {
        api_request_submit(x, &c, true, render);
    }
}

void api_fence_check(struct api_request *x)
{
    struct body b;
    if (BODY_READ(x, &b, check_fields)) {
        fence_check(x, &b, render_check);
        body_close(&b);
    }
}
