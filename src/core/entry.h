/* A log entry: one batch of commands with one stamp (S1.1). libraft requires a length that is a
 * multiple of 8. */
#ifndef HOLDFAST_CORE_ENTRY_H
#define HOLDFAST_CORE_ENTRY_H

#include "core/core.h"

/* Writes into the caller's buffer. */
struct entry_writer {
    uint8_t *buffer;
    size_t size;
    size_t len;
    uint32_t version; /* of the state */
    uint32_t count;
    bool full;         /* a command did not fit */
    struct slice last; /* encoding of the last command, within `buffer` */
};

void entry_writer_init(struct entry_writer *w, uint32_t version, void *buffer, size_t size);
/* False when it does not fit; the entry is unchanged. */
bool entry_writer_add(struct entry_writer *w, const struct command *command);
/* Stamps and pads the entry after its last command; returns its length. */
size_t entry_writer_seal(struct entry_writer *w, uint64_t time_ms, uint64_t wall_ms);

struct entry_header {
    uint64_t time_ms;
    uint64_t wall_ms;
    uint32_t count;
};

/* 0 when it is too short. */
uint64_t entry_stamp_ms(struct slice entry);

/* It begins with `lead` and answers no client. */
bool entry_is_lead(struct slice entry);

/* HF_OK: header and all commands are well-formed. HF_VERSION: a newer program wrote it. */
enum hf_error entry_check(struct slice entry, struct entry_header *out);

/* Applies the entry after a check of all of it: a damaged one changes nothing. The callback (or
 * NULL) gets each command's number within the entry and its result. */
typedef void (*entry_result_fn)(void *ctx, uint32_t number, const struct command *command,
                                const struct result *result);
enum hf_error entry_apply(struct core *core, uint64_t index, struct slice entry,
                          entry_result_fn on_result, void *ctx);

#endif
