/* Settings of OpenSSL, in one place. */
#include "tls/context.h"

#include <openssl/err.h>
#include <stdio.h>
#include <stdlib.h>

#include "tls/internal.h"

enum {
    TICKET_LIFE_S = 7200,
    CHAIN_DEPTH = 4, /* intermediates between a certificate and its CA */
    CHAIN_BYTES = 32 << 10,
};

/* AES-128 first: the hash of its suite makes the handshake cheaper. */
#define SUITES_1_3 "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256"
#define SUITES_1_2 "ECDHE+AESGCM:ECDHE+CHACHA20"
#define GROUPS "P-256:X25519:P-384"

static bool is_server(enum tls_role role)
{
    return role == TLS_SERVER || role == TLS_PEER_SERVER;
}

static int choose_protocol(SSL *ssl, const unsigned char **out, unsigned char *out_len,
                           const unsigned char *offered, unsigned offered_len, void *ctx)
{
    (void)ssl;
    const struct tls_context *context = ctx;
    unsigned char *chosen = NULL;
    if (SSL_select_next_proto(&chosen, out_len, context->protocols, context->protocols_len, offered,
                              offered_len) != OPENSSL_NPN_NEGOTIATED) {
        return SSL_TLSEXT_ERR_ALERT_FATAL;
    }
    *out = chosen;
    return SSL_TLSEXT_ERR_OK;
}

static void set_protocols(struct tls_context *context, const char *const *names)
{
    for (; names != NULL && *names != NULL; names++) {
        size_t len = strlen(*names);
        hf_assert(len > 0 && context->protocols_len + len < sizeof(context->protocols));
        context->protocols[context->protocols_len++] = (uint8_t)len;
        memcpy(context->protocols + context->protocols_len, *names, len);
        context->protocols_len += (unsigned)len;
    }
    if (context->protocols_len == 0) {
        return;
    }
    if (is_server(context->role)) {
        SSL_CTX_set_alpn_select_cb(context->ssl, choose_protocol, context);
    } else {
        int failed =
            SSL_CTX_set_alpn_protos(context->ssl, context->protocols, context->protocols_len);
        hf_assert(failed == 0);
    }
}

/* Fixed settings; a failure means that the library is not the one that the build checked. */
static void set_versions(SSL_CTX *ssl, enum tls_version min)
{
    bool done =
        SSL_CTX_set_min_proto_version(ssl, min == TLS_1_2 ? TLS1_2_VERSION : TLS1_3_VERSION) == 1 &&
        SSL_CTX_set_max_proto_version(ssl, TLS1_3_VERSION) == 1 &&
        SSL_CTX_set_ciphersuites(ssl, SUITES_1_3) == 1 &&
        SSL_CTX_set_cipher_list(ssl, SUITES_1_2) == 1 && SSL_CTX_set1_groups_list(ssl, GROUPS) == 1;
    hf_assert(done);
    SSL_CTX_set_options(ssl, SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION |
                                 SSL_OP_CIPHER_SERVER_PREFERENCE);
    SSL_CTX_set_mode(ssl, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE |
                              SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    SSL_CTX_set_read_ahead(ssl, 1); /* one copy of what was received, not two per record */
}

/* Tickets are encrypted with keys of this context, so none survives a reload. */
static void set_resumption(SSL_CTX *ssl, enum tls_role role)
{
    static const unsigned char name[] = "holdfast";
    SSL_CTX_set_max_early_data(ssl, 0);
    SSL_CTX_set_recv_max_early_data(ssl, 0);
    SSL_CTX_set_session_cache_mode(ssl, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_session_id_context(ssl, name, sizeof(name) - 1);
    SSL_CTX_set_timeout(ssl, TICKET_LIFE_S);
    if (role == TLS_SERVER) {
        SSL_CTX_set_num_tickets(ssl, 1);
    } else if (role != TLS_CLIENT) {
        SSL_CTX_set_num_tickets(ssl, 0);
        SSL_CTX_set_options(ssl, SSL_OP_NO_TICKET);
    }
}

static void set_verification(SSL_CTX *ssl, const struct credentials *c, enum tls_role role)
{
    int mode = SSL_VERIFY_PEER;
    if (role == TLS_SERVER && c->store == NULL) {
        mode = SSL_VERIFY_NONE;
    } else if (role == TLS_PEER_SERVER) {
        mode |= SSL_VERIFY_FAIL_IF_NO_PEER_CERT;
    }
    SSL_CTX_set_verify(ssl, mode, NULL);
    SSL_CTX_set_verify_depth(ssl, CHAIN_DEPTH);
    SSL_CTX_set_max_cert_list(ssl, CHAIN_BYTES);
    if (c->store != NULL) {
        SSL_CTX_set1_cert_store(ssl, c->store);
    } else if (role == TLS_CLIENT) {
        SSL_CTX_set_default_verify_paths(ssl);
    }
}

static bool set_certificate(SSL_CTX *ssl, const struct credentials *c)
{
    return c->certificate == NULL ||
           (SSL_CTX_use_cert_and_key(ssl, c->certificate, c->key, c->chain, 1) == 1);
}

static const char *missing(const struct credentials *c, enum tls_role role)
{
    bool is_peer = role == TLS_PEER_SERVER || role == TLS_PEER_CLIENT;
    if (c->certificate == NULL && (is_peer || role == TLS_SERVER)) {
        return "a node needs a certificate and its key";
    }
    if (c->store == NULL && is_peer) {
        return "connections between nodes need the file of the CA";
    }
    return NULL;
}

struct tls_context *tls_context_new(const struct credentials *credentials,
                                    const struct tls_context_options *options,
                                    char problem[TLS_PROBLEM])
{
    const char *lacks = missing(credentials, options->role);
    if (lacks != NULL) {
        snprintf(problem, TLS_PROBLEM, "%s", lacks);
        return NULL;
    }
    struct tls_context *context = calloc(1, sizeof(*context));
    hf_assert(context != NULL);
    *context = (struct tls_context){.role = options->role, .references = 1};
    context->ssl =
        SSL_CTX_new(is_server(options->role) ? TLS_server_method() : TLS_client_method());
    hf_assert(context->ssl != NULL);
    set_versions(context->ssl, options->min);
    set_resumption(context->ssl, options->role);
    set_verification(context->ssl, credentials, options->role);
    set_protocols(context, options->protocols);
    if (!set_certificate(context->ssl, credentials)) {
        snprintf(problem, TLS_PROBLEM, "OpenSSL does not accept certificate and key: %s",
                 ERR_reason_error_string(ERR_peek_last_error()));
        ERR_clear_error();
        tls_context_free(context);
        return NULL;
    }
    return context;
}

void tls_context_free(struct tls_context *context)
{
    if (context == NULL || --context->references > 0) {
        return;
    }
    SSL_CTX_free(context->ssl);
    free(context);
}
