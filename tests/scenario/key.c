/* Keys and transactions (S13) from words: `resp transacts expecting "k" v1, put "k" "value"`. */
#include <inttypes.h>
#include <string.h>

#include "core/view.h"
#include "words.h"

enum { LIST_BYTES = LIMIT_TRANSACT_BYTES };

/* What a name is. */

static const struct key_version *noted_version(const struct runner *p, const char *label)
{
    for (size_t i = p->cast.noted_count; i > 0; i--) {
        if (strcmp(p->cast.noted[i - 1].label, label) == 0) {
            return &p->cast.noted[i - 1].version;
        }
    }
    return NULL;
}

static void note(struct runner *p, const char *label, struct key_version version)
{
    struct cast *cast = &p->cast;
    if (cast->noted_count == cast->noted_capacity) {
        cast->noted = arena_grow(&p->file, cast->noted, cast->noted_count, &cast->noted_capacity,
                                 sizeof(*cast->noted));
    }
    cast->noted[cast->noted_count++] =
        (struct noted){arena_text(&p->file, label, strlen(label)), version};
}

static void tell_key(const struct key_view *v, struct facts *out)
{
    static const char *const kinds[] = {"absent", "string", "hash",    "list",    "sorted set",
                                        "set",    "lock",   "counter", "reserved"};
    fact(out, "%s", kinds[v->kind]);
    if (key_kind_has_value(v->kind)) {
        fact(out, "value \"%s\"", slice_text(out->arena, v->value));
    }
    if (v->kind == KEY_COUNTER) {
        fact(out, "number %" PRId64, v->number);
    }
    if (v->client.len > 0) {
        fact(out, "client %s", slice_text(out->arena, v->client));
        fact(out, "holders %u", v->holders);
        fact(out, "token %s", token_text(out->arena, v->token));
    }
    if (v->is_value) {
        fact(out, "without owner");
    }
    if (v->deadline_ms != 0) {
        fact(out, "until %s", span_text(out->arena, v->deadline_ms));
    }
}

bool look_at_key(struct runner *p, struct words *w, struct facts *out)
{
    bool notes = words_take(w, "note");
    if (!notes && !words_take(w, "show key")) {
        return false;
    }
    struct key_view view;
    struct slice name = slice_of(words_quoted(w, "the name of a key in quotes"));
    view_key(p->core, 0, name, &view);
    if (notes) {
        words_need(w, "as");
        note(p, words_plain(w, "a label"), view.version);
    }
    tell_key(&view, out);
    return true;
}

/* Transactions. */

struct lists {
    struct packer checks;
    struct packer effects;
};

static void take_check(struct words *w, struct lists *lists)
{
    struct key_check check = {.name = slice_of(words_quoted(w, "the name of a key in quotes"))};
    const char *label = words_plain(w, "`absent`, or the label of a version");
    if (strcmp(label, "absent") != 0) {
        const struct key_version *version = noted_version(w->runner, label);
        if (version == NULL) {
            runner_fail(w->runner, "no version was noted as \"%s\"", label);
        }
        check.version = *version;
    }
    if (!pack_check(&lists->checks, &check)) {
        runner_fail(w->runner, "there is capacity for %d checks", LIMIT_CHECKS);
    }
}

static void take_put(struct words *w, const char *actor, struct effect *e)
{
    struct runner *p = w->runner;
    e->value = slice_of(words_quoted(w, "a value in quotes"));
    for (;;) {
        if (words_take(w, "ttl")) {
            e->ttl_ms = words_span(w, "a time span");
        } else if (words_take(w, "without ttl")) {
            e->ttl_ms = TTL_NONE;
        } else if (words_take(w, "hash")) {
            e->flags |= EFFECT_HASH;
        } else if (words_take(w, "list")) {
            e->flags |= EFFECT_LIST;
        } else if (words_take(w, "sorted set")) {
            e->flags |= EFFECT_SORTED_SET;
        } else if (words_take(w, "set")) {
            e->flags |= EFFECT_SET;
        } else if (words_take(w, "without owner")) {
            e->flags |= EFFECT_VALUE;
        } else if (words_take(w, "lease of")) {
            const struct sent *sent = cast_sent(p, words_plain(w, "a label"));
            if (sent == NULL || sent->hold == NULL) {
                runner_fail(p, "no acquire has that label");
            }
            e->lease = sent->hold->lease;
        } else {
            break;
        }
    }
    if (id_is_zero(e->lease)) {
        e->lease =
            cast_draw(p, arena_format(&p->step, "%s:%s", actor, (const char *)e->name.data), NULL);
    }
}

static bool take_effect(struct words *w, const char *actor, struct lists *lists)
{
    static const struct {
        const char *word;
        enum effect_kind kind;
    } verbs[] = {{"put", EFFECT_PUT},
                 {"expire", EFFECT_EXPIRE},
                 {"drop", EFFECT_DROP},
                 {"count", EFFECT_COUNTER},
                 {"publish", EFFECT_PUBLISH}};
    struct effect e = {.kind = EFFECT_NONE};
    for (size_t i = 0; i < sizeof(verbs) / sizeof(verbs[0]) && e.kind == EFFECT_NONE; i++) {
        e.kind = words_take(w, verbs[i].word) ? verbs[i].kind : EFFECT_NONE;
    }
    if (e.kind == EFFECT_NONE) {
        return false;
    }
    e.name = slice_of(words_quoted(w, "the name of a key in quotes"));
    if (e.kind == EFFECT_PUT) {
        take_put(w, actor, &e);
    } else if (e.kind == EFFECT_EXPIRE) {
        e.ttl_ms = words_take(w, "never") ? TTL_NONE : words_span(w, "a time span");
    } else if (e.kind == EFFECT_DROP) {
        e.flags |= words_take(w, "by force") ? EFFECT_FORCED : 0;
        e.flags |= words_take(w, "now") ? EFFECT_NOW : 0;
    } else if (e.kind == EFFECT_COUNTER) {
        e.number = (int64_t)words_number(w, "a number");
        if (words_take(w, "ttl")) {
            e.flags = EFFECT_TTL;
            e.ttl_ms = words_span(w, "a time span");
        } else if (words_take(w, "without ttl")) {
            e.flags = EFFECT_PERSIST;
        }
    } else {
        e.value = slice_of(words_quoted(w, "a message in quotes"));
    }
    if (!pack_effect(&lists->effects, &e)) {
        runner_fail(w->runner, "there is capacity for %d effects", LIMIT_EFFECTS);
    }
    return true;
}

void request_transact(struct words *w, const char *actor, struct request_line *out)
{
    struct runner *p = w->runner;
    command_init(&out->command, COMMAND_TRANSACT);
    struct command_transact *t = &out->command.transact;
    struct lists lists = {packer_make(arena_alloc(&p->step, LIST_BYTES), LIST_BYTES),
                          packer_make(arena_alloc(&p->step, LIST_BYTES), LIST_BYTES)};
    t->client = slice_of(actor);
    t->actor = slice_of(actor);
    while (words_left(w)) {
        if (words_take(w, "expecting")) {
            take_check(w, &lists);
        } else if (words_take(w, "because")) {
            t->reason = slice_of(words_quoted(w, "a reason in quotes"));
        } else if (!take_effect(w, actor, &lists) && !request_common_option(w, out)) {
            words_finish(w);
        }
    }
    t->id = cast_draw(p, arena_format(&p->step, "%s:transaction", actor), NULL);
    t->checks = packer_list(&lists.checks);
    t->effects = packer_list(&lists.effects);
}
