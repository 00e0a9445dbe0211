/* The texts of wire/fault.h quote client input, so no length is trusted. */
#include "wire/fault.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/panic.h"

int fault_clip(struct slice text, size_t max)
{
    size_t len = text.len;
    if (len > max) {
        len = max;
        while (len > 0 && (text.data[len] & 0xc0) == 0x80) {
            len--; /* do not cut inside a UTF-8 character */
        }
    }
    return (int)len;
}

enum hf_error fault_set(struct fault *fault, enum hf_error code, const char *format, ...)
{
    char text[FAULT_TEXT + 1];
    va_list arguments;
    va_start(arguments, format);
    int len = vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    hf_assert(len >= 0);
    int kept = fault_clip(slice_of(text), FAULT_TEXT - 1);
    memcpy(fault->text, text, (size_t)kept);
    fault->text[kept] = '\0';
    fault->code = code;
    return code;
}
