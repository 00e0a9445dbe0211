/* Membership changes by operators. The leader enforces the rules and returns the reason of a
 * refusal. */
#include <inttypes.h>
#include <stdio.h>

#include "base/text.h"
#include "service/http/api.h"
#include "service/http/body.h"
#include "service/request/operator.h"

#define NO_ACTOR "unknown"
#define ACTOR BODY_TEXT(actor_id, false, 1, LIMIT_ACTOR)

static const struct json_field change_fields[] = {ACTOR};

static const struct json_field add_fields[] = {
    ACTOR,
    BODY_FIELD(UINT, "id", member, true, 1, UINT32_MAX),
    BODY_TEXT(address, true, 3, MEMBER_ADDRESS_MAX),
};

static const struct json_field transfer_fields[] = {
    ACTOR,
    BODY_FIELD(UINT, "to", member, false, 1, UINT32_MAX),
};

/* Outlives its request if the client disconnects first. */
struct member_change {
    struct gateway_change_call call;
    struct service *service;
    struct api_request *x; /* NULL: the client is gone */
    struct list link;      /* in service.changes */
    /* For the audit record. */
    enum gateway_change kind;
    uint64_t id;
    struct caller_id who;
    bool is_noted;
    size_t actor_len;
    char actor[LIMIT_ACTOR];
    char address[MEMBER_ADDRESS_MAX + 1];
};

_Static_assert((int)NOTE_MEMBER_PROMOTE - (int)NOTE_MEMBER_ADD == (int)GATEWAY_PROMOTE &&
                   (int)NOTE_MEMBER_DEMOTE - (int)NOTE_MEMBER_ADD == (int)GATEWAY_DEMOTE &&
                   (int)NOTE_MEMBER_REMOVE - (int)NOTE_MEMBER_ADD == (int)GATEWAY_REMOVE &&
                   (int)NOTE_TRANSFER - (int)NOTE_MEMBER_ADD == (int)GATEWAY_TRANSFER,
               "notes and changes have another order");

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

/* Who is authenticated counts more than what the request says. */
static void note_change(const struct member_change *change)
{
    struct service *s = change->service;
    const struct gateway *g = &s->gateway;
    struct slice actor = slice_make(change->actor, change->actor_len);
    uint8_t text[PRINCIPAL_TEXT];
    char name[32];
    char reason[MEMBER_ADDRESS_MAX + 64];
    if (g->note_member == NULL) {
        return;
    }
    if (change->who.principal != 0) {
        struct slice principal =
            policy_principal_text(service_policy(s), change->who.principal, text);
        actor = principal.len > 0 ? principal : actor;
    }
    (void)snprintf(name, sizeof(name), change->id == 0 ? "any" : "node-%" PRIu64, change->id);
    (void)snprintf(reason, sizeof(reason), "through node %u%s%s", s->node,
                   change->address[0] != '\0' ? ", peer address " : "", change->address);
    actor = text_is_plain(actor) && actor.len > 0 ? actor : slice_of(NO_ACTOR);
    g->note_member(g->ctx, NOTE_MEMBER_ADD + (uint32_t)change->kind, slice_of(name), actor,
                   slice_of(reason));
}

static void on_done(struct gateway_change_call *call, enum hf_error error, const char *problem)
{
    struct member_change *change = call->owner;
    struct api_request *x = change->x;
    if (error == HF_OK && !change->is_noted) {
        note_change(change);
    }
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
                  struct slice actor, render_fn render)
{
    struct service *s = x->service;
    struct member_change *change = memory_alloc(s->memory, sizeof(*change));
    *change = (struct member_change){
        .service = s, .x = x, .kind = kind, .id = x->member, .who = x->caller.id};
    change->actor_len = actor.len < sizeof(change->actor) ? actor.len : sizeof(change->actor);
    if (actor.len > 0) {
        memcpy(change->actor, actor.data, change->actor_len);
    }
    change->call = (struct gateway_change_call){.done = on_done, .owner = change};
    list_init(&change->link);
    list_append(&s->changes, &change->link);
    x->change = change;
    x->change_kind = kind;
    x->render = render;
    (void)snprintf(change->address, sizeof(change->address), "%.*s", (int)address.len,
                   address.len == 0 ? "" : (const char *)address.data);
    if (kind == GATEWAY_REMOVE && x->member == s->node) {
        change->is_noted = true; /* afterwards this node cannot */
        note_change(change);
    }
    s->gateway.change_member(s->gateway.ctx, kind, x->member, change->address, &change->call);
}

void api_member_add(struct api_request *x)
{
    struct body b;
    if (member_is_allowed(x) && BODY_READ(x, &b, add_fields)) {
        x->member = b.f.member;
        member_start(x, GATEWAY_ADD, b.f.address, b.f.actor_id, render_change);
        body_close(&b);
    }
}

void api_member_transfer(struct api_request *x)
{
    struct body b;
    if (member_is_allowed(x) && BODY_READ(x, &b, transfer_fields)) {
        x->member = b.f.member;
        member_start(x, GATEWAY_TRANSFER, slice_make(NULL, 0), b.f.actor_id, render_change);
        body_close(&b);
    }
}

/* The member is in the path. */
static void change_one(struct api_request *x, enum gateway_change kind)
{
    struct body b;
    if (member_is_allowed(x) && BODY_READ(x, &b, change_fields)) {
        member_start(x, kind, slice_make(NULL, 0), b.f.actor_id, render_change);
        body_close(&b);
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
