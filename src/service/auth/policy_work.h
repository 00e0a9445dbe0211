/* A change of the policy by a request: kept with the request until its answer. */
#ifndef HOLDFAST_SERVICE_AUTH_POLICY_WORK_H
#define HOLDFAST_SERVICE_AUTH_POLICY_WORK_H

#include "service/auth/document.h"
#include "service/request/api_request.h"

enum { SECRET_TEXT = 46 }; /* "hf_" and 43 characters of base64url */

struct policy_work {
    struct list link; /* in service.policy_work: after its barrier */
    struct api_request *x;
    struct policy_document *document; /* of PUT policy */
    bool is_dry;
    bool ends_sessions;
    struct buffer texts; /* one line for each change */
    uint64_t version;    /* of the policy that the changes were made for */
    char secret[SECRET_TEXT + 1];
    uint64_t expires_ms;
};

/* Owned by the request. */
struct policy_work *policy_work_new(struct api_request *x);
/* policy_work_free (api_request.h) frees it. */

/* Who makes the change, for the audit trail. `text` stores it. */
struct slice policy_actor(const struct api_request *x, uint8_t text[PRINCIPAL_TEXT]);

#endif
