/* The first line of a script, "#!lua flags=no-writes,...", where it has one (Redis 7). */
#ifndef HOLDFAST_SCRIPT_SHEBANG_H
#define HOLDFAST_SCRIPT_SHEBANG_H

#include "base/slice.h"
#include "wire/resp.h"

struct shebang {
    size_t len; /* up to the end of its line, which stays; 0: there is none */
    bool is_read_only;
};

/* False with an error written when there is one that says nothing we know. */
bool shebang_read(struct slice source, struct shebang *shebang, struct resp_writer *out);

#endif
