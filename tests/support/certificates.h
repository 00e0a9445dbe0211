/* Certificates made for a test, good and bad ones. */
#ifndef HOLDFAST_TESTS_CERTIFICATES_H
#define HOLDFAST_TESTS_CERTIFICATES_H

#include <stdbool.h>

struct test_certificate {
    const char *names; /* subject alternative names: "URI:holdfast:a/b,DNS:localhost"; NULL: none */
    long from_s, to_s; /* validity, relative to now; both 0: an hour back to a day ahead */
    const char *usage; /* extended key usage; NULL: "serverAuth,clientAuth" */
    bool is_ca;        /* signed by itself */
    const char *ca;    /* prefix of the issuer's files; NULL: signed by itself */
    int bits;          /* 0: a key on P-256; otherwise RSA */
    const char *common_name; /* NULL: "test CA" or "test" */
};

/* Writes PREFIX.pem and PREFIX-key.pem. */
void certificate_make(const char *prefix, const struct test_certificate *what);

#endif
