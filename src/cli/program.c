/* See program.h. */
#include "cli/program.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/exits.h"
#include "cli/say.h"

#define DEFAULT_PATH "/usr/local/bin:/usr/bin:/bin"

/* 0: it can be run; else errno. */
static int check(const char *path)
{
    struct stat file;
    if (stat(path, &file) != 0) {
        return errno;
    }
    if (S_ISDIR(file.st_mode)) {
        return EISDIR;
    }
    return access(path, X_OK) == 0 ? 0 : errno;
}

static int fail(const char *name, int error)
{
    bool is_missing = error == ENOENT || error == ENOTDIR;
    cli_say("%s: %s; no lock was requested", name,
            is_missing ? "command not found" : strerror(error));
    return is_missing ? EXIT_NO_COMMAND : EXIT_CANNOT_RUN;
}

int program_find(struct program *p, char **arguments)
{
    const char *name = arguments[0];
    const char *path = getenv("PATH");
    int error = ENOENT;
    p->arguments = arguments;
    if (name[0] == '\0') {
        return fail("\"\"", ENOENT);
    }
    if (strchr(name, '/') != NULL) {
        (void)snprintf(p->path, sizeof(p->path), "%s", name);
        error = strlen(name) < sizeof(p->path) ? check(name) : ENAMETOOLONG;
        return error == 0 ? 0 : fail(name, error);
    }
    /* The first that can be run; else the error of the first that exists. */
    for (path = path != NULL ? path : DEFAULT_PATH;; path++) {
        size_t len = strcspn(path, ":");
        int made = snprintf(p->path, sizeof(p->path), "%.*s%s%s", (int)len, path,
                            len > 0 ? "/" : "./", name);
        int found = made > 0 && (size_t)made < sizeof(p->path) ? check(p->path) : ENOENT;
        if (found == 0) {
            return 0;
        }
        error = error == ENOENT && found != ENOTDIR ? found : error;
        path += len;
        if (*path == '\0') {
            return fail(name, error);
        }
    }
}

int program_find_shell(struct program *p, char *text)
{
    static char option[] = "-c";
    static char fallback[] = "/bin/sh";
    char *shell = getenv("SHELL");
    p->shell[0] = shell != NULL && shell[0] != '\0' ? shell : fallback;
    p->shell[1] = option;
    p->shell[2] = text;
    p->shell[3] = NULL;
    return program_find(p, p->shell);
}
