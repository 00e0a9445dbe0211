/* See options.h. */
#include "cli/options.h"

#include <stdlib.h>

#include "base/text.h"
#include "cli/command.h"
#include "cli/say.h"

bool cli_words_check(const char *command, const struct flag_words *words, int min, int max)
{
    if (words->count >= min && words->count <= max) {
        return true;
    }
    const struct cli_command *row = cli_command_find(command);
    const char *usage = row == NULL ? "" : row->usage;
    if (words->count < min) {
        cli_say("%s: an argument is missing", command);
    } else {
        cli_say("%s: unexpected argument \"%s\"", command, words->items[max]);
    }
    cli_say("usage: holdfast %s%s%s", command, usage[0] == '\0' ? "" : " ", usage);
    return false;
}

/* An invalid one of the environment is ignored: it may be of a later version of the standard, and it
 * is not an argument of this command. */
bool cli_trace_check(const char **trace)
{
    bool is_flag = *trace != NULL;
    if (!is_flag) {
        *trace = getenv("TRACEPARENT");
    }
    if (*trace == NULL || (*trace)[0] == '\0' || text_is_traceparent(slice_of(*trace))) {
        return true;
    }
    if (is_flag) {
        cli_say(
            "--trace: \"%s\" is not a W3C traceparent: 00-TRACE_ID-PARENT_ID-FLAGS in lower-case "
            "hexadecimal",
            *trace);
        return false;
    }
    *trace = NULL;
    return true;
}
