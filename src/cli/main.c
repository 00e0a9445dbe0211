/* The `holdfast` command: one word, then what belongs to it. */
#include <stdio.h>
#include <string.h>

#include "server/dev.h"
#include "server/recover.h"
#include "server/serve.h"

struct word {
    const char *name;
    int (*run)(int count, char **arguments);
    const char *help;
};

static const struct word words[] = {
    {"serve", serve_main, "run one node; with no flags, one that is a cluster by itself"},
    {"dev", dev_main, "run a whole cluster on this machine, to play and to test with"},
    {"recover", recover_main, "make a new cluster of one node's folder, when most voters are lost"},
};

enum { WORDS = sizeof(words) / sizeof(words[0]) };

static void print_help(FILE *to)
{
    fprintf(to, "holdfast: a distributed lock service\n\n"
                "  holdfast COMMAND [FLAGS]\n\n");
    for (unsigned i = 0; i < WORDS; i++) {
        fprintf(to, "  %-8s %s\n", words[i].name, words[i].help);
    }
    fprintf(to, "\n  holdfast COMMAND --help   lists its flags\n"
                "  holdfast --version\n");
}

/* How many of the first letters are the same: enough to guess what was meant. */
static const struct word *guess(const char *text)
{
    const struct word *best = NULL;
    size_t best_len = 0;
    for (unsigned i = 0; i < WORDS; i++) {
        size_t len = 0;
        while (text[len] != '\0' && text[len] == words[i].name[len]) {
            len++;
        }
        if (len > best_len) {
            best = &words[i];
            best_len = len;
        }
    }
    return best;
}

int main(int count, char **arguments)
{
    if (count < 2) {
        print_help(stderr);
        return EXIT_USAGE;
    }
    const char *name = arguments[1];
    if (strcmp(name, "--version") == 0 || strcmp(name, "version") == 0) {
        printf("holdfast %s\n", HOLDFAST_VERSION);
        return 0;
    }
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || strcmp(name, "help") == 0) {
        print_help(stdout);
        return 0;
    }
    for (unsigned i = 0; i < WORDS; i++) {
        if (strcmp(name, words[i].name) == 0) {
            return words[i].run(count - 2, arguments + 2);
        }
    }
    const struct word *meant = guess(name);
    fprintf(stderr, "holdfast: there is no command \"%s\"", name);
    if (meant != NULL) {
        fprintf(stderr, "; did you mean \"%s\"?", meant->name);
    }
    fprintf(stderr, "\nholdfast: `holdfast --help` lists them\n");
    return EXIT_USAGE;
}
