/* Shared rules of acquire, release and renew: locks, elections, seed 001, gRPC. */
#ifndef HOLDFAST_SERVICE_REQUEST_ACQUIRE_H
#define HOLDFAST_SERVICE_REQUEST_ACQUIRE_H

#include "service/http/body.h"

/* Reads all but the names. False: refused and answered. */
bool acquire_read(struct api_request *x, const struct body *b, struct command *c,
                  bool *keeps_place);

/* The field, or else the header traceparent. A header that is not valid is left out, as W3C Trace Context
 * says; a field that is not is refused. */
struct slice acquire_trace(const struct api_request *x, const struct body *b);

/* Submits the command of acquire_read, or withdraws it (S7.5). */
void acquire_submit(struct api_request *x, const struct body *b, struct command *c,
                    bool keeps_place, render_fn render);

/* Held now; a replayed grant may be over. */
bool acquire_is_held(const struct result *r);
/* Why it is not held; a replayed grant may be over. */
enum reason acquire_reason(const struct result *r);

/* The grant, or the reason and the current holder. */
void acquire_grant(struct api_request *x, const struct result *r, struct json_writer *w);
void acquire_refusal(struct api_request *x, const struct result *r, struct json_writer *w);

/* By name and token, or lease id; see api_holder.c. */
void holder_release(struct api_request *x, const struct body *b, struct slice name,
                    render_fn render);
void holder_renew(struct api_request *x, const struct body *b, struct slice name, render_fn render);

/* See api_fence.c. */
void fence_check(struct api_request *x, const struct body *b, render_fn render);

#endif
