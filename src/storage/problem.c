/* Names and texts of storage/problem.h. */
#include "storage/problem.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/panic.h"

const char *storage_status_word(enum storage_status status)
{
    static const char *const words[STORAGE_STATUS_COUNT] = {
#define X(symbol, word, text) [STORAGE_##symbol] = word,
        STORAGE_STATUS_LIST(X)
#undef X
    };
    hf_assert((unsigned)status < STORAGE_STATUS_COUNT);
    return words[status];
}

enum storage_status problem_set(struct problem *problem, enum storage_status status,
                                const char *format, ...)
{
    hf_assert(status != STORAGE_OK);
    problem->status = status;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(problem->text, sizeof(problem->text), format, arguments);
    va_end(arguments);
    return status;
}

void problem_add(struct problem *problem, const char *format, ...)
{
    size_t used = strlen(problem->text);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(problem->text + used, sizeof(problem->text) - used, format, arguments);
    va_end(arguments);
}
