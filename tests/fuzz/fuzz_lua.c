/* Arbitrary text as a script. It ends within its limits with one answer, all memory is returned, and
 * the engine can run the next script. */
#include <stdlib.h>

#include "base/limits.h"
#include "base/panic.h"
#include "script/script.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static size_t held;

static void *take(void *ctx, size_t size)
{
    void *block = malloc(size);
    hf_assert(block != NULL);
    held += size;
    return block;
}

static void give_back(void *ctx, void *block, size_t size)
{
    held -= size;
    free(block);
}

static const struct memory memory = {take, give_back, NULL};

/* Answers with what the command's first letter stands for, or with its arguments. */
static void call(void *ctx, const struct slice *arguments, uint32_t count, bool is_read_only,
                 struct resp_writer *out)
{
    uint8_t first = arguments[0].len > 0 ? arguments[0].data[0] : 0;
    if (first == 'e') {
        resp_error(out, "ERR", "no");
    } else if (first == 'n') {
        resp_null(out);
    } else if (first == 'i') {
        resp_integer(out, count);
    } else if (first == 'm') {
        resp_map(out, 1);
        resp_text(out, "k");
        resp_bool(out, true);
    } else {
        resp_array(out, count);
        for (uint32_t i = 0; i < count; i++) {
            resp_bulk(out, arguments[i]);
        }
    }
}

/* The end of the value at `at`: answers are well formed. */
static size_t skip_value(struct slice bytes, size_t at)
{
    hf_assert(at < bytes.len);
    const uint8_t *end = memchr(bytes.data + at, '\r', bytes.len - at);
    hf_assert(end != NULL && end + 1 < bytes.data + bytes.len && end[1] == '\n');
    size_t next = (size_t)(end - bytes.data) + 2;
    uint8_t type = bytes.data[at];
    long number = type == '$' || type == '*' || type == '%' || type == '~' || type == '='
                      ? strtol((const char *)bytes.data + at + 1, NULL, 10)
                      : 0;
    if (type == '$' || type == '=') {
        return number < 0 ? next : next + (size_t)number + 2;
    }
    for (long i = 0; i < (type == '%' ? number * 2 : number); i++) {
        next = skip_value(bytes, next);
    }
    return next;
}

static void run(struct script_engine *engine, struct slice source, int protocol)
{
    struct buffer buffer;
    buffer_init(&buffer, &memory, LIMIT_SCRIPT_REPLY);
    struct resp_writer out = {&buffer, protocol};
    struct slice words[] = {slice_of("k"), slice_of("12"), slice_of("")};
    struct script *script = script_load(engine, source, &out);
    if (script != NULL) {
        struct script_call what = {.keys = words,
                                   .key_count = 2,
                                   .arguments = words + 1,
                                   .argument_count = 2,
                                   .host = {call, NULL}};
        script_run(engine, script, &what, &out);
    }
    struct slice answer = buffer_bytes(&buffer);
    hf_assert(skip_value(answer, 0) == answer.len);
    buffer_close(&buffer);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct script_limits limits = {.steps = 20000, .memory_bytes = 512 << 10, .cpu_ms = 1000};
    struct script_engine *engine = script_engine_new(&memory, &limits, 64 << 10);
    run(engine, slice_make(data, size), 2);
    run(engine, slice_make(data, size), 3);
    run(engine, slice_of("assert(#KEYS == 2 and not rawget(_G, 'x')) return 1"), 2);
    script_engine_free(engine);
    hf_assert(held == 0);
    return 0;
}
