/* A request to the admin socket: makes an administrator of the cluster without credentials
 * (`holdfast auth bootstrap|rescue`). Without sockets.
 *
 *     {"op":"bootstrap","principal":"TENANT/NAME","sha256":"64 hexadecimal digits",
 *      "description":"..."}
 *     {"principal":"TENANT/NAME","version":7}   or   {"error":"policy_exists","message":"..."}
 *
 *     begin ─▶ BARRIER ─▶ CHANGE ──done──▶ ANSWERED
 *                 ▲          │
 *                 └─conflict─┘   at most ADMIN_TRIES times
 *
 * The barrier gives the version that the change is made for. So a change that is sent again is made
 * once: the second attempt conflicts, and then finds its own token. */
#ifndef HOLDFAST_NODE_ADMIN_ADMIN_REQUEST_H
#define HOLDFAST_NODE_ADMIN_ADMIN_REQUEST_H

#include "base/buffer.h"
#include "core/policy.h"
#include "service/gateway.h"
#include "wire/fault.h"

enum admin_state {
    ADMIN_NEW,
    ADMIN_BARRIER,      /* in flight */
    ADMIN_BARRIER_DONE, /* admin_request_run continues */
    ADMIN_CHANGE,       /* in flight */
    ADMIN_CHANGE_DONE,  /* admin_request_run continues */
    ADMIN_ANSWERED,
};

/* While `state` is BARRIER or CHANGE the gateway has `call`: it must stay. */
struct admin_request {
    const struct gateway *gateway;
    struct gateway_call call;
    enum admin_state state;
    uint32_t tries;
    uint32_t uid; /* of the client */
    enum policy_origin origin;
    char principal[PRINCIPAL_TEXT + 1];
    struct slice tenant; /* both in `principal` */
    struct slice name;
    uint8_t sha256[TOKEN_SHA_BYTES];
    char description[LIMIT_POLICY_TEXT + 1];
    enum hf_error error; /* of the step that is done */
    uint64_t version;    /* of the policy, after it */
    struct fault fault;  /* HF_OK: there is none */
};

enum { ADMIN_LINE_MAX = 8 << 10, ADMIN_ANSWER_MAX = 2 << 10 };

/* `line`: without its newline. `uid`: who wrote it, for the audit trail. Afterwards it is in flight
 * or answered. `gateway` NULL: the node does not serve yet. */
void admin_request_begin(struct admin_request *r, const struct gateway *gateway, struct slice line,
                         uint32_t uid);
/* Outside of the gateway's callbacks; whenever it may have changed. */
void admin_request_run(struct admin_request *r);
static inline bool admin_request_is_due(const struct admin_request *r)
{
    return r->state == ADMIN_BARRIER_DONE || r->state == ADMIN_CHANGE_DONE;
}
/* Of an answered one: a line with its newline. */
void admin_request_answer(const struct admin_request *r, struct buffer *out);

#endif
