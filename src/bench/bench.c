/* `holdfast bench`: settings, nodes, load, report. */
#include "cli/commands.h"

#include <errno.h>
#include <stdio.h>

#include "bench/identity.h"
#include "bench/report.h"
#include "cli/exits.h"
#include "server/progress.h"

/* By default, and with `holdfast dev`, the Redis port is the client port + 2. */
enum { RESP_ABOVE = 2 };

/* About 70 KiB: not on the stack. */
static struct bench_result result;
static struct bench_targets targets;

static int fail(const char *problem)
{
    fprintf(stderr, "holdfast: %s\n", problem);
    return EXIT_UNREACHABLE;
}

static int report(const struct bench_settings *settings)
{
    int code = 0;
    if (settings->json) {
        bench_report_json(settings, &targets, &result);
    } else {
        bench_report_table(settings, &targets, &result);
    }
    if (settings->samples != NULL && !bench_report_samples(settings->samples, &result)) {
        fprintf(stderr, "holdfast: %s: %s\n", settings->samples, strerror(errno));
        code = EXIT_OURS;
    }
    if (result.cycles == 0 && !result.interrupted) {
        char problem[BENCH_PROBLEM];
        (void)snprintf(problem, sizeof(problem), "no cycle was completed; the last error: %s",
                       result.last_error[0] != '\0' ? result.last_error : "none");
        code = fail(problem);
    }
    return code;
}

/* False: the problem is printed. */
static bool secure(struct bench_settings *s)
{
    static struct security *security;
    static const char *const http2[] = {"h2", NULL};
    static const char *const http1[] = {"http/1.1", NULL};
    char problem[SECURITY_PROBLEM];
    const char *const *protocols = s->protocol == &bench_grpc   ? http2
                                   : s->protocol == &bench_http ? http1
                                                                : NULL;
    security = security_load(&s->files, protocols, problem);
    if (security == NULL) {
        (void)fail(problem);
        return false;
    }
    if (s->protocol == &bench_resp && security_tenant(security)[0] != '\0') {
        (void)fail(
            "--tenant cannot be used with --api resp: AUTH with a token uses its home tenant");
        return false;
    }
    bench_identity_set(security);
    s->security = security;
    return true;
}

int bench_main(int count, char **arguments)
{
    struct bench_settings settings;
    char problem[BENCH_PROBLEM] = "";
    if (!bench_settings_read(&settings, count, arguments)) {
        return EXIT_USAGE;
    }
    if (settings.help) {
        bench_settings_print_help();
        return 0;
    }
    if (!secure(&settings)) {
        return EXIT_USAGE;
    }
    int code = bench_targets_find(&settings, &targets);
    if (code != 0) {
        return code;
    }
    if (targets.leader == 0 || targets.count == 0) {
        return fail("the cluster has no leader now; see `holdfast status`");
    }
    if (settings.via == 0 && !targets.leads) {
        return fail("the client address of the leader is unknown; use --via any");
    }
    if (settings.resp != NULL && !bench_targets_of_list(settings.resp, &targets)) {
        fprintf(stderr, "holdfast: --resp \"%s\" is not HOST:PORT,...\n", settings.resp);
        return EXIT_USAGE;
    }
    if (settings.resp == NULL && settings.protocol == &bench_resp) {
        bench_targets_shift(&targets, RESP_ABOVE);
    }
    progress_begin("preparing", PROGRESS_SECONDS, NULL, settings.json);
    bool ran = bench_load_run(&settings, &targets, bench_report_progress, &result, problem);
    progress_end();
    code = ran ? report(&settings) : fail(problem);
    bench_result_close(&result);
    return code;
}
