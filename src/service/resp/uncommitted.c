/* Keys after transactions that are not applied yet, see uncommitted.h. */
#include "service/resp/uncommitted.h"

#include "core/core.h"

/* Since then a node can compute the version that a counter will have. */
enum { COUNTER_VERSION = 8 };

void uncommitted_open(struct uncommitted *u, const struct memory *memory)
{
    *u = (struct uncommitted){.memory = memory};
}

static void free_texts(struct uncommitted *u, struct uncommitted_slot *slot)
{
    if (slot->bytes != NULL) {
        memory_free(u->memory, slot->bytes, slot->size);
    }
}

void uncommitted_close(struct uncommitted *u)
{
    for (uint32_t i = 0; i < UNCOMMITTED_SLOTS; i++) {
        free_texts(u, &u->slots[i]);
    }
}

uint64_t uncommitted_begin(struct uncommitted *u)
{
    return ++u->begun;
}

void uncommitted_end(struct uncommitted *u, uint64_t number)
{
    hf_assert(number <= u->begun);
    if (number > u->ended) {
        u->ended = number;
    }
}

void uncommitted_forget(struct uncommitted *u)
{
    u->forgotten = u->begun;
}

static uint32_t slot_of(uint32_t tenant, struct slice name)
{
    uint32_t hash = 2166136261u ^ tenant; /* FNV-1a */
    for (size_t i = 0; i < name.len; i++) {
        hash = (hash ^ name.data[i]) * 16777619u;
    }
    return (hash ^ hash >> 15) % UNCOMMITTED_SLOTS;
}

enum uncommitted_state uncommitted_look(const struct uncommitted *u, uint32_t tenant,
                                        struct slice name, struct key_view *out)
{
    const struct uncommitted_slot *slot = &u->slots[slot_of(tenant, name)];
    if (slot->number <= u->ended || slot->tenant != tenant || !slice_equal(slot->name, name)) {
        return UNCOMMITTED_NONE;
    }
    if (slot->is_known && slot->number > u->forgotten) {
        *out = slot->view;
        return UNCOMMITTED_KNOWN;
    }
    return UNCOMMITTED_BUSY; /* resp_transact_abandon ends it if its client is gone */
}

/* False: the entry decides. */
static bool after_counter(const struct core *core, const struct effect *e, struct key_view *view)
{
    bool is_new = view->kind == KEY_ABSENT;
    if (core_version(core) < COUNTER_VERSION || (e->flags & EFFECT_TTL) != 0 ||
        (!is_new && view->kind != KEY_COUNTER)) {
        return false;
    }
    uint64_t deadline_ms = is_new || (e->flags & EFFECT_PERSIST) != 0 ? 0 : view->deadline_ms;
    *view = (struct key_view){.kind = KEY_COUNTER,
                              .version = view_counter_version(e->number, deadline_ms),
                              .number = e->number,
                              .deadline_ms = deadline_ms};
    return true;
}

static bool after_drop(const struct effect *e, struct key_view *view)
{
    if ((e->flags & EFFECT_FORCED) != 0) {
        return false; /* a lock-delay may follow */
    }
    *view = (struct key_view){.kind = KEY_ABSENT};
    return true;
}

static bool after(const struct core *core, const struct effect *e, struct key_view *view)
{
    switch (e->kind) {
    case EFFECT_COUNTER:
        return after_counter(core, e, view);
    case EFFECT_DROP:
        return after_drop(e, view);
    case EFFECT_PUT: /* the version counts changes: another node's change could have that number */
    case EFFECT_EXPIRE:
    case EFFECT_PUBLISH:
    case EFFECT_NONE:
    case EFFECT_COUNT:
        break;
    }
    return false;
}

static struct slice append(uint8_t **at, struct slice text)
{
    struct slice kept = slice_make(*at, text.len);
    if (text.len > 0) {
        memcpy(*at, text.data, text.len);
    }
    *at += text.len;
    return kept;
}

/* `slot` may have the texts of `view` already: they are copied before its memory is freed. */
static void keep(struct uncommitted *u, struct uncommitted_slot *slot, struct slice name,
                 const struct key_view *view)
{
    uint32_t size = (uint32_t)(name.len + view->value.len + view->client.len);
    uint8_t *bytes = memory_alloc(u->memory, size);
    uint8_t *at = bytes;
    slot->view = *view;
    slot->name = append(&at, name);
    slot->view.value = append(&at, view->value);
    slot->view.client = append(&at, view->client);
    free_texts(u, slot);
    slot->bytes = bytes;
    slot->size = size;
}

void uncommitted_note(struct uncommitted *u, const struct core *core, uint32_t tenant,
                      const struct effect *effect, const struct key_view *seen)
{
    hf_assert(effect->kind != EFFECT_PUBLISH && effect->name.len > 0);
    struct uncommitted_slot *slot = &u->slots[slot_of(tenant, effect->name)];
    struct key_view view = *seen;
    slot->is_known = after(core, effect, &view);
    slot->number = u->begun;
    slot->tenant = tenant;
    keep(u, slot, effect->name, slot->is_known ? &view : &(struct key_view){.kind = KEY_ABSENT});
}
