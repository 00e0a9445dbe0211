/* Keys as they will be after the transactions that this node has submitted and that are not applied
 * yet. A run that reads such a key builds on them, so that one batch takes many changes of one key.
 *
 *   uncommitted_begin ─▶ note each effect ─▶ later runs look ─▶ uncommitted_end: it is in the state
 *                                                               uncommitted_forget: it was refused
 *
 * Nothing here is a promise. The run records the version that the key will have. If an earlier
 * transaction is refused, or another node's comes between, the state machine finds another version
 * there and answers `conflict` (S13.3). Then everything here is forgotten, and the run is repeated.
 *
 * What a key will be is not always known: a new token and a new deadline are decided by the entry, and
 * the version of a value could also be that of another node's change. Such a key is busy until the
 * transaction has ended: a run that reads it would only conflict. */
#ifndef HOLDFAST_SERVICE_RESP_UNCOMMITTED_H
#define HOLDFAST_SERVICE_RESP_UNCOMMITTED_H

#include "base/memory.h"
#include "core/effect.h"
#include "core/view.h"

enum { UNCOMMITTED_SLOTS = 512 }; /* of two keys in one slot, the earlier one is forgotten */

struct uncommitted_slot {
    uint64_t number; /* of the transaction */
    uint32_t tenant;
    bool is_known;
    struct slice name;
    struct key_view view;
    uint8_t *bytes; /* of all texts: less than 5 KiB */
    uint32_t size;
};

struct uncommitted {
    const struct memory *memory;
    uint64_t begun;     /* the number of the last transaction */
    uint64_t ended;     /* those up to this number count no more */
    uint64_t forgotten; /* what those up to this number would have left is not known */
    struct uncommitted_slot slots[UNCOMMITTED_SLOTS];
};

enum uncommitted_state {
    UNCOMMITTED_NONE,  /* as in the state */
    UNCOMMITTED_KNOWN, /* as in `out` */
    UNCOMMITTED_BUSY,  /* not known before the transaction has ended */
};

void uncommitted_open(struct uncommitted *u, const struct memory *memory);
void uncommitted_close(struct uncommitted *u);

/* A transaction is submitted; returns its number. */
uint64_t uncommitted_begin(struct uncommitted *u);
/* `seen`: the key when the run read it. */
void uncommitted_note(struct uncommitted *u, const struct core *core, uint32_t tenant,
                      const struct effect *effect, const struct key_view *seen);

/* It is applied, and so are those before it: all go through one log, in their order. */
void uncommitted_end(struct uncommitted *u, uint64_t number);
/* A transaction was refused or conflicted, so what was built on it will conflict, too: its keys are
 * busy until it has ended. */
void uncommitted_forget(struct uncommitted *u);

static inline bool uncommitted_is_empty(const struct uncommitted *u)
{
    return u->begun == u->ended;
}

/* `out` is changed for KNOWN only, and valid until the next uncommitted_note and until the state
 * moves on. */
enum uncommitted_state uncommitted_look(const struct uncommitted *u, uint32_t tenant,
                                        struct slice name, struct key_view *out);

#endif
