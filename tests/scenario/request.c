/* Commands from words: `alice waits for "db" at most 5s` becomes an acquire. One function for each
 * verb; README.md lists them. */
#include <string.h>

#include "base/codec.h"
#include "words.h"

/* Who does something: a session by its name, or a client that has none. */
struct actor {
    const char *name;
    struct id session;
    struct slice client; /* empty in a session, and for anybody */
};

static struct actor actor_named(struct runner *p, const char *name, bool without_session)
{
    struct actor actor = {.name = name};
    const struct actor_session *s = without_session ? NULL : cast_session(p, name);
    if (s != NULL) {
        actor.session = s->id;
    } else if (strcmp(name, "anybody") != 0) {
        actor.client = slice_of(name);
    }
    return actor;
}

uint64_t token_named(struct runner *p, const char *text)
{
    uint64_t token = 0;
    if (token_read(text, &token)) {
        return token;
    }
    const struct sent *sent = cast_sent(p, text);
    if (sent == NULL || sent->hold == NULL) {
        runner_fail(p, "no acquire is called \"%s\"", text);
    }
    if (sent->hold->token == 0) {
        runner_fail(p, "\"%s\" has no token yet", text);
    }
    return sent->hold->token;
}

bool request_common_option(struct words *w, struct request_line *out)
{
    struct command *cmd = &out->command;
    if (words_take(w, "request id")) {
        cmd->request_id = slice_of(words_quoted(w, "the request id in quotes"));
    } else if (words_take(w, "seq")) {
        cmd->seq = words_number(w, "a number");
    } else if (words_take(w, "acked")) {
        cmd->acked_through = words_number(w, "a number");
    } else if (words_take(w, "tenant")) {
        cmd->tenant = words_number32(w, "a number");
    } else if (words_take(w, "principal")) {
        cmd->principal = words_number32(w, "a number");
    } else if (words_take(w, "as")) {
        out->label = words_plain(w, "a label");
    } else {
        return false;
    }
    return true;
}

static void only_common_options(struct words *w, struct request_line *out)
{
    while (words_left(w)) {
        if (!request_common_option(w, out)) {
            words_finish(w);
        }
    }
}

static void take_names(struct words *w, struct request_line *out)
{
    struct names *names = &out->command.acquire.names;
    do {
        if (names->count == LIMIT_MULTILOCK_NAMES) {
            runner_fail(w->runner, "the encoding has space for %d names", LIMIT_MULTILOCK_NAMES);
        }
        names->at[names->count++] = slice_of(words_quoted(w, "the name of a lock in quotes"));
    } while (words_next_is_quoted(w) || words_take(w, "and"));
}

static bool acquire_option(struct words *w, struct command_acquire *a)
{
    if (words_take(w, "ttl")) {
        a->ttl_ms = words_span(w, "a time span");
    } else if (words_take(w, "without ttl")) {
        a->ttl_ms = TTL_NONE;
    } else if (words_take(w, "at most")) {
        a->wait_ms = words_span(w, "a time span");
    } else if (words_take(w, "owner")) {
        a->owner = slice_of(words_any(w, "an owner"));
    } else if (words_take(w, "shared")) {
        a->mode = MODE_SHARED;
    } else if (words_take(w, "permits")) {
        a->mode = MODE_SEMAPHORE;
        a->permits = words_number32(w, "how many permits");
        words_need(w, "of");
        a->limit = words_number32(w, "the limit");
    } else if (words_take(w, "election")) {
        a->mode = MODE_ELECTION;
    } else if (words_take(w, "value")) {
        a->value = slice_of(words_quoted(w, "a value in quotes"));
    } else if (words_take(w, "re-entrant")) {
        a->flags |= ACQUIRE_REENTRANT;
    } else if (words_take(w, "as a key with")) {
        a->flags |= ACQUIRE_KEY;
        a->value = slice_of(words_quoted(w, "a value in quotes"));
    } else if (words_take(w, "detect deadlock")) {
        a->flags |= ACQUIRE_DETECT_DEADLOCK;
    } else if (words_take(w, "max-hold")) {
        a->max_hold_ms = words_span32(w, "a time span");
    } else if (words_take(w, "lock-delay")) {
        a->delay_ms = words_span32(w, "a time span");
    } else if (words_take(w, "metadata")) {
        a->metadata = slice_of(words_quoted(w, "metadata in quotes"));
    } else if (words_take(w, "trace")) {
        a->trace = slice_of(words_quoted(w, "a traceparent in quotes"));
    } else if (words_take(w, "through node")) {
        a->node = words_number32(w, "the number of a node");
    } else {
        return false;
    }
    return true;
}

static struct hold *hold_new(struct runner *p, const struct actor *actor,
                             const struct request_line *request)
{
    const struct names *names = &request->command.acquire.names;
    struct hold *hold = arena_alloc(&p->file, sizeof(*hold));
    struct slice *copies = arena_alloc(&p->file, sizeof(*copies) * names->count);
    for (uint32_t i = 0; i < names->count; i++) {
        const char *text = (const char *)names->at[i].data;
        copies[i] = slice_of(arena_text(&p->file, text, names->at[i].len));
    }
    hold->actor = arena_text(&p->file, actor->name, strlen(actor->name));
    hold->names = copies;
    hold->name_count = names->count;
    return hold;
}

static void request_acquire(struct words *w, const struct actor *actor, uint64_t wait_ms,
                            enum mode mode, struct request_line *out)
{
    struct runner *p = w->runner;
    command_init(&out->command, COMMAND_ACQUIRE);
    struct command_acquire *a = &out->command.acquire;
    out->command.session = actor->session;
    a->client = actor->client;
    a->wait_ms = wait_ms;
    a->mode = mode;
    take_names(w, out);
    struct id lease = {0, 0};
    while (words_left(w)) {
        if (words_take(w, "lease of")) { /* the edge's draw, seen again */
            const struct sent *sent = cast_sent(p, words_plain(w, "a label"));
            if (sent == NULL || sent->hold == NULL) {
                runner_fail(p, "no acquire has that label");
            }
            lease = sent->hold->lease;
        } else if (!acquire_option(w, a) && !request_common_option(w, out)) {
            words_finish(w);
        }
    }
    out->hold = hold_new(p, actor, out);
    const char *name = out->label != NULL
                           ? out->label
                           : arena_format(&p->step, "%s:%.*s", actor->name, (int)a->names.at[0].len,
                                          (const char *)a->names.at[0].data);
    a->lease = id_is_zero(lease) ? cast_draw(p, name, out->hold) : lease;
    out->hold->lease = a->lease;
}

/* What a holder does: the hold is named by a lock's name in quotes or by its label. */

struct target {
    struct hold *hold; /* NULL: nothing known */
    struct slice name;
};

static struct target take_target(struct words *w, const struct actor *actor)
{
    struct runner *p = w->runner;
    if (words_next_is_quoted(w)) {
        struct slice name = slice_of(words_quoted(w, "the name of a lock"));
        return (struct target){cast_hold_of(p, actor->name, name), name};
    }
    const char *label = words_plain(w, "the name of a lock in quotes, or a label");
    const struct sent *sent = cast_sent(p, label);
    if (sent == NULL || sent->hold == NULL) {
        runner_fail(p, "no acquire is called \"%s\"", label);
    }
    struct slice none = slice_make(NULL, 0);
    return (struct target){sent->hold, sent->hold->name_count == 1 ? sent->hold->names[0] : none};
}

/* How release and renew name the grant. */
struct naming {
    struct slice name;
    struct id lease;
    uint64_t token;
};

static struct hold *known_hold(struct runner *p, const struct target *target)
{
    if (target->hold == NULL) {
        runner_fail(p, "it has not requested this lock; say `with token`");
    }
    return target->hold;
}

static bool naming_option(struct words *w, const struct target *target, struct naming *n)
{
    if (words_take(w, "with token")) {
        n->token = token_named(w->runner, words_plain(w, "a token"));
    } else if (words_take(w, "by lease")) {
        n->lease = known_hold(w->runner, target)->lease;
        n->name = slice_make(NULL, 0);
    } else if (words_take(w, "without name")) {
        n->name = slice_make(NULL, 0);
    } else {
        return false;
    }
    return true;
}

/* Without another word: by name and token. */
static void naming_complete(struct runner *p, const struct target *target, struct naming *n)
{
    if (n->token == 0 && id_is_zero(n->lease)) {
        n->token = known_hold(p, target)->token;
        if (n->token == 0) {
            runner_fail(p, "it has no token yet");
        }
    }
}

static void request_release(struct words *w, const struct actor *actor, struct request_line *out)
{
    command_init(&out->command, COMMAND_RELEASE);
    out->command.session = actor->session;
    struct target target = take_target(w, actor);
    struct naming n = {.name = target.name};
    while (words_left(w)) {
        if (!naming_option(w, &target, &n) && !request_common_option(w, out)) {
            words_finish(w);
        }
    }
    naming_complete(w->runner, &target, &n);
    struct command_release *r = &out->command.release;
    r->name = n.name;
    r->lease = n.lease;
    r->token = n.token;
    r->client = actor->client;
}

static void request_renew(struct words *w, const struct actor *actor, struct request_line *out)
{
    command_init(&out->command, COMMAND_RENEW);
    out->command.session = actor->session;
    struct target target = take_target(w, actor);
    struct naming n = {.name = target.name};
    struct command_renew *r = &out->command.renew;
    while (words_left(w)) {
        if (words_take(w, "ttl")) {
            r->ttl_ms = words_span32(w, "a time span");
        } else if (!naming_option(w, &target, &n) && !request_common_option(w, out)) {
            words_finish(w);
        }
    }
    naming_complete(w->runner, &target, &n);
    r->name = n.name;
    r->lease = n.lease;
    r->token = n.token;
    r->client = actor->client;
}

static void request_proclaim(struct words *w, const struct actor *actor, struct request_line *out)
{
    command_init(&out->command, COMMAND_PROCLAIM);
    out->command.session = actor->session;
    struct command_proclaim *r = &out->command.proclaim;
    r->value = slice_of(words_quoted(w, "a value in quotes"));
    words_need(w, "on");
    struct target target = take_target(w, actor);
    struct naming n = {.name = target.name};
    while (words_left(w)) {
        if (!naming_option(w, &target, &n) && !request_common_option(w, out)) {
            words_finish(w);
        }
    }
    naming_complete(w->runner, &target, &n);
    r->name = target.name;
    r->token = n.token;
    r->client = actor->client;
}

/* What a waiter does. */

static uint64_t take_attachment(struct words *w, const struct target *target)
{
    uint64_t latest = known_hold(w->runner, target)->attachment;
    return words_take(w, "attachment") ? words_number(w, "its number") : latest;
}

static void request_cancel(struct words *w, const struct actor *actor, struct request_line *out)
{
    struct target target = take_target(w, actor);
    command_init(&out->command, COMMAND_CANCEL);
    out->command.cancel.attachment = take_attachment(w, &target);
    out->command.cancel.lease = target.hold->lease;
    only_common_options(w, out);
}

static void request_detach(struct words *w, const struct actor *actor, struct request_line *out)
{
    struct target target = take_target(w, actor);
    command_init(&out->command, COMMAND_DETACH);
    out->command.detach.attachment = take_attachment(w, &target);
    out->command.detach.lease = target.hold->lease;
    only_common_options(w, out);
}

/* What operators do. */

static void request_force_unlock(struct words *w, const char *actor, struct request_line *out)
{
    command_init(&out->command, COMMAND_FORCE_UNLOCK);
    struct command_force_unlock *f = &out->command.force_unlock;
    f->actor = slice_of(actor);
    f->name = slice_of(words_quoted(w, "the name of a lock in quotes"));
    while (words_left(w)) {
        if (words_take(w, "because")) {
            f->reason = slice_of(words_quoted(w, "a reason in quotes"));
        } else if (words_take(w, "now")) {
            f->now = 1;
        } else if (words_take(w, "if token")) {
            f->if_token = token_named(w->runner, words_plain(w, "a token"));
        } else if (!request_common_option(w, out)) {
            words_finish(w);
        }
    }
}

static void request_revoke(struct words *w, const char *actor, struct request_line *out)
{
    command_init(&out->command, COMMAND_REVOKE);
    struct command_revoke *r = &out->command.revoke;
    r->actor = slice_of(actor);
    r->name = slice_of(words_quoted(w, "the name of a lock in quotes"));
    while (words_left(w)) {
        if (words_take(w, "because")) {
            r->reason = slice_of(words_quoted(w, "a reason in quotes"));
        } else if (words_take(w, "within")) {
            r->grace_ms = words_span32(w, "a time span");
        } else if (words_take(w, "if token")) {
            r->if_token = token_named(w->runner, words_plain(w, "a token"));
        } else if (!request_common_option(w, out)) {
            words_finish(w);
        }
    }
}

static void request_fence_reset(struct words *w, const char *actor, struct request_line *out)
{
    command_init(&out->command, COMMAND_FENCE_RESET);
    struct command_fence_reset *f = &out->command.fence_reset;
    f->actor = slice_of(actor);
    f->resource = slice_of(words_quoted(w, "a resource in quotes"));
    while (words_left(w)) {
        if (words_take(w, "because")) {
            f->reason = slice_of(words_quoted(w, "a reason in quotes"));
        } else if (words_take(w, "slot")) {
            f->slot = words_number32(w, "the slot");
        } else if (words_take(w, "to token")) {
            f->token = token_named(w->runner, words_plain(w, "a token"));
        } else if (!request_common_option(w, out)) {
            words_finish(w);
        }
    }
}

/* Sessions. */

static void request_session_open(struct words *w, struct request_line *out)
{
    struct runner *p = w->runner;
    command_init(&out->command, COMMAND_SESSION_OPEN);
    struct command_session_open *o = &out->command.session_open;
    const char *name = words_plain(w, "the name of a session");
    o->client = slice_of(name);
    while (words_left(w)) {
        if (words_take(w, "ttl")) {
            o->ttl_ms = words_span32(w, "a time span");
        } else if (words_take(w, "linger")) {
            o->linger_ms = words_span32(w, "a time span");
        } else if (words_take(w, "metadata")) {
            o->metadata = slice_of(words_quoted(w, "metadata in quotes"));
        } else if (words_take(w, "client")) {
            o->client = slice_of(words_any(w, "a client"));
        } else if (words_take(w, "id of")) {
            const char *other = words_plain(w, "the name of a session");
            const struct actor_session *s = cast_session(p, other);
            if (s == NULL) {
                runner_fail(p, "there is no session \"%s\"", other);
            }
            o->id = s->id;
        } else if (!request_common_option(w, out)) {
            words_finish(w);
        }
    }
    if (id_is_zero(o->id)) {
        o->id = cast_draw(p, name, NULL);
        cast_open(p, name, o->id);
    }
}

static struct actor_session *take_session(struct words *w)
{
    const char *name = words_plain(w, "the name of a session");
    struct actor_session *s = cast_session(w->runner, name);
    /* One that was never opened: the core will not know it. */
    return s != NULL ? s : cast_open(w->runner, name, cast_draw(w->runner, name, NULL));
}

static void request_keepalive(struct words *w, struct request_line *out)
{
    command_init(&out->command, COMMAND_KEEPALIVE);
    struct ids *ids = &out->command.keepalive.sessions;
    size_t size = 16 * w->count;
    struct writer packed = writer_make(arena_alloc(&w->runner->step, size), size);
    ids->packed = packed.at;
    while (words_left(w) && !request_common_option(w, out)) {
        struct id id = take_session(w)->id;
        write_fixed64(&packed, id.high);
        write_fixed64(&packed, id.low);
        ids->count++;
    }
    words_finish(w);
}

static void request_about_session(struct words *w, enum command_type type, struct request_line *out)
{
    command_init(&out->command, type);
    const struct actor_session *s = take_session(w);
    if (type == COMMAND_STREAM_UP && words_take(w, "through node")) {
        command_init(&out->command, COMMAND_STREAM_THROUGH);
        out->command.stream_through.node = (uint32_t)words_number(w, "its number");
    }
    out->command.session = s->id;
    if (type == COMMAND_STREAM_DOWN) {
        bool other = words_take(w, "stream");
        out->command.stream_down.stream = other ? words_number(w, "its number") : s->stream;
    }
    only_common_options(w, out);
}

/* The rest. */

static void request_fence_check(struct words *w, struct request_line *out)
{
    command_init(&out->command, COMMAND_FENCE_CHECK);
    struct command_fence_check *f = &out->command.fence_check;
    f->token = token_named(w->runner, words_plain(w, "a token"));
    words_need(w, "at");
    f->resource = slice_of(words_quoted(w, "a resource in quotes"));
    while (words_left(w)) {
        if (words_take(w, "slot")) {
            f->slot = words_number32(w, "the slot");
        } else if (!request_common_option(w, out)) {
            words_finish(w);
        }
    }
}

static void request_about_node(struct words *w, struct request_line *out)
{
    uint32_t node = words_number32(w, "the number of a node");
    if (words_take(w, "leads")) {
        command_init(&out->command, COMMAND_LEAD);
        out->command.lead.node = node;
    } else {
        words_need(w, "is gone");
        command_init(&out->command, COMMAND_NODE_GONE);
        out->command.node_gone.node = node;
    }
    only_common_options(w, out);
}

/* The same command once more: the network or the client repeats itself. */
static void request_again(struct words *w, struct request_line *out)
{
    struct runner *p = w->runner;
    struct slice bytes = slice_make(p->last, p->last_len);
    out->hold = p->last_hold;
    if (words_left(w) && cast_sent(p, w->at[w->next].text) != NULL) {
        const struct sent *sent = cast_sent(p, words_plain(w, "a label"));
        bytes = sent->bytes;
        out->hold = sent->hold;
    }
    if (bytes.len == 0) {
        runner_fail(p, "nothing was sent yet");
    }
    void *copy = arena_alloc(&p->step, bytes.len); /* `last` is about to be overwritten */
    memcpy(copy, bytes.data, bytes.len);
    enum hf_error error = command_decode(slice_make(copy, bytes.len), &out->command);
    hf_assert(error == HF_OK);
    while (words_left(w)) {
        bool acquire = out->command.type == COMMAND_ACQUIRE;
        if (acquire && words_take(w, "with a new lease")) {
            out->command.acquire.lease = cast_draw(p, "new", out->hold);
        } else if (acquire && words_take(w, "through node")) {
            out->command.acquire.node = words_number32(w, "the number of a node");
        } else if (!request_common_option(w, out)) {
            words_finish(w);
        }
    }
}

static bool request_without_actor(struct words *w, struct request_line *out)
{
    if (words_take(w, "open session")) {
        request_session_open(w, out);
    } else if (words_take(w, "keep alive")) {
        request_keepalive(w, out);
    } else if (words_take(w, "close session")) {
        request_about_session(w, COMMAND_SESSION_CLOSE, out);
    } else if (words_take(w, "stream up")) {
        request_about_session(w, COMMAND_STREAM_UP, out);
    } else if (words_take(w, "stream down")) {
        request_about_session(w, COMMAND_STREAM_DOWN, out);
    } else if (words_take(w, "node")) {
        request_about_node(w, out);
    } else if (words_take(w, "check token")) {
        request_fence_check(w, out);
    } else if (words_take(w, "report")) {
        request_long_held(w, out);
    } else if (words_take(w, "sink")) {
        request_sink_position(w, out);
    } else if (words_take(w, "again")) {
        request_again(w, out);
    } else if (words_take(w, "tick")) {
        command_init(&out->command, COMMAND_TICK);
        only_common_options(w, out);
    } else if (words_take(w, "advance")) {
        command_init(&out->command, COMMAND_ADVANCE);
        only_common_options(w, out);
    } else if (words_take(w, "upgrade to version")) {
        command_init(&out->command, COMMAND_UPGRADE);
        out->command.upgrade.version = words_number32(w, "a version");
        only_common_options(w, out);
    } else {
        return false;
    }
    return true;
}

static bool request_by_actor(struct words *w, const struct actor *actor, struct request_line *out)
{
    if (words_take(w, "acquires") || words_take(w, "tries")) {
        request_acquire(w, actor, 0, MODE_EXCLUSIVE, out);
    } else if (words_take(w, "waits for")) {
        request_acquire(w, actor, WAIT_FOREVER, MODE_EXCLUSIVE, out);
    } else if (words_take(w, "campaigns for")) {
        request_acquire(w, actor, WAIT_FOREVER, MODE_ELECTION, out);
    } else if (words_take(w, "releases") || words_take(w, "resigns")) {
        request_release(w, actor, out);
    } else if (words_take(w, "renews")) {
        request_renew(w, actor, out);
    } else if (words_take(w, "proclaims")) {
        request_proclaim(w, actor, out);
    } else if (words_take(w, "cancels")) {
        request_cancel(w, actor, out);
    } else if (words_take(w, "detaches from")) {
        request_detach(w, actor, out);
    } else if (words_take(w, "force-unlocks")) {
        request_force_unlock(w, actor->name, out);
    } else if (words_take(w, "revokes")) {
        request_revoke(w, actor->name, out);
    } else if (words_take(w, "resets fence")) {
        request_fence_reset(w, actor->name, out);
    } else if (words_take(w, "transacts")) {
        request_transact(w, actor->name, out);
    } else if (words_take(w, "changes the policy")) {
        request_policy_change(w, actor->name, out);
    } else if (words_take(w, "sets rule")) {
        request_alert_set(w, actor->name, out);
    } else if (words_take(w, "removes rule")) {
        request_alert_remove(w, actor->name, out);
    } else {
        return false;
    }
    return true;
}

static bool request_any(struct runner *p, struct words *w, struct request_line *out)
{
    if (request_without_actor(w, out)) {
        return true;
    }
    bool without_session = words_take(w, "client");
    if (!words_left(w) || words_next_is_quoted(w)) {
        return false;
    }
    struct actor actor = actor_named(p, words_plain(w, "who"), without_session);
    return request_by_actor(w, &actor, out);
}

bool request_parse(struct runner *p, struct words *w, struct request_line *out)
{
    if (!request_any(p, w, out)) {
        return false;
    }
    words_finish(w);
    cast_remember(p, out->label, &out->command, out->hold);
    return true;
}
