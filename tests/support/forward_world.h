/* Forwarding among a replica, a tier and peers that the test controls, for tests: it brings their
 * functions itself, so nothing of theirs is linked. One world a program. To be included after
 * base_testing.h. */
#ifndef HOLDFAST_TESTS_FORWARD_WORLD_H
#define HOLDFAST_TESTS_FORWARD_WORLD_H

#include "node/forward/forward.h"
#include "node/forward/result_codec.h"

enum { FORWARD_MANY = 8192 };

/* What the fakes answer, and what they received. */
struct forward_fake {
    uint32_t tenant;    /* of acquires made by this world */
    uint32_t principal; /* the same */
    bool is_own;        /* gateway_call.is_own of its calls */
    struct replica_status status;
    enum hf_error submit_error;
    void *cookies[FORWARD_MANY];
    struct id leases[FORWARD_MANY];
    uint32_t submitted;
    uint8_t bytes[4096]; /* the command that was submitted last */
    size_t bytes_len;
    uint32_t barriers;
    uint64_t core_index;
    uint64_t now_ms;
    bool link_up;
    uint32_t protocol; /* of all links */
    uint64_t numbers[FORWARD_MANY];
    uint64_t peers[FORWARD_MANY];
    uint8_t kinds[FORWARD_MANY];
    uint32_t requests;
    uint8_t request[4096]; /* the last one */
    size_t request_len;
    uint8_t answer_status;
    uint32_t answers;
    struct buffer answer_body;
    enum tier_taken taken; /* what the tier EFFICIENCY says */
    bool tier_answers;     /* ... also to commands for CORRECTNESS, as with one of its tokens */
    bool tells_at_once;
    enum tier queried_tier;
    uint32_t offered;
    uint32_t proposed;
    uint32_t settled;
    uint8_t interest;
    uint32_t events;
    struct forward *forward;
    enum hf_error admission; /* what admission says */
    bool limits_tenant;      /* ... but `quota` of this tenant */
    uint32_t limited_tenant;
    enum hf_error quota;
    struct quota_tenant quota_tenant;
    uint32_t noted_refused;
    uint32_t tokens; /* taken of requests_per_second */
    uint64_t adds;
    bool no_majority;
    unsigned denies;               /* the right that every principal lacks; 0: none */
    uint32_t state_version;        /* 0: CORE_VERSION */
    uint64_t peer_state_max;       /* that peers said */
    uint32_t peer_version;         /* of the state, that peers support; 0: not known */
    uint8_t formats[FORWARD_MANY]; /* of the requests: their first byte */
};

extern struct forward_fake fake;

enum { DONE = 1, NOT_DONE = 2, UNKNOWN = 3, BUSY = 4, MALFORMED = 5, REFUSED = 6, EVENT = 7 };
enum { OWN = 0x40 }; /* added to the kind of a command */
enum { COMMAND = 1, BARRIER = 2, CHANGE = 3, MEMORY = 4, INTEREST = 5, LOOK = 6, CHECKED = 7 };

struct forwarded_call {
    struct gateway_call call;
    int answers;
    enum hf_error error;
    struct result result;
    bool has_result;
};

/* A forward of node 1 that gives up after three seconds; the second one has a tier EFFICIENCY. */
struct forward *forward_begin(void);
struct forward *forward_begin_with_tier(void);
/* With auth = on, too. */
struct forward *forward_begin_with_auth(void);
/* With a limit of the state, too. */
struct forward *forward_begin_with_limit(struct admission *admission);
void forward_end(struct forward *f);
uint64_t forward_memory_in_use(void); /* bytes */

/* This node leads; another one does (0: nobody). */
void forward_lead(void);
void forward_follow(struct forward *f, uint64_t leader);
/* Time passes. */
void forward_pass(struct forward *f, uint64_t ms);

void forward_make_acquire(struct command *command, uint64_t lease);
/* The same as bytes, of lease 5. */
struct slice forward_encode_acquire(uint8_t *buffer, size_t size);

/* What a `struct forwarded_call` is reported with. */
void forward_on_done(struct gateway_call *call, enum hf_error error, const struct result *result);
/* A client's call: an acquire, one in the tier EFFICIENCY, a barrier. */
void forward_request(struct forward *f, struct forwarded_call *made, uint64_t lease);
/* ... of a client on that connection (gateway_call.source). */
void forward_request_of(struct forward *f, struct forwarded_call *made, uint64_t source,
                        uint64_t lease);
void forward_request_memory(struct forward *f, struct forwarded_call *made, uint64_t lease);
void forward_request_barrier(struct forward *f, struct forwarded_call *made);
/* The peer's answer to the request with this place in `fake`. */
void forward_answer_remotely(struct forward *f, uint32_t request, uint8_t status, uint64_t token);

#endif
