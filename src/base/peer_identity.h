/* Who the other end of a TLS connection is, by its verified certificate. Without OpenSSL, so that
 * the service can read it; src/tls fills it in after the handshake.
 *
 * The subject's common name has no meaning here. A certificate with more or longer URIs of ours
 * than fit is refused by the handshake, so that none is ignored. */
#ifndef HOLDFAST_BASE_PEER_IDENTITY_H
#define HOLDFAST_BASE_PEER_IDENTITY_H

#include <stdint.h>

#include "base/slice.h"

#define IDENTITY_CLIENT "holdfast:"    /* + TENANT/PRINCIPAL */
#define IDENTITY_NODE "holdfast-node:" /* + CLUSTER/ID */

enum {
    IDENTITY_URIS = 4,    /* subject alternative names of these two kinds */
    IDENTITY_URI = 160,   /* bytes of one, with its NUL */
    IDENTITY_SERIAL = 48, /* bytes of a serial number in hexadecimal, with its NUL */
};

struct peer_identity {
    uint32_t uri_count;
    char uris[IDENTITY_URIS][IDENTITY_URI];
    char serial[IDENTITY_SERIAL]; /* lower case, no leading zeros */
    int64_t not_after_s;          /* Unix time */
};

static inline bool identity_has_uri(const struct peer_identity *identity, const char *uri)
{
    for (uint32_t i = 0; i < identity->uri_count; i++) {
        if (strcmp(identity->uris[i], uri) == 0) {
            return true;
        }
    }
    return false;
}

#endif
