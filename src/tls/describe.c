/* See describe.h. */
#include "tls/describe.h"

#include <arpa/inet.h>
#include <errno.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/panic.h"

static void put_name(const X509_NAME *name, char out[DESCRIBE_TEXT])
{
    BIO *memory = BIO_new(BIO_s_mem());
    char *text;
    hf_assert(memory != NULL);
    (void)X509_NAME_print_ex(memory, name, 0, XN_FLAG_RFC2253 & ~ASN1_STRFLGS_ESC_MSB);
    long len = BIO_get_mem_data(memory, &text);
    (void)snprintf(out, DESCRIBE_TEXT, "%.*s", (int)len, len > 0 ? text : "");
    BIO_free(memory);
}

static void put_hex(const unsigned char *bytes, size_t len, char *out, size_t size)
{
    out[0] = '\0';
    for (size_t i = 0; i < len && 2 * i + 3 <= size; i++) {
        (void)snprintf(out + 2 * i, 3, "%02x", bytes[i]);
    }
}

static int64_t seconds_of(const ASN1_TIME *time)
{
    struct tm tm;
    return ASN1_TIME_to_tm(time, &tm) == 1 ? (int64_t)timegm(&tm) : 0;
}

static void put_address(const ASN1_OCTET_STRING *address, char *out, size_t size)
{
    int family = ASN1_STRING_length(address) == 4 ? AF_INET : AF_INET6;
    if (ASN1_STRING_length(address) != 4 && ASN1_STRING_length(address) != 16) {
        (void)snprintf(out, size, "?");
    } else {
        (void)inet_ntop(family, ASN1_STRING_get0_data(address), out, (socklen_t)size);
    }
}

static void put_alternative(const GENERAL_NAME *name, char out[DESCRIBE_TEXT])
{
    int kind;
    const ASN1_STRING *value = GENERAL_NAME_get0_value(name, &kind);
    char address[INET6_ADDRSTRLEN];
    if (kind == GEN_IPADD) {
        put_address(value, address, sizeof(address));
        (void)snprintf(out, DESCRIBE_TEXT, "IP:%s", address);
    } else if (kind == GEN_DNS || kind == GEN_URI) {
        (void)snprintf(out, DESCRIBE_TEXT, "%s:%.*s", kind == GEN_DNS ? "DNS" : "URI",
                       ASN1_STRING_length(value), (const char *)ASN1_STRING_get0_data(value));
    } else {
        (void)snprintf(out, DESCRIBE_TEXT, "another kind of name");
    }
}

static void put_alternatives(X509 *certificate, struct certificate_text *out)
{
    GENERAL_NAMES *names = X509_get_ext_d2i(certificate, NID_subject_alt_name, NULL, NULL);
    int count = names == NULL ? 0 : sk_GENERAL_NAME_num(names);
    for (int i = 0; i < count; i++) {
        if (out->name_count < DESCRIBE_NAMES) {
            put_alternative(sk_GENERAL_NAME_value(names, i), out->names[out->name_count]);
        }
        out->name_count++;
    }
    GENERAL_NAMES_free(names);
}

static void put_certificate(X509 *certificate, struct certificate_text *out)
{
    unsigned char sum[EVP_MAX_MD_SIZE];
    unsigned sum_len = 0;
    const ASN1_INTEGER *serial = X509_get0_serialNumber(certificate);
    put_name(X509_get_subject_name(certificate), out->subject);
    put_name(X509_get_issuer_name(certificate), out->issuer);
    put_hex(ASN1_STRING_get0_data(serial), (size_t)ASN1_STRING_length(serial), out->serial,
            sizeof(out->serial));
    hf_assert(X509_digest(certificate, EVP_sha256(), sum, &sum_len) == 1);
    put_hex(sum, sum_len, out->sha256, sizeof(out->sha256));
    put_alternatives(certificate, out);
    out->from_s = seconds_of(X509_get0_notBefore(certificate));
    out->until_s = seconds_of(X509_get0_notAfter(certificate));
    out->is_ca = X509_check_ca(certificate) != 0;
    out->is_server = (X509_get_extended_key_usage(certificate) & XKU_SSL_SERVER) != 0;
}

bool describe_certificate(const char *path, struct certificate_text *out,
                          char problem[DESCRIBE_PROBLEM])
{
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        (void)snprintf(problem, DESCRIBE_PROBLEM, "%.300s: %s", path, strerror(errno));
        return false;
    }
    X509 *certificate = PEM_read_X509(file, NULL, NULL, NULL);
    (void)fclose(file);
    if (certificate == NULL) {
        (void)snprintf(problem, DESCRIBE_PROBLEM, "%.300s: it is not a certificate in PEM", path);
        return false;
    }
    memset(out, 0, sizeof(*out));
    put_certificate(certificate, out);
    X509_free(certificate);
    return true;
}
