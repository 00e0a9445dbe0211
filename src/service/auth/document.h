/* The policy as a JSON document: `auth show` and `auth apply`. A document is the whole policy
 * without its tokens; the difference to the policy in force becomes one policy_change. */
#ifndef HOLDFAST_SERVICE_AUTH_DOCUMENT_H
#define HOLDFAST_SERVICE_AUTH_DOCUMENT_H

#include "core/policy.h"
#include "wire/fault.h"
#include "wire/json_write.h"

struct policy_document;

/* Writes the members of the object: version, tenants, principals, barred_serials. */
void document_write(const struct policy *p, struct json_writer *w);

/* Reads and checks the form; NULL: `fault` is the error. */
struct policy_document *document_new(const struct memory *memory, struct slice text,
                                     struct fault *fault);
void document_free(struct policy_document *d);
/* The version that the document was made from; UINT64_MAX: not given. */
uint64_t document_version(const struct policy_document *d);

/* Some principal has `admin` on the cluster. */
bool document_has_administrator(const struct policy_document *d);

/* The changes that lead from the policy to the document, in an order in which they can be applied.
 * `texts` gets one line for each, with a newline at its end. The list is valid until the next call
 * and document_free. */
enum hf_error document_compare(struct policy_document *d, const struct policy *p,
                               struct packed *changes, struct buffer *texts, struct fault *fault);

/* Splits TENANT/NAME; false: it is not of that form. */
bool document_split(struct slice text, struct slice *tenant, struct slice *name);
/* Shared with policy_api.c: "*" for an empty prefix. */
void document_put_grant(const struct policy *p, const struct policy_grant_view *grant,
                        struct json_writer *w);

#endif
