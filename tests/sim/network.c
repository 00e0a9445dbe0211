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
    const struct link *l = &world.links[from][to];
    return world.nodes[from].up && world.nodes[to].up && !l->cut && world.now_us >= l->usable_us;
}

void network_break(int one, int other)
{
    struct link *both[] = {&world.links[one][other], &world.links[other][one]};
    for (int i = 0; i < 2; i++) {
        both[i]->greeted = false;
        both[i]->connection++;
        both[i]->usable_us = world.now_us + 1000 + chance_below(50000);
    }
}

static void heal(struct happening *h)
{
    world.links[h->a][h->b].cut = false;
}

void network_cut(int from, int to, uint64_t for_us)
{
    world.links[from][to].cut = true;
    struct happening *h = happen(for_us, heal, 0);
    h->a = (uint64_t)from;
    h->b = (uint64_t)to;
}

/* ---- greetings ---- */

static void learn(struct node *n, uint64_t id, struct id store)
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

/* What a node knows of others' stores it tells to whoever it greets. */
static bool meet(struct node *n, const struct node *other)
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
        learn(n, other->known.at[i].node, other->known.at[i].store);
    }
    return true;
}

/* S12.1: who is listened to has the disk that it was known by. */
static void check_store(const struct node *n, const struct node *other)
{
    for (uint32_t i = 0; i < n->known.count; i++) {
        if (n->known.at[i].node == (uint64_t)other->id &&
            !id_equal(n->known.at[i].store, other->store.meta.state.store)) {
            violation("node %d listens to node %d, which lost its disk (S12.1)", n->id, other->id);
        }
    }
}

static bool greet(struct link *l, struct node *from, struct node *to)
{
    if (l->greeted && l->from_life == from->life && l->to_life == to->life) {
        return true;
    }
    if (!network_reaches(to->id, from->id) || from->failed || to->failed ||
        to->paused_until_us > world.now_us || !meet(from, to) || !meet(to, from)) {
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
static void note_time(struct node *n, int from, const struct head *head)
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

static void deliver(struct happening *h)
{
    struct node *n = &world.nodes[h->node];
    const struct node *from = &world.nodes[h->from];
    const struct link *l = &world.links[h->from][h->node];
    if (!node_is(h) || !from->up || from->life != h->from_life || l->cut || l->connection != h->a) {
        return;
    }
    struct head head = head_of(slice_make(h->data, h->len));
    trace_message(h->from, h->node, h->b, world.now_us, message_word(head.type));
    note_time(n, h->from, &head);
    if (!replica_receive(n->replica, (uint64_t)h->from, slice_make(h->data, h->len),
                         node_time(n))) {
        violation("node %d could not read a message of node %d", n->id, h->from);
    }
    node_after(n);
}

static uint64_t delay_us(const struct link *l)
{
    uint64_t us = 50 + chance_below(one_in(10) ? 5000 : 600);
    if (world.faults && one_in(world.weather.slow_net)) {
        us += chance_below(150000);
    }
    if (world.now_us < l->slow_until_us) {
        us += 5000 + chance_below(80000);
    }
    return us;
}

void network_send(struct node *n, uint64_t peer, struct slice message)
{
    if (peer == 0 || peer > MAX_NODES || !world.nodes[peer].used || n->failed) {
        return;
    }
    uint64_t type = type_of(message);
    if (type == RAFT_APPEND_ENTRIES_RESULT || type == RAFT_REQUEST_VOTE_RESULT) {
        check_promise(n, peer, message);
    }
    struct node *to = &world.nodes[peer];
    struct link *l = &world.links[n->id][peer];
    if (!network_reaches(n->id, to->id) || !greet(l, n, to) ||
        (world.faults && one_in(world.weather.loss))) {
        return;
    }
    uint64_t at = world.now_us + delay_us(l);
    l->last_us = at > l->last_us ? at : l->last_us;
    struct happening *h = happen(l->last_us - world.now_us, deliver, to->id);
    h->from = n->id;
    h->from_life = n->life;
    h->a = l->connection;
    h->b = world.now_us;
    h->data = malloc(message.len + 1);
    h->len = message.len;
    memcpy(h->data, message.data, message.len);
}
