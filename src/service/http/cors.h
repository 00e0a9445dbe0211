/* Web pages that members serve: which of them may use the API of this node (CORS), and what such a
 * page may load itself (CSP).
 *
 * The dashboard goes on with another member when its node ends, so a page whose origin is a member's
 * client address may read answers and send writes. Pages of other origins get no CORS header, and
 * their writes are refused. */
#ifndef HOLDFAST_SERVICE_HTTP_CORS_H
#define HOLDFAST_SERVICE_HTTP_CORS_H

#include "service/request/api_request.h"

enum {
    CORS_HEADERS = 5,         /* at most, in an answer */
    CORS_PAGE_HEADERS = 4,    /* of a page */
    CORS_POLICY_MAX = 8 << 10 /* bytes of a Content-Security-Policy, with its end */
};

/* Sets x->page_origin if the request comes from a page of a member. */
void cors_note_origin(struct api_request *x);
void cors_close(struct api_request *x);

/* The CORS headers of an answer: none without x->page_origin. Returns their number. They are valid
 * until the request is closed. `allow`: the methods, for the answer to OPTIONS. */
size_t cors_headers(const struct api_request *x, const char *allow,
                    struct http1_extra out[CORS_HEADERS]);

/* The headers of a page. `policy` has the Content-Security-Policy, and must stay valid. */
size_t cors_page_headers(const struct service *s, char policy[CORS_POLICY_MAX],
                         struct http1_extra out[CORS_PAGE_HEADERS]);

#endif
