/* What a node reports to its operator; src/server writes the lines. Events are words
 * (`peer_connected`) with fields, so that a program can read them too. */
#ifndef HOLDFAST_BASE_JOURNAL_H
#define HOLDFAST_BASE_JOURNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum journal_level { JOURNAL_DEBUG, JOURNAL_INFO, JOURNAL_WARN, JOURNAL_ERROR, JOURNAL_LEVELS };

/* The parts of a node whose level is set separately. */
#define JOURNAL_SUBSYSTEM_LIST(X) \
    X(NODE, "node")               \
    X(RAFT, "raft")               \
    X(PEER, "peer")               \
    X(DISK, "disk")               \
    X(SNAPSHOT, "snapshot")       \
    X(CLIENT, "client")           \
    X(LOCK, "lock")

enum journal_subsystem {
#define X(symbol, word) JOURNAL_##symbol,
    JOURNAL_SUBSYSTEM_LIST(X)
#undef X
        JOURNAL_SUBSYSTEMS
};

struct journal_field {
    const char *name;
    const char *text; /* NULL: a number */
    size_t text_len;
    uint64_t number;
    bool is_ms; /* a number of milliseconds, written as seconds: 60, 1.5 */
};

struct journal {
    bool (*wants)(void *ctx, enum journal_level level, enum journal_subsystem subsystem);
    void (*write)(void *ctx, enum journal_level level, enum journal_subsystem subsystem,
                  const char *event, const struct journal_field *fields, size_t count);
    /* Every line contains the node's term. */
    void (*set_term)(void *ctx, uint64_t term);
    /* The level of each subsystem; and a change of it, as in service/service.h. */
    void (*each_level)(void *ctx, void (*visit)(void *to, const char *subsystem, const char *level),
                       void *to);
    const char *(*set_levels)(void *ctx, const char *text);
    void *ctx;
};

#define JOURNAL_TEXT(name_, text_)                                  \
    (struct journal_field)                                          \
    {                                                               \
        .name = (name_), .text = (text_), .text_len = strlen(text_) \
    }
#define JOURNAL_SLICE(name_, slice_)                                                       \
    (struct journal_field)                                                                 \
    {                                                                                      \
        .name = (name_), .text = (slice_).data == NULL ? "" : (const char *)(slice_).data, \
        .text_len = (slice_).len                                                           \
    }
#define JOURNAL_NUMBER(name_, number_)       \
    (struct journal_field)                   \
    {                                        \
        .name = (name_), .number = (number_) \
    }

#define JOURNAL_SECONDS(name_, ms_)                     \
    (struct journal_field)                              \
    {                                                   \
        .name = (name_), .number = (ms_), .is_ms = true \
    }

/* journal_note(j, INFO, PEER, "connected", JOURNAL_NUMBER("peer", id), ...): the fields are made
 * only if the event is written. At least one. */
#define journal_note(journal, level, subsystem, event, ...)                                        \
    do {                                                                                           \
        if ((journal)->wants((journal)->ctx, JOURNAL_##level, JOURNAL_##subsystem)) {              \
            const struct journal_field fields_[] = {__VA_ARGS__};                                  \
            (journal)->write((journal)->ctx, JOURNAL_##level, JOURNAL_##subsystem, event, fields_, \
                             sizeof(fields_) / sizeof(fields_[0]));                                \
        }                                                                                          \
    } while (0)

#endif
