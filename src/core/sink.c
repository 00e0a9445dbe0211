/* How far each event sink was served: replicated, so that the next leader goes on there. The events
 * themselves are in the event log of each node, not in the state. */
#include "core/view.h"

#include "core/state.h"

static struct slice name_of(const struct sink *s)
{
    return slice_make(s->name, s->name_len);
}

static struct sink *find(const struct core *c, struct slice name)
{
    for (uint32_t i = 0; i < c->sink_count; i++) {
        if (slice_equal(name_of(&c->sinks[i]), name)) {
            return &c->sinks[i];
        }
    }
    return NULL;
}

static void drop(struct core *c, uint32_t at)
{
    hf_assert(at < c->sink_count);
    c->sink_count--;
    memmove(c->sinks + at, c->sinks + at + 1, sizeof(*c->sinks) * (c->sink_count - at));
}

void sink_put(struct core *c, struct slice name, uint64_t index, uint32_t ordinal)
{
    hf_assert(name.len > 0 && name.len <= LIMIT_SINK_NAME && find(c, name) == NULL);
    if (c->sink_count == LIMIT_SINKS) {
        drop(c, 0);
    }
    struct sink *s = &c->sinks[c->sink_count++];
    *s = (struct sink){.index = index, .ordinal = ordinal, .name_len = (uint32_t)name.len};
    memcpy(s->name, name.data, name.len);
}

void apply_sink_position(struct core *c, const struct command *cmd, struct result *out)
{
    hf_assert(cmd->type == COMMAND_SINK_POSITION);
    const struct command_sink_position *p = &cmd->sink_position;
    const struct sink *s = find(c, p->name);
    core_step(c, 1);
    if (s != NULL && (p->index < s->index || (p->index == s->index && p->ordinal <= s->ordinal))) {
        return; /* of a deposed leader, or repeated */
    }
    if (s != NULL) {
        drop(c, (uint32_t)(s - c->sinks));
    }
    sink_put(c, p->name, p->index, p->ordinal);
    out->count = 1;
}

static void fill(const struct sink *s, struct sink_view *out)
{
    *out = (struct sink_view){.name = name_of(s), .index = s->index, .ordinal = s->ordinal};
}

bool view_sink(const struct core *c, struct slice name, struct sink_view *out)
{
    const struct sink *s = find(c, name);
    if (s != NULL) {
        fill(s, out);
    }
    return s != NULL;
}

void view_sinks(const struct core *c, view_sink_fn on_sink, void *ctx)
{
    hf_assert(on_sink != NULL);
    for (uint32_t i = 0; i < c->sink_count; i++) {
        struct sink_view view;
        fill(&c->sinks[i], &view);
        on_sink(ctx, &view);
    }
}
