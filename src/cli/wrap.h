/* Runs a command while a lock or a leadership is held: the common part of `lock` and `elect`.
 *
 *     wrap_begin     blocks signals, forks the guard, opens the client
 *     (the caller acquires the lock or campaigns, with wrap_done as the callback)
 *     wrap_wait      waits for the answer or a signal
 *     wrap_run       runs the command and sends confirmations to the guard, until all are dead
 *     wrap_end       releases the lock, writes the status line, returns the exit code
 *
 * All of it is one thread with one poll(2), which also drives the client library. */
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
    const char *names; /* for HOLDFAST_LOCK */
    const char *first; /* the first name */
    const char *endpoints;
    uint64_t timeout_ms;
    uint64_t ttl_ms;
    uint64_t kill_after_ms; /* between TERM and KILL; 0: a part of the TTL */
    uint64_t lock_delay_ms; /* 0: the time that the guard needs, and HEARING_MS */
    uint64_t conflict;      /* the exit code if it is not acquired */
    uint64_t status_fd;     /* 0: none */
    const char *trace;      /* a traceparent; NULL or "": none */
    bool is_impatient;      /* does not wait for the lock, and so not for a majority */
    bool is_verbose;
};

#define WRAP_TRACE_OPTION(type)                                                            \
    {                                                                                      \
        "trace", 0, FLAG_TEXT(type, wrap.trace), "TRACEPARENT",                            \
            "W3C traceparent shown with the holder, \"\" for none (default: $TRACEPARENT)" \
    }

struct wrap {
    const struct wrap_options *o;
    struct program *program; /* NULL: no command */
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
    bool knows_holder; /* `refusal` names the holder */
    int caught;        /* a signal before the command ran, or without a command; 0: none */

    bool has_started; /* GUARD_START was sent */
    pid_t child;
    bool is_over;
    int child_status; /* of waitpid */
    int run_error;    /* errno if the command could not be run */
    bool is_lost;
    bool was_notified;   /* the guard has the information that the lock is lost */
    bool lost_guard;     /* guard or standby were killed */
    char loss[64];       /* the kind: "forced", "unconfirmed", ... */
    char words[256];     /* the reason of the operator, or empty */
    int64_t revoked_ms;  /* on clock_boot_ms; 0: not revoked */
    int64_t reported_ms; /* the last deadline sent to the guard */
};

/* Checks the common options and sets defaults. On failure, prints the problem and returns false. */
bool wrap_check(struct wrap_options *o);

/* Returns 0 or the exit code. */
int wrap_begin(struct wrap *w, const struct wrap_options *o, struct program *program);
/* For hf_acquire_async; arg is the wrap. */
void wrap_done(hf_client *client, int error, hf_lock *lock, void *arg);
/* Sets the TTL, the lock-delay and the trace of the acquire request. */
void wrap_lock_options(const struct wrap *w, struct hf_lock_options *options);
/* Returns 0 if the lock is held, else the exit code, which the caller passes to wrap_end. */
int wrap_wait(struct wrap *w, hf_call *call);
/* Runs the command, or without one waits for a signal or the loss. */
void wrap_run(struct wrap *w);
/* Releases the lock and all resources. `code` is the result of wrap_wait. Returns the exit code. */
int wrap_end(struct wrap *w, int code);

/* Queries the holder and writes it to w->refusal, unless the refusal names it. A refusal that was
 * repeated through another node does not. */
void wrap_query_holder(struct wrap *w);

/* One turn of the loop, at most `most_ms`. For wrap.c and wrap_run.c only. */
void wrap_turn(struct wrap *w, int most_ms);

#endif
