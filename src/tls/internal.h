/* Private to src/tls. */
#ifndef HOLDFAST_TLS_INTERNAL_H
#define HOLDFAST_TLS_INTERNAL_H

#include <openssl/ssl.h>

#include "base/panic.h"
#include "tls/context.h"

struct credentials {
    X509 *certificate;
    STACK_OF(X509) * chain; /* intermediates */
    EVP_PKEY *key;
    X509_STORE *store; /* NULL: no CA */
    struct peer_identity identity;
    int64_t not_before_s;
    int64_t not_after_s;
    int64_t ca_not_after_s;
};

struct tls_context {
    SSL_CTX *ssl;
    enum tls_role role;
    uint32_t references;    /* one, and one for each session */
    uint8_t protocols[64];  /* ALPN, as on the wire */
    unsigned protocols_len; /* 0: none */
};

#endif
