/* A search in the event log: filtered, in pages, newest or oldest first. For history, the audit trail
 * and watches that resume.
 *
 * Reads files: on a thread that may block, never on the event loop. The service uses it through
 * gateway.scan_events, which does that.
 *
 * The work of one call is bounded: it may return fewer records than `limit`, even none, and `more`. Then
 * call again with `after` = `next`. A position stays valid across restarts and on other nodes. */
#ifndef HOLDFAST_EVENTS_EVENT_SCAN_H
#define HOLDFAST_EVENTS_EVENT_SCAN_H

#include "base/memory.h"
#include "events/event_log.h"

enum {
    EVENT_SCAN_RECORDS = 1000,      /* most records of a page */
    EVENT_SCAN_BYTES = 256 << 10,   /* most bytes of their texts */
    EVENT_SCAN_EXAMINED = 16 << 20, /* about: most bytes of segments that one call reads */
    EVENT_SCAN_GAPS = 8,            /* gaps that a page lists; it is cut after so many */
    EVENT_CURSOR_TEXT = 48,         /* bytes of a position as text, with the NUL */
};

enum event_scan_kinds { SCAN_EVENTS = 1, SCAN_AUDIT = 2 };
enum event_scan_names { SCAN_ANY_NAME, SCAN_EXACT_NAME, SCAN_PREFIX };

/* A record is in the page if it passes all filters that are set. Zero, an empty slice: not set. */
struct event_scan {
    uint32_t kinds;  /* of enum event_scan_kinds, or both */
    uint32_t tenant; /* always a filter, unless `all_tenants` */
    bool all_tenants;
    enum event_scan_names match;
    struct slice name;   /* of the event; resource of the audit record */
    uint64_t types;      /* bits (1 << enum event_type); not for audit records */
    uint64_t token;      /* not for audit records */
    struct slice client; /* not for audit records */
    struct slice actor;  /* exact */
    struct slice action; /* of audit records, any case: "FORCE_UNLOCK"; not for events */
    uint64_t since_ms;   /* wall clock of the entry: not before */
    uint64_t until_ms;   /* before this; 0: no limit */
    bool newest_first;
    uint32_t limit;              /* 1 to EVENT_SCAN_RECORDS */
    bool is_continued;           /* `after` is set */
    struct event_position after; /* in the direction of the scan */
    /* Waits a moment until the records of the entries up to this one are written. The gateway sets
     * it to the newest applied entry. */
    uint64_t written_to;
};

/* No records of the entries (from, to] are here, at the time of the record before. */
struct event_gap {
    uint64_t from;
    uint64_t to;
    uint64_t from_ms; /* wall clock of its begin, about; 0: unknown */
    uint64_t to_ms;   /* and of its end */
};

/* The records and their texts are in `memory`; event_page_close frees them. */
struct event_page {
    const struct logged_event *records;
    uint32_t count;
    bool more;                  /* continue with `next`; else the end was reached */
    struct event_position next; /* all up to this position was examined */
    /* Of the log as a whole: no gap from this wall clock time to now. `complete_from_begin`: nothing is
     * missing at all. */
    uint64_t complete_since_ms;
    bool complete_from_begin;
    uint64_t read_to; /* the newest entry in the log; without `more` all up to it was examined */
    /* In the part of the log that this page examined, in the order of the scan. */
    struct event_gap gaps[EVENT_SCAN_GAPS];
    uint32_t gap_count;
    void *block; /* private */
    size_t block_size;
};

/* Reads one page. HF_OK: event_page_close is needed. HF_EVENT_LOG: the disk failed, see `problem`. */
enum hf_error event_scan_page(struct event_log *log, const struct event_scan *scan,
                              struct event_page *out, struct problem *problem);
void event_page_close(struct event_log *log, struct event_page *page);

/* A position as the text of a cursor, "INDEX-ORDINAL-SUB". */
void event_position_format(struct event_position position, char out[EVENT_CURSOR_TEXT]);
bool event_position_parse(struct slice text, struct event_position *out);

#endif
