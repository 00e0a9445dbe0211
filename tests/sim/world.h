/* The simulated world: time, chance, a network, disks, and the nodes and clients that live in it.
 * One seed decides everything. Nodes run the production core, replica, storage and libraft; what is
 * faked is the disk under the storage, the connections and the clock.
 *
 *   world.c     time and chance: what happens next            arena.c     its memory
 *   weather.c   how bad the faults of this seed are; faults.c and corners*.c make them
 *   quiet.c     a pause of the faults, in which somebody must come to lead
 *   members.c   the operator of the cluster
 *   network.c   connections between nodes          disk.c      the disk's thread of a node
 *   node.c      one node's life and its timers     snapshot.c  snapshots taken and fetched
 *   client*.c   who uses the locks                 history.c   what they saw, to be checked
 *   checks.c    what must be true across nodes     truth.c     ... of grants, queues and leases
 *   promises.c  what messages promise              shadow.c    what each node promised to keep
 *   same_entries.c  one entry for each index and term
 *   tier.c      the tier EFFICIENCY of a leader    tier_truth.c  ... and what is true of it
 *   keys.c      keys of transactions, in log order
 *   times.c     true times, max_hold, long-held rules, if_token (S16)
 *   principals.c    principals that are narrowed and removed while they hold and wait
 *   trace.c     words and a picture of what happened */
#ifndef HOLDFAST_TESTS_SIM_WORLD_H
#define HOLDFAST_TESTS_SIM_WORLD_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "core/core.h"
#include "disk_fake.h"
#include "node/peers/known_stores.h"
#include "replica/replica.h"
#include "storage/store.h"

enum {
    MAX_FIRST = 7,  /* voters that a world begins with */
    MAX_NODES = 24, /* ids, which are never used again (S12.1) */
    CLIENTS = 20,
    NAMES = 40,
    SLOTS = 4096, /* of the wheel of what will happen, about a second */
    SLOT_US = 256,
    SAID_MAX = 200,
};

/* Something that will happen. `run` gets it and then it is freed. */
struct happening {
    struct happening *next; /* in its slot of the wheel */
    uint64_t at_us;
    uint64_t number; /* breaks ties: first come, first served */
    void (*run)(struct happening *h);
    int node;        /* 0: of nobody; else it waits while that node is paused */
    bool is_delayed; /* by a pause */
    uint32_t life;   /* of that node; another life ignores it */
    int from;
    uint32_t from_life;
    uint64_t a;
    uint64_t b;
    void *data; /* freed with it */
    size_t len;
};

/* Terms of log entries by index, from `base` + 1 to `last`; what is at or below `base` is in a
 * snapshot. */
struct terms {
    uint64_t base;
    uint64_t base_term;
    uint64_t last;
    uint32_t *at; /* by index */
    uint64_t capacity;
};

struct disk_queue;
struct taking;
struct fetching;
struct memory_tier;
struct tier_truth;

struct sim_node {
    int id;
    bool used; /* part of the world */
    bool up;
    bool flipped;   /* a bit of its disk was changed while it was down */
    bool lost;      /* its disk is gone or damaged: it is to be replaced */
    bool held_down; /* until most of the healing is over */
    bool failed;    /* a call of its storage failed: it dies when the call is over */
    uint32_t life;
    char address[16];

    /* Clock. */
    double rate;        /* within S1.6 */
    uint64_t offset_us; /* of its boot */
    uint64_t wall_ms;   /* how far its wall clock is off; jumps */
    uint64_t timer_us;  /* when its timer is set to, on world time */
    uint64_t paused_until_us;
    uint64_t paused_for_us;
    uint64_t heard_term; /* the highest cluster time that a leader sent to it in this life */
    uint64_t heard_ms;
    uint64_t serving_since_us; /* on world time, 0: it does not serve */
    uint64_t commit_index;     /* the highest of this life */
    uint32_t pre_votes;        /* by bit: who would vote for it in the next term */
    uint64_t ordered_to_stand; /* the term in which the leader ordered it to */
    uint64_t looked_at;        /* the index at which its state was compared last in this life */
    uint64_t timers_since_us;  /* how often its timer came since then: is it always due? */
    uint32_t timers;

    struct replica *replica;
    struct memory_tier *tier;      /* EFFICIENCY, see tier.c */
    struct tier_truth *tier_truth; /* NULL: it does not lead */
    uint64_t tier_term;
    bool tier_proposed;
    uint64_t tier_taken;                 /* commands */
    uint64_t answered_us[MAX_NODES + 1]; /* when each other one last answered it; 0: never */
    struct disk_fake *fake;
    struct store store;
    struct known_stores known;
    bool members_changed;
    uint64_t committed_ids[MAX_NODES];
    uint32_t committed_count;
    struct disk_queue *queue;
    struct log_piece piece; /* read ahead */
    uint64_t slow_until_us; /* its disk */
    uint64_t slow_us;
    uint64_t full_until_us; /* 0: there is space */
    uint64_t snapshot_bytes;
    struct taking *taking;
    struct fetching *fetching;
    uint64_t drop_before;
    uint64_t up_since_us;
    uint64_t down_since_us;
    uint32_t declared[MAX_NODES + 1]; /* lives of others that it said are gone */

    struct terms memory;  /* the log as the engine knows it */
    struct terms durable; /* ... as the disk has promised it */
    struct {
        uint64_t index;
        uint8_t *bytes;
        size_t len;
    } changes[64]; /* the membership entries of that log, oldest first, the snapshot's too */
    uint32_t change_count;
    bool members_moved;
};

/* One direction between two nodes. */
struct sim_link {
    bool cut;
    bool greeted;
    uint64_t cut_until_us;
    uint32_t from_life; /* of the two ends, as they greeted */
    uint32_t to_life;
    uint32_t connection; /* rises when it breaks */
    uint64_t usable_us;
    uint64_t last_us; /* the last delivery: they stay in order */
    uint64_t slow_until_us;
    bool stalled;      /* what is sent stays in the sockets of both ends, see network.c */
    uint32_t in_stall; /* rises with each stall */
    uint32_t fits;     /* so many more messages, what comes then is lost */
    struct happening *parked;
    struct happening **parked_end;
};

/* How often each fault comes; 0: never. Times are means, in microseconds. */
struct weather {
    uint64_t loss;      /* one message in so many */
    uint64_t slow_net;  /* one message in so many takes up to 150 ms */
    uint64_t slow_link; /* every so often a link is slow for a while */
    uint64_t slow_write;
    uint64_t slow_disk; /* every so often a disk takes up to 400 ms a write, for a while */
    uint64_t full;
    uint64_t crash;
    uint64_t power; /* one crash in so many is a power cut */
    uint64_t blackout;
    uint64_t stop; /* every so often a disk stops after a few operations */
    uint64_t cut;
    uint64_t cut_for;
    uint64_t isolate; /* a node, often the leader, from all others */
    uint64_t corner;  /* a change of members that only one follower gets, see corners.c */
    uint64_t broken;  /* connections */
    uint64_t pause;
    uint64_t pause_for;
    uint64_t jump; /* of a wall clock */
    uint64_t change;
    uint64_t loss_of_disk; /* a disk is wiped, or a bit of it flips */
    uint64_t snapshot_bytes;
    uint64_t calm; /* clients rest for a while */
    uint64_t transfer;
    bool beheads;            /* see corners.c */
    uint64_t target;         /* every so often the operator wants other numbers of members */
    uint64_t small;          /* changes of few voters, see corners_small.c */
    uint64_t stall;          /* a link, see corners_late.c */
    uint64_t late;           /* messages over terms */
    uint64_t kill_installer; /* one fetch of a snapshot in so many loses its source */
    bool own_snapshots;      /* each node takes snapshots at its own pace */
    bool low_addresses;      /* see heap.c */
    uint64_t think_us; /* between two commands of a client; one time in ten ten times as long */
};

struct sim_options {
    uint64_t seed;
    uint64_t seconds; /* with faults; some quiet ones follow */
    bool trace;
    bool calm;            /* no faults */
    const char *overlook; /* rules whose breach is only counted, such as "E13,E19"; NULL: none */
    const char *picture;  /* where to; NULL: beside the seed's number; "": nowhere */
    char *said;           /* SAID_MAX bytes for the words of a violation, or NULL */
};

/* All of one type, so that they can be summed as an array. */
struct counts {
    uint64_t happenings, commands, answers, granted, refused, expired, unavailable, unknown,
        retries, reads, entries, elections, crashes, power_cuts, blackouts, stops, cuts, isolations,
        corners, beheadings, pauses, slow_disks, full_disks, flips, damage_found, wiped,
        refused_stores, not_heard, snapshots, installs, abandoned, changes, transfers,
        leader_removals, stale_writes, fence_checks, fence_rejections, taken, raised, conflicts,
        built, histories, undecided, late_us, tier_granted, tier_wrong, tier_later, tier_lost,
        tier_reserved, tier_of_block, key_changes, key_conflicts, overlooked, small_worlds,
        retargets, promotions_cut, leaders_left, leaders_refused, transfers_in_change,
        voters_cut_power, stalls, parked, lost_in_stall, late_messages, rivals, rivals_won,
        late_pre_votes, candidates_cut, installs_beheaded, windows, windows_checked, sole_voter_us,
        two_voters_us, kept_down, late_timeouts, answers_lost, policy_changes, revocations,
        revocations_answered, granted_to_principals, waits_denied, denied, max_holds, long_held,
        token_mismatches, if_tokens;
};

struct world {
    struct sim_options options;
    struct weather weather;
    uint64_t now_us;
    uint64_t random;
    uint64_t next_number;
    struct happening *wheel[SLOTS]; /* see world.c */
    uint64_t waiting;               /* how many are in it */
    struct sim_node nodes[MAX_NODES + 1];
    struct sim_link links[MAX_NODES + 1][MAX_NODES + 1]; /* from, to */
    struct id cluster;
    bool faults;
    uint64_t quiet_until_us;       /* no faults until then, see quiet.c */
    uint64_t undisturbed_until_us; /* ... but those of a corner */
    uint32_t target_voters;        /* what the operator wants, see members.c */
    uint32_t target_learners;
    uint32_t to_behead; /* so many leaders die as soon as they are elected */
    uint64_t newest_us; /* since when the state is of the newest version; 0: it is not */
    uint64_t calm_until_us;
    struct counts counts;
};

extern struct world world;

/* ---- world.c ---- */
uint64_t chance(void);
uint64_t chance_below(uint64_t n);
bool one_in(uint64_t n); /* 0: never */
/* Something between nothing and twice the mean. */
uint64_t about(uint64_t mean);
struct happening *happen(uint64_t in_us, void (*run)(struct happening *h), int node);
/* The same in two steps, for what has to wait for something else first. */
struct happening *happening_make(void (*run)(struct happening *h), int node);
void happening_push(struct happening *h, uint64_t in_us);
/* What is to happen at a node happens at the end of its pause. A longer pause is not shortened. */
void node_pause(struct sim_node *n, uint64_t for_us);
/* Ends its pause now. */
void node_resume(struct sim_node *n);
bool world_step(void); /* false when nothing more will happen */
void world_close(void);

/* ---- weather.c, faults.c, corners.c, members.c ---- */
void weather_draw(struct weather *w);
void faults_schedule(void);
void faults_stop(void);
void faults_release(void); /* whom faults_stop left down */
void faults_mend(void);    /* what is broken now; who is down starts */
int some_node(void);       /* that is up; 0: there is none */
void corners_make(struct happening *h);
void corners_schedule(void);
void corners_elected(const struct sim_node *n);
bool members_change_now(struct sim_node *leader);
enum hf_error members_change(struct sim_node *leader, enum replica_change what, uint64_t id);
bool members_add(struct sim_node *leader);
void members_retire(struct sim_node *leader,
                    bool remove); /* transfers, and the next leader does it */
uint32_t members_voters(const struct sim_node *leader);
int members_other_voter(const struct sim_node *leader, int except);
int members_learner(const struct sim_node *leader);
void members_retarget(struct happening *h);
bool members_are_stuck(void);
void members_transfer(struct sim_node *leader, uint64_t to);
void members_schedule(void);

/* ---- quiet.c: whether there is a leader when nothing more goes wrong ---- */
/* From then on no faults for a few seconds, all links are whole and all nodes up but `down` (0:
 * none). If a majority of voters is up, somebody must lead at the end of it, and every voter that
 * is up must have caught up. */
void quiet_after(uint64_t in_us, int down, const char *after_what);

/* ---- corners_small.c, corners_transfer.c, corners_late.c ---- */
void corners_small(struct happening *h);
void corners_transfer(struct sim_node *leader);
void corners_stall(struct happening *h);
void corners_late(struct happening *h);
void corners_stood(const struct sim_node *n, uint64_t term);      /* it votes for itself */
void corners_led(const struct sim_node *n, uint64_t term);        /* it is elected */
void corners_fetching(const struct sim_node *n, uint64_t source); /* a snapshot */
void corners_announcing(const struct sim_node *n, int to);        /* ... that it has one */
void corners_late_begin(void);

/* ---- heap.c ---- */
void heap_begin(void);

/* ---- network.c ---- */
void network_send(struct sim_node *n, uint64_t peer, struct slice message);
bool network_reaches(int from, int to);  /* a byte that is sent now would arrive */
bool network_is_quick(int from, int to); /* ... and soon */
void network_break(int one, int other);
void network_cut(int from, int to, uint64_t for_us); /* one way */
void network_cut_off(int node, uint64_t for_us);     /* from and to all others */
/* What is sent from now on waits in the sockets, `fits` messages of it, until it is released: then
 * it arrives, in order. */
void network_stall(int from, int to, uint32_t fits, uint64_t for_us);
void network_release(int from, int to);
void network_end(void);

/* Whether faults of single messages and writes come now. */
static inline bool is_rough(void)
{
    return world.faults && world.now_us >= world.quiet_until_us;
}

/* ---- disk.c ---- */
bool disk_begin(struct sim_node *n, struct problem *problem); /* opens the store */
void disk_crash(struct sim_node *n, bool power);              /* and closes it */
void disk_write_entries(struct sim_node *n, uint64_t first, const struct replica_entry *entries,
                        uint32_t count);
bool disk_read_entry(struct sim_node *n, uint64_t index, struct replica_entry *out);
/* Work in order with the writes; `done` comes on time, unless the node dies before. */
typedef enum storage_status (*disk_work_fn)(struct sim_node *n, struct problem *problem);
typedef void (*disk_done_fn)(struct sim_node *n, enum storage_status status);
void disk_run(struct sim_node *n, disk_work_fn work, disk_done_fn done);
/* The lowest index that a write on its way touches; UINT64_MAX: there is none. */
uint64_t disk_pending_from(const struct sim_node *n);
void disk_idle(struct sim_node *n); /* now and then: prepares, seals */

/* ---- snapshot.c ---- */
void snapshot_take(struct sim_node *n, const struct core *core,
                   const struct replica_snapshot *about);
void snapshot_fetch(struct sim_node *n, uint64_t peer, const struct replica_snapshot *about);
uint64_t snapshot_fetched_index(const struct sim_node *n); /* its index; 0: none is */
void snapshot_forget(struct sim_node *n);                  /* at a crash */
void snapshot_drop_log(struct sim_node *n);
uint64_t snapshot_trigger(const struct sim_node *n); /* bytes of log until the next one */

/* ---- node.c ---- */
void nodes_begin(void);
void nodes_end(void);
void node_make(int id);
bool node_start(struct sim_node *n); /* false: its disk is damaged, or full */
void node_crash(struct sim_node *n, bool power);
void node_fail(struct sim_node *n, const char *why); /* a storage call failed */
void node_after(struct sim_node *n);                 /* after every call into its replica */
bool node_is(const struct happening *h);             /* still the same life, and up */
struct replica_time node_time(const struct sim_node *n);
struct sim_node *leader_now(void);
uint32_t node_members(const struct sim_node *n, struct replica_member out[MAX_NODES]);

/* ---- shadow.c ---- */
void terms_put(struct terms *t, uint64_t first, const struct replica_entry *entries,
               uint32_t count);
void terms_reset(struct terms *t, uint64_t base, uint64_t base_term);
bool terms_has(const struct terms *t, uint64_t index, uint64_t term);
uint64_t terms_at(const struct terms *t, uint64_t index); /* 0: not there */
/* Holds what the disk has, after a start, against what it promised. */
void shadow_opened(struct sim_node *n, const struct replica_start *found);
void shadow_wrote(struct sim_node *n, uint64_t first, const struct replica_entry *entries,
                  uint32_t count);
void shadow_check_change(const struct sim_node *n, uint64_t index, struct slice bytes);
void shadow_note_change(struct sim_node *n, uint64_t index, struct slice bytes);
void shadow_truncated(struct sim_node *n, uint64_t first);
void shadow_reset_changes(struct sim_node *n);
void shadow_check_members(struct sim_node *n);
bool shadow_has_majority(void); /* without those that are lost or held down */
void shadow_free(struct sim_node *n);

/* ---- checks.c ---- */
void check_event(const struct sim_node *n, const struct event *event);
void check_node(struct sim_node *n);
void check_snapshot(const struct sim_node *n, const struct core *core,
                    const struct replica_snapshot *about);
bool check_all_agree(char *why, size_t size);
uint64_t check_committed(void); /* the highest index that is, anywhere */
void checks_end(void);

/* ---- promises.c: of messages, by their type ---- */
struct promise_before {
    uint64_t term;
    bool is_stale; /* it answers a call that is over */
};
void promise_sent(struct sim_node *n, uint64_t peer, uint64_t type, struct slice message);
void promise_before(struct sim_node *n, const struct sim_node *from, uint64_t type,
                    struct slice message, struct promise_before *b);
void promise_after(const struct sim_node *n, const struct sim_node *from,
                   const struct promise_before *b);
/* Before term and vote go to the disk. */
void promise_vote(struct sim_node *n, uint64_t term, uint64_t vote);

/* ---- same_entries.c ---- */
void same_entries_written(const struct sim_node *n, uint64_t first,
                          const struct replica_entry *entries, uint32_t count);
void same_entries_end(void);

/* ---- truth.c: on the first sight of each event, in log order ---- */
void truth_event(const struct event *event);
bool truth_has_grant(uint64_t token, uint32_t name);
bool truth_is_held(uint32_t name);
uint64_t truth_holder(uint32_t name); /* its token; 0: none */
uint64_t truth_last_token(void);
void truth_fence(uint32_t resource, uint64_t index, uint64_t token, bool accepted);
void truth_watch(void); /* every 50 ms: whether what is due is done */
void truth_end(void);

/* ---- clients.c ---- */
void clients_begin(void);
void clients_result(struct sim_node *n, void *cookie, enum replica_outcome outcome,
                    const struct result *result);
/* Of the leader's tier EFFICIENCY. */
void clients_tier_result(struct sim_node *n, void *cookie, const struct result *result);
void clients_tier_event(const struct sim_node *leader, const struct event *event);
void clients_barrier(struct sim_node *n, void *cookie, bool reached);
void clients_event(const struct sim_node *n, const struct event *event);
void clients_node_died(const struct sim_node *n);
void clients_stop(void);
uint64_t clients_least_done(void); /* answers that the unluckiest client got */
bool clients_safe_until(uint64_t token, uint64_t *safe_us, int *client);
void clients_check(void); /* the whole history */
void clients_end(void);

/* ---- trace.c ---- */
void trace(const char *format, ...) __attribute__((format(printf, 1, 2)));
_Noreturn void violation(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The same for a numbered rule of the engine (engine.h), after which the world can go on. */
void breach(const char *rule, const char *format, ...) __attribute__((format(printf, 2, 3)));
void trace_message(int from, int to, uint64_t sent_us, uint64_t arrived_us, const char *what);
void trace_mark(int node, const char *what);
void trace_hold(uint32_t name, uint64_t token, bool begins);

static inline unsigned long long ull(uint64_t n)
{
    return (unsigned long long)n;
}

#endif
