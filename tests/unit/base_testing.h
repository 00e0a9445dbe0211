/* What the unit tests of base/ share: memory that is counted, random numbers that are the same at
 * every run, and a way to see a panic from outside. To be included first. */
#ifndef HOLDFAST_TESTS_BASE_TESTING_H
#define HOLDFAST_TESTS_BASE_TESTING_H

#ifndef _POSIX_C_SOURCE
#define _POSIX_C_SOURCE 200809L
#endif

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/memory.h"

#if defined(__SANITIZE_ADDRESS__)
#define TESTING_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define TESTING_ASAN 1
#endif
#endif
#ifndef TESTING_ASAN
#define TESTING_ASAN 0
#endif

/* ---- counted memory ---- */

struct counted {
    struct memory memory;
    uint64_t blocks;  /* alive */
    uint64_t bytes;   /* alive */
    uint64_t calls;   /* of alloc, ever */
    uint64_t largest; /* single block, ever */
};

/* Precedes each block, so that a free with another size is noticed. Blocks are filled with garbage,
 * so that a container that expects zeroes is noticed too. */
union counted_header {
    size_t size;
    max_align_t align;
};

static void *counted_alloc(void *ctx, size_t size)
{
    struct counted *counted = ctx;
    assert_true(size > 0);
    union counted_header *header = malloc(sizeof(*header) + size);
    assert_non_null(header);
    header->size = size;
    memset(header + 1, 0xa5, size);
    counted->blocks++;
    counted->bytes += size;
    counted->calls++;
    if (size > counted->largest)
        counted->largest = size;
    return header + 1;
}

static void counted_free(void *ctx, void *block, size_t size)
{
    struct counted *counted = ctx;
    union counted_header *header = (union counted_header *)block - 1;
    assert_int_equal(header->size, size);
    counted->blocks--;
    counted->bytes -= size;
    free(header);
}

static inline void counted_init(struct counted *counted)
{
    *counted = (struct counted){.memory = {counted_alloc, counted_free, counted}};
}

static inline void assert_all_given_back(const struct counted *counted)
{
    assert_int_equal(counted->blocks, 0);
    assert_int_equal(counted->bytes, 0);
}

/* ---- random numbers (splitmix64, Vigna) ---- */

struct random {
    uint64_t state;
};

/* HOLDFAST_TEST_SEED tries another one. */
static inline void random_init(struct random *random, const char *test)
{
    const char *chosen = getenv("HOLDFAST_TEST_SEED");
    random->state = chosen != NULL ? strtoull(chosen, NULL, 0) : UINT64_C(20240607);
    printf("           seed %llu for %s\n", (unsigned long long)random->state, test);
}

static inline uint64_t random_next(struct random *random)
{
    uint64_t z = random->state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

static inline uint32_t random_below(struct random *random, uint32_t limit)
{
    return (uint32_t)(random_next(random) % limit);
}

/* ---- panics ---- */

/* Runs `act` in a child process, and checks that it aborts and that stderr says `what`. */
static inline void assert_panics(void (*act)(void *), void *ctx, const char *what)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        act(ctx);
        _exit(0);
    }
    close(ends[1]);
    char said[4096];
    size_t len = 0;
    ssize_t got;
    while ((got = read(ends[0], said + len, sizeof(said) - 1 - len)) > 0)
        len += (size_t)got;
    said[len] = '\0';
    close(ends[0]);
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGABRT);
    if (strncmp(said, "holdfast: ", 10) != 0 || strstr(said, what) == NULL)
        fail_msg("expected a panic with \"%s\", got \"%s\"", what, said);
}

#endif
