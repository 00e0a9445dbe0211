/* A gateway for tests: a real core without a cluster around it.
 *
 * Commands are queued, as a gateway must, and applied by fake_gateway_deliver: all of them in one
 * log entry. The test can make it hold them, to fail them, to fail them after having done them, and to
 * let results come later than the events of the same entry, as happens on a follower. Time stands
 * still until the test lets it pass. */
#ifndef HOLDFAST_TESTS_FAKE_GATEWAY_H
#define HOLDFAST_TESTS_FAKE_GATEWAY_H

#include "service/service.h"

struct fake_call {
    struct fake_call *next;
    struct gateway_call *call;
    bool is_barrier;
    bool is_applied; /* and `result` waits */
    struct slice look;
    struct result result;
    struct command command;
    size_t len;
    uint8_t bytes[]; /* that `command` was decoded from, then the query of the call */
};

struct fake_gateway {
    struct gateway gateway;
    struct core *core;
    struct service *service; /* gets the events; may be NULL */
    struct fake_call *first;
    struct fake_call *last;
    uint64_t index;
    uint64_t cluster_ms;
    uint64_t wall_ms;
    uint64_t boot_ms;
    uint64_t drawn; /* random ids so far */
    bool is_inside; /* results are being reported: nothing may be submitted */
    bool is_older;  /* the leader does not support the checks of keep-alives */
    struct gateway_status status;
    struct gateway_events events;
    /* The change of members that was requested last; the test answers it. */
    struct gateway_change_call *change;
    enum gateway_change change_kind;
    uint64_t change_id;
    char change_address[64];
    /* The snapshots that were requested: the test gives them with fake_gateway_give. */
    struct gateway_snapshot_call *snapshots[4];
    uint32_t snapshot_count; /* open now, given or not */
    uint64_t snapshot_reads;
    bool snapshot_breaks; /* its bytes cannot be read */
    /* The search in the event log that was requested last; the test answers it. */
    struct gateway_scan_call *scan; /* NULL: none, or cancelled */
    struct event_scan scanned;      /* without the texts of its slices */
    uint64_t scans;
    /* Gets every event of the core; NULL: nobody does. */
    void (*on_event)(void *ctx, const struct event *event);
    void *on_event_ctx;
    /* What is to happen to commands. */
    bool is_held;        /* not delivered */
    bool is_late;        /* applied, but their results wait for fake_gateway_tell */
    enum hf_error fails; /* answered with this instead of being applied */
    bool does_before;    /* ... after having been applied */
    /* What has happened. */
    uint64_t submitted[COMMAND_COUNT];
    uint64_t barriers;
    uint64_t entries;
};

void fake_gateway_open(struct fake_gateway *g);
/* Replaces the core by an empty one of this version. */
void fake_gateway_start_over(struct fake_gateway *g, uint32_t version);
void fake_gateway_close(struct fake_gateway *g);

/* Applies and answers what was submitted; says whether there was anything. */
bool fake_gateway_deliver(struct fake_gateway *g);
/* Tells the results that came late. */
void fake_gateway_tell(struct fake_gateway *g);

/* All snapshots that were requested are there, with so many bytes. */
void fake_gateway_give(struct fake_gateway *g, uint64_t bytes);
/* What they hold. */
static inline uint8_t fake_snapshot_byte(uint64_t offset)
{
    return (uint8_t)(offset * 31 + offset / 4099);
}

/* Lets time pass everywhere, and what is due by then happen. */
void fake_gateway_pass(struct fake_gateway *g, uint64_t ms);

/* Applies a command of somebody else: another node, another client. */
void fake_gateway_apply(struct fake_gateway *g, const struct command *command, struct result *out);

#endif
