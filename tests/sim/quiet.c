/* A pause of the faults after a corner: with a majority of voters up and whole links, somebody must
 * lead within seconds, and every voter that is up must have caught up. A dead-lock that only ends
 * by another fault is found so, where and when it was made (E15, E16, E17, E20). */
#include "world.h"

/* Some rounds of votes: an election timeout is 300 to 600 ms. */
enum { WINDOW_US = 4000000, CATCH_UP_US = 1000000 };

static const char *what;   /* the corner that it is about */
static uint64_t due_index; /* what every voter that is up must have committed at the end */

static void note_due_index(struct happening *h)
{
    const struct sim_node *leader = leader_now();
    due_index = leader == NULL ? 0 : leader->commit_index;
    (void)h;
}

/* A node that was down in the last half of the pause has an excuse. */
static void check_caught_up(const struct sim_node *leader)
{
    struct replica_member members[MAX_NODES];
    uint32_t count = replica_members(leader->replica, members, MAX_NODES);
    for (uint32_t i = 0; i < count; i++) {
        const struct sim_node *n = &world.nodes[members[i].id];
        bool was_up = n->up && !n->failed && !n->lost &&
                      (n->down_since_us == 0 || n->down_since_us + WINDOW_US / 2 < world.now_us);
        if (members[i].voter && was_up && n->commit_index < due_index) {
            violation("%d s after %s voter %d has committed %llu, leader %d had %llu %d s ago",
                      WINDOW_US / 1000000, what, n->id, ull(n->commit_index), leader->id,
                      ull(due_index), CATCH_UP_US / 1000000);
        }
    }
}

static void checker(struct happening *h)
{
    struct sim_node *down = &world.nodes[h->a];
    if (world.faults && world.counts.beheadings == 0) {
        world.counts.windows_checked += h->b;
        if (h->b != 0 && leader_now() == NULL) {
            violation("nobody leads %d s after %s, and most voters are up and hear each other",
                      WINDOW_US / 1000000, what);
        }
        if (h->b != 0) {
            check_caught_up(leader_now());
        }
        if (h->a != 0 && down->held_down) {
            down->held_down = false;
            (void)node_start(down);
        }
    }
}

static void begin(struct happening *h)
{
    if (!world.faults || !is_rough() || world.counts.beheadings > 0) {
        world.nodes[h->a].held_down = false;
        if (h->a != 0 && !world.nodes[h->a].up) {
            (void)node_start(&world.nodes[h->a]);
        }
        return;
    }
    what = h->data == NULL ? "a corner" : *(const char **)h->data;
    trace("the faults pause after %s", what);
    world.counts.windows++;
    world.quiet_until_us = world.now_us + WINDOW_US;
    for (int i = 1; i <= MAX_NODES; i++) {
        node_resume(&world.nodes[i]);
    }
    faults_mend();
    happen(WINDOW_US - CATCH_UP_US, note_due_index, 0);
    struct happening *next = happen(WINDOW_US, checker, 0);
    next->a = h->a;
    next->b = shadow_has_majority();
}

void quiet_after(uint64_t in_us, int down, const char *after_what)
{
    struct happening *h = happen(in_us, begin, 0);
    h->a = (uint64_t)down;
    h->data = malloc(sizeof(after_what));
    memcpy(h->data, &after_what, sizeof(after_what));
}
