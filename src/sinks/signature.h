/* The signature of a webhook, as consumers of well-known services verify it:
 *
 *     Holdfast-Signature: t=1700000000,v1=5257a869...
 *
 * v1 is the HMAC-SHA-256, in hexadecimal digits, of the time in seconds, a dot and the body. While a
 * secret is replaced there is a v1 of each. */
#ifndef HOLDFAST_SINKS_SIGNATURE_H
#define HOLDFAST_SINKS_SIGNATURE_H

#include "base/slice.h"

enum {
    SIGNATURE_SECRETS = 2,
    SIGNATURE_SECRET_MIN = 16,
    SIGNATURE_SECRET_MAX = 256,
    SIGNATURE_TEXT = 192,
    SIGNATURE_PROBLEM = 256,
};

struct signature_secrets {
    uint32_t count;
    uint32_t len[SIGNATURE_SECRETS];
    uint8_t bytes[SIGNATURE_SECRETS][SIGNATURE_SECRET_MAX];
};

/* One secret a line, the new one first; only the owner may have access to the file. On failure `out` is
 * unchanged. */
bool signature_load(struct signature_secrets *out, const char *path,
                    char problem[SIGNATURE_PROBLEM]);
void signature_wipe(struct signature_secrets *secrets);
/* The value of the header. */
void signature_write(const struct signature_secrets *secrets, uint64_t wall_s, struct slice body,
                     char out[SIGNATURE_TEXT]);

#endif
