/* Who the bench is: what each protocol sends as token and tenant. One for the process, as its
 * flags; protocols of other systems (bench/peers) send nothing. */
#ifndef HOLDFAST_BENCH_IDENTITY_H
#define HOLDFAST_BENCH_IDENTITY_H

#include "transport/security.h"
#include "wire/http2_client.h"

/* `security` must outlive all connections. */
void bench_identity_set(const struct security *security);
/* Header lines of HTTP/1.1; "": none. */
struct slice bench_identity_lines(void);
/* Headers of gRPC. */
const struct http2_client_header *bench_identity_headers(size_t *count);
/* For AUTH; "": none. */
const char *bench_identity_token(void);

#endif
