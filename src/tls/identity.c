/* The names of a verified certificate that mean something to us. */
#include "tls/identity.h"

#include <openssl/x509v3.h>
#include <stdio.h>
#include <time.h>

/* A certificate may have URIs of other systems; they are ignored. */
static bool is_ours(struct slice uri)
{
    return slice_starts_with(uri, slice_of(IDENTITY_CLIENT)) ||
           slice_starts_with(uri, slice_of(IDENTITY_NODE));
}

static bool is_printable(struct slice uri)
{
    for (size_t i = 0; i < uri.len; i++) {
        if (uri.data[i] <= ' ' || uri.data[i] > '~') {
            return false;
        }
    }
    return true;
}

static bool add_uri(struct peer_identity *identity, struct slice uri)
{
    if (identity->uri_count == IDENTITY_URIS || uri.len >= IDENTITY_URI || !is_printable(uri)) {
        return false;
    }
    memcpy(identity->uris[identity->uri_count], uri.data, uri.len);
    identity->uris[identity->uri_count++][uri.len] = '\0';
    return true;
}

static bool read_uris(const X509 *certificate, struct peer_identity *identity)
{
    int critical = 0;
    GENERAL_NAMES *names = X509_get_ext_d2i(certificate, NID_subject_alt_name, &critical, NULL);
    if (names == NULL) {
        return critical == -1; /* there is none; otherwise it is malformed or repeated */
    }
    bool sound = true;
    for (int i = 0; i < sk_GENERAL_NAME_num(names) && sound; i++) {
        const GENERAL_NAME *name = sk_GENERAL_NAME_value(names, i);
        if (name->type != GEN_URI) {
            continue;
        }
        const ASN1_IA5STRING *text = name->d.uniformResourceIdentifier;
        struct slice uri =
            slice_make(ASN1_STRING_get0_data(text), (size_t)ASN1_STRING_length(text));
        sound = !is_ours(uri) || add_uri(identity, uri);
    }
    GENERAL_NAMES_free(names);
    return sound;
}

/* RFC 5280: at most 20 bytes. */
static bool read_serial(const X509 *certificate, struct peer_identity *identity)
{
    const ASN1_INTEGER *serial = X509_get0_serialNumber(certificate);
    struct slice bytes =
        slice_make(ASN1_STRING_get0_data(serial), (size_t)ASN1_STRING_length(serial));
    while (bytes.len > 1 && bytes.data[0] == 0) {
        bytes = slice_make(bytes.data + 1, bytes.len - 1);
    }
    if (bytes.len == 0 || 2 * bytes.len >= IDENTITY_SERIAL) {
        return false;
    }
    char *to = identity->serial;
    for (size_t i = 0; i < bytes.len; i++) {
        snprintf(to + 2 * i, 3, "%02x", bytes.data[i]);
    }
    if (to[0] == '0' && to[1] != '\0') {
        memmove(to, to + 1, strlen(to));
    }
    return true;
}

bool identity_time(const ASN1_TIME *time, int64_t *out)
{
    struct tm parts;
    if (ASN1_TIME_to_tm(time, &parts) != 1) {
        return false;
    }
    *out = (int64_t)timegm(&parts);
    return true;
}

bool identity_read(const X509 *certificate, struct peer_identity *out)
{
    struct peer_identity identity = {0};
    if (!read_uris(certificate, &identity) || !read_serial(certificate, &identity) ||
        !identity_time(X509_get0_notAfter(certificate), &identity.not_after_s)) {
        return false;
    }
    *out = identity;
    return true;
}
