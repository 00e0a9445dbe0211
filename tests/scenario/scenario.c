/* Runs scenarios: text files that tell in plain words what the lock core does. README.md has the
 * language.
 *
 *     scenario [--tell] FILE...
 *
 * Each file is one test and is run twice: once as it stands, and once with a snapshot and a
 * restore into a new core, with another hash key, after each of its steps. Both must go as the file
 * says and must end in the same snapshot, byte for byte. */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/snapshot.h"
#include "runner.h"

/* For whoever reads the message of a failed assertion. */
static const struct runner *running;

static void on_abort(int signal_number)
{
    (void)signal_number;
    if (running != NULL && running->line != NULL) {
        char text[256];
        int len = snprintf(text, sizeof(text), "scenario: while running %s:%d: %.120s\n",
                           running->path, running->line->number, running->line->text);
        if (len > 0 && write(STDERR_FILENO, text, strlen(text)) < 0) {
            _exit(134);
        }
    }
}

_Noreturn void runner_fail(struct runner *p, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    const char *message = arena_vformat(&p->file, format, arguments);
    va_end(arguments);
    const char *turn = "";
    for (size_t i = 0; i < p->variable_count; i++) {
        turn = arena_format(&p->file, "%s (%s is %" PRIu64 ")", turn, p->variables[i].name,
                            p->variables[i].value);
    }
    p->failure = arena_format(&p->file, "%s:%d: %s%s\n    %s", p->path,
                              p->line == NULL ? 0 : p->line->number,
                              p->line == NULL ? "" : p->line->text, turn, message);
    longjmp(p->stop, 1);
}

static char *copy(const char *text)
{
    size_t size = strlen(text) + 1;
    char *out = malloc(size);
    hf_assert(out != NULL);
    memcpy(out, text, size);
    return out;
}

char *run(const char *path, const struct run_options *options, uint8_t **bytes, size_t *len)
{
    struct runner *p = calloc(1, sizeof(*p));
    hf_assert(p != NULL);
    p->path = path;
    p->tell = options->tell;
    p->restarts = options->restarts;
    p->hash_key = options->hash_key;
    runner_open(p);
    running = p;
    struct scenario scenario;
    if (!scenario_read(&p->file, path, &scenario, &p->failure)) {
        p->tell = false;
    } else if (setjmp(p->stop) == 0) {
        run_lines(p, scenario.lines, false);
        runner_restart(p);
        *bytes = runner_snapshot(p, len);
    }
    running = NULL;
    char *failure = p->failure == NULL ? NULL : copy(p->failure);
    core_free(p->core);
    free(p->entry);
    arena_close(&p->happened);
    arena_close(&p->step);
    arena_close(&p->file);
    free(p);
    return failure;
}

/* NULL when all went as the file says. */
static char *run_file(const char *path, bool tell)
{
    uint8_t *plain = NULL;
    uint8_t *restarted = NULL;
    size_t plain_len = 0;
    size_t restarted_len = 0;
    struct run_options options = {.tell = tell, .hash_key = 1};
    char *failure = run(path, &options, &plain, &plain_len);
    if (failure == NULL) {
        options = (struct run_options){.restarts = true, .hash_key = 2};
        failure = run(path, &options, &restarted, &restarted_len);
        if (failure != NULL) {
            fprintf(stderr, "%s: only when a snapshot is restored after each step:\n", path);
        }
    }
    if (failure == NULL &&
        (plain_len != restarted_len || memcmp(plain, restarted, plain_len) != 0)) {
        char text[512];
        snprintf(text, sizeof(text), "%.400s: with restores on the way it ends in another snapshot",
                 path);
        failure = copy(text);
    }
    free(plain);
    free(restarted);
    return failure;
}

int main(int argc, char **argv)
{
    int first = 1;
    bool tell = false;
    if (argc > 1 && strcmp(argv[1], "--tell") == 0) {
        tell = true;
        first = 2;
    }
    if (first == argc) {
        fprintf(stderr, "usage: scenario [--tell] FILE...\n");
        return 2;
    }
    signal(SIGABRT, on_abort);
    unsigned passed = 0;
    unsigned failed = 0;
    for (int i = first; i < argc; i++) {
        char *failure = run_file(argv[i], tell);
        if (failure == NULL) {
            passed++;
        } else {
            failed++;
            fflush(stdout);
            fprintf(stderr, "%s\n", failure);
        }
        free(failure);
    }
    printf("%s%u passed, %u failed\n", tell ? "\n" : "", passed, failed);
    return failed == 0 ? 0 : 1;
}
