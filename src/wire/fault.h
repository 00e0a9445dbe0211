/* The error of a request with a specific message: which field, where in the text. */
#ifndef HOLDFAST_WIRE_FAULT_H
#define HOLDFAST_WIRE_FAULT_H

#include "base/error.h"
#include "base/slice.h"

enum { FAULT_TEXT = 256 };

struct fault {
    enum hf_error code;
    char text[FAULT_TEXT];
};

/* Returns `code`. A text that is too long is cut between two characters. */
enum hf_error fault_set(struct fault *fault, enum hf_error code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* At most `max`, without cutting a character. For client-supplied names. */
int fault_clip(struct slice text, size_t max);

#endif
