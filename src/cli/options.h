/* Flags that the commands share. server/flags.h has the parser. */
#ifndef HOLDFAST_CLI_OPTIONS_H
#define HOLDFAST_CLI_OPTIONS_H

#include "server/flags.h"
#include "transport/security.h"

/* Of every command that sends requests. */
struct cli_common {
    const char *endpoints; /* NULL: HOLDFAST_ENDPOINTS, else the default port on this machine */
    uint64_t timeout_ms;
    bool json;
    struct security_files security;
};

#define CLI_ENDPOINTS_OPTION(type)                                                    \
    {                                                                                 \
        "endpoints", 0, FLAG_TEXT(type, common.endpoints), "HOST:PORT,...",           \
            "nodes to try in turn (default: HOLDFAST_ENDPOINTS, else 127.0.0.1:4653)" \
    }
#define CLI_TIMEOUT_OPTION(type)                                          \
    {                                                                     \
        "timeout", 0, FLAG_DURATION(type, common.timeout_ms), "DURATION", \
            "timeout of a request (default: 5s)"                          \
    }
#define CLI_JSON_OPTION(type)                                         \
    {                                                                 \
        "json", 0, FLAG_SWITCH(type, common.json), NULL, "print JSON" \
    }
/* clang-format off */
#define CLI_SECURITY_OPTIONS(type, at)                                                             \
    {"ca", 0, FLAG_TEXT_SET(type, at.ca), "FILE",                                                  \
     "use TLS and verify nodes with these CAs; system: those of the machine (default: HOLDFAST_CA)"}, \
    {"cert", 0, FLAG_TEXT_SET(type, at.certificate), "FILE",                                       \
     "certificate of the client (default: HOLDFAST_CERT)"},                                        \
    {"key", 0, FLAG_TEXT_SET(type, at.key), "FILE", "its key (default: HOLDFAST_KEY)"},            \
    {"server-name", 0, FLAG_TEXT_SET(type, at.server_name), "NAME",                                \
     "name in the nodes' certificates (default: HOLDFAST_SERVER_NAME, else the endpoint's host)"}, \
    {"token-file", 0, FLAG_TEXT_SET(type, at.token_file), "FILE",                                  \
     "file with the token (default: HOLDFAST_TOKEN_FILE)"},                                        \
    {"tenant", 0, FLAG_TEXT_SET(type, at.tenant), "NAME",                                          \
     "tenant of the names (default: HOLDFAST_TENANT, else the home tenant)"}
#define CLI_COMMON_OPTIONS(type)                                                    \
    CLI_ENDPOINTS_OPTION(type), CLI_TIMEOUT_OPTION(type), CLI_JSON_OPTION(type), \
        CLI_SECURITY_OPTIONS(type, common.security)
/* clang-format on */

#define CLI_COMMON_DEFAULT                     \
    {                                          \
        .endpoints = NULL, .timeout_ms = 5000, \
    }

/* NULL becomes that of the environment. False: an invalid one on the command line; prints the
 * problem. */
bool cli_trace_check(const char **trace);

/* False: wrong number of words; prints the problem and the usage. */
bool cli_words_check(const char *command, const struct flag_words *words, int min, int max);

#endif
