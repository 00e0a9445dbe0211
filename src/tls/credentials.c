/* Loading and checking certificate, key and CAs. */
#include "tls/credentials.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tls/digest.h"
#include "tls/identity.h"
#include "tls/internal.h"

enum {
    FILE_MAX = 1 << 20,
    KEY_FILE_MAX = 16 << 10,
    SECURE_BASE = 256 << 10, /* a P-256 key takes less than 200 bytes, its file for a moment more */
    /* OpenSSL keeps the key of the key exchange as long as the connection: a block, two for P-384.
     * The heap may be fragmented. */
    SECURE_SESSION = 128,
    SECURE_BLOCK = 32,
};

static bool complain(char problem[TLS_PROBLEM], const char *path, const char *text)
{
    snprintf(problem, TLS_PROBLEM, "%s: %s", path, text);
    return false;
}

/* A file in OpenSSL's secure heap, if there is one and it is a secret. */
struct pem_file {
    const char *path;
    uint8_t *data;
    size_t len;
    size_t max;
    BIO *bio;
};

static void pem_close(struct pem_file *f)
{
    BIO_free(f->bio);
    OPENSSL_secure_clear_free(f->data, f->max);
}

static bool read_all(int fd, struct pem_file *f)
{
    while (f->len < f->max) {
        ssize_t got = read(fd, f->data + f->len, f->max - f->len);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got <= 0) {
            return got == 0;
        }
        f->len += (size_t)got;
    }
    errno = EFBIG;
    return false;
}

static bool pem_open(struct pem_file *f, const char *path, bool is_secret,
                     char problem[TLS_PROBLEM])
{
    struct stat info;
    *f = (struct pem_file){.path = path};
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) {
        return complain(problem, path, strerror(errno));
    }
    if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
        close(fd);
        return complain(problem, path, "this is not a regular file");
    }
    if (is_secret && (info.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
        close(fd);
        return complain(problem, path,
                        "other users may read or change this private key; run: chmod 600 on it");
    }
    f->max = is_secret ? KEY_FILE_MAX : FILE_MAX;
    f->data = is_secret ? OPENSSL_secure_malloc(f->max) : OPENSSL_malloc(f->max);
    hf_assert(f->data != NULL);
    bool whole = read_all(fd, f);
    int error = errno;
    close(fd);
    if (!whole) {
        pem_close(f);
        return complain(problem, path, strerror(error));
    }
    f->bio = BIO_new_mem_buf(f->data, (int)f->len);
    hf_assert(f->bio != NULL);
    return true;
}

/* A file with a password must not make the process read from the terminal. */
static int no_password(char *to, int size, int writing, void *ctx)
{
    (void)to, (void)size, (void)writing, (void)ctx;
    return -1;
}

static bool load_certificate(struct credentials *c, const char *path, char problem[TLS_PROBLEM])
{
    struct pem_file f;
    if (!pem_open(&f, path, false, problem)) {
        return false;
    }
    c->certificate = PEM_read_bio_X509(f.bio, NULL, no_password, NULL);
    for (X509 *next = c->certificate; next != NULL;) {
        next = PEM_read_bio_X509(f.bio, NULL, no_password, NULL);
        if (next != NULL && sk_X509_push(c->chain, next) == 0) {
            X509_free(next);
        }
    }
    pem_close(&f);
    ERR_clear_error();
    if (c->certificate == NULL) {
        return complain(problem, path, "there is no certificate in PEM form in this file");
    }
    if (!identity_time(X509_get0_notBefore(c->certificate), &c->not_before_s) ||
        !identity_time(X509_get0_notAfter(c->certificate), &c->not_after_s) ||
        !identity_read(c->certificate, &c->identity)) {
        return complain(problem, path, "the names, the serial number or the dates are malformed");
    }
    return true;
}

static bool load_key(struct credentials *c, const char *path, char problem[TLS_PROBLEM])
{
    struct pem_file f;
    if (!pem_open(&f, path, true, problem)) {
        return false;
    }
    c->key = PEM_read_bio_PrivateKey(f.bio, NULL, no_password, NULL);
    pem_close(&f);
    ERR_clear_error();
    if (c->key == NULL) {
        return complain(problem, path,
                        "there is no private key in PEM form without a password in this file");
    }
    return true;
}

static bool load_ca(struct credentials *c, const char *path, char problem[TLS_PROBLEM])
{
    struct pem_file f;
    if (!pem_open(&f, path, false, problem)) {
        return false;
    }
    int count = 0;
    bool sound = true;
    X509 *ca;
    c->store = X509_STORE_new();
    hf_assert(c->store != NULL);
    c->ca_not_after_s = INT64_MAX;
    while ((ca = PEM_read_bio_X509(f.bio, NULL, no_password, NULL)) != NULL) {
        int64_t until = 0;
        sound = sound && identity_time(X509_get0_notAfter(ca), &until) && X509_check_ca(ca) > 0 &&
                X509_STORE_add_cert(c->store, ca) == 1;
        c->ca_not_after_s = until < c->ca_not_after_s ? until : c->ca_not_after_s;
        X509_free(ca);
        count++;
    }
    pem_close(&f);
    ERR_clear_error();
    if (count == 0) {
        return complain(problem, path, "there is no certificate in PEM form in this file");
    }
    return sound || complain(problem, path, "a certificate in this file is not one of a CA");
}

/* Whether one of our CAs issued it. Dates are the caller's. */
static bool check_issuer(struct credentials *c, const char *path, char problem[TLS_PROBLEM])
{
    char text[256];
    X509_STORE_CTX *ctx = X509_STORE_CTX_new();
    hf_assert(ctx != NULL && X509_STORE_CTX_init(ctx, c->store, c->certificate, c->chain) == 1);
    X509_VERIFY_PARAM_set_flags(X509_STORE_CTX_get0_param(ctx), X509_V_FLAG_NO_CHECK_TIME);
    bool issued = X509_verify_cert(ctx) == 1;
    snprintf(text, sizeof(text), "the CA file does not verify this certificate: %s",
             X509_verify_cert_error_string(X509_STORE_CTX_get_error(ctx)));
    X509_STORE_CTX_free(ctx);
    ERR_clear_error();
    return issued || complain(problem, path, text);
}

static bool check(struct credentials *c, const struct credential_files *files,
                  char problem[TLS_PROBLEM])
{
    if (c->certificate == NULL) {
        return true;
    }
    if (X509_check_private_key(c->certificate, c->key) != 1) {
        ERR_clear_error();
        return complain(problem, files->key, "this key does not belong to the certificate");
    }
    if (X509_check_purpose(c->certificate, X509_PURPOSE_SSL_SERVER, 0) != 1 &&
        X509_check_purpose(c->certificate, X509_PURPOSE_SSL_CLIENT, 0) != 1) {
        return complain(problem, files->certificate,
                        "the extended key usage allows neither a server nor a client");
    }
    return c->store == NULL || check_issuer(c, files->certificate, problem);
}

static bool is_set(const char *path)
{
    return path != NULL && path[0] != '\0';
}

struct credentials *credentials_load(const struct credential_files *files,
                                     char problem[TLS_PROBLEM])
{
    hf_assert(is_set(files->certificate) == is_set(files->key));
    struct credentials *c = calloc(1, sizeof(*c));
    hf_assert(c != NULL);
    c->chain = sk_X509_new_null();
    hf_assert(c->chain != NULL);
    bool sound = !is_set(files->certificate) || (load_certificate(c, files->certificate, problem) &&
                                                 load_key(c, files->key, problem));
    sound = sound && (!is_set(files->ca) || load_ca(c, files->ca, problem));
    if (!sound || !check(c, files, problem)) {
        credentials_free(c);
        return NULL;
    }
    return c;
}

void credentials_free(struct credentials *c)
{
    if (c == NULL) {
        return;
    }
    X509_free(c->certificate);
    sk_X509_pop_free(c->chain, X509_free);
    EVP_PKEY_free(c->key);
    X509_STORE_free(c->store);
    free(c);
}

bool credentials_have_certificate(const struct credentials *c)
{
    return c->certificate != NULL;
}

bool credentials_have_ca(const struct credentials *c)
{
    return c->store != NULL;
}

const struct peer_identity *credentials_identity(const struct credentials *c)
{
    return &c->identity;
}

int64_t credentials_not_before_s(const struct credentials *c)
{
    return c->not_before_s;
}

int64_t credentials_not_after_s(const struct credentials *c)
{
    return c->not_after_s;
}

int64_t credentials_ca_not_after_s(const struct credentials *c)
{
    return c->ca_not_after_s;
}

bool credentials_protect_keys(uint32_t sessions)
{
    size_t size = SECURE_BASE;
    while (size < SECURE_BASE + (size_t)sessions * SECURE_SESSION) {
        size *= 2;
    }
    return CRYPTO_secure_malloc_initialized() == 1 ||
           CRYPTO_secure_malloc_init(size, SECURE_BLOCK) != 0;
}
