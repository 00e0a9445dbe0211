/* See dev_secure.h. */
#include "server/dev_secure.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "server/dev_shell.h"
#include "tls/issue.h"

enum {
    DAYS = 3650,
    PATH = DEV_PATH + 64,
    WORDS = 16,    /* of a command */
    TRIES = 20,    /* until the state of a new cluster has its newest version */
    TRY_MS = 100,  /* between two of them */
    LOG_END = 800, /* bytes shown after a failure */
};

static const char policy[] =
    "{\"tenants\":[{\"name\":\"default\"},{\"name\":\"red\"},{\"name\":\"blue\"}],\n"
    " \"principals\":[\n"
    "  {\"tenant\":\"default\",\"name\":\"admin\",\"description\":\"administrator\",\n"
    "   \"grants\":[{\"tenant\":\"*\",\"prefix\":\"*\","
    "\"rights\":[\"lock\",\"read\",\"operate\",\"admin\"]}]},\n"
    "  {\"tenant\":\"red\",\"name\":\"app\",\"description\":\"an application\",\n"
    "   \"grants\":[{\"tenant\":\"red\",\"prefix\":\"*\",\"rights\":[\"lock\",\"read\"]}]},\n"
    "  {\"tenant\":\"blue\",\"name\":\"app\",\"description\":\"an application\",\n"
    "   \"grants\":[{\"tenant\":\"blue\",\"prefix\":\"*\",\"rights\":[\"lock\",\"read\"]}]}]}\n";

static const struct tenant_app {
    const char *principal;
    const char *file;
} apps[] = {{"red/app", "red-app.token"}, {"blue/app", "blue-app.token"}};

enum { APPS = sizeof(apps) / sizeof(apps[0]) };

static void path_of(const struct dev_cluster *c, const char *file, char path[PATH])
{
    snprintf(path, PATH, "%s/%s", c->secure_dir, file);
}

static bool exists(const struct dev_cluster *c, const char *file)
{
    char path[PATH];
    path_of(c, file, path);
    return access(path, F_OK) == 0;
}

/* ---- certificates ---- */

static bool fail(const char *problem)
{
    fprintf(stderr, "holdfast: %s\n", problem);
    return false;
}

static bool make_certificate(const struct dev_cluster *c, unsigned id)
{
    static const char *const hosts[] = {"127.0.0.1", "::1", "localhost"};
    char stem[32];
    char file[48];
    char uri[64];
    char problem[ISSUE_PROBLEM];
    struct issue_files files;
    snprintf(stem, sizeof(stem), "node-%u", id);
    snprintf(file, sizeof(file), "%s.pem", stem);
    snprintf(uri, sizeof(uri), "holdfast-node:" DEV_CLUSTER_NAME "/%u", id);
    struct issue_request request = {.dir = c->secure_dir,
                                    .stem = stem,
                                    .common_name = stem,
                                    .uri = uri,
                                    .hosts = hosts,
                                    .host_count = sizeof(hosts) / sizeof(hosts[0]),
                                    .is_node = true,
                                    .days = DAYS};
    return exists(c, file) || issue_certificate(&request, &files, problem) || fail(problem);
}

bool dev_secure_prepare(const struct dev_cluster *c)
{
    char problem[ISSUE_PROBLEM];
    struct issue_files files;
    if (!exists(c, "ca.pem") &&
        !issue_authority(c->secure_dir, "Holdfast dev CA", DAYS, &files, problem)) {
        return fail(problem);
    }
    for (unsigned i = 0; i < c->count; i++) {
        if (!make_certificate(c, c->nodes[i].id)) {
            return false;
        }
    }
    return true;
}

/* ---- commands of this program ---- */

static _Noreturn void become_command(const struct dev_cluster *c, const char *const *words,
                                     pid_t parent)
{
    static const char *const variables[] = {"HOLDFAST_CERT", "HOLDFAST_KEY", "HOLDFAST_SERVER_NAME",
                                            "HOLDFAST_TENANT"};
    char path[PATH];
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++) {
        (void)unsetenv(variables[i]);
    }
    path_of(c, "setup.log", path);
    int log = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
    (void)prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (log < 0 || nothing < 0 || getppid() != parent) {
        _exit(127);
    }
    (void)dup2(nothing, STDIN_FILENO);
    (void)dup2(log, STDOUT_FILENO);
    (void)dup2(log, STDERR_FILENO);
    execv("/proc/self/exe", (char **)(uintptr_t)words);
    _exit(127);
}

/* Whether it ended with exit code 0. Each command has its own time limit. */
static bool run(const struct dev_cluster *c, const char *const *words)
{
    int status = 0;
    pid_t parent = getpid();
    pid_t pid = fork();
    if (pid == 0) {
        become_command(c, words, parent);
    }
    while (pid > 0 && waitpid(pid, &status, 0) < 0) {
        if (errno != EINTR) {
            return false;
        }
    }
    return pid > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* `words`, NULL at the end, at node 1 as the principal of that token. */
static bool run_as(const struct dev_cluster *c, const char *token, const char *const *words)
{
    char endpoint[32];
    char ca[PATH];
    char token_file[PATH];
    const char *all[WORDS] = {"holdfast"};
    size_t count = 1;
    snprintf(endpoint, sizeof(endpoint), "127.0.0.1:%u", c->nodes[0].client_port);
    path_of(c, "ca.pem", ca);
    path_of(c, token, token_file);
    for (; *words != NULL; words++) {
        all[count++] = *words;
    }
    const char *const flags[] = {"--endpoints",  endpoint,   "--ca", ca,
                                 "--token-file", token_file, NULL};
    memcpy(all + count, flags, sizeof(flags));
    return run(c, all);
}

static bool is_valid(const struct dev_cluster *c, const char *token)
{
    return exists(c, token) && run_as(c, token, (const char *const[]){"auth", "whoami", NULL});
}

/* ---- principals ---- */

static bool bootstrap(const struct dev_cluster *c)
{
    char path[PATH];
    path_of(c, "admin.token", path);
    const char *const words[] = {"holdfast",
                                 "auth",
                                 "bootstrap",
                                 "--data",
                                 c->nodes[0].folder,
                                 exists(c, "admin.token") ? "--secret-file" : "--out",
                                 path,
                                 NULL};
    return run(c, words);
}

static bool make_administrator(const struct dev_cluster *c)
{
    const struct timespec pause = {.tv_nsec = TRY_MS * 1000000L};
    for (int i = 0; i < TRIES; i++) {
        if (is_valid(c, "admin.token") || bootstrap(c)) {
            return true;
        }
        (void)nanosleep(&pause, NULL);
    }
    return false;
}

static bool write_policy(const struct dev_cluster *c, char path[PATH])
{
    path_of(c, "policy.json", path);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    bool done = fd >= 0 && write(fd, policy, sizeof(policy) - 1) == (ssize_t)sizeof(policy) - 1;
    if (fd >= 0) {
        close(fd);
    }
    return done;
}

static bool make_app(const struct dev_cluster *c, const struct tenant_app *app)
{
    char path[PATH];
    path_of(c, app->file, path);
    (void)unlink(path);
    const char *const words[] = {"token", "create",        app->principal, "--out",
                                 path,    "--description", "dev",          NULL};
    return run_as(c, "admin.token", words);
}

/* The policy is applied only with new tokens: later changes of it stay. */
static bool make_apps(const struct dev_cluster *c)
{
    char path[PATH];
    bool missing[APPS];
    bool any = false;
    for (size_t i = 0; i < APPS; i++) {
        missing[i] = !is_valid(c, apps[i].file);
        any = any || missing[i];
    }
    if (any && (!write_policy(c, path) ||
                !run_as(c, "admin.token", (const char *const[]){"auth", "apply", path, NULL}))) {
        return false;
    }
    for (size_t i = 0; i < APPS; i++) {
        if (missing[i] && !make_app(c, &apps[i])) {
            return false;
        }
    }
    return true;
}

bool dev_secure_make_principals(const struct dev_cluster *c)
{
    char path[PATH];
    if (make_administrator(c) && make_apps(c)) {
        return true;
    }
    path_of(c, "setup.log", path);
    fprintf(stderr, "holdfast: the administrator and the tenants were not made; the end of %s:\n",
            path);
    dev_print_end(path, LOG_END);
    fprintf(stderr, "holdfast: another --dir begins anew\n");
    return false;
}

/* ---- output ---- */

/* The path works in any folder. */
static void word_of(const struct dev_cluster *c, const char *file, char word[DEV_WORD])
{
    char path[PATH];
    char real[PATH_MAX];
    path_of(c, file, path);
    dev_shell_word(realpath(path, real) != NULL ? real : path, word);
}

static void print_token(const struct dev_cluster *c, const char *file, const char *comment)
{
    char word[DEV_WORD];
    word_of(c, file, word);
    printf("  export HOLDFAST_TOKEN_FILE=%s    # %s\n", word, comment);
}

void dev_secure_print(const struct dev_cluster *c, const char *name)
{
    char ca[DEV_WORD];
    char token[DEV_WORD];
    unsigned first = c->nodes[0].client_port;
    unsigned last = c->nodes[c->count - 1].client_port;
    word_of(c, "ca.pem", ca);
    word_of(c, apps[0].file, token);
    printf("\nTry it in another terminal, with any node:\n"
           "  export HOLDFAST_ENDPOINTS=127.0.0.1:%u HOLDFAST_CA=%s\n",
           first, ca);
    print_token(c, apps[0].file, "red/app: locks and reads in the tenant red");
    printf("  %s lock demo -- sleep 30\n"
           "  %s show demo\n",
           name, name);
    if (dev_is_in_path("curl")) {
        printf("  curl -s --cacert %s -H \"Authorization: Bearer $(cat %s)\" "
               "https://127.0.0.1:%u/api/v1/locks\n",
               ca, token, last);
    }
    if (dev_is_in_path("redis-cli")) {
        printf("  REDISCLI_AUTH=$(cat %s) redis-cli --tls --cacert %s -p %u --user red/app "
               "SET demo2 1 NX PX 30000\n",
               token, ca, last + 2);
    }
    print_token(c, apps[1].file, "blue/app: the same in the tenant blue");
    printf("  %s ls\n", name);
    print_token(c, "admin.token", "default/admin: everything");
    printf("  %s auth show\n"
           "  %s token list\n"
           "  %s audit\n",
           name, name, name);
}
