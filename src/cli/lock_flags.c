/* See lock_flags.h. */
#include "cli/lock_flags.h"

#include <stdio.h>
#include <strings.h>

#include "cli/command.h"
#include "cli/say.h"

static bool fail(const char *command, const char *problem)
{
    const struct cli_command *row = cli_command_find(command);
    cli_say("%s: %s", command, problem);
    cli_say("usage: holdfast %s %s   (`holdfast %s --help`)", command, row->usage, command);
    return false;
}

bool lock_flags_check(const char *command, struct lock_flags *o)
{
    if (o->is_shared && o->is_exclusive) {
        return fail(command, "-s and -x cannot be combined");
    }
    if (o->limit == 0 && o->permits != 0) {
        return fail(command, "--permits needs --limit");
    }
    if (o->limit != 0 && (o->is_shared || o->limit > UINT32_MAX || o->permits > o->limit)) {
        return fail(command,
                    o->is_shared
                        ? "--limit and -s cannot be combined"
                        : "--permits must not be more than --limit, which is at most 2^32-1");
    }
    if (o->tier != NULL) {
        o->is_fast = strcasecmp(o->tier, "efficiency") == 0;
        if (!o->is_fast && strcasecmp(o->tier, "correctness") != 0) {
            return fail(command, "--tier must be correctness or efficiency");
        }
    }
    return true;
}

bool lock_flags_check_names(const char *command, const struct lock_flags *o, int names)
{
    if (names == 0) {
        return fail(command, "NAME is missing");
    }
    if (names > LOCK_NAMES_MAX) {
        return fail(command, "at most 64 names are allowed");
    }
    if (names > 1 && (o->is_shared || o->limit != 0)) {
        return fail(command, "several names can only be acquired as exclusive locks");
    }
    return true;
}

void lock_flags_join(char *out, size_t size, char *const *items, int count)
{
    size_t len = 0;
    out[0] = '\0';
    for (int i = 0; i < count && len < size; i++) {
        len += (size_t)snprintf(out + len, size - len, "%s%s", i > 0 ? " " : "", items[i]);
    }
}
