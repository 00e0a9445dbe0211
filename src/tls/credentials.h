/* A certificate with its chain, its private key, and the CAs that other ends are verified with:
 * read together, checked together, never changed afterwards. To reload, load again and replace the
 * contexts; connections keep what they were made with.
 *
 * The key is kept by OpenSSL, in its secure heap after credentials_protect_keys. No problem text
 * contains bytes of a file. */
#ifndef HOLDFAST_TLS_CREDENTIALS_H
#define HOLDFAST_TLS_CREDENTIALS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/peer_identity.h"

#define TLS_PROBLEM 512

/* Names of PEM files. `certificate` (with intermediates after it) and `key`: both or none. `ca`
 * may have several CAs, for the time in which one replaces another. NULL or "": none. */
struct credential_files {
    const char *certificate;
    const char *key;
    const char *ca;
};

struct credentials;

/* Refuses, with a text in `problem`: a file that is missing or malformed, a key that others may
 * read or that belongs to another certificate, a certificate that none of the CAs issued, one that
 * serves neither as a server nor as a client. Does not refuse a certificate that is expired or not
 * valid yet: credentials_not_before_s and credentials_not_after_s tell. */
struct credentials *credentials_load(const struct credential_files *files,
                                     char problem[TLS_PROBLEM]);
void credentials_free(struct credentials *c); /* contexts made from it stay valid */

bool credentials_have_certificate(const struct credentials *c);
bool credentials_have_ca(const struct credentials *c);
/* Of our own certificate. */
const struct peer_identity *credentials_identity(const struct credentials *c);
int64_t credentials_not_before_s(const struct credentials *c);
int64_t credentials_not_after_s(const struct credentials *c);
int64_t credentials_ca_not_after_s(const struct credentials *c); /* the first that expires */

/* Private keys that are loaded afterwards are in memory that is locked if the limit of locked
 * memory allows it, and is not part of core dumps. Once per process. False: not available.
 * OpenSSL has no other memory for keys then, those of connections included: without space in it,
 * handshakes fail. `sessions`: how many sessions exist at a time, at most. */
bool credentials_protect_keys(uint32_t sessions);

#endif
