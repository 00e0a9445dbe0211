/* An error of a request with the sentence for this very case: which field, where in the text. */
#ifndef HOLDFAST_WIRE_FAULT_H
#define HOLDFAST_WIRE_FAULT_H

#include "base/error.h"
#include "base/slice.h"

enum { FAULT_TEXT = 256 };

struct fault {
    enum hf_error code;
    char text[FAULT_TEXT];
};

/* Sets both and returns `code`. What is too long for `text` is cut between two characters. */
enum hf_error fault_set(struct fault *fault, enum hf_error code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The length of `text`, or less when it is longer than `max`: then the last character that fits
 * ends there. For names that the client chose. */
int fault_clip(struct slice text, size_t max);

#endif
