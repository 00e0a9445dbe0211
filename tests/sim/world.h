/* The simulated world: time, chance, a network and disks, and the nodes that live in it. One seed
 * decides everything. Nodes run the production replica, core and libraft; only the ports are faked.
 */
#ifndef HOLDFAST_TESTS_SIM_WORLD_H
#define HOLDFAST_TESTS_SIM_WORLD_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/core.h"
#include "core/entry.h"
#include "core/snapshot.h"
#include "replica/replica.h"

enum { MAX_NODES = 9, CLIENTS = 20, NAMES = 12 };

/* Something that will happen. `run` gets it and then it is freed. */
struct happening {
    uint64_t at_us;
    uint64_t number; /* breaks ties: first come, first served */
    void (*run)(struct happening *h);
    void (*drop)(struct happening *h); /* frees what `data` points to; may be NULL */
    int node;
    uint32_t life; /* of that node; another life ignores it */
    int from;
    uint32_t from_life;
    uint64_t a;
    uint64_t b;
    void *data;
    size_t len;
};

struct stored_entry {
    uint64_t term;
    uint16_t type;
    uint8_t *bytes;
    size_t len;
};

struct stored_snapshot {
    struct replica_snapshot about; /* members owned */
    uint8_t *bytes;
    size_t len;
};

/* What a crash leaves. */
struct disk {
    uint64_t term;
    uint64_t vote;
    uint64_t first;
    uint64_t count;
    uint64_t capacity;
    struct stored_entry *entries;
    struct stored_snapshot snapshot;
};

struct node {
    int id;
    bool used; /* part of the world */
    bool up;
    uint32_t life;
    struct replica *replica;
    struct disk disk;
    double rate;        /* of its clock, within S1.6 */
    uint64_t offset_us; /* of its boot */
    uint64_t last_io_us;
    uint64_t timer_us; /* when its timer is set to, on world time */
    char address[16];
};

struct options {
    uint64_t seed;
    uint64_t seconds; /* with faults; some quiet ones follow */
    bool trace;
    int nodes;
};

struct counts {
    uint64_t commands, granted, refused, unavailable, not_done, unknown, expired, crashes,
        elections, snapshots, installs, cuts, changes, transfers, entries, happenings,
        fence_refusals;
};

struct world {
    struct options options;
    uint64_t now_us;
    uint64_t random;
    uint64_t next_number;
    struct happening **heap;
    uint32_t heap_count;
    uint32_t heap_capacity;
    struct node nodes[MAX_NODES + 1];
    bool cut[MAX_NODES + 1][MAX_NODES + 1]; /* from, to */
    uint64_t last_delivery_us[MAX_NODES + 1][MAX_NODES + 1];
    bool faults;
    struct counts counts;
};

extern struct world world;

/* chance */
uint64_t chance(void);
uint64_t chance_below(uint64_t n);
bool one_in(uint64_t n);

/* time */
struct happening *happen(uint64_t in_us, void (*run)(struct happening *h), int node);
bool world_step(void); /* false when nothing more will happen */
void world_close(void);
struct replica_time node_time(const struct node *n);
void trace(const char *format, ...) __attribute__((format(printf, 1, 2)));
_Noreturn void violation(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* nodes.c */
void nodes_begin(int count);
void nodes_end(void);
void node_start(struct node *n);
void node_crash(struct node *n);
void node_after(struct node *n); /* after every call into its replica: timers */
struct node *leader_now(void);
void faults_schedule(void);
void faults_stop(void);

/* checks.c: what must be true across nodes */
void check_applied(const struct node *n, const struct event *event);
void check_state(const struct node *n);
void check_leader(const struct node *n, uint64_t term);
void check_granted(uint64_t token, uint64_t asked_us, uint64_t ttl_ms);
void checks_end(void);

/* clients.c */
void clients_begin(void);
void clients_result(const struct node *n, void *cookie, enum replica_outcome outcome,
                    const struct command *command, const struct result *result);
void clients_event(const struct node *n, const struct event *e);
uint64_t clients_done(void);

#endif
