/* `holdfast renew` and `holdfast release`: by the lease that `holdfast acquire` printed. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/limits.h"
#include "cli/commands.h"
#include "cli/exits.h"
#include "cli/lease.h"
#include "cli/say.h"
#include "transport/clock.h"

struct renew_settings {
    struct cli_common common;
    uint64_t ttl_ms; /* 0: as before */
};

const struct flag renew_options[] = {
    {"ttl", 't',
     FLAG_DURATION_IN(struct renew_settings, ttl_ms, LIMIT_TTL_MIN_MS, LIMIT_TTL_MAX_MS),
     "DURATION", "new TTL of the lock (default: as before)"},
    CLI_COMMON_OPTIONS(struct renew_settings),
    FLAGS_END,
};

const struct flag release_options[] = {
    CLI_COMMON_OPTIONS(struct renew_settings),
    FLAGS_END,
};

/* The name if it is known; the lease itself is not shown. */
static const char *what(int words)
{
    const char *lock = getenv("HOLDFAST_LOCK");
    return words == 0 && lock != NULL && lock[0] != '\0' ? lock : "the lock of this lease";
}

/* EXIT_LOST: prints the reason. Others: see lease_fail. */
static int fail(const struct api *api, const char *name, const char *than, int code,
                const struct api_answer *answer)
{
    if (code != EXIT_LOST) {
        return lease_fail(api, name, code);
    }
    struct slice reason = json_tree_text(json_tree_get(answer->tree, "reason"));
    struct slice ended = json_tree_text(json_tree_get(answer->tree, "ended"));
    if (slice_equal(reason, slice_of("already_released"))) {
        cli_say("%s was released before; it is not held any more", name);
    } else {
        cli_say("%s was lost (%.*s) before %s; another client may hold it now, so stop what it "
                "protects",
                name, (int)(ended.len > 0 ? ended.len : reason.len),
                (const char *)(ended.len > 0 ? ended.data : reason.data), than);
    }
    return EXIT_LOST;
}

static void print_renewed(const struct cli_common *common, int64_t until_ms)
{
    int64_t left_ms = until_ms - clock_boot_ms();
    if (common->json) {
        printf("{\"renewed\":true,\"until_ms\":%" PRId64 ",\"safe_for_ms\":%" PRId64 "}\n",
               until_ms, left_ms > 0 ? left_ms : 0);
    } else {
        shell_put_until("HOLDFAST_UNTIL", until_ms);
    }
}

static bool begin(const char *command, const struct flag *options, int count, char **arguments,
                  struct renew_settings *o, struct flag_words *words, struct lease *lease,
                  struct api *api)
{
    return flags_read(command, options, FLAGS_ANY_ORDER, count, arguments, o, words) &&
           cli_words_check(command, words, 0, 1) &&
           lease_read(command, words->count > 0 ? words->items[0] : NULL, lease) &&
           api_init(api, &o->common);
}

int renew_main(int count, char **arguments)
{
    struct renew_settings o = {.common = CLI_COMMON_DEFAULT};
    struct flag_words words;
    struct lease lease;
    struct api api;
    struct api_answer answer;
    int64_t until_ms = 0;
    int code = EXIT_USAGE;
    if (begin("renew", renew_options, count, arguments, &o, &words, &lease, &api)) {
        code = lease_renew(&api, &lease, o.ttl_ms, &until_ms, &answer);
        bool is_answered = code == 0 || code == EXIT_LOST;
        if (code == 0) {
            print_renewed(&o.common, until_ms);
        } else {
            if (is_answered && o.common.json) {
                api_print_json(&answer);
            }
            code = fail(&api, what(words.count), "the renewal", code, &answer);
        }
        if (is_answered) {
            api_answer_close(&answer);
        }
    }
    if (code != 0 && !o.common.json) {
        shell_put_failure(code);
    }
    return code;
}

int release_main(int count, char **arguments)
{
    struct renew_settings o = {.common = CLI_COMMON_DEFAULT};
    struct flag_words words;
    struct lease lease;
    struct api api;
    struct api_answer answer;
    if (!begin("release", release_options, count, arguments, &o, &words, &lease, &api)) {
        return EXIT_USAGE;
    }
    int code = lease_release(&api, &lease, &answer);
    bool is_answered = code == 0 || code == EXIT_LOST;
    if (is_answered && o.common.json) {
        api_print_json(&answer);
    }
    if (code != 0) {
        code = fail(&api, what(words.count), "the release", code, &answer);
    }
    if (is_answered) {
        api_answer_close(&answer);
    }
    return code;
}
