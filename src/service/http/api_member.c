/* Membership changes by operators. The leader enforces the rules and returns the reason of a
 * refusal. */
#include <inttypes.h>
#include <stdio.h>

#include "service/http/api.h"
#include "service/http/body.h"
#include "service/request/operator.h"

static const struct json_field add_fields[] = {
    BODY_FIELD(UINT, "id", member, true, 1, UINT32_MAX),
    BODY_TEXT(address, true, 3, MEMBER_ADDRESS_MAX),
};

static const struct json_field transfer_fields[] = {
    BODY_FIELD(UINT, "to", member, false, 1, UINT32_MAX),
};

/* Outlives its request if the client disconnects first. */
struct member_change {
    struct gateway_change_call call;
    struct service *service;
    struct api_request *x; /* NULL: the client is gone */
    struct list link;      /* in service.changes */
};

static const char *const words[GATEWAY_CHANGES] = {
    [GATEWAY_ADD] = "add",       [GATEWAY_PROMOTE] = "promote",   [GATEWAY_DEMOTE] = "demote",
    [GATEWAY_REMOVE] = "remove", [GATEWAY_TRANSFER] = "transfer",
};

static void free_change(struct member_change *change)
{
    list_remove(&change->link);
    memory_free(change->service->memory, change, sizeof(*change));
}

static void render_change(struct api_request *x, const struct result *r, struct json_writer *w)
{
    json_put_bool(w, "started", true);
    json_put_text(w, "change", words[x->change_kind]);
    if (x->member != 0) {
        json_put_u64(w, "id", x->member);
    } else {
        json_put_null(w, "id");
    }
}

static void on_done(struct gateway_change_call *call, enum hf_error error, const char *problem)
{
    struct member_change *change = call->owner;
    struct api_request *x = change->x;
    free_change(change);
    if (x == NULL) {
        return;
    }
    x->change = NULL;
    if (error == HF_OK) {
        api_request_answer_json(x, 200, x->render);
    } else {
        api_request_fail(x, error, error == HF_MEMBERSHIP ? problem : NULL);
    }
}

void member_abandon(struct api_request *x)
{
    if (x->change != NULL) {
        x->change->x = NULL;
        x->change = NULL;
    }
}

void member_close_all(struct service *s)
{
    while (!list_is_empty(&s->changes)) {
        free_change(LIST_OBJECT(s->changes.next, struct member_change, link));
    }
}

bool member_is_allowed(struct api_request *x)
{
    if (!x->is_operator) {
        api_request_fail(x, HF_DENIED, NULL);
    } else if (x->service->gateway.change_member == NULL) {
        api_request_fail(x, HF_MEMBERSHIP, "members cannot be changed here");
    } else {
        return true;
    }
    return false;
}

void member_start(struct api_request *x, enum gateway_change kind, struct slice address,
                  render_fn render)
{
    struct service *s = x->service;
    struct member_change *change = memory_alloc(s->memory, sizeof(*change));
    *change = (struct member_change){.service = s, .x = x};
    change->call = (struct gateway_change_call){.done = on_done, .owner = change};
    list_init(&change->link);
    list_append(&s->changes, &change->link);
    x->change = change;
    x->change_kind = kind;
    x->render = render;
    char text[MEMBER_ADDRESS_MAX + 1];
    (void)snprintf(text, sizeof(text), "%.*s", (int)address.len,
                   address.len == 0 ? "" : (const char *)address.data);
    s->gateway.change_member(s->gateway.ctx, kind, x->member, text, &change->call);
}

void api_member_add(struct api_request *x)
{
    struct body b;
    if (member_is_allowed(x) && BODY_READ(x, &b, add_fields)) {
        x->member = b.f.member;
        member_start(x, GATEWAY_ADD, b.f.address, render_change);
        body_close(&b);
    }
}

void api_member_transfer(struct api_request *x)
{
    struct body b;
    if (member_is_allowed(x) && BODY_READ(x, &b, transfer_fields)) {
        x->member = b.f.member;
        member_start(x, GATEWAY_TRANSFER, slice_make(NULL, 0), render_change);
        body_close(&b);
    }
}

/* The member is in the path; the body is empty. */
static void change_one(struct api_request *x, enum gateway_change kind)
{
    struct body b;
    if (member_is_allowed(x) && body_read(x, &b, NULL, 0)) {
        body_close(&b);
        member_start(x, kind, slice_make(NULL, 0), render_change);
    }
}

void api_member_promote(struct api_request *x)
{
    change_one(x, GATEWAY_PROMOTE);
}

void api_member_demote(struct api_request *x)
{
    change_one(x, GATEWAY_DEMOTE);
}

void api_member_remove(struct api_request *x)
{
    change_one(x, GATEWAY_REMOVE);
}
