/* What a certificate file contains, for people. */
#ifndef HOLDFAST_TLS_DESCRIBE_H
#define HOLDFAST_TLS_DESCRIBE_H

#include <stdbool.h>
#include <stdint.h>

enum {
    DESCRIBE_TEXT = 512,
    DESCRIBE_NAMES = 80, /* of the SAN; further ones are counted only */
    DESCRIBE_PROBLEM = 512,
};

struct certificate_text {
    char subject[DESCRIBE_TEXT];
    char issuer[DESCRIBE_TEXT];
    char serial[48];                           /* hexadecimal, as policy bars it */
    char sha256[65];                           /* of the certificate, hexadecimal */
    char names[DESCRIBE_NAMES][DESCRIBE_TEXT]; /* "DNS:host", "IP:10.0.0.1", "URI:..." */
    unsigned name_count;
    int64_t from_s; /* wall clock */
    int64_t until_s;
    bool is_ca;
    bool is_server; /* usable on either side of a connection; false: as client only */
};

/* The first certificate of the file. False: `problem` is set. */
bool describe_certificate(const char *path, struct certificate_text *out,
                          char problem[DESCRIBE_PROBLEM]);

#endif
