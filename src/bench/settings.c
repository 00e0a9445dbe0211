/* The table of the flags of `holdfast bench`, and the rules between them. */
#include "bench/settings.h"

#include <stdio.h>

#include "cli/options.h"
#include "cli/say.h"

#define DAY_MS (24u * 3600 * 1000)
#define NOT_GIVEN UINT64_MAX

#define S struct bench_settings

/* clang-format off */
static const struct flag flags[] = {
    {"clients", 0, FLAG_NUMBER_IN(S, clients, 1, BENCH_CLIENTS_MAX), "N", "clients, each with a session and one outstanding request (default: 64)"},
    {"seconds", 0, FLAG_DURATION_IN(S, measure_ms, 100, DAY_MS), "S", "duration of the measurement (default: 10)"},
    {"warmup", 0, FLAG_DURATION_IN(S, warmup_ms, 0, DAY_MS), "S", "duration of the load before the measurement (default: 2)"},
    {"connections", 0, FLAG_NUMBER_IN(S, connections, 1, BENCH_CLIENTS_MAX), "K", "connections that the clients share (default: one per client)"},
    {"api", 0, FLAG_WORD(S, api), "http|grpc|resp", "protocol; resp is the Redis protocol (default: grpc; with --held, http)"},
    {"via", 0, FLAG_WORD(S, via), "leader|any", "send requests to the leader, or to all nodes, which forward them (default: leader)"},
    {"tier", 0, FLAG_WORD(S, tier_word), "correctness|efficiency", "tier of the locks (default: correctness)"},
    {"endpoints", 0, FLAG_TEXT_SET(S, endpoints), "LIST", "HOST:PORT,... (default: HOLDFAST_ENDPOINTS, else 127.0.0.1:4653)"},
    {"rate", 0, FLAG_NUMBER_IN(S, rate, 1, BENCH_RATE_MAX), "R", "start R cycles per second at fixed times; latency counts from the time a cycle was due"},
    {"held", 0, FLAG_NUMBER_IN(S, held, 0, BENCH_HELD_MAX), "N", "hold N other locks during the run, 500 per session (default: 0)"},
    {"contended", 0, FLAG_SWITCH(S, contended), NULL, "all clients wait for the same lock; measures the time from release to the next grant"},
    {"resp", 0, FLAG_TEXT_SET(S, resp), "LIST", "HOST:PORT,... for --api resp, the leader first (default: the client ports + 2)"},
    {"samples", 0, FLAG_TEXT_SET(S, samples), "FILE", "write the start (wall clock, us) and the duration (us) of every acquire to FILE as CSV"},
    CLI_SECURITY_OPTIONS(S, files),
    {"json", 0, FLAG_SWITCH(S, json), NULL, "print one JSON object"},
    {"help", 'h', FLAG_SWITCH(S, help), NULL, "this list"},
    FLAGS_END,
};
/* clang-format on */

void bench_settings_print_help(void)
{
    printf(
        "holdfast bench: measures how many locks per second a cluster acquires and releases.\n\n");
    flags_print(flags, stdout);
    printf(
        "\nA cycle is an acquire and a release of a new lock name under bench/. All sessions and "
        "locks are\nclosed at the end. Exit codes: 0 success, 64 wrong usage, 69 no node is "
        "reachable or none answered.\n");
}

static bool complain(const char *flag, const char *problem)
{
    cli_say("%s: %s", flag, problem);
    cli_say("`holdfast bench --help` lists its flags");
    return false;
}

static bool check(struct bench_settings *s)
{
    /* In the order of the words of --api. */
    static const struct bench_protocol *const protocols[] = {&bench_http, &bench_grpc, &bench_resp};
    s->protocol = s->api != NOT_GIVEN ? protocols[s->api] : s->held > 0 ? &bench_http : &bench_grpc;
    s->tier = s->tier_word == NOT_GIVEN ? "" : s->tier_word == 0 ? "CORRECTNESS" : "EFFICIENCY";
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
    struct flag_words words;
    *s = (struct bench_settings){
        .clients = 64,
        .measure_ms = 10000,
        .warmup_ms = 2000,
        .api = NOT_GIVEN,
        .tier_word = NOT_GIVEN,
    };
    if (!flags_read("bench", flags, FLAGS_ANY_ORDER, count, arguments, s, &words)) {
        return false;
    }
    return s->help || (cli_words_check("bench", &words, 0, 0) && check(s));
}
