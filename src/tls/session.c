/* TLS over bytes in memory. OpenSSL reads from the slice of the current call and writes to the
 * buffer of the current call, by a BIO of our own: BIO_s_mem would copy once more and keep its
 * memory while the connection is idle. */
#include "tls/session.h"

#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "tls/identity.h"
#include "tls/internal.h"

enum {
    RECORD_HANDSHAKE = 22, /* the first byte of a ClientHello and of a ServerHello */
    RECORD_ALERT = 21,
    RECORD_MAX = 16 << 10, /* plain bytes of one record */
};

struct tls_session {
    SSL *ssl;
    struct tls_context *context;
    enum tls_state state;
    bool is_clear_text;
    bool has_begun;       /* a byte was received */
    bool ended;           /* close_notify was sent */
    size_t handshake_len; /* received before OPEN */
    struct slice input;   /* of the current call, not read yet */
    struct buffer *wire;  /* of the current call */
    struct peer_identity *identity;
    char *problem;
};

/* ---- the BIO ---- */

static int bio_read(BIO *bio, char *to, int size)
{
    struct tls_session *s = BIO_get_data(bio);
    BIO_clear_retry_flags(bio);
    if (s->input.len == 0) {
        BIO_set_retry_read(bio);
        return -1;
    }
    size_t len = s->input.len < (size_t)size ? s->input.len : (size_t)size;
    memcpy(to, s->input.data, len);
    s->input = slice_make(s->input.data + len, s->input.len - len);
    return (int)len;
}

static int bio_write(BIO *bio, const char *from, int size)
{
    struct tls_session *s = BIO_get_data(bio);
    BIO_clear_retry_flags(bio);
    hf_assert(s->wire != NULL);
    return buffer_append(s->wire, from, (size_t)size) ? size : -1;
}

static long bio_ctrl(BIO *bio, int command, long number, void *pointer)
{
    (void)bio, (void)number, (void)pointer;
    return command == BIO_CTRL_FLUSH ? 1 : 0;
}

static BIO_METHOD *bio_method;
static CRYPTO_ONCE bio_once = CRYPTO_ONCE_STATIC_INIT;

static void make_bio_method(void)
{
    bio_method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "holdfast");
    hf_assert(bio_method != NULL);
    BIO_meth_set_read(bio_method, bio_read);
    BIO_meth_set_write(bio_method, bio_write);
    BIO_meth_set_ctrl(bio_method, bio_ctrl);
}

/* ---- lifetime ---- */

/* Only subject alternative names count, and a wildcard stands for a whole label. */
static void expect_name(SSL *ssl, const char *name)
{
    struct in6_addr ip;
    X509_VERIFY_PARAM *param = SSL_get0_param(ssl);
    X509_VERIFY_PARAM_set_hostflags(param, X509_CHECK_FLAG_NEVER_CHECK_SUBJECT |
                                               X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    bool is_ip = inet_pton(AF_INET, name, &ip) == 1 || inet_pton(AF_INET6, name, &ip) == 1;
    int done = is_ip ? X509_VERIFY_PARAM_set1_ip_asc(param, name)
                     : X509_VERIFY_PARAM_set1_host(param, name, 0);
    hf_assert(done == 1);
    if (!is_ip) {
        SSL_set_tlsext_host_name(ssl, name);
    }
}

struct tls_session *tls_session_new(struct tls_context *context, const char *server_name)
{
    hf_assert((context->role == TLS_CLIENT) == (server_name != NULL));
    struct tls_session *s = calloc(1, sizeof(*s));
    hf_assert(s != NULL);
    CRYPTO_THREAD_run_once(&bio_once, make_bio_method);
    s->ssl = SSL_new(context->ssl);
    BIO *bio = BIO_new(bio_method);
    hf_assert(s->ssl != NULL && bio != NULL);
    BIO_set_data(bio, s);
    BIO_set_init(bio, 1);
    SSL_set_bio(s->ssl, bio, bio);
    s->context = context;
    context->references++;
    if (context->role == TLS_SERVER || context->role == TLS_PEER_SERVER) {
        SSL_set_accept_state(s->ssl);
    } else {
        SSL_set_connect_state(s->ssl);
    }
    if (server_name != NULL) {
        expect_name(s->ssl, server_name);
    }
    return s;
}

void tls_session_free(struct tls_session *s)
{
    if (s == NULL) {
        return;
    }
    SSL_free(s->ssl);
    tls_context_free(s->context);
    free(s->identity);
    free(s->problem);
    free(s);
}

/* ---- failures ---- */

static enum tls_state fail(struct tls_session *s, const char *text)
{
    s->state = TLS_FAILED;
    if (s->problem == NULL) {
        s->problem = strdup(text);
    }
    ERR_clear_error();
    return s->state;
}

/* The reason of OpenSSL's last error, and that of the verification if it failed. */
static enum tls_state fail_by_library(struct tls_session *s)
{
    char text[256];
    long verified = SSL_get_verify_result(s->ssl);
    const char *reason = ERR_reason_error_string(ERR_peek_error());
    if (s->state == TLS_HANDSHAKE && verified != X509_V_OK) {
        snprintf(text, sizeof(text), "the certificate of the other end is refused: %s",
                 X509_verify_cert_error_string(verified));
    } else {
        snprintf(text, sizeof(text), "%s", reason != NULL ? reason : "malformed TLS");
    }
    return fail(s, text);
}

/* ---- handshake ---- */

/* A resumed session was verified when its ticket was made; its certificate may have expired since. */
static bool is_still_valid(const struct tls_session *s)
{
    return !SSL_session_reused(s->ssl) || s->identity->not_after_s >= (int64_t)time(NULL);
}

static enum tls_state complete(struct tls_session *s)
{
    X509 *certificate = SSL_get1_peer_certificate(s->ssl);
    if (certificate != NULL) {
        s->identity = calloc(1, sizeof(*s->identity));
        hf_assert(s->identity != NULL);
        bool sound = identity_read(certificate, s->identity);
        X509_free(certificate);
        if (!sound) {
            return fail(s, "the certificate of the other end has malformed or too many names");
        }
        if (SSL_get_verify_result(s->ssl) != X509_V_OK || !is_still_valid(s)) {
            return fail(s, "the certificate of the other end is not valid any more");
        }
    }
    hf_assert(s->context->role == TLS_SERVER || s->identity != NULL);
    return s->state = TLS_OPEN;
}

static enum tls_state shake_hands(struct tls_session *s)
{
    int done = SSL_do_handshake(s->ssl);
    if (done == 1) {
        return complete(s);
    }
    if (SSL_get_error(s->ssl, done) == SSL_ERROR_WANT_READ) {
        return TLS_HANDSHAKE;
    }
    return fail_by_library(s);
}

/* ---- bytes ---- */

static bool is_tls(struct tls_session *s, struct slice bytes)
{
    if (!s->has_begun && bytes.len > 0) {
        s->has_begun = true;
        s->is_clear_text = bytes.data[0] != RECORD_HANDSHAKE && bytes.data[0] != RECORD_ALERT;
    }
    return !s->is_clear_text;
}

/* Does not call OpenSSL without bytes to read: that would allocate its buffer in vain. */
static enum tls_state read_records(struct tls_session *s, struct buffer *plain)
{
    while (s->input.len > 0 || SSL_has_pending(s->ssl) == 1) {
        uint8_t *to = buffer_reserve(plain, RECORD_MAX);
        if (to == NULL) {
            return fail(s, "more plain bytes than fit");
        }
        size_t len = 0;
        int done = SSL_read_ex(s->ssl, to, RECORD_MAX, &len);
        if (done == 1) {
            buffer_commit(plain, len);
            continue;
        }
        switch (SSL_get_error(s->ssl, done)) {
        case SSL_ERROR_WANT_READ:
            return s->state;
        case SSL_ERROR_ZERO_RETURN:
            return s->state = TLS_ENDED;
        default:
            return fail_by_library(s);
        }
    }
    return s->state;
}

enum tls_state tls_session_receive(struct tls_session *s, struct slice bytes, struct buffer *plain,
                                   struct buffer *wire)
{
    if (s->state == TLS_FAILED || s->state == TLS_ENDED) {
        return s->state; /* what follows close_notify is ignored */
    }
    if (!is_tls(s, bytes)) {
        return fail(s, "the other end does not speak TLS");
    }
    ERR_clear_error();
    s->input = bytes;
    s->wire = wire;
    enum tls_state state = s->state;
    if (state == TLS_HANDSHAKE) {
        s->handshake_len += bytes.len;
        state = shake_hands(s);
        if (state == TLS_HANDSHAKE && s->handshake_len > TLS_HANDSHAKE_MAX) {
            state = fail(s, "the handshake is too long");
        }
    }
    if (state == TLS_OPEN) {
        state = read_records(s, plain);
    }
    hf_assert(s->input.len == 0 || state == TLS_FAILED || state == TLS_ENDED);
    s->input = slice_make(NULL, 0);
    s->wire = NULL;
    return state;
}

bool tls_session_write(struct tls_session *s, struct slice plain, struct buffer *wire)
{
    if (s->state != TLS_OPEN && s->state != TLS_ENDED) {
        return false;
    }
    ERR_clear_error();
    s->wire = wire;
    while (plain.len > 0) {
        size_t len = 0;
        if (SSL_write_ex(s->ssl, plain.data, plain.len, &len) != 1) {
            fail_by_library(s);
            break;
        }
        plain = slice_make(plain.data + len, plain.len - len);
    }
    s->wire = NULL;
    return s->state != TLS_FAILED;
}

void tls_session_end(struct tls_session *s, struct buffer *wire)
{
    if (s->ended || (s->state != TLS_OPEN && s->state != TLS_ENDED)) {
        return;
    }
    s->ended = true;
    s->wire = wire;
    SSL_shutdown(s->ssl);
    ERR_clear_error();
    s->wire = NULL;
}

/* ---- questions ---- */

enum tls_state tls_session_state(const struct tls_session *s)
{
    return s->state;
}

const char *tls_session_problem(const struct tls_session *s)
{
    return s->problem != NULL ? s->problem : "";
}

bool tls_session_is_clear_text(const struct tls_session *s)
{
    return s->is_clear_text;
}

const struct peer_identity *tls_session_identity(const struct tls_session *s)
{
    return s->identity;
}

const char *tls_session_protocol(const struct tls_session *s)
{
    const unsigned char *name = NULL;
    unsigned len = 0;
    static const char *const known[] = {"h2", "http/1.1"};
    SSL_get0_alpn_selected(s->ssl, &name, &len);
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        if (slice_equal(slice_make(name, len), slice_of(known[i]))) {
            return known[i];
        }
    }
    return "";
}

bool tls_session_is_resumed(const struct tls_session *s)
{
    return SSL_session_reused(s->ssl) == 1;
}

const char *tls_session_version(const struct tls_session *s)
{
    return SSL_get_version(s->ssl);
}
