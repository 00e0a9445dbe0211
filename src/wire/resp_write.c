/* Writing of RESP answers, see resp.h. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "base/panic.h"
#include "wire/resp.h"

static void head(struct resp_writer *w, char type, int64_t value)
{
    buffer_printf(w->out, "%c%" PRId64 "\r\n", type, value);
}

void resp_simple(struct resp_writer *w, const char *text)
{
    buffer_append_byte(w->out, '+');
    buffer_append_text(w->out, text);
    buffer_append_text(w->out, "\r\n");
}

void resp_error(struct resp_writer *w, const char *code, const char *format, ...)
{
    char text[LIMIT_RESP_ERROR];
    va_list arguments;
    va_start(arguments, format);
    int len = vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    hf_assert(len >= 0);
    for (char *c = text; *c != '\0'; c++) {
        if (*c == '\r' || *c == '\n') {
            *c = ' ';
        }
    }
    buffer_append_byte(w->out, '-');
    buffer_append_text(w->out, code);
    buffer_append_byte(w->out, ' ');
    buffer_append_text(w->out, text);
    buffer_append_text(w->out, "\r\n");
}

void resp_integer(struct resp_writer *w, int64_t value)
{
    head(w, ':', value);
}

void resp_bulk(struct resp_writer *w, struct slice bytes)
{
    head(w, '$', (int64_t)bytes.len);
    buffer_append_slice(w->out, bytes);
    buffer_append_text(w->out, "\r\n");
}

void resp_text(struct resp_writer *w, const char *text)
{
    resp_bulk(w, slice_of(text));
}

void resp_null(struct resp_writer *w)
{
    buffer_append_text(w->out, w->protocol == 3 ? "_\r\n" : "$-1\r\n");
}

void resp_null_array(struct resp_writer *w)
{
    buffer_append_text(w->out, w->protocol == 3 ? "_\r\n" : "*-1\r\n");
}

void resp_array(struct resp_writer *w, uint32_t count)
{
    head(w, '*', count);
}

void resp_map(struct resp_writer *w, uint32_t pairs)
{
    if (w->protocol == 3) {
        head(w, '%', pairs);
    } else {
        head(w, '*', (int64_t)pairs * 2);
    }
}

void resp_set(struct resp_writer *w, uint32_t count)
{
    head(w, w->protocol == 3 ? '~' : '*', count);
}

void resp_push(struct resp_writer *w, uint32_t count)
{
    head(w, w->protocol == 3 ? '>' : '*', count);
}

void resp_bool(struct resp_writer *w, bool value)
{
    if (w->protocol == 3) {
        buffer_append_text(w->out, value ? "#t\r\n" : "#f\r\n");
    } else {
        resp_integer(w, value ? 1 : 0);
    }
}

void resp_double(struct resp_writer *w, double value)
{
    char text[32];
    hf_assert(!isnan(value));
    if (isinf(value)) {
        snprintf(text, sizeof(text), "%s", value > 0 ? "inf" : "-inf");
    } else {
        snprintf(text, sizeof(text), "%.17g", value);
    }
    if (w->protocol == 3) {
        buffer_printf(w->out, ",%s\r\n", text);
    } else {
        resp_text(w, text);
    }
}
