/* The shared secret that proves both ends of a peer link to each other, at its start only (S12.10).
 * Bytes that follow are not protected: that needs TLS.
 *
 *      HELLO    nonce of the dialler ────────────────────▶
 *               ◀──── PROOF by the acceptor, WELCOME with its nonce
 *      PROOF by the dialler, BEGIN ──────────────────────▶
 *
 * A proof is an HMAC-SHA-256 with the secret over the name of its direction and the SHA-256 of HELLO
 * and of WELCOME. These contain both nonces, both node ids, the cluster and the purpose of the
 * link. A proof does not fit the other direction, and no other link. */
#ifndef HOLDFAST_NODE_PEERS_PEER_SECRET_H
#define HOLDFAST_NODE_PEERS_PEER_SECRET_H

#include "node/peers/peer_protocol.h"

enum {
    PEER_SECRET_MIN = 16, /* bytes */
    PEER_SECRET_MAX = 256,
    PEER_SECRETS = 2, /* in one file: while one replaces the other */
    PEER_SECRET_PROBLEM = 512,
};

struct peer_secret {
    uint8_t bytes[PEER_SECRET_MAX];
    size_t len;
};

/* The first one proves this node. The other end may prove itself by any of them. */
struct peer_secrets {
    struct peer_secret at[PEER_SECRETS];
    uint32_t count;   /* 0: none */
    bool is_required; /* nodes without a secret are refused */
};

/* Reads a file of one secret a line, which only its owner may have access to. False: `problem` names
 * the file and what to do, and `s` is unchanged. `is_required` is not changed. */
bool peer_secrets_load(struct peer_secrets *s, const char *path, char problem[PEER_SECRET_PROBLEM]);
/* Overwrites the secrets. */
void peer_secrets_wipe(struct peer_secrets *s);

/* What both ends of a link have sent, as SHA-256. */
struct peer_transcript {
    uint8_t hello[PEER_PROOF_BYTES];
    uint8_t welcome[PEER_PROOF_BYTES];
};

void peer_secrets_prove(const struct peer_secrets *s, bool by_dialler,
                        const struct peer_transcript *transcript, uint8_t proof[PEER_PROOF_BYTES]);
/* In constant time for each secret. */
bool peer_secrets_verify(const struct peer_secrets *s, bool by_dialler,
                         const struct peer_transcript *transcript,
                         const uint8_t proof[PEER_PROOF_BYTES]);

#endif
