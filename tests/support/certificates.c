/* Implements certificates.h by OpenSSL. */
#include "certificates.h"

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#define MUST(call)                                                            \
    do {                                                                      \
        if (!(call)) {                                                        \
            fprintf(stderr, "%s:%d: %s failed\n", __FILE__, __LINE__, #call); \
            abort();                                                          \
        }                                                                     \
    } while (0)

static void path_of(char *to, size_t size, const char *prefix, const char *suffix)
{
    snprintf(to, size, "%s%s", prefix, suffix);
}

static void add(X509 *certificate, X509 *issuer, int nid, const char *value)
{
    X509V3_CTX ctx;
    X509V3_set_ctx(&ctx, issuer, certificate, NULL, NULL, 0);
    X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, &ctx, nid, value);
    MUST(extension != NULL && X509_add_ext(certificate, extension, -1) == 1);
    X509_EXTENSION_free(extension);
}

static void load_issuer(const char *prefix, X509 **certificate, EVP_PKEY **key)
{
    char path[512];
    path_of(path, sizeof(path), prefix, ".pem");
    FILE *f = fopen(path, "r");
    MUST(f != NULL && (*certificate = PEM_read_X509(f, NULL, NULL, NULL)) != NULL);
    fclose(f);
    path_of(path, sizeof(path), prefix, "-key.pem");
    f = fopen(path, "r");
    MUST(f != NULL && (*key = PEM_read_PrivateKey(f, NULL, NULL, NULL)) != NULL);
    fclose(f);
}

static void save(const char *prefix, X509 *certificate, EVP_PKEY *key)
{
    char path[512];
    path_of(path, sizeof(path), prefix, ".pem");
    FILE *f = fopen(path, "w");
    MUST(f != NULL && PEM_write_X509(f, certificate) == 1);
    fclose(f);
    path_of(path, sizeof(path), prefix, "-key.pem");
    f = fopen(path, "w");
    MUST(f != NULL && chmod(path, 0600) == 0 &&
         PEM_write_PrivateKey(f, key, NULL, NULL, 0, NULL, NULL) == 1);
    fclose(f);
}

static void set_head(X509 *certificate, const struct test_certificate *what)
{
    bool has_dates = what->from_s != 0 || what->to_s != 0;
    long serial = 0;
    MUST(RAND_bytes((unsigned char *)&serial, sizeof(serial)) == 1);
    MUST(X509_set_version(certificate, 2) == 1);
    ASN1_INTEGER_set(X509_get_serialNumber(certificate), (serial & 0x7fffffff) | 1);
    X509_gmtime_adj(X509_getm_notBefore(certificate), has_dates ? what->from_s : -3600);
    X509_gmtime_adj(X509_getm_notAfter(certificate), has_dates ? what->to_s : 86400);
    X509_NAME *name = X509_get_subject_name(certificate);
    const char *common_name = what->is_ca ? "test CA" : "test";
    const unsigned char *text =
        (const unsigned char *)(what->common_name != NULL ? what->common_name : common_name);
    MUST(X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, text, -1, -1, 0) == 1);
}

void certificate_make(const char *prefix, const struct test_certificate *what)
{
    EVP_PKEY *key = what->bits != 0 ? EVP_RSA_gen((unsigned)what->bits) : EVP_EC_gen("P-256");
    X509 *certificate = X509_new(), *issuer = certificate;
    EVP_PKEY *issuer_key = key;
    MUST(key != NULL && certificate != NULL);
    if (what->ca != NULL) {
        load_issuer(what->ca, &issuer, &issuer_key);
    }
    set_head(certificate, what);
    MUST(X509_set_issuer_name(certificate, X509_get_subject_name(issuer)) == 1);
    MUST(X509_set_pubkey(certificate, key) == 1);
    add(certificate, issuer, NID_basic_constraints, what->is_ca ? "critical,CA:TRUE" : "CA:FALSE");
    if (what->is_ca) {
        add(certificate, issuer, NID_key_usage, "critical,keyCertSign,cRLSign");
    } else {
        add(certificate, issuer, NID_ext_key_usage,
            what->usage != NULL ? what->usage : "serverAuth,clientAuth");
    }
    if (what->names != NULL) {
        add(certificate, issuer, NID_subject_alt_name, what->names);
    }
    MUST(X509_sign(certificate, issuer_key, EVP_sha256()) > 0);
    save(prefix, certificate, key);
    if (issuer != certificate) {
        X509_free(issuer);
        EVP_PKEY_free(issuer_key);
    }
    X509_free(certificate);
    EVP_PKEY_free(key);
}
