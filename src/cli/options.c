/* See options.h. */
#include "cli/options.h"

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
