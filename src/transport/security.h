/* How a client proves who it is, and verifies the node: files, environment variables, the token.
 *
 *     given            environment              meaning
 *     ca               HOLDFAST_CA              CAs that the node's certificate is verified with;
 *                                               "system": those of the machine
 *     certificate,     HOLDFAST_CERT,           the client's own
 *       key              HOLDFAST_KEY
 *     server_name      HOLDFAST_SERVER_NAME     in the node's certificate (default: the host of the
 *                                               endpoint)
 *     token_file       HOLDFAST_TOKEN_FILE      the first line is the token
 *     tenant           HOLDFAST_TENANT          in which names are looked up
 *
 * Connections use TLS if one of the first four is set. The node is always verified. No problem text
 * contains bytes of a file. Not thread-safe: it belongs to the thread of its transports. */
#ifndef HOLDFAST_TRANSPORT_SECURITY_H
#define HOLDFAST_TRANSPORT_SECURITY_H

#include <stdbool.h>

#include "tls/context.h"

enum { SECURITY_PROBLEM = TLS_PROBLEM, SECURITY_TOKEN_MAX = 256, SECURITY_TENANT_MAX = 64 };

/* NULL or "": taken from the environment. */
struct security_files {
    const char *ca;
    const char *certificate;
    const char *key;
    const char *server_name;
    const char *token_file;
    const char *tenant;
};

struct security;

/* The token in a file that only its owner may read. False: `problem` is set. */
bool security_read_token(const char *path, char out[SECURITY_TOKEN_MAX + 1],
                         char problem[SECURITY_PROBLEM]);
/* `protocols`: of ALPN, up to NULL; NULL: none. NULL, and a text in `problem`, if a file cannot be
 * used. */
struct security *security_load(const struct security_files *given, const char *const *protocols,
                               char problem[SECURITY_PROBLEM]);
/* Overwrites the token. Takes NULL. Connections must be closed before. */
void security_free(struct security *s);

/* NULL: connections are in clear text. */
struct tls_context *security_context(const struct security *s);
/* NULL: the host of the endpoint. */
const char *security_server_name(const struct security *s);
/* "": none. */
const char *security_token(const struct security *s);
const char *security_tenant(const struct security *s);

/* A copy, valid until the next call: the reason of a failure outlives its connection. */
const char *security_keep_problem(struct security *s, const char *text);

#endif
