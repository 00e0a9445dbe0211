/* The encoding of a log entry: format, stamp, wall clock, count, then each command after its
 * length, then zeros up to a multiple of 8. */
#include "core/entry.h"

#include "base/codec.h"

#define ENTRY_FORMAT 1
/* Format byte and padding to 8, stamp, wall clock, count; filled in by sealing. */
#define ENTRY_HEADER 32
/* Commands decoded together. An entry of at most so many is decoded once. */
#define GROUP 64

void entry_writer_init(struct entry_writer *w, uint32_t version, void *buffer, size_t size)
{
    hf_assert(size >= ENTRY_HEADER + 8);
    *w = (struct entry_writer){
        .buffer = buffer, .size = size, .len = ENTRY_HEADER, .version = version};
}

bool entry_writer_add(struct entry_writer *w, const struct command *command)
{
    uint8_t *at = w->buffer + w->len;
    size_t space = w->size - w->len;
    /* The length takes at most 4 bytes; the command is then moved up. */
    size_t len = space <= 4 + 8 ? 0 : command_encode(command, w->version, at + 4, space - 4 - 8);
    if (len == 0) {
        w->full = true;
        return false;
    }
    struct writer length = writer_make(at, 4);
    write_u64(&length, len);
    hf_assert(!length.full);
    memmove(length.at, at + 4, len);
    w->last = slice_make(length.at, len);
    w->len += (size_t)(length.at - at) + len;
    w->count++;
    return true;
}

size_t entry_writer_seal(struct entry_writer *w, uint64_t time_ms, uint64_t wall_ms)
{
    struct writer header = writer_make(w->buffer, ENTRY_HEADER);
    write_fixed64(&header, ENTRY_FORMAT);
    write_fixed64(&header, time_ms);
    write_fixed64(&header, wall_ms);
    write_fixed64(&header, w->count);
    while (w->len % 8 != 0) {
        w->buffer[w->len++] = 0;
    }
    return w->len;
}

static enum hf_error read_header(struct reader *r, struct entry_header *out)
{
    uint64_t format = read_fixed64(r);
    out->time_ms = read_fixed64(r);
    out->wall_ms = read_fixed64(r);
    uint64_t count = read_fixed64(r);
    if (r->bad || format == 0) {
        return HF_MALFORMED;
    }
    if (format > ENTRY_FORMAT) {
        return HF_VERSION;
    }
    if (out->time_ms >= LIMIT_NUMBER || out->wall_ms >= LIMIT_NUMBER || count > LIMIT_ENTRY) {
        return HF_MALFORMED;
    }
    out->count = (uint32_t)count;
    return HF_OK;
}

uint64_t entry_stamp_ms(struct slice entry)
{
    struct reader r = reader_make(entry);
    (void)read_fixed64(&r);
    uint64_t stamp = read_fixed64(&r);
    return r.bad || stamp >= LIMIT_NUMBER ? 0 : stamp;
}

bool entry_is_lead(struct slice entry)
{
    struct entry_header header;
    struct command first;
    struct reader r = reader_make(entry);
    return read_header(&r, &header) == HF_OK && header.count > 0 &&
           command_decode(read_slice(&r, LIMIT_ENTRY), &first) == HF_OK &&
           first.type == COMMAND_LEAD;
}

static bool only_padding(const struct reader *r)
{
    if (r->bad || reader_left(r) >= 8) {
        return false;
    }
    for (const uint8_t *at = r->at; at < r->end; at++) {
        if (*at != 0) {
            return false;
        }
    }
    return true;
}

/* Distinguishes a command of a newer program from damage where possible: a member that does not
 * support it must stop, not fall behind (S12.9). */
static enum hf_error decode(struct reader *r, struct command *out)
{
    enum hf_error error = command_decode(read_slice(r, LIMIT_ENTRY), out);
    if (r->bad || error != HF_OK) {
        return !r->bad && error == HF_VERSION ? HF_VERSION : HF_MALFORMED;
    }
    bool is_newer = out->type == COMMAND_UPGRADE && out->upgrade.version > CORE_VERSION;
    return is_newer ? HF_VERSION : HF_OK;
}

enum hf_error entry_check(struct slice entry, struct entry_header *out)
{
    if (entry.len % 8 != 0 || entry.len > LIMIT_ENTRY) {
        return HF_MALFORMED;
    }
    struct reader r = reader_make(entry);
    enum hf_error error = read_header(&r, out);
    if (error != HF_OK) {
        return error;
    }
    struct command command;
    for (uint32_t i = 0; i < out->count; i++) {
        error = decode(&r, &command);
        if (error != HF_OK) {
            return error;
        }
    }
    return only_padding(&r) ? HF_OK : HF_MALFORMED;
}

static enum hf_error decode_group(struct reader *r, struct command *commands, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        enum hf_error error = decode(r, &commands[i]);
        if (error != HF_OK) {
            return error;
        }
    }
    return HF_OK;
}

static void apply_group(struct core *core, const struct command *commands, uint32_t first,
                        uint32_t count, entry_result_fn on_result, void *ctx)
{
    for (uint32_t i = 0; i < count; i++) {
        if (i % CORE_PREFETCH == 0) {
            core_prefetch(core, &commands[i], count - i);
        }
        struct result result;
        core_apply(core, &commands[i], &result);
        if (on_result != NULL) {
            on_result(ctx, first + i, &commands[i], &result);
        }
    }
}

enum hf_error entry_apply(struct core *core, uint64_t index, struct slice entry,
                          entry_result_fn on_result, void *ctx)
{
    struct entry_header header;
    struct command commands[GROUP];
    struct reader r = reader_make(entry);
    enum hf_error error =
        entry.len % 8 != 0 || entry.len > LIMIT_ENTRY ? HF_MALFORMED : read_header(&r, &header);
    if (error != HF_OK) {
        return error;
    }
    uint32_t count = header.count < GROUP ? header.count : GROUP;
    error = decode_group(&r, commands, count);
    if (error == HF_OK && count == header.count) {
        error = only_padding(&r) ? HF_OK : HF_MALFORMED; /* all decoded and valid */
    } else if (error == HF_OK) {
        error = entry_check(entry, &header);
    }
    if (error != HF_OK) {
        return error;
    }
    core_begin(core, index, header.time_ms, header.wall_ms);
    apply_group(core, commands, 0, count, on_result, ctx);
    for (uint32_t done = count; done < header.count; done += count) {
        count = header.count - done < GROUP ? header.count - done : GROUP;
        error = decode_group(&r, commands, count);
        hf_assert(error == HF_OK);
        apply_group(core, commands, done, count, on_result, ctx);
    }
    return HF_OK;
}
