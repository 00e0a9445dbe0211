/* Parses flags according to a table, see options.h. */
#include "cli/options.h"

#include <stdlib.h>
#include <string.h>

#include "cli/command.h"
#include "cli/say.h"
#include "server/config_value.h"

struct reading {
    const char *command;
    const struct cli_option *options;
    char **arguments;
    int count;
    int at;
    void *out;
};

static const char *const expected[] = {
    [CLI_TEXT] = "a text",
    [CLI_NUMBER] = "a whole number",
    [CLI_DURATION] = "a duration: a number of seconds, or a number with the unit ms, s, m or h",
};

static bool fail_flag(const struct reading *r, const char *flag, const char *problem)
{
    cli_say("%s: %s", flag, problem);
    cli_say("`holdfast %s --help` lists its flags", r->command);
    return false;
}

static bool set_value(const struct reading *r, const struct cli_option *option, const char *flag,
                      const char *text)
{
    void *at = (char *)r->out + option->offset;
    bool is_fine = true;
    switch (option->type) {
    case CLI_FLAG:
        *(bool *)at = true;
        break;
    case CLI_TEXT:
        *(const char **)at = text;
        break;
    case CLI_NUMBER:
        is_fine = value_number(text, at);
        break;
    case CLI_DURATION:
        is_fine = value_duration_ms(text, at);
        break;
    }
    if (!is_fine) {
        cli_say("%s: \"%s\" is not %s", flag, text, expected[option->type]);
    }
    return is_fine;
}

static const struct cli_option *find_long(const struct reading *r, const char *name, size_t len)
{
    for (const struct cli_option *o = r->options; o->name != NULL; o++) {
        if (strlen(o->name) == len && memcmp(o->name, name, len) == 0) {
            return o;
        }
    }
    return NULL;
}

static const struct cli_option *find_letter(const struct reading *r, char letter)
{
    for (const struct cli_option *o = r->options; o->name != NULL; o++) {
        if (o->letter != 0 && o->letter == letter) {
            return o;
        }
    }
    return NULL;
}

static const char *next_argument(struct reading *r)
{
    return r->at + 1 < r->count ? r->arguments[++r->at] : NULL;
}

static bool read_long(struct reading *r, const char *argument)
{
    const char *equals = strchr(argument, '=');
    size_t len = equals != NULL ? (size_t)(equals - argument) : strlen(argument);
    const struct cli_option *option = find_long(r, argument + 2, len - 2);
    if (option == NULL) {
        return fail_flag(r, argument, "there is no such flag");
    }
    if (option->type == CLI_FLAG) {
        return equals == NULL ? set_value(r, option, argument, NULL)
                              : fail_flag(r, argument, "this flag takes no value");
    }
    const char *value = equals != NULL ? equals + 1 : next_argument(r);
    if (value == NULL) {
        return fail_flag(r, argument, "a value is missing");
    }
    return set_value(r, option, argument, value);
}

/* `-abVALUE`: flags until one takes the rest, or the next argument, as its value. */
static bool read_letters(struct reading *r, const char *argument)
{
    for (const char *letter = argument + 1; *letter != '\0'; letter++) {
        char flag[3] = {'-', *letter, '\0'};
        const struct cli_option *option = find_letter(r, *letter);
        if (option == NULL) {
            return fail_flag(r, flag, "there is no such flag");
        }
        if (option->type == CLI_FLAG) {
            (void)set_value(r, option, flag, NULL);
            continue;
        }
        const char *value = letter[1] != '\0' ? letter + 1 : next_argument(r);
        return value == NULL ? fail_flag(r, flag, "a value is missing")
                             : set_value(r, option, flag, value);
    }
    return true;
}

bool cli_options_read(const char *command, const struct cli_option *options, enum cli_order order,
                      int count, char **arguments, void *out, struct cli_words *words)
{
    struct reading r = {command, options, arguments, count, 0, out};
    *words = (struct cli_words){0, arguments, -1};
    for (; r.at < r.count; r.at++) {
        char *argument = arguments[r.at];
        bool is_over = words->separator >= 0 || (order == CLI_WORDS_LAST && words->count > 0);
        if (!is_over && strcmp(argument, "--") == 0) {
            words->separator = words->count;
        } else if (!is_over && argument[0] == '-' && argument[1] != '\0') {
            if (!(argument[1] == '-' ? read_long(&r, argument) : read_letters(&r, argument))) {
                return false;
            }
        } else {
            arguments[words->count++] = argument; /* the index is never above r.at */
        }
    }
    return true;
}

bool cli_words_check(const char *command, const struct cli_words *words, int min, int max)
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

void cli_options_print(const struct cli_option *options, FILE *to)
{
    for (const struct cli_option *o = options; o->name != NULL; o++) {
        char left[64];
        char letter[8] = "    ";
        if (o->letter != 0) {
            (void)snprintf(letter, sizeof(letter), "-%c, ", o->letter);
        }
        (void)snprintf(left, sizeof(left), "%s--%s%s%s", letter, o->name,
                       o->value != NULL ? " " : "", o->value != NULL ? o->value : "");
        fprintf(to, "  %-30s %s\n", left, o->help);
    }
}
