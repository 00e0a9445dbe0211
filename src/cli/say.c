/* See say.h. */
#include "cli/say.h"

#include <stdarg.h>
#include <stdio.h>

#include "server/progress.h"

void cli_say(const char *format, ...)
{
    char text[2048];
    va_list arguments;
    va_start(arguments, format);
    int len = vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    if (len < 0) {
        return;
    }
    for (char *c = text; *c != '\0'; c++) {
        if ((unsigned char)*c < 0x20 || *c == 0x7f) {
            *c = '?';
        }
    }
    progress_end(); /* its line is where the message goes */
    /* One call: lines of several processes do not mix. */
    fprintf(stderr, "holdfast: %s\n", text);
}
