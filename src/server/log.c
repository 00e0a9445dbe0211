/* Each line of the log is one write(2), so that lines of processes that share a terminal do not
 * mix. */
#include "server/log.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "wire/json_write.h"

enum { LINE_MAX_BYTES = 64 << 10 };

static const char *const level_words[JOURNAL_LEVELS + 1] = {"debug", "info", "warn", "error",
                                                            "off"};

static const char *const subsystem_words[] = {
#define X(symbol, word) word,
    JOURNAL_SUBSYSTEM_LIST(X)
#undef X
};

/* ---- levels ---- */

static int find_word(const char *const *words, int count, const char *text, size_t len)
{
    for (int i = 0; i < count; i++) {
        if (strlen(words[i]) == len && memcmp(words[i], text, len) == 0) {
            return i;
        }
    }
    return -1;
}

const char *log_levels_parse(const char *text, struct log_levels *out)
{
    struct log_levels levels;
    for (int i = 0; i < JOURNAL_SUBSYSTEMS; i++) {
        levels.at[i] = JOURNAL_INFO;
    }
    const char *wrong = log_levels_change(text, &levels);
    if (wrong == NULL) {
        *out = levels;
    }
    return wrong;
}

const char *log_levels_change(const char *text, struct log_levels *out)
{
    struct log_levels levels = *out;
    while (*text != '\0') {
        size_t len = strcspn(text, ",");
        const char *equals = memchr(text, '=', len);
        const char *word = equals != NULL ? equals + 1 : text;
        int level = find_word(level_words, JOURNAL_LEVELS + 1, word, (size_t)(text + len - word));
        if (level < 0) {
            return "a level must be one of debug, info, warn, error, off";
        }
        int subsystem = -1;
        if (equals != NULL) {
            subsystem =
                find_word(subsystem_words, JOURNAL_SUBSYSTEMS, text, (size_t)(equals - text));
            if (subsystem < 0) {
                return "a subsystem must be one of node, raft, peer, disk, snapshot, client, lock";
            }
        }
        for (int i = 0; i < JOURNAL_SUBSYSTEMS; i++) {
            if (subsystem < 0 || subsystem == i) {
                levels.at[i] = (enum journal_level)level;
            }
        }
        text += len + (text[len] == ',');
    }
    *out = levels;
    return NULL;
}

/* ---- lines ---- */

static uint64_t wall_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static bool wants(void *ctx, enum journal_level level, enum journal_subsystem subsystem)
{
    const struct log_sink *log = ctx;
    return level >= log->levels.at[subsystem];
}

/* "60", "1.5", "0.025". */
static struct slice seconds_text(uint64_t ms, char text[32])
{
    int len = snprintf(text, 32, "%llu", (unsigned long long)(ms / 1000));
    if (ms % 1000 != 0) {
        len += snprintf(text + len, 32 - (size_t)len, ".%03u", (unsigned)(ms % 1000));
        while (text[len - 1] == '0') {
            len--;
        }
    }
    return slice_make(text, (size_t)len);
}

static void write_json(struct log_sink *log, enum journal_level level,
                       enum journal_subsystem subsystem, const char *event,
                       const struct journal_field *fields, size_t count)
{
    struct json_writer w;
    json_writer_init(&w, &log->line);
    json_write_open(&w, '{');
    json_put_time(&w, "time", wall_ms());
    json_put_text(&w, "level", level_words[level]);
    json_put_text(&w, "subsystem", subsystem_words[subsystem]);
    json_put_text(&w, "event", event);
    json_put_u64(&w, "node", log->node);
    json_put_u64(&w, "term", log->term);
    for (size_t i = 0; i < count; i++) {
        char text[32];
        if (fields[i].text != NULL) {
            json_put_string(&w, fields[i].name, slice_make(fields[i].text, fields[i].text_len));
        } else if (fields[i].is_ms) {
            json_write_key(&w, fields[i].name);
            json_write_raw(&w, seconds_text(fields[i].number, text));
        } else {
            json_put_u64(&w, fields[i].name, fields[i].number);
        }
    }
    json_write_close(&w);
}

static void write_text(struct log_sink *log, enum journal_level level,
                       enum journal_subsystem subsystem, const char *event,
                       const struct journal_field *fields, size_t count)
{
    struct timespec now;
    struct tm local;
    clock_gettime(CLOCK_REALTIME, &now);
    localtime_r(&now.tv_sec, &local);
    buffer_printf(&log->line, "%02d:%02d:%02d.%03ld %-5s node %llu %-8s %s", local.tm_hour,
                  local.tm_min, local.tm_sec, now.tv_nsec / 1000000, level_words[level],
                  (unsigned long long)log->node, subsystem_words[subsystem], event);
    for (size_t i = 0; i < count; i++) {
        if (fields[i].text == NULL && fields[i].is_ms) {
            char text[32];
            buffer_printf(&log->line, " %s=", fields[i].name);
            buffer_append_slice(&log->line, seconds_text(fields[i].number, text));
            continue;
        }
        if (fields[i].text == NULL) {
            buffer_printf(&log->line, " %s=%llu", fields[i].name,
                          (unsigned long long)fields[i].number);
            continue;
        }
        buffer_printf(&log->line, " %s=\"", fields[i].name);
        for (size_t j = 0; j < fields[i].text_len; j++) {
            uint8_t c = (uint8_t)fields[i].text[j];
            buffer_append_byte(&log->line, c < ' ' || c == 0x7f ? '?' : c);
        }
        buffer_append_byte(&log->line, '"');
    }
}

static void write_event(void *ctx, enum journal_level level, enum journal_subsystem subsystem,
                        const char *event, const struct journal_field *fields, size_t count)
{
    struct log_sink *log = ctx;
    buffer_truncate(&log->line, 0);
    if (log->format == LOG_JSON) {
        write_json(log, level, subsystem, event, fields, count);
    } else {
        write_text(log, level, subsystem, event, fields, count);
    }
    buffer_append_byte(&log->line, '\n');
    struct slice line = buffer_bytes(&log->line);
    if (!log->line.overflowed) {
        ssize_t written = write(log->fd, line.data, line.len);
        (void)written; /* a failed write to the log cannot be reported */
    }
}

static void each_level(void *ctx, void (*visit)(void *to, const char *subsystem, const char *level),
                       void *to)
{
    const struct log_sink *log = ctx;
    for (int i = 0; i < JOURNAL_SUBSYSTEMS; i++) {
        visit(to, subsystem_words[i], level_words[log->levels.at[i]]);
    }
}

static const char *set_levels(void *ctx, const char *text)
{
    struct log_sink *log = ctx;
    const char *wrong = log_levels_change(text, &log->levels);
    if (wrong == NULL) {
        /* At any level: it explains which events the log omits from now on. */
        const struct journal_field field = JOURNAL_TEXT("log_level", text);
        write_event(log, JOURNAL_WARN, JOURNAL_NODE, "log_level_changed", &field, 1);
    }
    return wrong;
}

static void set_term(void *ctx, uint64_t term)
{
    struct log_sink *log = ctx;
    log->term = term;
}

void log_sink_init(struct log_sink *log, int fd, enum config_log_format format, uint64_t node)
{
    memset(log, 0, sizeof(*log));
    log->fd = fd;
    log->format = format;
    log->node = node;
    const char *wrong = log_levels_parse("info", &log->levels);
    hf_assert(wrong == NULL);
    buffer_init(&log->line, memory_system(), LINE_MAX_BYTES);
}

bool log_sink_open(struct log_sink *log, const char *path)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0640);
    if (fd < 0) {
        return false;
    }
    if (log->path != NULL) {
        close(log->fd);
    }
    log->path = path;
    log->fd = fd;
    return true;
}

void log_sink_close(struct log_sink *log)
{
    if (log->path != NULL) {
        close(log->fd);
    }
    buffer_close(&log->line);
}

struct journal log_sink_journal(struct log_sink *log)
{
    return (struct journal){.wants = wants,
                            .write = write_event,
                            .set_term = set_term,
                            .each_level = each_level,
                            .set_levels = set_levels,
                            .ctx = log};
}
