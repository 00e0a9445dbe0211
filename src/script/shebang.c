/* Only the flag `no-writes` has an effect; the others are about memory, replicas and clusters of
 * Redis. */
#include "script/shebang.h"

static struct slice take_until(struct slice *text, char end)
{
    size_t len = 0;
    while (len < text->len && text->data[len] != (uint8_t)end) {
        len++;
    }
    struct slice taken = slice_make(text->data, len);
    size_t used = len < text->len ? len + 1 : len;
    *text = slice_make(text->data + used, text->len - used);
    return taken;
}

static bool is_flag(struct slice flag)
{
    static const char *const known[] = {"no-writes", "allow-oom", "allow-stale", "no-cluster",
                                        "allow-cross-slot-keys"};
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        if (slice_equal(flag, slice_of(known[i]))) {
            return true;
        }
    }
    return false;
}

static bool read_flags(struct slice flags, struct shebang *shebang, struct resp_writer *out)
{
    while (flags.len > 0) {
        struct slice flag = take_until(&flags, ',');
        if (!is_flag(flag)) {
            resp_error(out, "ERR", "Unexpected flag in script shebang: %.*s", (int)flag.len,
                       (const char *)flag.data);
            return false;
        }
        shebang->is_read_only = shebang->is_read_only || slice_equal(flag, slice_of("no-writes"));
    }
    return true;
}

bool shebang_read(struct slice source, struct shebang *shebang, struct resp_writer *out)
{
    *shebang = (struct shebang){0};
    if (!slice_starts_with(source, slice_of("#!"))) {
        return true;
    }
    struct slice rest = source;
    struct slice line = take_until(&rest, '\n');
    if (line.len == source.len) {
        resp_error(out, "ERR", "Invalid script shebang");
        return false;
    }
    shebang->len = line.len;
    struct slice engine = take_until(&line, ' ');
    if (!slice_equal(engine, slice_of("#!lua"))) {
        resp_error(out, "ERR", "Unexpected engine in script shebang: %.*s", (int)engine.len,
                   (const char *)engine.data);
        return false;
    }
    while (line.len > 0) {
        struct slice option = take_until(&line, ' ');
        struct slice prefix = slice_of("flags=");
        if (option.len == 0) {
            continue;
        }
        if (!slice_starts_with(option, prefix)) {
            resp_error(out, "ERR", "Unknown lua shebang option: %.*s", (int)option.len,
                       (const char *)option.data);
            return false;
        }
        struct slice flags = slice_make(option.data + prefix.len, option.len - prefix.len);
        if (!read_flags(flags, shebang, out)) {
            return false;
        }
    }
    return true;
}
