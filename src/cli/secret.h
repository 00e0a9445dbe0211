/* Secrets of tokens: made here, so that only their SHA-256 is sent to a node. */
#ifndef HOLDFAST_CLI_SECRET_H
#define HOLDFAST_CLI_SECRET_H

#include <stdbool.h>

#include "transport/security.h"

enum { SECRET_HEX = 65 };

struct secret {
    char text[SECURITY_TOKEN_MAX + 1];
    char sha256[SECRET_HEX];
};

/* "hf_" and 256 random bits in base64url. */
void secret_make(struct secret *s);
/* A prepared one. False: the problem is printed. */
bool secret_read(struct secret *s, const char *path);
/* To a new file of mode 0600, before the request: no token is made that cannot be stored. False:
 * the problem is printed. */
bool secret_store(const struct secret *s, const char *path);
void secret_wipe(struct secret *s);

#endif
