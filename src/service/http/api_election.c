/* Elections: the holder of a lock is the leader and publishes a value. The token is the epoch. */
#include "service/http/api.h"
#include "service/http/reply.h"
#include "service/request/acquire.h"
#include "service/request/election.h"
#include "service/request/list_lock.h"

#define VALUE BODY_TEXT(value, false, 0, LIMIT_VALUE)
#define EPOCH BODY_NUMBER(epoch, false, 1, BODY_MOST)

static const struct json_field campaign_fields[] = {
    BODY_CLIENT,
    BODY_SESSION,
    BODY_TTL,
    BODY_REQUEST_ID,
    BODY_SEQ,
    BODY_METADATA,
    BODY_FIELD(INT, "wait_timeout_ms", wait_timeout_ms, false, -1, BODY_MOST),
    BODY_TEXT(owner, false, 0, LIMIT_OWNER),
    BODY_TRACE,
    BODY_NUMBER(lock_delay_ms, false, 0, LIMIT_DELAY_MAX_MS),
    BODY_MAX_HOLD,
    BODY_FIELD(BOOL, "cancel", cancel, false, 0, 0),
    VALUE,
};

static const struct json_field proclaim_fields[] = {
    BODY_CLIENT,
    BODY_SESSION,
    BODY_TOKEN(false),
    EPOCH,
    BODY_REQUEST_ID,
    BODY_SEQ,
    BODY_TEXT(value, true, 0, LIMIT_VALUE),
};

static const struct json_field resign_fields[] = {
    BODY_CLIENT, BODY_SESSION, BODY_TOKEN(false), EPOCH, BODY_REQUEST_ID, BODY_SEQ,
};

/* `epoch` is another name of the fencing token. */
static bool read_epoch(struct api_request *x, struct body *b)
{
    if (b->f.fencing_token == 0) {
        b->f.fencing_token = b->f.epoch;
    }
    if (b->f.fencing_token == 0) {
        api_request_fail(x, HF_FIELD_MISSING,
                         "epoch: is required; it is in the answer to campaign");
        return false;
    }
    if (b->f.epoch != 0 && b->f.epoch != b->f.fencing_token) {
        api_request_fail(x, HF_FIELD_RANGE, "epoch and fencing_token mean the same and differ");
        return false;
    }
    return true;
}

static void render_campaign(struct api_request *x, const struct result *r, struct json_writer *w)
{
    bool is_held = acquire_is_held(r);
    json_put_bool(w, "elected", is_held);
    if (is_held) {
        json_put_u64(w, "epoch", r->token);
        acquire_grant(x, r, w);
    } else {
        acquire_refusal(x, r, w);
    }
    if (r->replayed) {
        json_put_bool(w, "replayed", true);
    }
}

void election_campaign(struct api_request *x, const struct body *b, render_fn render)
{
    struct command c;
    bool keeps_place = false;
    if (!acquire_read(x, b, &c, &keeps_place)) {
        return;
    }
    c.acquire.mode = MODE_ELECTION;
    c.acquire.value = b->f.value;
    c.acquire.names.count = 1;
    c.acquire.names.at[0] = x->name;
    acquire_submit(x, b, &c, keeps_place, render);
}

void api_campaign(struct api_request *x)
{
    struct body b;
    if (BODY_READ(x, &b, campaign_fields)) {
        election_campaign(x, &b, render_campaign);
        body_close(&b);
    }
}

static void render_proclaim(struct api_request *x, const struct result *r, struct json_writer *w)
{
    json_put_bool(w, "proclaimed", r->outcome == OUTCOME_DONE);
    json_put_text(w, "reason", reason_name(r->reason));
}

static void render_resign(struct api_request *x, const struct result *r, struct json_writer *w)
{
    json_put_bool(w, "resigned", r->outcome == OUTCOME_DONE);
    json_put_text(w, "reason", reason_name(r->reason));
}

void election_proclaim(struct api_request *x, const struct body *b, render_fn render)
{
    struct command c;
    struct id unused;
    bool is_given;
    command_init(&c, COMMAND_PROCLAIM);
    caller_sign(&c, x->caller.id);
    c.proclaim.name = x->name;
    c.proclaim.token = b->f.fencing_token;
    c.proclaim.value = b->f.value;
    if (body_session(x, b, &c) && body_client(x, b, &c.proclaim.client) &&
        body_request_id(x, b, BODY_ID_DRAWN, &c, &unused, &is_given) && body_check(x, &c)) {
        api_request_submit(x, &c, true, render);
    }
}

void api_proclaim(struct api_request *x)
{
    struct body b;
    if (BODY_READ(x, &b, proclaim_fields)) {
        if (read_epoch(x, &b)) {
            election_proclaim(x, &b, render_proclaim);
        }
        body_close(&b);
    }
}

void api_resign(struct api_request *x)
{
    struct body b;
    if (BODY_READ(x, &b, resign_fields)) {
        if (read_epoch(x, &b)) {
            holder_release(x, &b, x->name, render_resign);
        }
        body_close(&b);
    }
}

void election_put_leader(struct json_writer *w, const struct service *s,
                         const struct lock_view *lock)
{
    if (!lock->has_holder || lock->mode != MODE_ELECTION) {
        json_put_null(w, "leader");
        return;
    }
    json_put_open(w, "leader", '{');
    json_put_string(w, "client_id", lock->first.holder.client);
    json_put_string(w, "value", lock->first.value);
    reply_put_since(w, s, "since", lock->first.holder.since_ms, lock->first.holder.since_wall_ms);
    reply_put_expiry(w, s, lock->first.holder.deadline_ms);
    reply_put_metadata(w, lock->first.holder.metadata);
    json_write_close(w);
}

static void render_show(struct api_request *x, const struct result *r, struct json_writer *w)
{
    struct lock_view lock;
    if (!view_lock(service_core(x->service), x->caller.id.tenant, x->name, &lock)) {
        lock = (struct lock_view){.name = x->name, .mode = MODE_ELECTION};
    }
    json_put_string(w, "name", x->name);
    election_put_leader(w, x->service, &lock);
    json_put_u64(w, "candidates", lock.queue_length);
    list_put_stale(w, x);
}

void api_election_show(struct api_request *x)
{
    api_request_read(x, render_show);
}
