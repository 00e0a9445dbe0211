/* The log for operators: one event per line on stderr or in a file, as JSON or text: time, level,
 * subsystem, event, node and term, then the fields of the event. */
#ifndef HOLDFAST_SERVER_LOG_H
#define HOLDFAST_SERVER_LOG_H

#include "base/buffer.h"
#include "base/journal.h"
#include "server/config.h"

struct log_levels {
    enum journal_level at[JOURNAL_SUBSYSTEMS]; /* JOURNAL_LEVELS: off */
};

/* "info" or "info,raft=debug,lock=off"; subsystems that are not named are at info. Returns NULL, or
 * a sentence about the problem; `out` is untouched then. */
const char *log_levels_parse(const char *text, struct log_levels *out);
/* The same, but subsystems that are not named keep their level. */
const char *log_levels_change(const char *text, struct log_levels *levels);

struct log_sink {
    struct log_levels levels; /* may change at any time */
    enum config_log_format format;
    int fd;
    const char *path; /* NULL: `fd` belongs to the caller */
    uint64_t node;
    uint64_t term;
    struct buffer line;
};

void log_sink_init(struct log_sink *log, int fd, enum config_log_format format, uint64_t node);
void log_sink_close(struct log_sink *log);
/* Appends to the file, which it creates if necessary. With the same path it reopens the file, for
 * log rotation. On failure, errno is set and the log continues as before. `path` must stay valid
 * until log_sink_close. */
bool log_sink_open(struct log_sink *log, const char *path);
/* The sink must outlive it. */
struct journal log_sink_journal(struct log_sink *log);

#endif
