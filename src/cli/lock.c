/* `holdfast lock NAME... -- COMMAND`: flock(1) for locks of a cluster. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/exits.h"
#include "cli/lock_flags.h"
#include "cli/say.h"
#include "cli/wrap.h"

struct lock_settings {
    struct cli_common common;
    struct wrap_options wrap;
    struct lock_flags lock;
    const char *command;
};

const struct flag lock_options[] = {
    LOCK_FLAGS_OPTIONS(struct lock_settings, lock),
    {"ttl", 't', FLAG_DURATION(struct lock_settings, wrap.ttl_ms), "DURATION",
     "time from the last confirmation to the end of the lock (default: 30s)"},
    {"kill-after", 'k', FLAG_DURATION(struct lock_settings, wrap.kill_after_ms), "DURATION",
     "time from TERM to KILL if the lock is lost (default: TTL/6, at most 5s)"},
    {"lock-delay", 0, FLAG_DURATION(struct lock_settings, wrap.lock_delay_ms), "DURATION",
     "time after a loss before it can be acquired (default: the time for TERM and KILL + 1s)"},
    WRAP_MAX_HOLD_OPTION(struct lock_settings),
    {"conflict-exit-code", 'E', FLAG_NUMBER(struct lock_settings, wrap.conflict), "CODE",
     "exit code if it is not acquired (default: 75)"},
    {"command", 'c', FLAG_TEXT(struct lock_settings, command), "STRING",
     "run STRING with $SHELL -c"},
    {"status-fd", 0, FLAG_NUMBER(struct lock_settings, wrap.status_fd), "N",
     "at the end, write a JSON line to it: acquired, token, lost, child_exit, reason"},
    {"linger", 0, FLAG_DURATION_IN(struct lock_settings, wrap.linger_ms, 0, WRAP_LINGER_MAX_MS),
     "DURATION", "keep the lock for that long after the command ended (default: 0)"},
    LOCK_TIER_OPTION(struct lock_settings, lock),
    {"detect-deadlock", 0, FLAG_SWITCH(struct lock_settings, lock.detect_deadlock), NULL,
     "fail instead of waiting if waiting would be a deadlock"},
    WRAP_TRACE_OPTION(struct lock_settings),
    {"verbose", 'v', FLAG_SWITCH(struct lock_settings, wrap.is_verbose), NULL,
     "print events to stderr"},
    CLI_ENDPOINTS_OPTION(struct lock_settings),
    CLI_TIMEOUT_OPTION(struct lock_settings),
    CLI_SECURITY_OPTIONS(struct lock_settings, common.security),
    FLAGS_END,
};

static bool fail(const char *problem)
{
    cli_say("lock: %s", problem);
    cli_say("usage: holdfast lock NAME... [FLAGS] -- COMMAND...   (`holdfast lock --help`)");
    return false;
}

/* Names and the command. Without `--` as in flock(1): one name, then the command. */
static bool split(struct lock_settings *o, struct flag_words *words, int *names)
{
    *names = words->separator >= 0 ? words->separator : words->count > 0 ? 1 : 0;
    if (words->separator < 0 && words->count == 3 && o->command == NULL &&
        (strcmp(words->items[1], "-c") == 0 || strcmp(words->items[1], "--command") == 0)) {
        o->command = words->items[2]; /* flock NAME -c STRING */
        words->count = 1;
    }
    if (!lock_flags_check_names("lock", &o->lock, *names)) {
        return false;
    }
    if ((words->count > *names) == (o->command != NULL)) {
        return fail(o->command != NULL ? "-c and a COMMAND cannot be combined"
                                       : "COMMAND is missing");
    }
    return true;
}

static bool has_separator(int count, char **arguments)
{
    for (int i = 0; i < count; i++) {
        if (strcmp(arguments[i], "--") == 0) {
            return true;
        }
    }
    return false;
}

static int run(struct lock_settings *o, const char *const *names, size_t count,
               struct program *program)
{
    struct wrap w;
    struct hf_lock_options lock = HF_LOCK_OPTIONS;
    hf_call *call = NULL;
    o->wrap.is_impatient = o->lock.no_wait || o->lock.wait_ms == 0;
    int code = wrap_begin(&w, &o->wrap, program);
    if (code == 0) {
        wrap_lock_options(&w, &lock);
        lock.wait_ms = o->lock.no_wait                 ? 0
                       : o->lock.wait_ms == UINT64_MAX ? HF_WAIT_FOREVER
                                                       : (int64_t)o->lock.wait_ms;
        lock.mode = o->lock.limit != 0  ? HF_SEMAPHORE
                    : o->lock.is_shared ? HF_SHARED
                                        : HF_EXCLUSIVE;
        lock.limit = (uint32_t)o->lock.limit;
        lock.permits = (uint32_t)o->lock.permits;
        lock.detect_deadlock = o->lock.detect_deadlock;
        lock.tier = o->lock.is_fast ? HF_EFFICIENCY : HF_CORRECTNESS;
        int error = hf_acquire_async(w.client, names, count, &lock, wrap_done, &w, &call);
        if (error != 0) {
            wrap_done(w.client, error, NULL, &w);
        }
        code = wrap_wait(&w, call);
    }
    if (code == 0 && w.lock != NULL) { /* else --conflict-exit-code 0 */
        if (o->wrap.is_verbose) {
            cli_say("%s: acquired, token %" PRIu64, o->wrap.what, hf_lock_token(w.lock));
        }
        wrap_run(&w);
    }
    return wrap_end(&w, code);
}

int lock_main(int count, char **arguments)
{
    static char joined[LOCK_NAMES_TEXT];
    struct lock_settings o = {.common = CLI_COMMON_DEFAULT,
                              .wrap = {.ttl_ms = 30000, .conflict = EXIT_NOT_ACQUIRED},
                              .lock = LOCK_FLAGS_DEFAULT};
    struct flag_words words;
    struct program program;
    int name_count;
    enum flag_order order = has_separator(count, arguments) ? FLAGS_ANY_ORDER : FLAGS_WORDS_LAST;
    if (!flags_read("lock", lock_options, order, count, arguments, &o, &words) ||
        !lock_flags_check("lock", &o.lock) || !wrap_check(&o.wrap) ||
        !split(&o, &words, &name_count)) {
        return EXIT_USAGE;
    }
    const char *names[LOCK_NAMES_MAX];
    for (int i = 0; i < name_count; i++) {
        names[i] = words.items[i];
    }
    lock_flags_join(joined, sizeof(joined), words.items, name_count);
    char **command = words.items + name_count;
    words.items[words.count] = NULL; /* at most the NULL of argv */
    static char text[1 << 17];
    int code = 0;
    if (o.command != NULL) {
        (void)snprintf(text, sizeof(text), "%s", o.command);
        code = program_find_shell(&program, text);
    } else {
        code = program_find(&program, command);
    }
    if (code != 0) {
        return code;
    }
    o.wrap.what = joined;
    o.wrap.names = joined;
    o.wrap.first = names[0];
    o.wrap.endpoints = o.common.endpoints;
    o.wrap.security = o.common.security;
    o.wrap.timeout_ms = o.common.timeout_ms;
    return run(&o, names, (size_t)name_count, &program);
}
