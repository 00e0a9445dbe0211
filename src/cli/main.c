/* The `holdfast` program: finds and runs the command. */
#include <stdio.h>
#include <string.h>

#include "cli/command.h"
#include "cli/exits.h"
#include "cli/say.h"

static void print_list(FILE *to)
{
    fprintf(to, "holdfast: a distributed lock service\n\n"
                "  holdfast COMMAND [FLAGS]\n\n");
    const struct cli_command *row;
    for (unsigned i = 0; (row = cli_command_at(i)) != NULL; i++) {
        fprintf(to, "  %-13s %s\n", row->name, row->summary);
    }
    fprintf(to, "\n  holdfast COMMAND --help   its flags and an example\n"
                "  holdfast --version\n");
}

/* From the table, or the command's own `--help`. */
static int print_help(const struct cli_command *row)
{
    if (row->options == NULL) {
        char help[] = "--help";
        char *arguments[] = {help, NULL};
        return row->run(1, arguments);
    }
    printf("holdfast %s: %s\n\n  holdfast %s %s\n\n", row->name, row->summary, row->name,
           row->usage);
    if (row->about != NULL) {
        printf("%s\n\n", row->about);
    }
    flags_print(row->options, stdout);
    printf("\nFor example:\n  %s\n", row->example);
    return 0;
}

enum { GUESS_MIN = 2 }; /* letters */

/* By the longest common prefix. */
static const struct cli_command *guess(const char *text)
{
    const struct cli_command *best = NULL;
    const struct cli_command *row;
    size_t best_len = GUESS_MIN - 1;
    for (unsigned i = 0; (row = cli_command_at(i)) != NULL; i++) {
        size_t len = 0;
        while (text[len] != '\0' && text[len] == row->name[len]) {
            len++;
        }
        if (len > best_len && !cli_command_is_destructive(row)) {
            best = row;
            best_len = len;
        }
    }
    return best;
}

/* Commands of other lock services without a counterpart here. */
static bool is_release(const char *name)
{
    return strcmp(name, "unlock") == 0;
}

static int fail_unknown(const char *name)
{
    const struct cli_command *meant = guess(name);
    if (is_release(name)) {
        cli_say("there is no command \"%s\": `holdfast lock` releases the lock when its command "
                "ends, `holdfast release` that of `holdfast acquire`; `holdfast show NAME` shows "
                "the holder",
                name);
    } else if (meant != NULL) {
        cli_say("there is no command \"%s\"; did you mean \"%s\"?", name, meant->name);
    } else {
        cli_say("there is no command \"%s\"", name);
    }
    cli_say("`holdfast --help` lists the commands");
    return EXIT_USAGE;
}

static bool is_help(const char *word)
{
    return strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0;
}

static int help_main(int count, char **arguments)
{
    if (count == 0) {
        print_list(stdout);
        return 0;
    }
    const struct cli_command *row = cli_command_find(arguments[0]);
    return row != NULL ? print_help(row) : fail_unknown(arguments[0]);
}

int main(int count, char **arguments)
{
    if (count < 2) {
        print_list(stderr);
        return EXIT_USAGE;
    }
    const char *name = arguments[1];
    if (strcmp(name, "--version") == 0 || strcmp(name, "version") == 0) {
        printf("holdfast %s\n", HOLDFAST_VERSION);
        return 0;
    }
    if (is_help(name) || strcmp(name, "help") == 0) {
        return help_main(count - 2, arguments + 2);
    }
    const struct cli_command *row = cli_command_find(name);
    if (row == NULL) {
        return fail_unknown(name);
    }
    if (count > 2 && is_help(arguments[2])) {
        return print_help(row);
    }
    return row->run(count - 2, arguments + 2);
}
