/* Reads base/peer_identity.h from a certificate. */
#ifndef HOLDFAST_TLS_IDENTITY_H
#define HOLDFAST_TLS_IDENTITY_H

#include <openssl/x509.h>

#include "base/peer_identity.h"

/* False: it has more of our URIs than fit, or one that is too long or not printable ASCII. `out` is
 * untouched then. */
bool identity_read(const X509 *certificate, struct peer_identity *out);
/* Seconds since 1970; false: the certificate's date is malformed. */
bool identity_time(const ASN1_TIME *time, int64_t *out);

#endif
