/* A pause of the faults after a corner: with a majority of voters up and whole links, somebody must
 * lead within seconds. A dead-lock that only ends by another fault is found so, where and when it
 * was made (E15, E16, E20). */
#include "world.h"

/* Some rounds of votes: an election timeout is 300 to 600 ms. */
enum { WINDOW_US = 4000000 };

static const char *what; /* the corner that it is about */

static void judge(struct happening *h)
{
    struct node *down = &world.nodes[h->a];
    if (world.faults && world.counts.beheadings == 0) {
        world.counts.windows_judged += h->b;
        if (h->b != 0 && leader_now() == NULL) {
            violation("nobody leads %d s after %s, and most voters are up and hear each other",
                      WINDOW_US / 1000000, what);
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
    struct happening *next = happen(WINDOW_US, judge, 0);
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
