/* Parameters of the query that searches share. */
#ifndef HOLDFAST_SERVICE_HTTP_QUERY_H
#define HOLDFAST_SERVICE_HTTP_QUERY_H

#include "service/request/api_request.h"

/* False: invalid; answered. An absent parameter leaves `*out` unchanged. */
bool query_text(struct api_request *x, const char *key, size_t max, struct slice *out);
/* Wall clock; a duration is so long ago. At most `latest_ms`. */
bool query_instant(struct api_request *x, const char *key, uint64_t latest_ms, uint64_t *out);

/* until must be after since; 0: not given. */
bool query_range(struct api_request *x, uint64_t since_ms, uint64_t until_ms);

#endif
