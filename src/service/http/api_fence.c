/* Checks a fencing token (S11). With `lock`, the check is submitted only if a holder of that lock has the
 * token after a barrier; so a token of another lock leaves no mark. */
#include "base/text.h"
#include "service/auth/auth.h"
#include "service/http/api.h"
#include "service/http/body.h"
#include "service/request/acquire.h"
#include "service/request/list_lock.h"
#include "wire/uri.h"

enum { CHECK_BYTES = LIMIT_NAME + LIMIT_REQUEST_ID + 128 };

/* A check that waits until it is known who holds its lock. */
struct check_work {
    struct search_work work;
    render_fn render;
    struct result refusal;
    size_t len;
    uint8_t bytes[CHECK_BYTES]; /* the encoded command */
};

struct holder_search {
    uint64_t token;
    bool is_found;
};

static const struct json_field check_fields[] = {
    BODY_TEXT(resource, true, 1, LIMIT_NAME),
    BODY_TOKEN(true),
    BODY_NUMBER(slot, false, 0, LIMIT_HOLDERS - 1),
    BODY_TEXT(lock, false, 1, LIMIT_NAME),
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

/* A proxy that sees only the status, such as nginx with auth_request. */
static void render_check_403(struct api_request *x, const struct result *r, struct json_writer *w)
{
    render_check(x, r, w);
    x->status = r->accepted ? 200 : 403;
}

static void check_free(struct api_request *x, struct search_work *work)
{
    struct check_work *check = LIST_OBJECT(work, struct check_work, work);
    memory_free(x->service->memory, check, sizeof(*check));
}

static void on_holder(void *ctx, const struct grant_view *grant)
{
    struct holder_search *search = ctx;
    search->is_found |= grant->token == search->token;
}

static void on_waiter(void *ctx, const struct waiter_view *waiter)
{
    (void)ctx;
    (void)waiter;
}

/* A holder of x->name has the token. Of the tier EFFICIENCY: one of the first LIMIT_PAGE_MAX. */
static bool is_held(struct api_request *x, uint64_t token)
{
    struct lock_view lock;
    struct holder_search search = {.token = token};
    list_show(x, &lock);
    list_holders(x, &lock, LIMIT_HOLDERS, on_holder, on_waiter, &search);
    return search.is_found;
}

static void render_refusal(struct api_request *x, const struct result *unused,
                           struct json_writer *w)
{
    struct check_work *check = LIST_OBJECT(x->work, struct check_work, work);
    (void)unused;
    check->render(x, &check->refusal, w);
}

static void refuse_check(struct api_request *x, struct check_work *check, const struct command *c)
{
    uint64_t highest = 0;
    uint64_t floor;
    bool has_mark = view_fence(service_core(x->service), c->tenant, c->fence_check.resource,
                               c->fence_check.slot, &highest, &floor);
    check->refusal = (struct result){.type = COMMAND_FENCE_CHECK,
                                     .outcome = OUTCOME_REFUSED,
                                     .reason = REASON_NOT_OWNER,
                                     .highest = has_mark ? highest : floor};
    api_request_answer_json(x, 200, render_refusal);
}

static void on_lock_known(struct api_request *x)
{
    struct check_work *check = LIST_OBJECT(x->work, struct check_work, work);
    struct command c;
    char denial[AUTH_TEXT];
    enum hf_error error = command_decode(slice_make(check->bytes, check->len), &c);
    hf_assert(error == HF_OK);
    if (!list_may_read(x, x->name)) {
        auth_denial(service_policy(x->service), x->caller.id, RIGHT_READ, x->name, denial);
        api_request_fail(x, HF_DENIED, denial);
    } else if (is_held(x, c.fence_check.token)) {
        api_request_submit(x, &c, true, check->render);
    } else {
        refuse_check(x, check, &c);
    }
}

static void check_after_holder(struct api_request *x, const struct command *c, struct slice lock,
                               render_fn render)
{
    if (!text_is_name(lock)) {
        api_request_fail(x, HF_INVALID_NAME, "lock: must be the name of a lock");
        return;
    }
    struct check_work *check = memory_alloc(x->service->memory, sizeof(*check));
    check->work.free = check_free;
    check->render = render;
    check->len = command_encode(c, CORE_VERSION, check->bytes, CHECK_BYTES);
    hf_assert(check->len > 0 && x->work == NULL && lock.len <= LIMIT_NAME);
    x->work = &check->work;
    memcpy(x->name_bytes, lock.data, lock.len);
    x->name = slice_make(x->name_bytes, lock.len);
    x->page.limit = LIMIT_PAGE_MAX;
    api_request_look_first(x, MEMORY_LOCK, on_lock_known);
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
    if (!body_request_id(x, b, BODY_ID_OWN, &c, &unused, &is_given) || !body_check(x, &c)) {
        return;
    }
    if (b->f.lock.len > 0) {
        check_after_holder(x, &c, b->f.lock, render);
    } else {
        api_request_submit(x, &c, true, render);
    }
}

void api_fence_check(struct api_request *x)
{
    struct body b;
    struct slice refuse_with;
    bool is_given = uri_query_text(x->parameters, "refuse_with", &refuse_with);
    if (is_given && !slice_equal(refuse_with, slice_of("403"))) {
        api_request_fail(x, HF_FIELD_RANGE, "refuse_with: must be 403");
    } else if (BODY_READ(x, &b, check_fields)) {
        fence_check(x, &b, is_given ? render_check_403 : render_check);
        body_close(&b);
    }
}
