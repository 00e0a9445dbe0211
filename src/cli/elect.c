/* `holdfast elect NAME [VALUE] [-- COMMAND]`: runs a command while this client leads. `--listen`
 * only prints the leader. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/elect_listen.h"
#include "cli/exits.h"
#include "cli/say.h"
#include "cli/wrap.h"

struct elect_settings {
    struct cli_common common;
    struct wrap_options wrap;
    bool listen;
    bool no_wait;
    uint64_t wait_ms;
    uint64_t changes;
};

const struct flag elect_options[] = {
    {"listen", 0, FLAG_SWITCH(struct elect_settings, listen), NULL,
     "do not take part: print the leader and each change"},
    {"changes", 0, FLAG_NUMBER(struct elect_settings, changes), "N",
     "with --listen: exit after N lines"},
    {"nonblock", 'n', FLAG_SWITCH(struct elect_settings, no_wait), NULL,
     "do not wait: exit with 75 if another client leads"},
    {"wait", 'w', FLAG_DURATION(struct elect_settings, wait_ms), "DURATION",
     "maximum time to wait (default: no limit)"},
    {"ttl", 't', FLAG_DURATION(struct elect_settings, wrap.ttl_ms), "DURATION",
     "time from the last confirmation to the end of the leadership (default: 30s)"},
    {"kill-after", 'k', FLAG_DURATION(struct elect_settings, wrap.kill_after_ms), "DURATION",
     "time from TERM to KILL if the leadership is lost (default: TTL/6, at most 5s)"},
    {"lock-delay", 0, FLAG_DURATION(struct elect_settings, wrap.lock_delay_ms), "DURATION",
     "time without a leader after a loss (default: the time for TERM and KILL + 1s)"},
    WRAP_MAX_HOLD_OPTION(struct elect_settings),
    {"conflict-exit-code", 'E', FLAG_NUMBER(struct elect_settings, wrap.conflict), "CODE",
     "exit code if not elected (default: 75)"},
    {"status-fd", 0, FLAG_NUMBER(struct elect_settings, wrap.status_fd), "N",
     "at the end, write a JSON line to it: acquired, token, lost, child_exit, reason"},
    WRAP_TRACE_OPTION(struct elect_settings),
    {"verbose", 'v', FLAG_SWITCH(struct elect_settings, wrap.is_verbose), NULL,
     "print events to stderr"},
    CLI_COMMON_OPTIONS(struct elect_settings),
    FLAGS_END,
};

/* Without a command, stdout reports the election. */
static void announce(const struct elect_settings *o, const char *name, uint64_t epoch)
{
    if (o->common.json) {
        printf("{\"elected\":true,\"epoch\":%" PRIu64 "}\n", epoch);
    } else {
        printf("elected: %s, epoch %" PRIu64 "\n", name, epoch);
    }
    (void)fflush(stdout);
}

static int run(struct elect_settings *o, const char *name, const char *value,
               struct program *program)
{
    struct wrap w;
    struct hf_lock_options lock = HF_LOCK_OPTIONS;
    hf_call *call = NULL;
    o->wrap.is_impatient = o->no_wait || o->wait_ms == 0;
    int code = wrap_begin(&w, &o->wrap, program);
    if (code == 0) {
        wrap_lock_options(&w, &lock);
        lock.wait_ms = o->no_wait                 ? 0
                       : o->wait_ms == UINT64_MAX ? HF_WAIT_FOREVER
                                                  : (int64_t)o->wait_ms;
        int error = hf_campaign_async(w.client, name, value, &lock, wrap_done, &w, &call);
        if (error != 0) {
            wrap_done(w.client, error, NULL, &w);
        }
        code = wrap_wait(&w, call);
    }
    if (code == 0 && w.lock != NULL) { /* else --conflict-exit-code 0 */
        if (program == NULL) {
            announce(o, name, hf_lock_token(w.lock));
        } else if (o->wrap.is_verbose) {
            cli_say("%s: elected, epoch %" PRIu64, name, hf_lock_token(w.lock));
        }
        wrap_run(&w);
    }
    return wrap_end(&w, code);
}

int elect_main(int count, char **arguments)
{
    struct elect_settings o = {.common = CLI_COMMON_DEFAULT,
                               .wrap = {.ttl_ms = 30000, .conflict = EXIT_NOT_ACQUIRED},
                               .wait_ms = UINT64_MAX};
    struct flag_words words;
    struct program program;
    if (!flags_read("elect", elect_options, FLAGS_ANY_ORDER, count, arguments, &o, &words) ||
        !wrap_check(&o.wrap)) {
        return EXIT_USAGE;
    }
    int before = words.separator >= 0 ? words.separator : words.count;
    bool has_command = words.count > before;
    struct flag_words own = {before, words.items, -1};
    if (!cli_words_check("elect", &own, 1, 2)) {
        return EXIT_USAGE;
    }
    if (o.listen && (has_command || before > 1)) {
        cli_say("elect: --listen takes one NAME and no other argument");
        return EXIT_USAGE;
    }
    const char *name = words.items[0];
    if (o.listen) {
        return elect_listen(&o.common, name, o.changes);
    }
    words.items[words.count] = NULL; /* not always the NULL of argv: words moved up */
    if (has_command) {
        int code = program_find(&program, words.items + before);
        if (code != 0) {
            return code;
        }
    }
    o.wrap.what = name;
    o.wrap.names = name;
    o.wrap.first = name;
    o.wrap.endpoints = o.common.endpoints;
    o.wrap.security = o.common.security;
    o.wrap.timeout_ms = o.common.timeout_ms;
    return run(&o, name, before > 1 ? words.items[1] : "", has_command ? &program : NULL);
}
