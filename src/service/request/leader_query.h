/* Queries of the leader's memory (gateway_call.look): what only the leader has. Any node sends its
 * query with a barrier, or with keep-alives, and renders the answer.
 *
 * The first byte is the format of the record (core/version.h), the second the kind. A leader whose
 * program does not support the kind or the format sends an empty answer. */
#ifndef HOLDFAST_SERVICE_REQUEST_LEADER_QUERY_H
#define HOLDFAST_SERVICE_REQUEST_LEADER_QUERY_H

#include "base/buffer.h"
#include "core/field.h"

enum leader_query {
    QUERY_LOCKS = 1, /* these five: pages of the tier EFFICIENCY, memory_page.h */
    QUERY_LOCK = 2,
    QUERY_SESSIONS = 3,
    QUERY_LONG_HELD = 4,
    QUERY_SESSION_NAMES = 5,
    QUERY_STATS = 16,          /* leader_stats.h */
    QUERY_HOT = 17,            /* leader_hot.h */
    QUERY_SINKS = 24,          /* sink_report.h */
    QUERY_SESSION_CHECKS = 32, /* with a keep-alive; session_check.h */
};

enum { LEADER_QUERY_HEAD = 2 };

/* 0: no query. */
static inline enum leader_query leader_query_of(struct slice query)
{
    return query.len < LEADER_QUERY_HEAD ? (enum leader_query)0 : (enum leader_query)query.data[1];
}

/* The first bytes of a query of this program; returns LEADER_QUERY_HEAD. */
size_t leader_query_begin(enum leader_query kind, uint8_t at[LEADER_QUERY_HEAD]);
/* Of the first byte of a query or an answer; 0: not known here. */
uint32_t leader_query_version(struct slice record);
/* On the leader: an answer of at most `max` bytes, in the version of its query, which is returned. 0: the
 * version is unknown, or `out` has no space. */
uint32_t leader_answer_begin(struct slice query, size_t max, struct buffer *out, struct writer *w);
void leader_answer_end(const struct writer *w, struct buffer *out);
/* On any node: the version of the answer; `r` reads what follows. 0: not known here. */
uint32_t leader_answer_read(struct slice answer, struct reader *r);

#endif
