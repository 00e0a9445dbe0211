/* See dev_shell.h. */
#include "server/dev_shell.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void dev_shell_word(const char *text, char word[DEV_WORD])
{
    static const char plain[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+:,";
    size_t len = 0;
    if (text[0] != '\0' && text[strspn(text, plain)] == '\0') {
        snprintf(word, DEV_WORD, "%s", text);
        return;
    }
    word[len++] = '\'';
    for (; *text != '\0' && len < DEV_WORD - 6; text++) {
        len += (size_t)snprintf(word + len, DEV_WORD - len, *text == '\'' ? "'\\''" : "%c", *text);
    }
    snprintf(word + len, DEV_WORD - len, "'");
}

/* The program that a shell would run; false if PATH has none. */
static bool find_in_path(const char *name, char *out, size_t size)
{
    const char *at = getenv("PATH");
    while (at != NULL && *at != '\0') {
        size_t len = strcspn(at, ":");
        int used = len == 0 ? snprintf(out, size, "./%s", name)
                            : snprintf(out, size, "%.*s/%s", (int)len, at, name);
        if (used > 0 && (size_t)used < size && access(out, X_OK) == 0) {
            return true;
        }
        at += len + (at[len] == ':' ? 1 : 0);
    }
    return false;
}

bool dev_is_in_path(const char *name)
{
    char found[PATH_MAX];
    return find_in_path(name, found, sizeof(found));
}

void dev_program_word(char word[DEV_WORD])
{
    char found[PATH_MAX];
    char real[PATH_MAX];
    char own[PATH_MAX];
    ssize_t len = readlink("/proc/self/exe", own, sizeof(own) - 1);
    own[len > 0 ? len : 0] = '\0';
    bool is_in_path = find_in_path("holdfast", found, sizeof(found)) &&
                      realpath(found, real) != NULL && strcmp(real, own) == 0;
    dev_shell_word(len <= 0 || is_in_path ? "holdfast" : own, word);
}
