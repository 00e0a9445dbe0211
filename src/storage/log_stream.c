/* See log_stream.h. */
#include "storage/log_stream.h"

const struct log_entry *log_stream_next(struct log_stream *s)
{
    if (s->given == s->piece.count) {
        log_piece_free(&s->piece);
        s->given = 0;
        if (log_read_beside(s->log, s->next, LOG_STREAM_PIECE, &s->piece, &s->problem) !=
            STORAGE_OK) {
            s->piece = (struct log_piece){0};
            return NULL;
        }
    }
    s->next++;
    return &s->piece.entries[s->given++];
}

void log_stream_close(struct log_stream *s)
{
    log_piece_free(&s->piece);
}
