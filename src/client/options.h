/* The caller's options, checked, with defaults. */
#ifndef HOLDFAST_CLIENT_OPTIONS_H
#define HOLDFAST_CLIENT_OPTIONS_H

#include "client/engine.h"

/* `given` may be NULL, or shorter than ours (older header). 0, or HF_ERR_INVALID with text. */
int options_read(const struct hf_options *given, struct hf_options *whole,
                 struct client_engine_options *out);
/* The files that it names, or that the environment names. NULL: error_set was called. */
struct security *options_security(const struct hf_options *whole);
/* `given`, else $HOLDFAST_ENDPOINTS, else the default. */
const char *options_endpoints(const char *given);

/* Of an acquire of `count` names. */
int options_read_lock(const struct hf_lock_options *given, const char *const *names, size_t count,
                      struct hf_lock_options *whole);

#endif
