/* What the tests of scripts share: a host whose commands are a few words, and answers as text. To
 * be included first. */
#ifndef HOLDFAST_TESTS_SCRIPT_TESTING_H
#define HOLDFAST_TESTS_SCRIPT_TESTING_H

#include "base_testing.h"

#include "base/limits.h"
#include "script/script.h"

struct script_world {
    struct counted memory;
    struct script_engine *engine;
    struct buffer out;
    char said[1 << 16];     /* the last answer, with | for each line's end */
    char commands[1 << 12]; /* what the host received, "a b;c;" */
    int protocol;
    bool is_read_only;
    bool has_failed; /* the last run */
};

static bool word_is(struct slice word, const char *expected)
{
    return slice_equal(word, slice_of(expected));
}

static void script_world_answer(struct slice what, struct resp_writer *out)
{
    if (word_is(what, "ping")) {
        resp_simple(out, "PONG");
    } else if (word_is(what, "null")) {
        resp_null(out);
    } else if (word_is(what, "number")) {
        resp_integer(out, -42);
    } else if (word_is(what, "nested")) {
        resp_array(out, 3);
        resp_integer(out, 1);
        resp_array(out, 2);
        resp_null(out);
        resp_text(out, "x");
        resp_error(out, "INNER", "e");
    } else if (word_is(what, "map")) {
        resp_map(out, 1);
        resp_text(out, "k");
        resp_text(out, "v");
    } else if (word_is(what, "truth")) {
        resp_bool(out, true);
    } else if (word_is(what, "huge")) {
        static char block[LIMIT_SCRIPT_REPLY];
        resp_bulk(out, slice_make(block, sizeof(block)));
    } else {
        resp_error(out, "ERR", "Unknown Redis command called from script");
    }
}

static void script_world_call(void *ctx, const struct slice *arguments, uint32_t count,
                              bool is_read_only, struct resp_writer *out)
{
    struct script_world *w = ctx;
    w->is_read_only = is_read_only;
    for (uint32_t i = 0; i < count; i++) {
        size_t len = strlen(w->commands);
        snprintf(w->commands + len, sizeof(w->commands) - len, "%s%.*s", i > 0 ? " " : "",
                 (int)arguments[i].len, (const char *)arguments[i].data);
    }
    snprintf(w->commands + strlen(w->commands), sizeof(w->commands) - strlen(w->commands), ";");
    if (word_is(arguments[0], "echo") && count == 2) {
        resp_bulk(out, arguments[1]);
    } else {
        script_world_answer(arguments[0], out);
    }
}

static struct script_world *script_world_new(const struct script_limits *limits, size_t cache_bytes)
{
    struct script_world *w = calloc(1, sizeof(*w));
    counted_init(&w->memory);
    w->engine = script_engine_new(&w->memory.memory, limits, cache_bytes);
    buffer_init(&w->out, &w->memory.memory, LIMIT_SCRIPT_REPLY);
    w->protocol = 2;
    return w;
}

static void script_world_free(struct script_world *w)
{
    script_engine_free(w->engine);
    buffer_close(&w->out);
    assert_all_given_back(&w->memory);
    free(w);
}

static void script_world_read(struct script_world *w)
{
    struct slice bytes = buffer_bytes(&w->out);
    size_t len = 0;
    for (size_t i = 0; i < bytes.len && len + 1 < sizeof(w->said); i++) {
        if (bytes.data[i] != '\r') {
            w->said[len++] = bytes.data[i] == '\n' ? '|' : (char)bytes.data[i];
        }
    }
    w->said[len] = '\0';
    buffer_truncate(&w->out, 0);
}

static const char *run_bytes(struct script_world *w, struct slice source, const struct slice *keys,
                             uint32_t key_count, const struct slice *arguments, uint32_t count)
{
    struct resp_writer out = {&w->out, w->protocol};
    w->commands[0] = '\0';
    struct script *script = script_load(w->engine, source, &out);
    w->has_failed = true;
    if (script != NULL) {
        struct script_call call = {.keys = keys,
                                   .key_count = key_count,
                                   .arguments = arguments,
                                   .argument_count = count,
                                   .host = {script_world_call, w}};
        w->has_failed = !script_run(w->engine, script, &call, &out);
    }
    script_world_read(w);
    return w->said;
}

/* The answer of a script without keys. */
static const char *run(struct script_world *w, const char *source)
{
    return run_bytes(w, slice_of(source), NULL, 0, NULL, 0);
}

#endif
