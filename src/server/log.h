/* The log for operators: one event a line on stderr or in a file, as JSON or for people (issue 3,
 * point 10). Each has time, level, subsystem, event, node and term, then the fields of the event.
 */
#ifndef HOLDFAST_SERVER_LOG_H
#define HOLDFAST_SERVER_LOG_H

#include "base/buffer.h"
#include "base/journal.h"
#include "server/config.h"

struct log_levels {
    enum journal_level at[JOURNAL_SUBSYSTEMS]; /* JOURNAL_LEVELS: nothing */
};

/* Reads "info" or "info,raft=debug,lock=off"; what is not named is at info. NULL, or what is wrong;
 * `out` is untouched then. */
const char *log_levels_parse(const char *text, struct log_levels *out);
/* The same, but what is not named stays as it is. */
const char *log_levels_change(const char *text, struct log_levels *levels);

struct log_sink {
    struct log_levels levels; /* may be changed at any time */
    enum config_log_format format;
    int fd;
    const char *path; /* NULL: `fd` was given, and is not ours */
    uint64_t node;
    uint64_t term;
    struct buffer line;
};

void log_sink_init(struct log_sink *log, int fd, enum config_log_format format, uint64_t node);
void log_sink_close(struct log_sink *log);
/* Writes to the end of this file from now on, which is made if need be; with the path of before it
 * is opened anew, so that whoever rotates logs may have moved it away. False: errno says why, and
 * the log goes on as before. The path must stay valid. */
bool log_sink_open(struct log_sink *log, const char *path);
/* The journal that a node writes to; the sink must outlive it. */
struct journal log_sink_journal(struct log_sink *log);

#endif
