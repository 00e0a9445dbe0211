/* Reads the flags of a command according to a table. */
#include "server/flags.h"

#include <string.h>

static const struct server_flag *find(const struct server_flag *flags, unsigned flag_count,
                                      const char *text, size_t len)
{
    for (unsigned i = 0; i < flag_count; i++) {
        if (strlen(flags[i].name) == len && memcmp(flags[i].name, text, len) == 0) {
            return &flags[i];
        }
    }
    return NULL;
}

static bool complain(const char *command, const char *text, const char *what)
{
    fprintf(stderr, "holdfast: %s: %s%s\n", command, text, what);
    return false;
}

bool flags_read(const char *command, const struct server_flag *flags, unsigned flag_count,
                int count, char **arguments, unsigned max_words, struct flag_words *words)
{
    words->count = 0;
    for (int i = 0; i < count; i++) {
        const char *text = arguments[i];
        if (text[0] != '-' || text[1] == '\0') {
            if (words->count == max_words) {
                return complain(command, text, ": unexpected argument");
            }
            words->at[words->count++] = text;
            continue;
        }
        const char *equals = strchr(text, '=');
        size_t len = equals != NULL ? (size_t)(equals - text) : strlen(text);
        const struct server_flag *flag = find(flags, flag_count, text, len);
        if (flag == NULL) {
            return complain(command, text, ": there is no such flag");
        }
        if (flag->argument == NULL) {
            if (equals != NULL) {
                return complain(command, flag->name, " takes no value");
            }
            *flag->on = true;
            continue;
        }
        const char *value = equals != NULL ? equals + 1 : i + 1 < count ? arguments[++i] : NULL;
        if (value == NULL || value[0] == '\0') {
            return complain(command, flag->name, " needs a value");
        }
        *flag->text = value;
    }
    return true;
}

void flags_print(FILE *to, const struct server_flag *flags, unsigned flag_count)
{
    for (unsigned i = 0; i < flag_count; i++) {
        fprintf(to, "  %s %s\n        %s\n", flags[i].name,
                flags[i].argument != NULL ? flags[i].argument : "", flags[i].help);
    }
}
