/* The options of the caller, checked, with the defaults filled in. */
#ifndef HOLDFAST_CLIENT_OPTIONS_H
#define HOLDFAST_CLIENT_OPTIONS_H

#include "client/engine.h"

/* `given` may be NULL, or shorter than ours, from a program that was built with an older header.
 * Returns 0, or HF_ERR_INVALID with its text. */
int options_read(const struct hf_options *given, struct hf_options *whole,
                 struct client_engine_options *out);
/* `given`, else $HOLDFAST_ENDPOINTS, else the default. */
const char *options_endpoints(const char *given);

/* The options of an acquire, for `count` names. */
int options_read_lock(const struct hf_lock_options *given, const char *const *names, size_t count,
                      struct hf_lock_options *whole);

#endif
