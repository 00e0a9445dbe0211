/* One command of each type, with what fits the model's state, and sometimes not. */
#include "generator.h"

static void body_session_open(struct generator *g, struct command *c)
{
    struct random *r = &g->random;
    struct slot *slot = any_slot(g);
    struct session_view view;
    bool alive = model_view_session(g->model, slot->id, &view);
    for (uint32_t tries = 0; tries < 2 && alive; tries++) {
        slot = any_slot(g);
        alive = model_view_session(g->model, slot->id, &view);
    }
    bool stubborn = g->kind == PROFILE_SESSIONS && slot == &g->slots[0];
    if ((!alive && random_chance(r, 85)) || (!stubborn && random_chance(r, 3))) {
        *slot = (struct slot){new_id(g), random_below(r, 5), 1, 0};
    }
    if (!stubborn && random_chance(r, 1) && g->lease_count > 0) {
        slot->id = g->leases[random_below(r, RECENT)]; /* perhaps that of a private session */
    }
    struct command_session_open *o = &c->session_open;
    o->id = slot->id;
    o->client = client_number(g, random_chance(r, 95) ? slot->client : random_below(r, 5));
    o->ttl_ms = random_chance(r, 70) ? random_between(r, 800, 6000) : any_ttl(g);
    if (stubborn || g->kind == PROFILE_MULTILOCK) {
        o->ttl_ms = LIMIT_TTL_MAX_MS - random_below(r, 1000);
    }
    o->linger_ms = !stubborn && random_chance(r, 40) ? random_between(r, 1, 800) : 0;
    o->metadata = random_chance(r, 30) ? arena_text(g, "{\"pid\":%u}", random_below(r, 99))
                                       : slice_make(NULL, 0);
}

static void body_keepalive(struct generator *g, struct command *c)
{
    struct random *r = &g->random;
    uint32_t count = random_chance(r, 60) ? g->profile->sessions : random_below(r, 8);
    uint32_t burst = g->burst.id_count > 0 && random_chance(r, 30) ? g->burst.id_count : 0;
    uint8_t *packed = arena_take(g, (size_t)(count + burst) * 16);
    for (uint32_t i = 0; i < count + burst; i++) {
        struct id id = i < g->profile->sessions ? g->slots[i].id : any_slot(g)->id;
        if (i >= count) {
            id = g->burst.ids[i - count];
        } else if (random_chance(r, 5)) {
            id = random_chance(r, 50) ? new_id(g) : g->leases[random_below(r, RECENT)];
        }
        for (unsigned k = 0; k < 8; k++) {
            packed[(size_t)i * 16 + k] = (uint8_t)(id.high >> (8 * k));
            packed[(size_t)i * 16 + 8 + k] = (uint8_t)(id.low >> (8 * k));
        }
    }
    c->keepalive.sessions = (struct ids){count + burst, packed};
}

/* A session that the command names in its head: mostly one that lives. */
static struct id session_to_name(struct generator *g)
{
    struct random *r = &g->random;
    if (g->burst.id_count > 0 && random_chance(r, 40)) {
        return g->burst.ids[random_below(r, g->burst.id_count)];
    }
    if (random_chance(r, 1)) {
        return random_chance(r, 50) ? new_id(g) : g->leases[random_below(r, RECENT)];
    }
    struct slot *slot = any_slot(g);
    struct session_view view;
    for (uint32_t tries = 0; tries < 3 && !model_view_session(g->model, slot->id, &view); tries++) {
        slot = any_slot(g);
    }
    return slot->id;
}

static void body_session_close(struct generator *g, struct command *c)
{
    struct slot *slot = any_slot(g);
    bool stubborn = g->kind == PROFILE_SESSIONS && slot == &g->slots[0];
    c->session = stubborn && random_below(&g->random, 1000) > 0 ? g->slots[1].id : slot->id;
    if (g->burst.id_count > 0 && random_chance(&g->random, 50)) {
        c->session = session_to_name(g);
    }
}

static void body_stream_up(struct generator *g, struct command *c)
{
    c->session = session_to_name(g);
}

static void body_stream_down(struct generator *g, struct command *c)
{
    struct slot *slot = any_slot(g);
    c->session = slot->id;
    c->stream_down.stream = slot->stream;
    if (random_chance(&g->random, 15)) {
        c->stream_down.stream -= 1;
    }
}

static void any_names(struct generator *g, struct names *names)
{
    struct random *r = &g->random;
    names->count = 1;
    if (random_chance(r, g->profile->multi)) {
        names->count = random_between(r, 2, g->profile->names < 5 ? 3 : 5);
        if (names->count > LIMIT_SWEEP_LOCKS) {
            names->count = LIMIT_SWEEP_LOCKS; /* with tiny limits more would never be swept */
        }
    }
    bool used[64] = {false};
    for (uint32_t i = 0; i < names->count; i++) {
        uint32_t number = random_below(r, g->profile->names);
        while (number < 64 && used[number] && !random_chance(r, 1)) {
            number = random_below(r, g->profile->names);
        }
        used[number < 64 ? number : 0] = true;
        names->at[i] = name_number(g, number);
    }
}

/* Each name has a favourite mode, so that not everything is a mismatch. */
static void any_mode(struct generator *g, struct command_acquire *a)
{
    struct random *r = &g->random;
    a->mode = MODE_EXCLUSIVE;
    if (a->names.count == 1) {
        uint32_t favourite = (uint32_t)(a->names.at[0].len + a->names.at[0].data[0]) % 4;
        a->mode = random_chance(r, 92) ? favourite : random_below(r, MODE_COUNT);
        if (g->kind == PROFILE_MULTILOCK || g->profile->multi >= 50) {
            a->mode = random_chance(r, 90) ? MODE_EXCLUSIVE : favourite;
        }
    }
    if (a->mode == MODE_SEMAPHORE) {
        a->limit = random_chance(r, 95) ? 3 : random_between(r, 1, 5);
        a->permits = random_chance(r, 97) ? random_between(r, 1, 3) : a->limit + 1;
    }
    if (a->mode == MODE_ELECTION && random_chance(r, 70)) {
        a->value = arena_text(g, "value-%u", random_below(r, 100));
    }
}

static uint64_t any_wait(struct generator *g)
{
    struct random *r = &g->random;
    if (!random_chance(r, g->profile->wait)) {
        return 0;
    }
    uint32_t percent = random_below(r, 100);
    if (percent < 80) {
        return random_between(r, 1, 1500);
    }
    if (percent < 86) {
        return LIMIT_DETACHED_MS; /* detached at once it leaves for two reasons at one time */
    }
    if (percent < 92) {
        return random_between(r, 5000, 20000);
    }
    return percent < 98 ? WAIT_FOREVER : LIMIT_NUMBER - g->time_ms + random_below(r, 100) - 50;
}

static void body_acquire(struct generator *g, struct command *c)
{
    struct random *r = &g->random;
    struct command_acquire *a = &c->acquire;
    bool in_session = random_chance(r, g->profile->in_session);
    if (in_session) {
        c->session = session_to_name(g);
    }
    a->lease = new_id(g);
    if (random_chance(r, 2)) {
        a->lease = random_chance(r, 90) ? g->leases[random_below(r, RECENT)] : any_slot(g)->id;
    }
    if (id_is_zero(a->lease)) {
        a->lease = new_id(g);
    }
    keep_lease(g, a->lease);
    a->node = random_between(r, 1, g->profile->nodes);
    a->client = in_session && random_chance(r, 80) ? slice_make(NULL, 0)
                                                   : client_number(g, random_below(r, 5));
    static const char *const owners[] = {"", "x", "y"};
    a->owner = slice_of(owners[random_below(r, g->kind == PROFILE_MULTILOCK ? 1 : 3)]);
    any_names(g, &a->names);
    any_mode(g, a);
    a->ttl_ms =
        in_session && random_chance(r, g->kind == PROFILE_MULTILOCK ? 90 : 60) ? 0 : any_ttl(g);
    a->wait_ms = any_wait(g);
    a->delay_ms = random_chance(r, g->profile->delay) ? random_between(r, 1, 900) : 0;
    a->max_hold_ms = random_chance(r, 12) ? random_between(r, 100, 3000) : 0;
    a->flags = random_chance(r, 25) ? ACQUIRE_REENTRANT : 0;
    a->flags |= random_chance(r, g->profile->detect) ? ACQUIRE_DETECT_DEADLOCK : 0;
    if (random_chance(r, 20)) {
        a->metadata = arena_text(g, "meta-%u", random_below(r, 1000));
    }
    if (random_chance(r, 20)) {
        a->trace = any_trace(g);
    }
    bool may_be_key = !in_session && a->mode == MODE_EXCLUSIVE && a->names.count == 1;
    if (may_be_key && random_chance(r, 40)) {
        a->flags |= ACQUIRE_KEY;
        a->ttl_ms = any_key_ttl(g);
        a->value = arena_text(g, "\xff key-%u", random_below(r, 100));
    }
    if (random_below(r, 400) == 0) {
        a->names.at[0] = any_counter(g);
    }
}

static bool any_waiter(struct generator *g, struct model_waiter_info *out)
{
    size_t count = model_waiter_count(g->model);
    if (count == 0) {
        return false;
    }
    model_waiter_at(g->model, random_below(&g->random, (uint32_t)count), out);
    return true;
}

/* Cancel and detach name a waiter alike. */
static void name_waiter(struct generator *g, struct command *c, struct id *lease,
                        uint64_t *attachment)
{
    struct random *r = &g->random;
    struct model_waiter_info w;
    *lease = new_id(g);
    *attachment = random_below(r, 100);
    if (any_waiter(g, &w) && random_chance(r, 92)) {
        *lease = w.lease;
        *attachment = w.attachment - (random_chance(r, 10) ? 1 : 0);
        c->tenant = w.tenant;
        g->owner = w.principal;
        if (!id_is_zero(w.session) && random_chance(r, 50)) {
            c->session = w.session;
        }
    } else if (random_chance(r, 80) && g->grant_count > 0) {
        *lease = g->grants[random_below(r, RECENT)].lease;
        if (id_is_zero(*lease)) {
            *lease = new_id(g);
        }
    }
}

static void body_cancel(struct generator *g, struct command *c)
{
    name_waiter(g, c, &c->cancel.lease, &c->cancel.attachment);
}

static void body_detach(struct generator *g, struct command *c)
{
    name_waiter(g, c, &c->detach.lease, &c->detach.attachment);
}

static void body_node_gone(struct generator *g, struct command *c)
{
    c->node_gone.node = random_between(&g->random, 1, g->profile->nodes);
}

/* A grant of the model, or one that was, with everything that can be said about it. */
static struct model_grant_info any_grant(struct generator *g, bool election)
{
    struct random *r = &g->random;
    struct model_grant_info info;
    memset(&info, 0, sizeof(info));
    size_t count = model_grant_count(g->model);
    if (count > 0 && random_chance(r, 82)) {
        for (uint32_t tries = 0; tries < 6; tries++) {
            model_grant_at(g->model, random_below(r, (uint32_t)count), &info);
            if (!election || info.mode == MODE_ELECTION) {
                break;
            }
        }
        g->owner = info.principal;
        return info;
    }
    const struct recent_grant *old = &g->grants[random_below(r, RECENT)];
    info.tenant = old->tenant;
    info.token = old->token != 0 ? old->token : 1024;
    info.lease = old->lease;
    info.session = old->session;
    info.name = name_number(g, old->name);
    info.parts = 1;
    if (random_chance(r, 5)) {
        info.token = random_between(r, 1, 5000); /* made up */
        info.lease = new_id(g);
    }
    return info;
}

/* How a release or a renewal names its grant: by lease id, by name and token, by token; each part
 * may be wrong. */
static void name_grant(struct generator *g, struct command *c, struct slice *name,
                       struct slice *client, struct id *lease, uint64_t *token)
{
    struct random *r = &g->random;
    struct model_grant_info info = any_grant(g, false);
    c->tenant = info.tenant;
    switch (random_below(r, 4)) {
    case 0:
        *lease = info.lease;
        break;
    case 1:
        *lease = info.lease;
        *token = info.token;
        break;
    case 2:
        *token = info.token;
        *name = info.name;
        break;
    default:
        *token = info.token;
        *name = info.parts > 1 && random_chance(r, 80) ? slice_make(NULL, 0) : info.name;
        break;
    }
    if (!id_is_zero(info.session) && random_chance(r, 50)) {
        c->session = info.session;
    }
    if (info.client.len > 0 && random_chance(r, 30)) {
        *client = info.client;
    }
    switch (random_below(r, 60)) {
    case 0:
        *name = any_name(g);
        break;
    case 1:
        *client = client_number(g, random_below(r, 5));
        break;
    case 2:
        c->session = any_slot(g)->id;
        break;
    case 3:
        *token = info.token + random_between(r, 1, 2000) - 1000;
        break;
    case 4:
        *token = info.token;
        *name = slice_make(NULL, 0);
        *lease = (struct id){0, 0};
        break;
    default:
        break;
    }
    if (*token >= LIMIT_NUMBER) {
        *token = 7;
    }
}

static void body_release(struct generator *g, struct command *c)
{
    struct command_release *p = &c->release;
    name_grant(g, c, &p->name, &p->client, &p->lease, &p->token);
}

static void body_renew(struct generator *g, struct command *c)
{
    struct command_renew *p = &c->renew;
    name_grant(g, c, &p->name, &p->client, &p->lease, &p->token);
    p->ttl_ms = random_chance(&g->random, 50) ? any_ttl(g) : 0;
}

static void body_proclaim(struct generator *g, struct command *c)
{
    struct random *r = &g->random;
    struct model_grant_info info = any_grant(g, true);
    c->tenant = info.tenant;
    c->proclaim.name = info.name;
    c->proclaim.token = info.token;
    c->proclaim.value = arena_text(g, "value-%u", random_below(r, 100));
    if (info.client.len > 0 && random_chance(r, 30)) {
        c->proclaim.client = random_chance(r, 90) ? info.client : slice_of("client-4");
    }
    if (!id_is_zero(info.session) && random_chance(r, 40)) {
        c->session = info.session;
    }
}

static struct slice any_held_name(struct generator *g)
{
    size_t count = model_grant_count(g->model);
    struct model_grant_info info;
    if (count == 0) {
        return any_name(g);
    }
    model_grant_at(g->model, random_below(&g->random, (uint32_t)count), &info);
    return info.name;
}

/* Mostly 0; else that of some grant, mostly with its name. */
static uint64_t if_token(struct generator *g, struct slice *name)
{
    struct random *r = &g->random;
    struct model_grant_info info;
    size_t count = model_grant_count(g->model);
    if (count == 0 || random_chance(r, 60)) {
        return 0;
    }
    model_grant_at(g->model, random_below(r, (uint32_t)count), &info);
    *name = random_chance(r, 70) ? info.name : *name;
    return info.token;
}

static void body_force_unlock(struct generator *g, struct command *c)
{
    struct random *r = &g->random;
    c->force_unlock.name = random_chance(r, 50) ? any_name(g) : any_held_name(g);
    c->force_unlock.actor = arena_text(g, "admin-%u", random_below(r, 2));
    c->force_unlock.reason = slice_of("stuck");
    c->force_unlock.now = random_chance(r, 40);
    c->force_unlock.if_token = if_token(g, &c->force_unlock.name);
    if (random_chance(r, 3)) {
        c->session = session_to_name(g);
    }
}

static void body_revoke(struct generator *g, struct command *c)
{
    struct random *r = &g->random;
    c->revoke.name = random_chance(r, 50) ? any_name(g) : any_held_name(g);
    c->revoke.actor = arena_text(g, "admin-%u", random_below(r, 2));
    c->revoke.reason = arena_text(g, "maintenance %u", random_below(r, 3));
    c->revoke.grace_ms = random_chance(r, 10) ? 0 : random_between(r, 1, 500);
    c->revoke.if_token = if_token(g, &c->revoke.name);
    if (random_chance(r, 3)) {
        c->session = session_to_name(g);
    }
}

static void body_note(struct generator *g, struct command *c)
{
    struct random *r = &g->random;
    c->note.action = random_chance(r, 5) ? 4 : random_below(r, 4);
    if (random_chance(r, 20)) {
        c->note.action = random_chance(r, 80) ? NOTE_DENIED : NOTE_PEER_REFUSED;
    }
    if (random_chance(r, 20)) {
        c->note.action = NOTE_MEMBER_ADD + random_below(r, 8); /* two are no notes */
    }
    c->note.name = any_name(g);
    c->note.actor = arena_text(g, "admin-%u", random_below(r, 2));
    c->note.reason = arena_text(g, "elsewhere %u", random_below(r, 3));
    c->note.count = random_below(r, 3);
    if (random_chance(r, 30)) {
        c->note.trace = any_trace(g);
    }
}

/* One that may have been issued, by either tier, and now and then one that was not. */
static uint64_t any_token(struct generator *g)
{
    uint64_t newest = any_grant(g, false).token + 1024;
    return random_between(&g->random, 1, newest < UINT32_MAX ? (uint32_t)newest : UINT32_MAX);
}

static void body_fence_check(struct generator *g, struct command *c)
{
    struct random *r = &g->random;
    static const char *const resources[] = {"db", "db/table", "file"};
    c->fence_check.resource = slice_of(resources[random_below(r, 3)]);
    c->fence_check.slot = random_chance(r, 50) ? 0 : random_below(r, 2);
    c->fence_check.token = any_grant(g, false).token;
    if (g->kind == PROFILE_RINGS && random_chance(r, 97)) {
        c->fence_check.resource =
            arena_text(g, "resource/%u", random_below(r, LIMIT_FENCE_MARKS + 20000));
        c->fence_check.token = any_token(g);
    }
    if (random_chance(r, 2)) {
        c->fence_check.token = LIMIT_NUMBER - 1 - random_below(r, 2); /* never issued */
    }
    if (random_chance(r, 2)) {
        c->session = session_to_name(g);
    }
}

static void body_fence_reset(struct generator *g, struct command *c)
{
    struct random *r = &g->random;
    body_fence_check(g, c);
    struct slice resource = c->fence_check.resource;
    uint32_t slot = c->fence_check.slot;
    uint64_t token = c->fence_check.token;
    c->fence_reset.resource = resource;
    c->fence_reset.slot = slot;
    c->fence_reset.token = random_chance(r, 50) ? 0 : token;
    c->fence_reset.actor = arena_text(g, "admin-%u", random_below(r, 2));
    c->fence_reset.reason = arena_text(g, "made up %u", random_below(r, 3));
}

/* The beginning of some name, or nothing. */
static struct slice any_prefix(struct generator *g)
{
    struct slice name = any_name(g);
    name.len =
        random_chance(&g->random, 40) ? random_below(&g->random, (uint32_t)name.len + 1) : name.len;
    return policy_prefix_is_valid(name) ? name : slice_make(NULL, 0);
}

static void body_alert_set(struct generator *g, struct command *c)
{
    struct random *r = &g->random;
    c->alert_set.prefix = any_prefix(g);
    c->alert_set.held_ms = random_between(r, LIMIT_HELD_MIN_MS, 2500);
    c->alert_set.actor = arena_text(g, "admin-%u", random_below(r, 2));
    c->alert_set.reason = slice_of("too long");
}

static void body_alert_remove(struct generator *g, struct command *c)
{
    c->alert_remove.prefix = any_prefix(g);
    c->alert_remove.actor = arena_text(g, "admin-%u", random_below(&g->random, 2));
    c->alert_remove.reason = slice_of("noise");
}

static void body_long_held(struct generator *g, struct command *c)
{
    struct model_grant_info info = {.token = 1024};
    size_t count = model_grant_count(g->model);
    c->long_held.name = any_name(g);
    if (count > 0) { /* the oldest are the likeliest */
        uint32_t span = random_chance(&g->random, 70) ? (uint32_t)(count + 2) / 3 : (uint32_t)count;
        model_grant_at(g->model, random_below(&g->random, span), &info);
        c->long_held.name = random_chance(&g->random, 95) ? info.name : c->long_held.name;
        c->tenant = info.tenant;
    }
    c->long_held.token = info.token;
}

static void body_sink_position(struct generator *g, struct command *c)
{
    struct random *r = &g->random;
    c->sink_position.name = arena_text(g, "sink-%u", random_below(r, LIMIT_SINKS + 2));
    c->sink_position.index = random_below(r, 1000);
    c->sink_position.ordinal = random_below(r, 3);
}

void generate_body(struct generator *g, enum command_type type, struct command *c)
{
    switch (type) {
    case COMMAND_SESSION_OPEN:
        body_session_open(g, c);
        break;
    case COMMAND_KEEPALIVE:
        body_keepalive(g, c);
        break;
    case COMMAND_SESSION_CLOSE:
        body_session_close(g, c);
        break;
    case COMMAND_STREAM_UP:
        body_stream_up(g, c);
        break;
    case COMMAND_STREAM_THROUGH:
        body_stream_up(g, c);
        c->stream_through.node = 1 + random_below(&g->random, g->profile->nodes);
        break;
    case COMMAND_STREAM_DOWN:
        body_stream_down(g, c);
        break;
    case COMMAND_ACQUIRE:
        body_acquire(g, c);
        break;
    case COMMAND_CANCEL:
        body_cancel(g, c);
        break;
    case COMMAND_DETACH:
        body_detach(g, c);
        break;
    case COMMAND_NODE_GONE:
        body_node_gone(g, c);
        break;
    case COMMAND_RELEASE:
        body_release(g, c);
        break;
    case COMMAND_RENEW:
        body_renew(g, c);
        break;
    case COMMAND_PROCLAIM:
        body_proclaim(g, c);
        break;
    case COMMAND_FORCE_UNLOCK:
        body_force_unlock(g, c);
        break;
    case COMMAND_REVOKE:
        body_revoke(g, c);
        break;
    case COMMAND_FENCE_CHECK:
        body_fence_check(g, c);
        break;
    case COMMAND_FENCE_RESET:
        body_fence_reset(g, c);
        break;
    case COMMAND_LEAD:
        c->lead.node = random_between(&g->random, 1, 5);
        break;
    case COMMAND_UPGRADE:
        c->upgrade.version = random_below(&g->random, CORE_VERSION + 1);
        break;
    case COMMAND_TRANSACT:
        generate_transact(g, c);
        break;
    case COMMAND_NOTE:
        body_note(g, c);
        break;
    case COMMAND_POLICY_CHANGE:
        generate_policy_change(g, c);
        break;
    case COMMAND_ALERT_SET:
        body_alert_set(g, c);
        break;
    case COMMAND_ALERT_REMOVE:
        body_alert_remove(g, c);
        break;
    case COMMAND_LONG_HELD:
        body_long_held(g, c);
        break;
    case COMMAND_SINK_POSITION:
        body_sink_position(g, c);
        break;
    case COMMAND_TICK:
    case COMMAND_ADVANCE:
    case COMMAND_NONE:
    case COMMAND_COUNT:
        break;
    }
}
