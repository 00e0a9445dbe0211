/* Running a command while something is held: what `lock` and `elect` share.
 *
 *     wrap_begin     signals are blocked, the guard is forked, the client is begun
 *     (the caller asks for the lock or campaigns, with wrap_done as the callback)
 *     wrap_wait      until the answer is there, or a signal came
 *     wrap_run       the command, with confirmations for the guard, until all of it is dead
 *     wrap_end       gives the lock back, writes the status line, gives the exit code
 *
 * One thread does it all, in one poll(2): the client is driven by our loop. */
#ifndef HOLDFAST_CLI_WRAP_H
#define HOLDFAST_CLI_WRAP_H

#include "cli/guard.h"
#include "cli/guard_cgroup.h"
#include "cli/options.h"
#include "cli/program.h"
#include "cli/terminal.h"
#include "holdfast.h"

struct wrap_options {
    const char *what;  /* for people: "billing/close" */
    const char *names; /* for HOLDFAST_LOCK */
    const char *first; /* of them */
    const char *endpoints;
    uint64_t timeout_ms;
    uint64_t ttl_ms;
    uint64_t kill_after_ms; /* between TERM and KILL; 0: a part of the TTL */
    uint64_t lock_delay_ms; /* 0: what the guard needs, and a second to hear of it */
    uint64_t conflict;      /* the exit code when it is not acquired */
    uint64_t status_fd;     /* 0: none */
    bool is_impatient;      /* it does not wait for the lock, so it does not wait for a majority */
    bool is_verbose;
};

struct wrap {
    const struct wrap_options *o;
    struct program *program; /* NULL: nothing is run */
    struct guard_plan plan;
    struct guard guard;
    struct guard_cgroup cgroup;
    struct terminal terminal;
    sigset_t old_mask;
    int signals;
    hf_client *client;
    hf_lock *lock;

    bool is_answered;
    int error; /* of the answer */
    char refusal[512];
    bool knows_holder; /* it is in the refusal */
    int caught;        /* a signal, before the command ran or where none is run */

    bool has_started; /* the guard was told to */
    pid_t child;
    bool is_over;
    int child_status; /* as waitpid says */
    int run_error;    /* errno: it could not be run */
    bool is_lost;
    bool was_told;      /* the guard, of the loss */
    bool lost_guard;    /* guard or standby were killed */
    char loss[64];      /* a word: "forced", "unconfirmed", ... */
    char words[256];    /* an operator's, or empty */
    int64_t revoked_ms; /* on clock_boot_ms; 0: nobody wants it back */
    int64_t told_ms;    /* the deadline that the guard knows */
};

/* Checks the options that both have. False: it has said what is wrong. */
bool wrap_check(struct wrap_options *o);

/* 0, or the exit code. */
int wrap_begin(struct wrap *w, const struct wrap_options *o, struct program *program);
/* For hf_acquire_async; arg is the wrap. */
void wrap_done(hf_client *client, int error, hf_lock *lock, void *arg);
/* What the lock is taken with. */
void wrap_lock_options(const struct wrap *w, struct hf_lock_options *options);
/* 0: it is held. Else the exit code of what wrap_end says. */
int wrap_wait(struct wrap *w, hf_call *call);
/* Runs the command, or without one waits for a signal or the loss. */
void wrap_run(struct wrap *w);
/* Gives everything back. `code` is what wrap_wait gave. */
int wrap_end(struct wrap *w, int code);

/* Asks who holds it, into w->refusal, where the refusal did not say: one that was repeated through
 * another node does not. */
void wrap_ask_holder(struct wrap *w);

/* One round of the loop: at most `most_ms`. Inside of wrap.c and wrap_run.c. */
void wrap_turn(struct wrap *w, int most_ms);

#endif
