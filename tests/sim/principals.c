/* Revocations in flight, see principals.h. A lease or session id of these clients has the number of the
 * principal in its upper half, so that each event says whose it is. What the policy says at an index of
 * the log is worked out here, from the commands alone:
 *
 *   - nothing is granted to a principal that may not have it at that index, also not to a waiter;
 *   - nothing is granted to a removed one after its removal was answered;
 *   - its sessions are not kept alive; with end_sessions they end within two entries;
 *   - nobody releases what another principal holds, or renews what it may not lock any more;
 *   - the numbers of principals are those that follow from the log: none is used again. */
#include "principals.h"

#include "core/policy.h"
#include "core/view.h"

enum {
    WORKERS = 4, /* names of principals */
    USERS = 8,   /* clients */
    FIRST_USER = CLIENTS + 1,
    ADMINISTRATOR = FIRST_USER + USERS,
    PLACES = 4, /* names of locks */
    NUMBERS = 4096,
    NUMBER_BASE = 1000000,
    ROOT = 1,
    ALL_PLACES = PLACES, /* a grant of p/; less: of one place */
    NOTHING = ALL_PLACES + 1,
    SESSION_TTL_MS = 1000,
    LATE_MS = 100,
    SESSIONS = 256,
    RECENT = 16,
};

/* What a change of the policy did, in log order. */
struct shift {
    uint64_t index;
    uint64_t version; /* of the policy */
    uint32_t number;
    uint32_t may; /* ALL_PLACES, a place, or NOTHING: it is removed */
    bool ends;    /* its sessions, too */
};

/* A policy_change in some log. */
struct written_change {
    struct written_change *next;
    uint64_t index;
    uint64_t term;
    uint64_t stamp_ms;
    bool bootstraps;
    bool ends;
    uint32_t worker;
    uint32_t may;
};

struct open_session {
    struct id id;
    uint64_t index; /* of its opening */
};

static struct {
    struct written_change *written;
    uint64_t applied;
    uint64_t version;
    uint32_t last_number;
    uint32_t numbers[WORKERS]; /* 0: there is none */
    struct shift *shifts;
    uint32_t shift_count;
    uint32_t shift_capacity;
    uint64_t removed_ms[NUMBERS];  /* cluster time; 0: it is not */
    uint64_t ended_index[NUMBERS]; /* of the removal with end_sessions */
    uint64_t answered_at[NUMBERS]; /* committed then */
    struct open_session sessions[SESSIONS];
    uint32_t session_count;
    /* The administrator. */
    bool has_policy;
    uint64_t pending_until_us;
    uint64_t attempt;
    bool pending_removes;
    /* What clients may use. */
    struct id leases[RECENT];
    uint32_t lease_count;
    struct id opened[RECENT];
    uint32_t opened_count;
} p;

static bool is_on(void)
{
    return world.options.seed % 2 == 0;
}

bool principals_is_client(int client)
{
    return client >= FIRST_USER;
}

static uint32_t number_of(struct id id)
{
    return id.high > NUMBER_BASE && id.high < NUMBER_BASE + NUMBERS
               ? (uint32_t)(id.high - NUMBER_BASE)
               : 0;
}

static struct id id_of(uint32_t number)
{
    return (struct id){NUMBER_BASE + number, chance() | 1};
}

static void worker_name(uint32_t worker, char text[8])
{
    snprintf(text, 8, "w%u", worker);
}

static void place_name(uint32_t place, char text[8])
{
    snprintf(text, 8, place == ALL_PLACES ? "p/" : "p/%u", place);
}

/* The number of the place; -1: it is another name. */
static int place_of(struct slice name)
{
    return name.len == 3 && memcmp(name.data, "p/", 2) == 0 ? name.data[2] - '0' : -1;
}

/* ---- the log ---- */

static bool is_noted(uint64_t index, uint64_t term)
{
    for (const struct written_change *w = p.written; w != NULL; w = w->next) {
        if (w->index == index && w->term == term) {
            return true;
        }
    }
    return false;
}

static void note_change(uint64_t index, uint64_t term, uint64_t stamp_ms,
                        const struct command_policy_change *change)
{
    struct written_change *w = malloc(sizeof(*w));
    struct reader r = packed_reader(&change->changes);
    struct policy_change one;
    *w = (struct written_change){.index = index,
                                 .term = term,
                                 .stamp_ms = stamp_ms,
                                 .bootstraps = change->origin == POLICY_BOOTSTRAP,
                                 .ends = change->end_sessions != 0,
                                 .may = NOTHING};
    while (unpack_policy_change(&r, &one)) {
        if (one.name.len == 2 && one.name.data[0] == 'w') {
            w->worker = (uint32_t)(one.name.data[1] - '0');
        }
        if (one.kind == POLICY_PRINCIPAL_PUT) {
            struct reader grants = packed_reader(&one.grants);
            struct policy_grant grant;
            while (unpack_policy_grant(&grants, &grant)) {
                int place = place_of(grant.prefix);
                w->may = place < 0 ? ALL_PLACES : (uint32_t)place;
            }
        }
    }
    struct written_change **end = &p.written; /* an entry may have several: they keep their order */
    while (*end != NULL) {
        end = &(*end)->next;
    }
    *end = w;
}

static void note_entry(uint64_t index, const struct replica_entry *entry)
{
    struct reader r = reader_make(entry->bytes);
    struct command command;
    (void)read_fixed64(&r); /* format */
    uint64_t stamp_ms = read_fixed64(&r);
    (void)read_fixed64(&r); /* wall clock */
    uint64_t commands = read_fixed64(&r);
    for (uint64_t i = 0; i < commands; i++) {
        struct slice bytes = read_slice(&r, LIMIT_ENTRY);
        if (r.bad || command_decode(bytes, &command) != HF_OK) {
            violation("the entry %llu cannot be decoded", ull(index));
        }
        if (command.type == COMMAND_POLICY_CHANGE) {
            note_change(index, entry->term, stamp_ms, &command.policy_change);
        }
    }
}

void principals_written(uint64_t first, const struct replica_entry *entries, uint32_t count)
{
    for (uint32_t i = 0; i < count && is_on(); i++) {
        if (entries[i].type == REPLICA_COMMAND && first + i > p.applied &&
            !is_noted(first + i, entries[i].term)) {
            note_entry(first + i, &entries[i]);
        }
    }
}

static void shift(const struct written_change *w, uint32_t number, uint32_t may)
{
    if (p.shift_count == p.shift_capacity) {
        p.shift_capacity = p.shift_capacity == 0 ? 256 : p.shift_capacity * 2;
        p.shifts = realloc(p.shifts, p.shift_capacity * sizeof(*p.shifts));
    }
    p.shifts[p.shift_count++] = (struct shift){w->index, p.version, number, may, w->ends};
    if (number >= NUMBERS) {
        violation("too many principals");
    }
    if (may == NOTHING) {
        p.removed_ms[number] = w->stamp_ms;
        p.ended_index[number] = w->ends ? w->index : 0;
    }
    trace("policy %llu at %llu: principal %u may %u%s", ull(p.version), ull(w->index), number, may,
          w->ends ? ", sessions end" : "");
}

/* What the core decides, too. */
static void happen_in_log(const struct written_change *w)
{
    if (w->bootstraps) {
        if (p.last_number == 0) {
            p.version++;
            p.last_number = ROOT;
        }
        return;
    }
    if (p.last_number == 0 || (w->may == NOTHING && p.numbers[w->worker] == 0)) {
        return; /* denied: there is no administrator; or there is nobody to remove */
    }
    p.version++;
    world.counts.policy_changes++;
    uint32_t number = p.numbers[w->worker];
    if (w->may == NOTHING) {
        p.numbers[w->worker] = 0;
        world.counts.revocations++;
        shift(w, number, NOTHING);
        for (uint32_t old = 1; w->ends && old <= p.last_number; old++) {
            if (p.removed_ms[old] != 0 && p.ended_index[old] == 0) {
                p.ended_index[old] = w->index; /* those of earlier removals, too */
            }
        }
        return;
    }
    if (number == 0) {
        number = ++p.last_number;
        p.numbers[w->worker] = number;
    }
    shift(w, number, w->may);
}

static void advance(const struct sim_node *n, uint64_t index)
{
    while (p.applied < index) {
        p.applied++;
        uint64_t term = terms_at(&n->memory, p.applied);
        for (struct written_change **at = &p.written; *at != NULL;) {
            struct written_change *w = *at;
            if (w->index == p.applied && w->term == term) {
                happen_in_log(w);
            }
            if (w->index <= p.applied) {
                *at = w->next;
                free(w);
            } else {
                at = &w->next;
            }
        }
    }
}

/* What the principal may at this index. `changes_here`: the entry changes the policy, before or after. */
static uint32_t may_at(uint32_t number, uint64_t index, bool *changes_here)
{
    uint32_t may = number == ROOT ? ALL_PLACES : NOTHING;
    *changes_here = false;
    for (const struct written_change *w = p.written; w != NULL; w = w->next) {
        *changes_here = *changes_here || w->index == index;
    }
    for (uint32_t i = 0; i < p.shift_count; i++) {
        const struct shift *s = &p.shifts[i];
        *changes_here = *changes_here || s->index == index;
        if (s->number == number && s->index < index) {
            may = s->may;
        }
    }
    return may;
}

static bool is_allowed(uint32_t number, uint64_t index, struct slice name)
{
    bool changes_here = false;
    uint32_t may = may_at(number, index, &changes_here);
    int place = place_of(name);
    return changes_here || may == ALL_PLACES || (place >= 0 && may == (uint32_t)place);
}

/* ---- checks ---- */

static void check_sessions(const struct event *e)
{
    for (uint32_t i = 0; i < p.session_count; i++) {
        uint32_t number = number_of(p.sessions[i].id);
        uint64_t removed_ms = p.removed_ms[number];
        if (removed_ms != 0 && e->at_ms > removed_ms + SESSION_TTL_MS + LATE_MS) {
            violation("a session of principal %u lives at %llu, it was removed at %llu (S14.4)",
                      number, ull(e->at_ms), ull(removed_ms));
        }
        if (p.ended_index[number] != 0 && e->index > p.ended_index[number] + 2) {
            violation("a session of principal %u lives at the entry %llu, its end was requested at "
                      "%llu (S14.4)",
                      number, ull(e->index), ull(p.ended_index[number]));
        }
    }
}

static void session_opened(const struct event *e)
{
    if (p.session_count == SESSIONS) {
        violation("too many sessions of principals");
    }
    p.sessions[p.session_count++] = (struct open_session){e->session, e->index};
}

static void session_ended(const struct event *e)
{
    for (uint32_t i = 0; i < p.session_count; i++) {
        if (id_equal(p.sessions[i].id, e->session)) {
            p.sessions[i] = p.sessions[--p.session_count];
            return;
        }
    }
}

void principals_event(const struct sim_node *n, const struct event *e)
{
    if (!is_on()) {
        return;
    }
    advance(n, e->index - 1);
    bool of_session = number_of(e->session) != 0;
    if (e->type == EVENT_SESSION_OPENED && of_session) {
        session_opened(e);
    } else if ((e->type == EVENT_SESSION_EXPIRED || e->type == EVENT_SESSION_CLOSED) &&
               of_session) {
        session_ended(e);
    }
    uint32_t number = number_of(e->lease);
    if (number == 0 || (e->type != EVENT_GRANTED && e->type != EVENT_QUEUED)) {
        world.counts.waits_denied += e->type == EVENT_WAIT_ENDED && e->reason == REASON_DENIED;
        return;
    }
    check_sessions(e);
    if (p.answered_at[number] != 0 && e->index > p.answered_at[number]) {
        violation("principal %u gets %.*s at %llu, and its removal was answered at %llu (S14.4)",
                  number, (int)e->name.len, (const char *)e->name.data, ull(e->index),
                  ull(p.answered_at[number]));
    }
    if (!is_allowed(number, e->index, e->name)) {
        violation("principal %u gets %.*s at %llu, which it may not lock there (S14.1)", number,
                  (int)e->name.len, (const char *)e->name.data, ull(e->index));
    }
    world.counts.granted_to_principals += e->type == EVENT_GRANTED;
}

void principals_result(const struct sim_node *n, const struct command *c, const struct result *r)
{
    if (!is_on() || c->principal == 0) {
        return;
    }
    uint64_t index = core_index(replica_core(n->replica));
    world.counts.denied += r->error == HF_DENIED;
    if (r->error != HF_OK) {
        return;
    }
    advance(n, index - 1);
    if (c->type == COMMAND_RELEASE && r->outcome == OUTCOME_DONE && !r->replayed &&
        number_of(c->release.lease) != c->principal) {
        violation("principal %u released what principal %u holds (S14.2)", c->principal,
                  number_of(c->release.lease));
    }
    if (c->type == COMMAND_RENEW && r->outcome == OUTCOME_DONE) {
        bool changes_here = false;
        uint32_t may = may_at(c->principal, index, &changes_here);
        if (!changes_here && may == NOTHING) {
            violation("principal %u renewed at %llu and may lock nothing (S14.4)", c->principal,
                      ull(index));
        }
    }
}

/* The policy of the state against that of the log. */
static void compare(const struct sim_node *n)
{
    const struct policy *policy = core_policy(replica_core(n->replica));
    if (policy_version(policy) != p.version) {
        violation("the policy has version %llu at %llu, by the log %llu (S14.1)",
                  ull(policy_version(policy)), ull(p.applied), ull(p.version));
    }
    for (uint32_t i = 0; i < WORKERS; i++) {
        char name[8];
        struct principal_view view = {.number = 0};
        worker_name(i, name);
        (void)policy_find_principal(policy, 0, slice_of(name), &view);
        if (view.number != p.numbers[i]) {
            violation("%s is principal %u at %llu, by the log %u (S14.1)", name, view.number,
                      ull(p.applied), p.numbers[i]);
        }
    }
}

void principals_applied(const struct sim_node *n)
{
    uint64_t index = core_index(replica_core(n->replica));
    if (!is_on() || index <= p.applied) {
        return;
    }
    uint64_t before = p.version;
    advance(n, index);
    if (p.version != before) {
        compare(n);
    }
}

/* ---- the administrator ---- */

static int some_entry(void)
{
    int node = 1 + (int)chance_below(MAX_NODES);
    for (int i = 0; i < 10 && (!world.nodes[node].up || world.nodes[node].lost); i++) {
        node = 1 + (int)chance_below(MAX_NODES);
    }
    return node;
}

static void send_change(struct packer *changes, bool bootstraps, bool ends)
{
    struct command c;
    command_init(&c, COMMAND_POLICY_CHANGE);
    c.principal = bootstraps ? 0 : ROOT;
    c.policy_change.expect = UINT64_MAX;
    c.policy_change.origin = bootstraps ? POLICY_BOOTSTRAP : POLICY_BY_PRINCIPAL;
    c.policy_change.actor = slice_of("admin");
    c.policy_change.reason = slice_of("test");
    c.policy_change.end_sessions = ends;
    c.policy_change.changes = packer_list(changes);
    p.pending_until_us = world.now_us + 1000000;
    call_send(ADMINISTRATOR, 0, ++p.attempt, some_entry(), TIER_CORRECTNESS, &c, 0);
}

static void add_principal(struct packer *changes, const char *name, const char *tenant,
                          const char *prefix, uint32_t rights)
{
    uint8_t bytes[128];
    struct packer grants = packer_make(bytes, sizeof(bytes));
    bool fits = pack_policy_grant(
        &grants, &(struct policy_grant){slice_of(tenant), slice_of(prefix), rights});
    fits = fits &&
           pack_policy_change(changes, &(struct policy_change){.kind = POLICY_PRINCIPAL_PUT,
                                                               .tenant = slice_of("default"),
                                                               .name = slice_of(name),
                                                               .grants = packer_list(&grants)});
    if (!fits) {
        violation("there is no space for a change of the policy");
    }
}

static void change_policy(void)
{
    uint8_t bytes[512];
    char name[8];
    char prefix[8];
    struct packer changes = packer_make(bytes, sizeof(bytes));
    p.pending_removes = false;
    if (!p.has_policy) {
        add_principal(&changes, "root", "*", "", RIGHTS_ALL);
        send_change(&changes, true, false);
        return;
    }
    worker_name((uint32_t)chance_below(WORKERS), name);
    if (one_in(3)) {
        p.pending_removes = true;
        (void)pack_policy_change(&changes, &(struct policy_change){.kind = POLICY_PRINCIPAL_REMOVE,
                                                                   .tenant = slice_of("default"),
                                                                   .name = slice_of(name)});
        send_change(&changes, false, one_in(2));
        return;
    }
    place_name(one_in(2) ? ALL_PLACES : (uint32_t)chance_below(PLACES), prefix);
    add_principal(&changes, name, "default", prefix, RIGHT_LOCK);
    send_change(&changes, false, false);
}

static void administer(struct happening *h)
{
    (void)h;
    if (clients_are_stopping()) {
        return;
    }
    if (world.now_us >= p.pending_until_us) {
        change_policy();
    }
    happen(20000 + chance_below(200000), administer, 0);
}

static void hear_change(const struct sim_answer *a)
{
    if (a->attempt != p.attempt || a->kind != ANSWER_RESULT) {
        return;
    }
    p.pending_until_us = 0;
    p.has_policy = p.has_policy || a->error == HF_OK || a->error == HF_POLICY_EXISTS;
    if (a->error != HF_OK && a->error != HF_POLICY_NOT_FOUND && a->error != HF_POLICY_EXISTS &&
        a->error != HF_NOT_UPGRADED) {
        violation("the administrator got the error %s", hf_error_code(a->error));
    }
    for (uint32_t i = 0; a->error == HF_OK && p.pending_removes && i < p.shift_count; i++) {
        if (p.shifts[i].version == a->token && p.shifts[i].may == NOTHING) {
            p.answered_at[p.shifts[i].number] = check_committed();
            world.counts.revocations_answered++;
        }
    }
}

/* ---- the clients ---- */

static uint32_t some_number(void)
{
    uint32_t number = p.numbers[chance_below(WORKERS)];
    /* Often one that was removed, or of a node that has not heard of it: an old connection. */
    return number == 0 || one_in(4) ? 1 + (uint32_t)chance_below(p.last_number) : number;
}

static void fill_acquire(struct command *c, uint32_t number, char name[8])
{
    place_name((uint32_t)chance_below(PLACES), name);
    c->acquire.lease = id_of(number);
    c->acquire.client = slice_of("user");
    c->acquire.names.count = 1;
    c->acquire.names.at[0] = slice_of(name);
    c->acquire.ttl_ms = 100 + (uint32_t)chance_below(600);
    c->acquire.wait_ms = one_in(3) ? 0 : chance_below(1500);
    p.leases[p.lease_count++ % RECENT] = c->acquire.lease;
    if (p.opened_count > 0 && one_in(3)) {
        c->session = p.opened[chance_below(RECENT)];
        c->principal = id_is_zero(c->session) || one_in(10) ? number : number_of(c->session);
        c->acquire.lease = id_of(c->principal);
    }
}

static void fill_keepalive(struct command *c, uint8_t packed[16])
{
    struct id id = p.session_count > 0 && one_in(2) ? p.sessions[chance_below(p.session_count)].id
                                                    : p.opened[chance_below(RECENT)];
    for (int i = 0; i < 8; i++) {
        packed[i] = (uint8_t)(id.high >> (8 * i));
        packed[8 + i] = (uint8_t)(id.low >> (8 * i));
    }
    c->principal = one_in(2) ? 0 : number_of(id); /* by a node, or by the client */
    c->keepalive.sessions = (struct ids){1, packed};
}

static void act(struct happening *h)
{
    uint8_t packed[16];
    char name[8];
    struct command c;
    if (clients_are_stopping()) {
        return;
    }
    happen(5000 + chance_below(60000), act, 0)->a = h->a;
    if (!p.has_policy || p.last_number == 0) {
        return;
    }
    uint32_t number = some_number();
    struct id lease = p.leases[chance_below(RECENT)];
    uint64_t what = chance_below(20);
    if (what < 10) {
        command_init(&c, COMMAND_ACQUIRE);
        c.principal = number;
        fill_acquire(&c, number, name);
    } else if (what < 14 && !id_is_zero(lease)) {
        command_init(&c, COMMAND_RELEASE);
        c.release.lease = lease;
        c.principal = one_in(4) ? number : number_of(lease);
    } else if (what < 16 && !id_is_zero(lease)) {
        command_init(&c, COMMAND_RENEW);
        c.renew.lease = lease;
        c.principal = one_in(6) ? number : number_of(lease);
    } else if (what < 17) {
        command_init(&c, COMMAND_SESSION_OPEN);
        c.principal = number;
        c.session_open.id = id_of(number);
        c.session_open.client = slice_of("user");
        c.session_open.ttl_ms = SESSION_TTL_MS;
        p.opened[p.opened_count++ % RECENT] = c.session_open.id;
    } else {
        command_init(&c, COMMAND_KEEPALIVE);
        fill_keepalive(&c, packed);
    }
    call_send((int)h->a, 0, 0, some_entry(), TIER_CORRECTNESS, &c, 0);
}

void principals_hear(const struct sim_answer *a)
{
    if (a->client == ADMINISTRATOR) {
        hear_change(a);
    }
}

void principals_begin(void)
{
    if (!is_on()) {
        return;
    }
    happen(500000, administer, 0);
    for (int i = 0; i < USERS; i++) {
        happen(600000 + chance_below(100000), act, 0)->a = (uint64_t)(FIRST_USER + i);
    }
}

void principals_end(void)
{
    while (p.written != NULL) {
        struct written_change *next = p.written->next;
        free(p.written);
        p.written = next;
    }
    free(p.shifts);
    memset(&p, 0, sizeof(p));
}
