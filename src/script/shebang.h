/* The optional first line of a script, "#!lua flags=no-writes,..." (Redis 7). */
#ifndef HOLDFAST_SCRIPT_SHEBANG_H
#define HOLDFAST_SCRIPT_SHEBANG_H

#include "base/slice.h"
#include "wire/resp.h"

struct shebang {
    size_t len; /* up to the end of its line, which is kept; 0: there is none */
    bool is_read_only;
};

/* False, with an error written, when the line is not valid. */
bool shebang_read(struct slice source, struct shebang *shebang, struct resp_writer *out);

#endif
