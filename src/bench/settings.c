/* The table of the flags of `holdfast bench`, and their parser. */
#include "bench/settings.h"

#include <stdio.h>
#include <stdlib.h>

#include "server/config_value.h"

#define DAY_MS (24u * 3600 * 1000)

enum kind { NUMBER, DURATION, TEXT, SWITCH, API, VIA, TIER };

struct flag {
    const char *name;
    enum kind kind;
    size_t offset;
    uint64_t min;
    uint64_t max;
    const char *argument;
    const char *help;
};

#define AT(member) offsetof(struct bench_settings, member)

/* clang-format off */
static const struct flag flags[] = {
    {"--clients", NUMBER, AT(clients), 1, BENCH_CLIENTS_MAX, "N", "clients, each with a session and one outstanding request (default: 64)"},
    {"--seconds", DURATION, AT(measure_ms), 100, DAY_MS, "S", "duration of the measurement (default: 10)"},
    {"--warmup", DURATION, AT(warmup_ms), 0, DAY_MS, "S", "duration of the load before the measurement (default: 2)"},
    {"--connections", NUMBER, AT(connections), 1, BENCH_CLIENTS_MAX, "K", "connections that the clients share (default: one per client)"},
    {"--api", API, AT(protocol), 0, 0, "http|grpc|resp", "protocol; resp is the Redis protocol (default: grpc; with --held, http)"},
    {"--via", VIA, AT(via_any), 0, 0, "leader|any", "send requests to the leader, or to all nodes, which forward them (default: leader)"},
    {"--tier", TIER, AT(tier), 0, 0, "TIER", "correctness or efficiency (default: correctness)"},
    {"--endpoints", TEXT, AT(endpoints), 0, 0, "LIST", "HOST:PORT,... (default: HOLDFAST_ENDPOINTS, else 127.0.0.1:4653)"},
    {"--rate", NUMBER, AT(rate), 1, BENCH_RATE_MAX, "R", "start R cycles per second at fixed times; latency counts from the time a cycle was due"},
    {"--held", NUMBER, AT(held), 0, BENCH_HELD_MAX, "N", "hold N other locks during the run, 500 per session (default: 0)"},
    {"--contended", SWITCH, AT(contended), 0, 0, "", "all clients wait for the same lock; measures the time from release to the next grant"},
    {"--resp", TEXT, AT(resp), 0, 0, "LIST", "HOST:PORT,... for --api resp, the leader first (default: the client ports + 2)"},
    {"--samples", TEXT, AT(samples), 0, 0, "FILE", "write the start (wall clock, us) and the duration (us) of every acquire to FILE as CSV"},
    {"--json", SWITCH, AT(json), 0, 0, "", "print one JSON object"},
    {"--help", SWITCH, AT(help), 0, 0, "", "this list"},
};
/* clang-format on */

enum { FLAGS = sizeof(flags) / sizeof(flags[0]) };

void bench_settings_print_help(void)
{
    printf(
        "holdfast bench: measures how many locks per second a cluster acquires and releases.\n\n");
    for (unsigned i = 0; i < FLAGS; i++) {
        char left[40];
        (void)snprintf(left, sizeof(left), "%s %s", flags[i].name, flags[i].argument);
        printf("  %-22s %s\n", left, flags[i].help);
    }
    printf(
        "\nA cycle is an acquire and a release of a new lock name under bench/. All sessions and "
        "locks are\nclosed at the end. Exit codes: 0 success, 64 wrong usage, 69 no node is "
        "reachable or none answered.\n");
}

static bool complain(const char *flag, const char *words)
{
    fprintf(stderr, "holdfast: %s %s\n", flag, words);
    return false;
}

static bool read_number(struct bench_settings *s, const struct flag *flag, const char *text)
{
    uint64_t value = 0;
    bool fine =
        flag->kind == DURATION ? value_duration_ms(text, &value) : value_number(text, &value);
    if (!fine || value < flag->min || value > flag->max) {
        if (flag->kind == DURATION) {
            fprintf(stderr, "holdfast: %s must be a duration of %u ms to 24h, not \"%s\"\n",
                    flag->name, (unsigned)flag->min, text);
        } else {
            fprintf(stderr, "holdfast: %s must be a number from %u to %u, not \"%s\"\n", flag->name,
                    (unsigned)flag->min, (unsigned)flag->max, text);
        }
        return false;
    }
    memcpy((char *)s + flag->offset, &value, sizeof(value));
    return true;
}

static bool read_api(struct bench_settings *s, const char *text)
{
    static const struct bench_protocol *const built[] = {&bench_http, &bench_grpc, &bench_resp};
    for (size_t i = 0; i < sizeof(built) / sizeof(built[0]); i++) {
        if (strcmp(text, built[i]->name) == 0) {
            s->protocol = built[i];
            return true;
        }
    }
    return complain("--api", "must be http, grpc or resp");
}

static bool read_value(struct bench_settings *s, const struct flag *flag, const char *text)
{
    void *at = (char *)s + flag->offset;
    switch (flag->kind) {
    case NUMBER:
    case DURATION:
        return read_number(s, flag, text);
    case API:
        return read_api(s, text);
    case VIA:
        s->via_any = strcmp(text, "any") == 0;
        return s->via_any || strcmp(text, "leader") == 0 ||
               complain(flag->name, "must be leader or any");
    case TIER:
        s->tier = strcmp(text, "efficiency") == 0 || strcmp(text, "EFFICIENCY") == 0
                      ? "EFFICIENCY"
                      : "CORRECTNESS";
        return strcmp(s->tier, "EFFICIENCY") == 0 || strcmp(text, "correctness") == 0 ||
               strcmp(text, "CORRECTNESS") == 0 ||
               complain(flag->name, "must be correctness or efficiency");
    case TEXT:
        memcpy(at, &text, sizeof(text));
        return text[0] != '\0' || complain(flag->name, "needs a value");
    case SWITCH:
        break;
    }
    return false;
}

static const struct flag *find_flag(const char *text, size_t len)
{
    for (unsigned i = 0; i < FLAGS; i++) {
        if (strlen(flags[i].name) == len && memcmp(flags[i].name, text, len) == 0) {
            return &flags[i];
        }
    }
    return NULL;
}

static bool check(struct bench_settings *s)
{
    if (s->protocol == NULL) {
        s->protocol = s->held > 0 ? &bench_http : &bench_grpc;
    }
    if (s->connections == 0) {
        s->connections = s->clients;
    }
    if (s->connections > s->clients) {
        return complain("--connections", "must not be more than --clients");
    }
    if (s->connections < s->clients && !s->protocol->multiplexes) {
        return complain("--connections",
                        "must equal --clients: a connection of this protocol carries one client");
    }
    if (s->held > 0 && s->protocol != &bench_http) {
        return complain("--held", "needs --api http");
    }
    if (s->contended && !s->protocol->waits) {
        return complain("--contended", "needs --api grpc or http: the Redis protocol has no queue");
    }
    if (s->contended && s->rate > 0) {
        return complain("--contended", "cannot be combined with --rate");
    }
    if (s->protocol == &bench_resp && s->tier[0] != '\0') {
        return complain("--tier", "cannot be used with --api resp: the setting resp-tier of the "
                                  "server selects the tier");
    }
    if (s->resp != NULL && s->protocol != &bench_resp) {
        return complain("--resp", "needs --api resp");
    }
    return true;
}

bool bench_settings_read(struct bench_settings *s, int count, char **arguments)
{
    *s = (struct bench_settings){
        .clients = 64,
        .measure_ms = 10000,
        .warmup_ms = 2000,
        .tier = "",
    };
    for (int i = 0; i < count; i++) {
        const char *equals = strchr(arguments[i], '=');
        size_t len = equals != NULL ? (size_t)(equals - arguments[i]) : strlen(arguments[i]);
        const struct flag *flag =
            strcmp(arguments[i], "-h") == 0 ? find_flag("--help", 6) : find_flag(arguments[i], len);
        if (flag == NULL) {
            return complain("bench has no flag", arguments[i]);
        }
        if (flag->kind == SWITCH) {
            bool on = true;
            memcpy((char *)s + flag->offset, &on, sizeof(on));
            continue;
        }
        const char *value = equals != NULL ? equals + 1 : i + 1 < count ? arguments[++i] : NULL;
        if (value == NULL) {
            return complain(flag->name, "needs a value");
        }
        if (!read_value(s, flag, value)) {
            return false;
        }
    }
    return s->help || check(s);
}
