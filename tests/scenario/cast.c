/* Who is who: the ids, sessions and holds behind the names of a scenario. */
#include <string.h>

#include "player.h"

/* All ids are this and a number that counts up. */
#define DRAWN_HIGH UINT64_C(0x686f6c6466617374)

#define MAKE_ROOM(p, what)                                                            \
    do {                                                                              \
        struct cast *cast_ = &(p)->cast;                                              \
        if (cast_->what##_count == cast_->what##_room) {                              \
            cast_->CAST_ARRAY_##what =                                                \
                arena_grow(&(p)->file, cast_->CAST_ARRAY_##what, cast_->what##_count, \
                           &cast_->what##_room, sizeof(*cast_->CAST_ARRAY_##what));   \
        }                                                                             \
    } while (0)
#define CAST_ARRAY_drawn drawn
#define CAST_ARRAY_session sessions
#define CAST_ARRAY_hold holds
#define CAST_ARRAY_sent sent

static const char *keep(struct player *p, const char *text)
{
    return arena_text(&p->file, text, strlen(text));
}

struct id cast_draw(struct player *p, const char *name, struct hold *hold)
{
    MAKE_ROOM(p, drawn);
    p->cast.drawn[p->cast.drawn_count] = (struct drawn){keep(p, name), hold};
    return (struct id){DRAWN_HIGH, ++p->cast.drawn_count};
}

const struct drawn *cast_drawn(const struct player *p, struct id id)
{
    bool ours = id.high == DRAWN_HIGH && id.low >= 1 && id.low <= p->cast.drawn_count;
    return ours ? &p->cast.drawn[id.low - 1] : NULL;
}

/* The newest comes first: in a loop it is the one that is meant. */
struct actor_session *cast_session(struct player *p, const char *name)
{
    for (size_t i = p->cast.session_count; i > 0; i--) {
        if (strcmp(p->cast.sessions[i - 1].name, name) == 0) {
            return &p->cast.sessions[i - 1];
        }
    }
    return NULL;
}

struct actor_session *cast_open(struct player *p, const char *name, struct id id)
{
    MAKE_ROOM(p, session);
    struct actor_session *s = &p->cast.sessions[p->cast.session_count++];
    *s = (struct actor_session){.name = keep(p, name), .id = id};
    return s;
}

struct hold *cast_hold_of(struct player *p, const char *actor, struct slice name)
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

void cast_add_hold(struct player *p, struct hold *hold)
{
    MAKE_ROOM(p, hold);
    p->cast.holds[p->cast.hold_count++] = hold;
}

const struct sent *cast_sent(struct player *p, const char *label)
{
    for (size_t i = p->cast.sent_count; i > 0; i--) {
        if (strcmp(p->cast.sent[i - 1].label, label) == 0) {
            return &p->cast.sent[i - 1];
        }
    }
    return NULL;
}

void cast_remember(struct player *p, const char *label, const struct command *command,
                   struct hold *hold)
{
    size_t len = command_encode(command, CORE_VERSION, p->entry, LIMIT_ENTRY);
    hf_assert(len > 0);
    if (len > p->last_room) {
        p->last_room = len * 2;
        p->last = arena_alloc(&p->file, p->last_room);
    }
    memcpy(p->last, p->entry, len);
    p->last_len = len;
    p->last_hold = hold;
    if (label != NULL) {
        MAKE_ROOM(p, sent);
        void *bytes = arena_alloc(&p->file, len);
        memcpy(bytes, p->entry, len);
        p->cast.sent[p->cast.sent_count++] =
            (struct sent){keep(p, label), slice_make(bytes, len), hold};
    }
}
