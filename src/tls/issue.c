/* See issue.h. issue_file.c writes the files. */
#include "tls/issue.h"

#include <arpa/inet.h>
#include <errno.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/panic.h"
#include "tls/issue_file.h"

enum {
    SERIAL_BYTES = 16,
    SKEW_S = 300, /* a certificate is valid this long before it is made: clocks differ */
    DAY_S = 86400,
};

static bool fail(char problem[ISSUE_PROBLEM], const char *text)
{
    (void)snprintf(problem, ISSUE_PROBLEM, "%s", text);
    return false;
}

static bool is_alphanumeric(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

bool issue_is_name(const char *text, size_t len)
{
    if (len == 0 || len > ISSUE_NAME || !is_alphanumeric(text[0])) {
        return false;
    }
    for (size_t i = 0; i < len; i++) {
        if (!is_alphanumeric(text[i]) && strchr("._-", text[i]) == NULL) {
            return false;
        }
    }
    return true;
}

/* The length of an address; 0: the text is none. */
static int parse_address(const char *text, unsigned char out[16])
{
    return inet_pton(AF_INET, text, out) == 1 ? 4 : inet_pton(AF_INET6, text, out) == 1 ? 16 : 0;
}

bool issue_is_host(const char *text)
{
    unsigned char address[16];
    if (parse_address(text, address) > 0) {
        return true;
    }
    size_t label = 0;
    size_t len = strlen(text);
    text += strncmp(text, "*.", 2) == 0 ? 2 : 0;
    for (const char *c = text; *c != '\0'; c++) {
        bool is_dot = *c == '.';
        if ((is_dot && label == 0) || (!is_dot && *c != '-' && *c != '_' && !is_alphanumeric(*c))) {
            return false;
        }
        label = is_dot ? 0 : label + 1;
        if (label > 63) {
            return false;
        }
    }
    return label > 0 && len <= 253;
}

static void add_extension(X509 *certificate, X509 *issuer, int kind, const char *value)
{
    X509V3_CTX context;
    X509V3_set_ctx(&context, issuer, certificate, NULL, NULL, 0);
    X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, &context, kind, value);
    hf_assert(extension != NULL); /* the values are constants of this file */
    hf_assert(X509_add_ext(certificate, extension, -1) == 1);
    X509_EXTENSION_free(extension);
}

/* Takes `value`. */
static void add_name(GENERAL_NAMES *names, int kind, ASN1_STRING *value)
{
    GENERAL_NAME *name = GENERAL_NAME_new();
    hf_assert(name != NULL && value != NULL);
    GENERAL_NAME_set0_value(name, kind, value);
    hf_assert(sk_GENERAL_NAME_push(names, name) > 0);
}

static ASN1_STRING *string_of(int type, const void *data, size_t len)
{
    ASN1_STRING *string = ASN1_STRING_type_new(type);
    hf_assert(string != NULL && ASN1_STRING_set(string, data, (int)len) == 1);
    return string;
}

/* Not by X509V3_EXT_conf_nid, whose text has a syntax of its own. */
static void add_names(X509 *certificate, const struct issue_request *request)
{
    GENERAL_NAMES *names = GENERAL_NAMES_new();
    hf_assert(names != NULL);
    for (size_t i = 0; i < request->host_count; i++) {
        const char *host = request->hosts[i];
        unsigned char address[16];
        int len = parse_address(host, address);
        if (len > 0) {
            add_name(names, GEN_IPADD, string_of(V_ASN1_OCTET_STRING, address, (size_t)len));
        } else {
            add_name(names, GEN_DNS, string_of(V_ASN1_IA5STRING, host, strlen(host)));
        }
    }
    add_name(names, GEN_URI, string_of(V_ASN1_IA5STRING, request->uri, strlen(request->uri)));
    hf_assert(X509_add1_ext_i2d(certificate, NID_subject_alt_name, names, 0, X509V3_ADD_DEFAULT));
    GENERAL_NAMES_free(names);
}

static void set_serial(X509 *certificate)
{
    unsigned char bytes[SERIAL_BYTES];
    hf_assert(RAND_bytes(bytes, sizeof(bytes)) == 1);
    bytes[0] = (unsigned char)((bytes[0] & 0x7f) | 0x40); /* positive, always 16 bytes */
    BIGNUM *number = BN_bin2bn(bytes, sizeof(bytes), NULL);
    hf_assert(number != NULL && BN_to_ASN1_INTEGER(number, X509_get_serialNumber(certificate)));
    BN_free(number);
}

/* Subject, serial and validity; no extensions. */
static X509 *new_certificate(EVP_PKEY *key, const char *common_name, uint32_t days)
{
    X509 *certificate = X509_new();
    hf_assert(certificate != NULL && X509_set_version(certificate, X509_VERSION_3) == 1);
    X509_NAME *subject = X509_get_subject_name(certificate);
    hf_assert(X509_NAME_add_entry_by_NID(subject, NID_commonName, MBSTRING_UTF8,
                                         (const unsigned char *)common_name, -1, -1, 0) == 1);
    set_serial(certificate);
    hf_assert(X509_gmtime_adj(X509_getm_notBefore(certificate), -SKEW_S) != NULL);
    hf_assert(X509_gmtime_adj(X509_getm_notAfter(certificate), (long)days * DAY_S) != NULL);
    hf_assert(X509_set_pubkey(certificate, key) == 1);
    return certificate;
}

static bool check_subject(const char *common_name, uint32_t days, char problem[ISSUE_PROBLEM])
{
    if (common_name[0] == '\0' || strlen(common_name) > ISSUE_NAME) {
        return fail(problem, "the name must have 1 to 64 characters");
    }
    if (days == 0 || days > ISSUE_DAYS) {
        return fail(problem, "the validity must be 1 to 36500 days");
    }
    return true;
}

static bool sign_and_write(X509 *certificate, EVP_PKEY *key, EVP_PKEY *issuer_key,
                           const struct issue_files *files, char problem[ISSUE_PROBLEM])
{
    if (X509_sign(certificate, issuer_key, EVP_sha256()) == 0) {
        return fail(problem, "the key of the CA cannot sign");
    }
    return issue_write(certificate, key, files, problem);
}

bool issue_authority(const char *dir, const char *common_name, uint32_t days,
                     struct issue_files *files, char problem[ISSUE_PROBLEM])
{
    if (!check_subject(common_name, days, problem) ||
        !issue_file_names(dir, "ca", files, problem)) {
        return false;
    }
    if (mkdir(dir, 0700) != 0 && errno != EEXIST) {
        (void)snprintf(problem, ISSUE_PROBLEM, "%.200s: %s", dir, strerror(errno));
        return false;
    }
    EVP_PKEY *key = EVP_EC_gen("P-256");
    hf_assert(key != NULL);
    X509 *ca = new_certificate(key, common_name, days);
    hf_assert(X509_set_issuer_name(ca, X509_get_subject_name(ca)) == 1);
    add_extension(ca, ca, NID_basic_constraints, "critical,CA:TRUE,pathlen:0");
    add_extension(ca, ca, NID_key_usage, "critical,keyCertSign,cRLSign");
    add_extension(ca, ca, NID_subject_key_identifier, "hash");
    bool is_done = sign_and_write(ca, key, key, files, problem);
    X509_free(ca);
    EVP_PKEY_free(key);
    return is_done;
}

static bool check_request(const struct issue_request *r, char problem[ISSUE_PROBLEM])
{
    if (!check_subject(r->common_name, r->days, problem)) {
        return false;
    }
    if (r->host_count > ISSUE_HOSTS) {
        return fail(problem, "there are more than 64 hosts");
    }
    for (size_t i = 0; i < r->host_count; i++) {
        if (!issue_is_host(r->hosts[i])) {
            (void)snprintf(problem, ISSUE_PROBLEM, "\"%.100s\" is not a host name or IP address",
                           r->hosts[i]);
            return false;
        }
    }
    return true;
}

/* The certificate of a CA must not end before those that it signed. */
static void shorten_to(X509 *certificate, const X509 *ca)
{
    const ASN1_TIME *end = X509_get0_notAfter(ca);
    if (ASN1_TIME_compare(X509_get0_notAfter(certificate), end) > 0) {
        hf_assert(X509_set1_notAfter(certificate, end) == 1);
    }
}

bool issue_certificate(const struct issue_request *r, struct issue_files *files,
                       char problem[ISSUE_PROBLEM])
{
    X509 *ca;
    EVP_PKEY *ca_key;
    if (!check_request(r, problem) || !issue_file_names(r->dir, r->stem, files, problem) ||
        !issue_read_authority(r->dir, &ca, &ca_key, problem)) {
        return false;
    }
    EVP_PKEY *key = EVP_EC_gen("P-256");
    hf_assert(key != NULL);
    X509 *certificate = new_certificate(key, r->common_name, r->days);
    shorten_to(certificate, ca);
    hf_assert(X509_set_issuer_name(certificate, X509_get_subject_name(ca)) == 1);
    add_extension(certificate, ca, NID_basic_constraints, "critical,CA:FALSE");
    add_extension(certificate, ca, NID_key_usage, "critical,digitalSignature");
    add_extension(certificate, ca, NID_ext_key_usage,
                  r->is_node ? "serverAuth,clientAuth" : "clientAuth");
    add_extension(certificate, ca, NID_subject_key_identifier, "hash");
    add_extension(certificate, ca, NID_authority_key_identifier, "keyid:always");
    add_names(certificate, r);
    bool is_done = sign_and_write(certificate, key, ca_key, files, problem);
    X509_free(certificate);
    EVP_PKEY_free(key);
    X509_free(ca);
    EVP_PKEY_free(ca_key);
    return is_done;
}
