/* The folders of temporary.h: a list of those that are there, and a last look at it at exit. */
#define _GNU_SOURCE
#include "temporary.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <ftw.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

struct temporary_folder {
    struct temporary_folder *next;
    pid_t maker; /* a forked child has the list too, and leaves it alone */
    char path[256];
};

static struct temporary_folder *folders;

static int remove_one(const char *path, const struct stat *stat, int kind, struct FTW *ftw)
{
    (void)stat;
    (void)kind;
    (void)ftw;
    return remove(path);
}

static void remove_all(const char *path)
{
    if (nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS) != 0) {
        perror(path);
    }
}

static void remove_leftovers(void)
{
    while (folders != NULL) {
        struct temporary_folder *f = folders;
        folders = f->next;
        if (f->maker == getpid()) {
            remove_all(f->path);
        }
        free(f);
    }
}

const char *temporary_folder(const char *under)
{
    static int is_awaited;
    struct temporary_folder *f = calloc(1, sizeof(*f));
    assert_non_null(f);
    if (under == NULL) {
        under = getenv("TMPDIR");
    }
    int len = snprintf(f->path, sizeof(f->path), "%s/holdfast-test-XXXXXX",
                       under == NULL || under[0] == '\0' ? "/tmp" : under);
    assert_true(len > 0 && (size_t)len < sizeof(f->path));
    if (mkdtemp(f->path) == NULL) {
        free(f);
        fail_msg("no folder in %s", under == NULL ? "/tmp" : under);
    }
    if (!is_awaited) {
        assert_int_equal(atexit(remove_leftovers), 0);
        is_awaited = 1;
    }
    f->maker = getpid();
    f->next = folders;
    folders = f;
    return f->path;
}

void temporary_remove(const char *path)
{
    struct temporary_folder **at = &folders;
    while (*at != NULL && (*at)->path != path) {
        at = &(*at)->next;
    }
    struct temporary_folder *f = *at;
    assert_non_null(f);
    *at = f->next;
    remove_all(f->path);
    free(f);
}
