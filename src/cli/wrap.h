/* Runs a command while a lock or a leadership is held, for `lock` and `elect`.
 *
 *     wrap_begin     blocks signals, forks the guard, opens the client
 *     (the caller acquires or campaigns, with the callback wrap_done)
 *     wrap_wait      waits for the answer or a signal
 *     wrap_run       runs the command and sends confirmations to the guard, until all are dead; then
 *                    keeps the lock for linger_ms
 *     wrap_end       releases the lock, writes the status line, returns the exit code
 *
 * One thread with one poll(2), which also drives the client library. */
#ifndef HOLDFAST_CLI_WRAP_H
#define HOLDFAST_CLI_WRAP_H

#include "cli/guard.h"
#include "cli/guard_cgroup.h"
#include "cli/options.h"
#include "cli/program.h"
#include "cli/terminal.h"
#include "holdfast.h"

struct wrap_options {
    const char *what;  /* for messages: "billing/close" */
    const char *names; /* HOLDFAST_LOCK */
    const char *first;
    const char *endpoints;
    struct security_files security;
    uint64_t timeout_ms;
    uint64_t ttl_ms;
    uint64_t kill_after_ms; /* TERM to KILL; 0: a part of the TTL */
    uint64_t lock_delay_ms; /* 0: what the guard needs, and HEARING_MS */
    uint64_t max_hold_ms;   /* 0: none */
    uint64_t linger_ms;     /* from the end of the command to the release */
    uint64_t conflict;      /* exit code if not acquired */
    uint64_t status_fd;     /* 0: none */
    const char *trace;      /* a traceparent; NULL or "": none */
    bool is_impatient;      /* waits neither for the lock nor for a majority */
    bool is_verbose;
};

enum { WRAP_LINGER_MAX_MS = 24 * 3600 * 1000 };

#define WRAP_TRACE_OPTION(type)                                                            \
    {                                                                                      \
        "trace", 0, FLAG_TEXT(type, wrap.trace), "TRACEPARENT",                            \
            "W3C traceparent shown with the holder, \"\" for none (default: $TRACEPARENT)" \
    }

#define WRAP_MAX_HOLD_OPTION(type)                                                            \
    {                                                                                         \
        "max-hold", 0, FLAG_DURATION(type, wrap.max_hold_ms), "DURATION",                     \
            "longest time it is held; then it is lost, even while it is confirmed (default: " \
            "no limit)"                                                                       \
    }

struct wrap {
    const struct wrap_options *o;
    struct program *program; /* or NULL */
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
    bool knows_holder;
    int caught; /* signal before or without a command; 0: none */

    bool has_started;
    pid_t child;
    bool is_over;
    int child_status; /* of waitpid */
    int run_error;    /* errno if it could not be run */
    bool is_lost;
    bool is_hold_over;   /* --max-hold is what ends the lock next */
    bool was_notified;   /* the guard has a message about the loss */
    bool lost_guard;     /* guard or standby was killed */
    bool is_lingering;   /* the command has ended, --linger has not */
    bool lost_in_linger; /* the command ran to its end under the lock */
    char loss[64];       /* "forced", "unconfirmed", ... */
    char words[256];     /* operator's reason, or empty */
    int64_t revoked_ms;  /* on clock_boot_ms; 0: not revoked */
    int64_t reported_ms; /* last deadline sent to the guard */
};

/* Checks the common options and sets defaults. False: the problem is printed. */
bool wrap_check(struct wrap_options *o);

/* 0 or the exit code. */
int wrap_begin(struct wrap *w, const struct wrap_options *o, struct program *program);
/* For hf_acquire_async; arg is the wrap. */
void wrap_done(hf_client *client, int error, hf_lock *lock, void *arg);
/* TTL, lock-delay and trace of the acquire. */
void wrap_lock_options(const struct wrap *w, struct hf_lock_options *options);
/* The exit code for wrap_end. 0: the lock is held; or it is not (`lock` is NULL), with --conflict-exit-code 0. */
int wrap_wait(struct wrap *w, hf_call *call);
/* Runs the command; without one, waits for a signal or the loss. */
void wrap_run(struct wrap *w);
/* Releases lock and resources. `code` is wrap_wait's. Returns the exit code. */
int wrap_end(struct wrap *w, int code);

/* Queries the holder for w->refusal, unless that names it. A refusal repeated through another node
 * does not. */
void wrap_query_holder(struct wrap *w);

/* One turn of the loop, at most `most_ms`. For wrap.c and wrap_run.c. */
void wrap_turn(struct wrap *w, int most_ms);

#endif
