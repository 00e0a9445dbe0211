/* Both ends of TLS connections in memory, with real certificates, for fuzz targets. The random
 * numbers of OpenSSL are the same in each run of an input, so that a finding can be repeated. */
#ifndef HOLDFAST_TESTS_TLS_PAIRS_H
#define HOLDFAST_TESTS_TLS_PAIRS_H

#include "tls/session.h"

enum tls_pair_kind {
    PAIR_PLAIN,          /* a client without a certificate */
    PAIR_CERTIFIED,      /* ... with one */
    PAIR_PEERS,          /* two nodes */
    PAIR_1_2,            /* a client that speaks TLS 1.2 at most, and a node that permits it */
    PAIR_FOREIGN_CLIENT, /* from here on one end must refuse the other: a certificate of another CA */
    PAIR_FOREIGN_PEER,
    PAIR_WRONG_NAME, /* the client wants another host */
    PAIR_KINDS,
};

struct tls_pair {
    struct tls_session *client;
    struct tls_session *server;
};

/* The first call of the process makes the certificates. Restarts the random numbers. */
void tls_pairs_begin(void);
void tls_pair_open(struct tls_pair *pair, enum tls_pair_kind kind);
void tls_pair_close(struct tls_pair *pair);
bool tls_pair_must_fail(enum tls_pair_kind kind);

#endif
