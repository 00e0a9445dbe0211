/* How one kind of TLS connections is made: role, credentials, versions, protocols (ALPN).
 *
 * TLS 1.3, or 1.2 and 1.3. No compression, no renegotiation, no early data. Forward secrecy always:
 * ECDHE on P-256 or X25519, with AES-GCM or ChaCha20-Poly1305. */
#ifndef HOLDFAST_TLS_CONTEXT_H
#define HOLDFAST_TLS_CONTEXT_H

#include "tls/credentials.h"

enum tls_role {
    TLS_SERVER,      /* for clients: verifies a certificate if there is one; tickets to resume */
    TLS_PEER_SERVER, /* for nodes: the other end needs a certificate; no resumption */
    TLS_PEER_CLIENT, /* to a node: the owner checks its URI; no resumption */
    TLS_CLIENT,      /* to a node: verifies certificate and host name */
};

enum tls_version { TLS_1_3, TLS_1_2 };

struct tls_context_options {
    enum tls_role role;
    enum tls_version min;
    /* In order of preference, up to NULL; NULL: no ALPN. A server refuses a client that offers only
     * others. */
    const char *const *protocols;
};

struct tls_context;

/* A server needs a certificate, a client a CA (TLS_CLIENT without one: the system's), a peer both.
 * NULL, and a text in `problem`, if they are missing. Not thread-safe: a context and its sessions
 * belong to one thread. Credentials may be used by several contexts. */
struct tls_context *tls_context_new(const struct credentials *credentials,
                                    const struct tls_context_options *options,
                                    char problem[TLS_PROBLEM]);
/* Existing sessions stay valid. */
void tls_context_free(struct tls_context *context);

#endif
