/* Parses flags according to a table, see flags.h. */
#include "server/flags.h"

#include <ctype.h>
#include <inttypes.h>
#include <string.h>
#include <strings.h>

#include "server/config_value.h"

struct reading {
    const struct flag *flags;
    char **arguments;
    int count;
    int at;
    void *out;
    char *problem;
};

/* `written` is the flag as the user wrote it. */
static bool fail(const struct reading *r, const char *written, const char *problem)
{
    (void)snprintf(r->problem, FLAG_PROBLEM, "%s: %s", written, problem);
    return false;
}

static void describe(const struct flag *flag, char *out, size_t size)
{
    char min[32];
    char max[32];
    bool is_number = flag->kind == FLAG_KIND_NUMBER;
    value_print_duration(flag->min, min, sizeof(min));
    value_print_duration(flag->max, max, sizeof(max));
    if (flag->kind == FLAG_KIND_WORD) {
        const char *bar = strchr(flag->value, '|');
        (void)snprintf(out, size, "%.*s", (int)strcspn(flag->value, "|"), flag->value);
        for (; bar != NULL; bar = strchr(bar + 1, '|')) {
            size_t len = strlen(out);
            (void)snprintf(out + len, size - len, " or %.*s", (int)strcspn(bar + 1, "|"), bar + 1);
        }
    } else if (flag->max == UINT64_MAX) {
        (void)snprintf(out, size, "%s",
                       is_number ? "a whole number"
                                 : "a duration: a number of seconds, or a number with the unit ms, "
                                   "s, m or h");
    } else if (is_number) {
        (void)snprintf(out, size, "a whole number from %" PRIu64 " to %" PRIu64, flag->min,
                       flag->max);
    } else {
        (void)snprintf(out, size, "a duration from %s to %s", min, max);
    }
}

static bool find_word(const char *words, const char *text, uint64_t *number)
{
    size_t len = strlen(text);
    for (uint64_t i = 0; *words != '\0'; i++) {
        size_t word = strcspn(words, "|");
        if (word == len && strncasecmp(words, text, len) == 0) {
            *number = i;
            return true;
        }
        words += word + (words[word] == '|');
    }
    return false;
}

static bool read_number(const struct flag *flag, const char *text, uint64_t *out)
{
    uint64_t number = 0;
    bool is_number = flag->kind == FLAG_KIND_WORD       ? find_word(flag->value, text, &number)
                     : flag->kind == FLAG_KIND_DURATION ? value_duration_ms(text, &number)
                                                        : value_number(text, &number);
    bool is_in_range = flag->kind == FLAG_KIND_WORD || (number >= flag->min && number <= flag->max);
    if (is_number && is_in_range) {
        *out = number;
    }
    return is_number && is_in_range;
}

static bool add_item(const struct reading *r, const char *written, const char *text,
                     struct flag_list *list)
{
    if (list->count == FLAG_LIST_MAX) {
        return fail(r, written, "it is given too often");
    }
    list->items[list->count++] = text;
    return true;
}

static bool set_value(const struct reading *r, const struct flag *flag, const char *written,
                      const char *text)
{
    void *at = (char *)r->out + flag->offset;
    bool is_fine = true;
    switch (flag->kind) {
    case FLAG_KIND_SWITCH:
        *(bool *)at = true;
        break;
    case FLAG_KIND_TEXT:
        *(const char **)at = text;
        break;
    case FLAG_KIND_SETTING:
        *(const char **)at = text != NULL ? text : "true";
        break;
    case FLAG_KIND_LIST:
        return add_item(r, written, text, at);
    default:
        is_fine = read_number(flag, text, at);
        break;
    }
    if (!is_fine) {
        char expected[128];
        describe(flag, expected, sizeof(expected));
        (void)snprintf(r->problem, FLAG_PROBLEM, "%s: \"%s\" is not %s", written, text, expected);
    }
    return is_fine;
}

static const struct flag *find_long(const struct reading *r, const char *name, size_t len)
{
    for (const struct flag *f = r->flags; f->name != NULL; f++) {
        if (strlen(f->name) == len && memcmp(f->name, name, len) == 0) {
            return f;
        }
    }
    return NULL;
}

static const struct flag *find_letter(const struct reading *r, char letter)
{
    for (const struct flag *f = r->flags; f->name != NULL; f++) {
        if (f->letter != 0 && f->letter == letter) {
            return f;
        }
    }
    return NULL;
}

/* `value` is the rest of the argument, or NULL: then it is the next argument. */
static bool take_value(struct reading *r, const struct flag *flag, const char *written,
                       const char *value)
{
    if (value == NULL && r->at + 1 < r->count) {
        value = r->arguments[++r->at];
    }
    bool is_empty = value != NULL && value[0] == '\0';
    if (value == NULL || (is_empty && flag->min > 0 &&
                          (flag->kind == FLAG_KIND_TEXT || flag->kind == FLAG_KIND_LIST))) {
        char missing[128];
        (void)snprintf(missing, sizeof(missing), "a value is missing (%s)", flag->value);
        return fail(r, written, missing);
    }
    return set_value(r, flag, written, value);
}

static bool read_long(struct reading *r, const char *argument)
{
    const char *equals = strchr(argument, '=');
    size_t len = equals != NULL ? (size_t)(equals - argument) : strlen(argument);
    const struct flag *flag = find_long(r, argument + 2, len - 2);
    char written[64];
    if (flag == NULL) {
        return fail(r, argument, "there is no such flag");
    }
    (void)snprintf(written, sizeof(written), "--%s", flag->name);
    if (flag->kind == FLAG_KIND_SWITCH && equals != NULL) {
        return fail(r, written, "this flag takes no value");
    }
    if (flag->kind == FLAG_KIND_SWITCH || flag->kind == FLAG_KIND_SETTING) {
        return set_value(r, flag, written, equals != NULL ? equals + 1 : NULL);
    }
    return take_value(r, flag, written, equals != NULL ? equals + 1 : NULL);
}

/* `-abVALUE`: flags until one takes the rest, or the next argument, as its value. */
static bool read_letters(struct reading *r, const char *argument)
{
    for (const char *letter = argument + 1; *letter != '\0'; letter++) {
        char written[3] = {'-', *letter, '\0'};
        const struct flag *flag = find_letter(r, *letter);
        if (flag == NULL) {
            return fail(r, written, "there is no such flag");
        }
        if (flag->kind != FLAG_KIND_SWITCH && flag->kind != FLAG_KIND_SETTING) {
            return take_value(r, flag, written, letter[1] != '\0' ? letter + 1 : NULL);
        }
        (void)set_value(r, flag, written, NULL);
    }
    return true;
}

bool flags_parse(const struct flag *flags, enum flag_order order, struct flag_words *words,
                 void *out, char problem[FLAG_PROBLEM])
{
    struct reading r = {flags, words->items, words->count, 0, out, problem};
    words->count = 0;
    words->separator = -1;
    for (; r.at < r.count; r.at++) {
        char *argument = r.arguments[r.at];
        bool is_over = words->separator >= 0 || (order == FLAGS_WORDS_LAST && words->count > 0);
        if (!is_over && strcmp(argument, "--") == 0) {
            words->separator = words->count;
        } else if (!is_over && argument[0] == '-' && argument[1] != '\0') {
            if (!(argument[1] == '-' ? read_long(&r, argument) : read_letters(&r, argument))) {
                for (char *c = problem; *c != '\0'; c++) {
                    *c = iscntrl((unsigned char)*c) ? '?' : *c;
                }
                return false;
            }
        } else {
            words->items[words->count++] = argument; /* the index is never above r.at */
        }
    }
    return true;
}

bool flags_read(const char *command, const struct flag *flags, enum flag_order order, int count,
                char **arguments, void *out, struct flag_words *words)
{
    char problem[FLAG_PROBLEM];
    *words = (struct flag_words){count, arguments, -1};
    if (flags_parse(flags, order, words, out, problem)) {
        return true;
    }
    fprintf(stderr, "holdfast: %s\nholdfast: `holdfast %s --help` lists its flags\n", problem,
            command);
    return false;
}

bool flags_words_check(const char *command, const struct flag_words *words, int max)
{
    if (words->count > max) {
        fprintf(stderr, "holdfast: %s: unexpected argument \"%s\"\n", command, words->items[max]);
        return false;
    }
    return true;
}

void flags_print(const struct flag *flags, FILE *to)
{
    for (const struct flag *f = flags; f->name != NULL; f++) {
        char left[64];
        char letter[8] = "    ";
        if (f->letter != 0) {
            (void)snprintf(letter, sizeof(letter), "-%c, ", f->letter);
        }
        (void)snprintf(left, sizeof(left), "%s--%s%s%s", letter, f->name,
                       f->value != NULL ? " " : "", f->value != NULL ? f->value : "");
        fprintf(to, "  %-29s  %s\n", left, f->help);
    }
}
