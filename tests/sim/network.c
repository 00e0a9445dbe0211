/* Connections between nodes. Each pair in order, a message at most once; what belongs to an older
 * connection, or to an earlier life of either end, is dropped. A connection begins with a greeting,
 * in which both look whether the other has the disk that they know it by (S12.1). */
#include "world.h"

#include "base/codec.h"
#include "replica/message.h"

/* What every message begins with. */
struct head {
    uint64_t cluster_ms;
    uint64_t type;
    uint64_t term;
};

static struct head head_of(struct slice message)
{
    struct head head;
    struct reader r = reader_make(message);
    head.cluster_ms = read_u64(&r);
    head.type = read_u64(&r);
    (void)read_u64(&r); /* the version */
    head.term = read_u64(&r);
    return head;
}

static uint64_t type_of(struct slice message)
{
    struct reader r = reader_make(message);
    (void)read_u64(&r);
    return read_u64(&r);
}

static const char *message_word(uint64_t type)
{
    switch (type) {
    case RAFT_APPEND_ENTRIES:
        return "append";
    case RAFT_APPEND_ENTRIES_RESULT:
        return "append result";
    case RAFT_REQUEST_VOTE:
        return "vote?";
    case RAFT_REQUEST_VOTE_RESULT:
        return "vote";
    case RAFT_INSTALL_SNAPSHOT:
        return "snapshot";
    default:
        return "lead now";
    }
}

bool network_reaches(int from, int to)
{
    const struct sim_link *l = &world.links[from][to];
    return world.nodes[from].up && world.nodes[to].up && !l->cut && world.now_us >= l->usable_us;
}

bool network_is_quick(int from, int to)
{
    const struct sim_link *l = &world.links[from][to];
    return l->slow_until_us < world.now_us && !l->stalled && l->last_us < world.now_us + 200000;
}

void network_break(int one, int other)
{
    struct sim_link *both[] = {&world.links[one][other], &world.links[other][one]};
    for (int i = 0; i < 2; i++) {
        both[i]->greeted = false;
        both[i]->connection++;
        both[i]->usable_us = world.now_us + 1000 + chance_below(50000);
    }
}

static void heal(struct happening *h)
{
    struct sim_link *l = &world.links[h->a][h->b];
    if (world.now_us >= l->cut_until_us) { /* else another cut is longer */
        l->cut = false;
    }
}

void network_cut(int from, int to, uint64_t for_us)
{
    struct sim_link *l = &world.links[from][to];
    l->cut = true;
    l->cut_until_us =
        world.now_us + for_us > l->cut_until_us ? world.now_us + for_us : l->cut_until_us;
    struct happening *h = happen(for_us, heal, 0);
    h->a = (uint64_t)from;
    h->b = (uint64_t)to;
}

void network_cut_off(int node, uint64_t for_us)
{
    for (int i = 1; i <= MAX_NODES; i++) {
        if (i != node && world.nodes[i].used) {
            network_cut(node, i, for_us);
            network_cut(i, node, for_us);
        }
    }
}

/* ---- stalls ---- */

/* A receiver that does not read, or a network that hands on nothing: what was sent lies in the
 * sockets for seconds and arrives all the same, unless the connection breaks. */
void network_release(int from, int to)
{
    struct sim_link *l = &world.links[from][to];
    l->stalled = false;
    while (l->parked != NULL) {
        struct happening *h = l->parked;
        l->parked = h->next;
        uint64_t at_us = world.now_us + 20 + chance_below(60);
        l->last_us = at_us > l->last_us ? at_us : l->last_us + 1;
        happening_push(h, l->last_us - world.now_us);
    }
}

static void release(struct happening *h)
{
    struct sim_link *l = &world.links[h->from][h->a];
    if (l->stalled && l->in_stall == h->b) {
        network_release(h->from, (int)h->a);
    }
}

void network_stall(int from, int to, uint32_t fits, uint64_t for_us)
{
    struct sim_link *l = &world.links[from][to];
    if (l->stalled || from == to) {
        return;
    }
    world.counts.stalls++;
    trace("what node %d sends to node %d waits for %llu ms", from, to, ull(for_us / 1000));
    l->stalled = true;
    l->fits = fits;
    l->in_stall++;
    l->parked = NULL;
    l->parked_end = &l->parked;
    struct happening *h = happen(for_us, release, 0);
    h->from = from;
    h->a = (uint64_t)to;
    h->b = l->in_stall;
}

void network_end(void)
{
    for (int i = 1; i <= MAX_NODES; i++) {
        for (int k = 1; k <= MAX_NODES; k++) {
            while (world.links[i][k].parked != NULL) {
                struct happening *h = world.links[i][k].parked;
                world.links[i][k].parked = h->next;
                free(h->data);
                free(h);
            }
        }
    }
}

/* The message waits behind the others, or is lost where no more fit. */
static void park(struct sim_link *l, struct happening *h)
{
    h->next = NULL;
    *l->parked_end = h;
    l->parked_end = &h->next;
    l->fits--;
    world.counts.parked++;
}

/* ---- greetings ---- */

static void learn(struct sim_node *n, uint64_t id, struct id store)
{
    struct problem problem;
    if (id == (uint64_t)n->id || known_stores_find(&n->known, id) != NULL ||
        !known_stores_add(&n->known, id, store)) {
        return;
    }
    if (known_stores_save(&n->known, disk_fake_disk(n->fake), &problem) != STORAGE_OK) {
        node_fail(n, problem.text);
    }
}

/* S12.10, as node_stores.c does it. */

static void follow_members(struct sim_node *n)
{
    struct problem problem;
    uint64_t now[MAX_NODES];
    if (!n->members_changed || n->replica == NULL) {
        return;
    }
    n->members_changed = false;
    uint32_t count = replica_committed_ids(n->replica, now, MAX_NODES);
    struct known_members before = {n->committed_ids, n->committed_count};
    if (count > 0 && known_stores_follow(&n->known, before, (struct known_members){now, count}) &&
        known_stores_save(&n->known, disk_fake_disk(n->fake), &problem) != STORAGE_OK) {
        node_fail(n, problem.text);
    }
    memcpy(n->committed_ids, now, count * sizeof(now[0]));
    n->committed_count = count > 0 ? count : n->committed_count;
}

/* An only voter sends while it starts, before it is requested anything. */
static bool is_member(const struct sim_node *n, uint64_t id)
{
    return n->replica == NULL || replica_is_member(n->replica, id);
}

static bool hears(struct sim_node *n, const struct sim_node *other)
{
    struct replica_member any;
    uint64_t id = (uint64_t)other->id;
    follow_members(n);
    if (is_member(n, id) || replica_members(n->replica, &any, 1) == 0 ||
        (id > n->known.removed && known_stores_find(&n->known, id) != NULL)) {
        return true;
    }
    world.counts.not_heard++;
    trace("node %d does not hear node %d, which is no member", n->id, other->id);
    return false;
}

/* What a node knows of others' stores it tells to whoever it greets. */
static bool meet(struct sim_node *n, const struct sim_node *other)
{
    const struct known_store *known = known_stores_find(&n->known, (uint64_t)other->id);
    struct id store = other->store.meta.state.store;
    if (known != NULL && !id_equal(known->store, store)) {
        world.counts.refused_stores++;
        trace("node %d refuses node %d: it lost its disk", n->id, other->id);
        return false;
    }
    learn(n, (uint64_t)other->id, store);
    for (uint32_t i = 0; i < other->known.count; i++) {
        uint64_t id = other->known.at[i].node;
        if (id > n->known.removed || is_member(n, id)) {
            learn(n, id, other->known.at[i].store);
        }
    }
    return true;
}

/* S12.1: who is listened to has the disk that it was known by. */
static void check_store(const struct sim_node *n, const struct sim_node *other)
{
    for (uint32_t i = 0; i < n->known.count; i++) {
        if (n->known.at[i].node == (uint64_t)other->id &&
            !id_equal(n->known.at[i].store, other->store.meta.state.store)) {
            violation("node %d listens to node %d, which lost its disk (S12.1)", n->id, other->id);
        }
    }
}

static bool greet(struct sim_link *l, struct sim_node *from, struct sim_node *to)
{
    if (l->greeted && l->from_life == from->life && l->to_life == to->life) {
        return true;
    }
    if (!network_reaches(to->id, from->id) || from->failed || to->failed ||
        to->paused_until_us > world.now_us || !hears(to, from) || !meet(from, to) ||
        !meet(to, from)) {
        return false;
    }
    check_store(from, to);
    check_store(to, from);
    l->greeted = true;
    l->from_life = from->life;
    l->to_life = to->life;
    l->connection++;
    return true;
}

/* ---- messages ---- */

/* What a node has heard of cluster time, from the leader of the latest term (S1.2). */
static void note_time(struct sim_node *n, int from, const struct head *head)
{
    if (head->type == RAFT_APPEND_ENTRIES_RESULT) {
        n->answered_us[from] = world.now_us;
    }
    if ((head->type == RAFT_APPEND_ENTRIES || head->type == RAFT_INSTALL_SNAPSHOT) &&
        head->term >= terms_at(&n->memory, n->memory.last) && /* entries tell time, too */
        (head->term > n->heard_term ||
         (head->term == n->heard_term && head->cluster_ms > n->heard_ms))) {
        n->heard_term = head->term;
        n->heard_ms = head->cluster_ms;
    }
}

/* libraft answers a message of an earlier term with what the stack holds (E14): zeros, anything, or
 * the index of an entry. */
static __attribute__((noinline)) void leave_on_stack(const struct sim_node *n)
{
    volatile uint64_t left[512];
    const uint64_t some[] = {0, UINT64_MAX, n->memory.last + 1, n->memory.last + 50,
                             n->memory.base};
    uint64_t value = some[chance_below(5)];
    for (size_t i = 0; i < sizeof(left) / sizeof(left[0]); i++) {
        left[i] = value;
    }
}

static void deliver(struct happening *h)
{
    struct sim_node *n = &world.nodes[h->node];
    const struct sim_node *from = &world.nodes[h->from];
    const struct sim_link *l = &world.links[h->from][h->node];
    if (!node_is(h) || !from->up || from->life != h->from_life || l->cut || l->connection != h->a) {
        return;
    }
    if (!hears(n, from)) {
        return;
    }
    struct head head = head_of(slice_make(h->data, h->len));
    if (head.term < n->store.meta.state.term) {
        world.counts.late_messages++;
        trace("node %d of term %llu gets a message of term %llu of node %d: %s", n->id,
              ull(n->store.meta.state.term), ull(head.term), h->from, message_word(head.type));
        leave_on_stack(n);
    }
    trace_message(h->from, h->node, h->b, world.now_us, message_word(head.type));
    note_time(n, h->from, &head);
    struct promise_before before;
    promise_before(n, from, head.type, slice_make(h->data, h->len), &before);
    if (!replica_receive(n->replica, (uint64_t)h->from, slice_make(h->data, h->len),
                         node_time(n))) {
        violation("node %d refuses a message of node %d: %s", n->id, h->from,
                  replica_refusal(n->replica));
    }
    promise_after(n, from, &before);
    node_after(n);
}

static uint64_t delay_us(const struct sim_link *l)
{
    uint64_t us = 50 + chance_below(one_in(10) ? 5000 : 600);
    if (is_rough() && one_in(world.weather.slow_net)) {
        us += chance_below(150000);
    }
    if (world.now_us < l->slow_until_us) {
        us += 5000 + chance_below(80000);
    }
    return us;
}

void network_send(struct sim_node *n, uint64_t peer, struct slice message)
{
    if (peer == 0 || peer > MAX_NODES || !world.nodes[peer].used || n->failed) {
        return;
    }
    uint64_t type = type_of(message);
    promise_sent(n, peer, type, message);
    if (type == RAFT_INSTALL_SNAPSHOT) {
        corners_announcing(n, (int)peer);
    }
    struct sim_node *to = &world.nodes[peer];
    struct sim_link *l = &world.links[n->id][peer];
    if (!network_reaches(n->id, to->id) || !greet(l, n, to) ||
        (is_rough() && one_in(world.weather.loss))) {
        return;
    }
    if (l->stalled && l->fits == 0) {
        world.counts.lost_in_stall++;
        return;
    }
    struct happening *h;
    if (l->stalled) {
        h = happening_make(deliver, to->id);
        park(l, h);
    } else {
        uint64_t at = world.now_us + delay_us(l);
        l->last_us = at > l->last_us ? at : l->last_us;
        h = happen(l->last_us - world.now_us, deliver, to->id);
    }
    h->from = n->id;
    h->from_life = n->life;
    h->a = l->connection;
    h->b = world.now_us;
    h->data = malloc(message.len + 1);
    h->len = message.len;
    memcpy(h->data, message.data, message.len);
}
