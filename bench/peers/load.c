/* The load of `holdfast bench` against another lock service:
 *
 *     build/bench/peer_load PROTOCOL --endpoints HOST:PORT[,...] [--clients N] [--seconds S] ...
 *
 * The first address is loaded; with `--via any` all in turn. It prints the object that `holdfast
 * bench --json` prints. bench/compare.py starts the services and runs it. */
#include <stdio.h>

#include "bench/report.h"
#include "cli/exits.h"
#include "peers.h"

static const struct bench_protocol *const protocols[] = {
    &peer_etcd, &peer_zookeeper, &peer_postgres, &peer_advisory, &bench_resp, &peer_redlock,
};

enum { PROTOCOLS = sizeof(protocols) / sizeof(protocols[0]) };

/* About 100 KiB of histograms: not on the stack. */
static struct bench_result result;
static struct bench_targets targets;

static int usage(const char *words)
{
    fprintf(stderr,
            "peer_load: %s\nusage: peer_load PROTOCOL --endpoints HOST:PORT[,...] [--clients N] "
            "[--seconds S] [--warmup S] [--connections K]\nprotocols:",
            words);
    for (unsigned i = 0; i < PROTOCOLS; i++) {
        fprintf(stderr, " %s", protocols[i]->name);
    }
    fprintf(stderr, "\n");
    return EXIT_USAGE;
}

static const struct bench_protocol *find(const char *name)
{
    for (unsigned i = 0; i < PROTOCOLS; i++) {
        if (strcmp(protocols[i]->name, name) == 0) {
            return protocols[i];
        }
    }
    return NULL;
}

int main(int count, char **arguments)
{
    struct bench_settings settings;
    char problem[BENCH_PROBLEM] = "";
    const struct bench_protocol *protocol = count > 1 ? find(arguments[1]) : NULL;
    if (protocol == NULL) {
        return usage("the first word is a protocol");
    }
    if (!bench_settings_read(&settings, count - 2, arguments + 2)) {
        return usage("see above");
    }
    if (settings.held > 0 || settings.contended || settings.tier[0] != '\0') {
        return usage("--held, --contended and --tier are for Holdfast");
    }
    settings.protocol = protocol;
    if (!protocol->multiplexes) {
        settings.connections = settings.clients;
    }
    if (settings.endpoints == NULL || !bench_targets_of_list(settings.endpoints, &targets)) {
        return usage("--endpoints names addresses, HOST:PORT,...");
    }
    targets.members = targets.count;
    bool ran = protocol == &peer_redlock
                   ? redlock_run(&settings, &targets, &result, problem)
                   : bench_load_run(&settings, &targets, NULL, &result, problem);
    if (ran) {
        bench_report_json(&settings, &targets, &result);
    } else {
        fprintf(stderr, "peer_load: %s\n", problem);
    }
    bool done = ran && result.cycles > 0;
    if (ran && !done) {
        fprintf(stderr, "peer_load: not one cycle was finished: %s\n", result.last_error);
    }
    bench_result_close(&result);
    return done ? 0 : EXIT_UNREACHABLE;
}
