/* Who is who: the ids, sessions and holds behind the names of a scenario. */
#include <string.h>

#include "runner.h"

/* All ids are this and a number that counts up. */
#define DRAWN_HIGH UINT64_C(0x686f6c6466617374)

#define MAKE_CAPACITY(p, what)                                                          \
    do {                                                                                \
        struct cast *cast_ = &(p)->cast;                                                \
        if (cast_->what##_count == cast_->what##_capacity) {                            \
            cast_->CAST_ARRAY_##what =                                                  \
                arena_grow(&(p)->file, cast_->CAST_ARRAY_##what, cast_->what##_count,   \
                           &cast_->what##_capacity, sizeof(*cast_->CAST_ARRAY_##what)); \
        }                                                                               \
    } while (0)
#define CAST_ARRAY_drawn drawn
#define CAST_ARRAY_session sessions
#define CAST_ARRAY_hold holds
#define CAST_ARRAY_sent sent

static const char *keep(struct runner *p, const char *text)
{
    return arena_text(&p->file, text, strlen(text));
}

struct id cast_draw(struct runner *p, const char *name, struct hold *hold)
{
    MAKE_CAPACITY(p, drawn);
    p->cast.drawn[p->cast.drawn_count] = (struct drawn){keep(p, name), hold};
    return (struct id){DRAWN_HIGH, ++p->cast.drawn_count};
}

const struct drawn *cast_drawn(const struct runner *p, struct id id)
{
    bool ours = id.high == DRAWN_HIGH && id.low >= 1 && id.low <= p->cast.drawn_count;
    return ours ? &p->cast.drawn[id.low - 1] : NULL;
}

/* The newest comes first: in a loop it is the one that is meant. */
struct actor_session *cast_session(struct runner *p, const char *name)
{
    for (size_t i = p->cast.session_count; i > 0; i--) {
        if (strcmp(p->cast.sessions[i - 1].name, name) == 0) {
            return &p->cast.sessions[i - 1];
        }
    }
    return NULL;
}

struct actor_session *cast_open(struct runner *p, const char *name, struct id id)
{
    MAKE_CAPACITY(p, session);
    struct actor_session *s = &p->cast.sessions[p->cast.session_count++];
    *s = (struct actor_session){.name = keep(p, name), .id = id};
    return s;
}

struct hold *cast_hold_of(struct runner *p, const char *actor, struct slice name)
{
    for (size_t i = p->cast.hold_count; i > 0; i--) {
        struct hold *h = p->cast.holds[i - 1];
        if (strcmp(h->actor, actor) != 0) {
            continue;
        }
        for (uint32_t k = 0; k < h->name_count; k++) {
            if (slice_equal(h->names[k], name)) {
                return h;
            }
        }
    }
    return NULL;
}

void cast_add_hold(struct runner *p, struct hold *hold)
{
    MAKE_CAPACITY(p, hold);
    p->cast.holds[p->cast.hold_count++] = hold;
}

const struct sent *cast_sent(struct runner *p, const char *label)
{
    for (size_t i = p->cast.sent_count; i > 0; i--) {
        if (strcmp(p->cast.sent[i - 1].label, label) == 0) {
            return &p->cast.sent[i - 1];
        }
    }
    return NULL;
}

void cast_remember(struct runner *p, const char *label, const struct command *command,
                   struct hold *hold)
{
    size_t len = command_encode(command, CORE_VERSION, p->entry, LIMIT_ENTRY);
    hf_assert(len > 0);
    if (len > p->last_capacity) {
        p->last_capacity = len * 2;
        p->last = arena_alloc(&p->file, p->last_capacity);
    }
    memcpy(p->last, p->entry, len);
    p->last_len = len;
    p->last_hold = hold;
    if (label != NULL) {
        MAKE_CAPACITY(p, sent);
        void *bytes = arena_alloc(&p->file, len);
        memcpy(bytes, p->entry, len);
        p->cast.sent[p->cast.sent_count++] =
            (struct sent){keep(p, label), slice_make(bytes, len), hold};
    }
}
