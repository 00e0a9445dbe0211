/* One rewritten line of stderr about work that takes longer than two seconds: percent, amount, rate, time
 * left, as far as they are known. Nothing is printed if stderr is no terminal, or if the user wants none.
 *
 *     progress_begin("saving the snapshot", PROGRESS_BYTES, NULL, is_quiet);
 *     while (...) progress_update(done, total);
 *     progress_end();        the line is gone: the result or an error follows
 *
 * A thread prints, so the line also counts the seconds of a call that blocks. The process has one line:
 * progress_begin ends the work before. Between begin and end nobody else may write to stderr, and the
 * process may not fork. */
#ifndef HOLDFAST_SERVER_PROGRESS_H
#define HOLDFAST_SERVER_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

enum progress_unit { PROGRESS_BYTES, PROGRESS_COUNT, PROGRESS_SECONDS };

enum {
    PROGRESS_AFTER_MS = 2000, /* shorter work shows nothing */
    PROGRESS_EVERY_MS = 200,
    PROGRESS_NAME = 64,
    PROGRESS_NOTE = 96,
    PROGRESS_LINE = 240,
};

/* `noun`: of PROGRESS_COUNT, "entries"; must stay valid; else NULL. */
void progress_begin(const char *what, enum progress_unit unit, const char *noun, bool is_quiet);
/* Cheap. `total` 0: not known. */
void progress_update(uint64_t done, uint64_t total);
/* Another name for the same work; keeps the time of its begin. */
void progress_rename(const char *what);
/* More text at the end of the line. */
void progress_note(const char *note);
/* Removes the line. May be called without a begin. */
void progress_end(void);

/* ---- pure ---- */

struct progress_view {
    char what[PROGRESS_NAME]; /* "saving the snapshot" */
    char note[PROGRESS_NOTE];
    enum progress_unit unit;
    const char *noun;
    uint64_t first; /* amount at the first update, which the rate does not count */
    uint64_t done;
    uint64_t total;   /* 0: not known */
    int64_t began_ms; /* all times on one clock */
    int64_t first_ms; /* of the first update; 0: none yet */
};

/* Without control characters. */
void progress_format(const struct progress_view *v, int64_t now_ms, char out[PROGRESS_LINE]);

#endif
