/* Flags that the commands share. server/flags.h has the parser. */
#ifndef HOLDFAST_CLI_OPTIONS_H
#define HOLDFAST_CLI_OPTIONS_H

#include "server/flags.h"

/* Of every command that sends requests. */
struct cli_common {
    const char *endpoints; /* NULL: HOLDFAST_ENDPOINTS, else the default port on this machine */
    uint64_t timeout_ms;
    bool json;
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
#define CLI_COMMON_OPTIONS(type) \
    CLI_ENDPOINTS_OPTION(type), CLI_TIMEOUT_OPTION(type), CLI_JSON_OPTION(type)

#define CLI_COMMON_DEFAULT \
    {                      \
        NULL, 5000, false  \
    }

/* False: wrong number of words; prints the problem and the usage. */
bool cli_words_check(const char *command, const struct flag_words *words, int min, int max);

#endif
