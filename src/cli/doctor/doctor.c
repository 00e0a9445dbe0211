/* See doctor.h. */
#include "cli/doctor/doctor.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "cli/columns.h"
#include "cli/commands.h"
#include "cli/exits.h"
#include "cli/say.h"

struct doctor_settings {
    struct cli_common common;
    const char *config;
};

const struct flag doctor_options[] = {
    {"config", 0, FLAG_TEXT_SET(struct doctor_settings, config), "FILE",
     "settings of the node, as of `holdfast serve`; variables HOLDFAST_NAME count, too"},
    CLI_COMMON_OPTIONS(struct doctor_settings),
    FLAGS_END,
};

static const char *const level_words[] = {"ok", "warn", "fail"};

void doctor_add(struct doctor_report *r, enum doctor_level level, const char *check,
                const char *action, const char *format, ...)
{
    if (r->count == DOCTOR_LINES) {
        return;
    }
    struct doctor_line *line = &r->lines[r->count++];
    va_list list;
    line->level = level;
    line->check = check;
    va_start(list, format);
    (void)vsnprintf(line->text, sizeof(line->text), format, list);
    va_end(list);
    (void)snprintf(line->action, sizeof(line->action), "%s",
                   level == DOCTOR_OK || action == NULL ? "" : action);
}

/* ---- output ---- */

static void print_text(const struct doctor_report *r)
{
    static const enum cli_colour colours[] = {COLOUR_GREEN, COLOUR_YELLOW, COLOUR_RED};
    bool has_colour = cli_has_colour(stdout);
    for (size_t i = 0; i < r->count; i++) {
        const struct doctor_line *line = &r->lines[i];
        enum cli_colour colour = colours[line->level];
        printf("%s%-4s%s  %-13s %s%s%s\n", cli_colour_on(colour, has_colour),
               level_words[line->level], cli_colour_off(colour, has_colour), line->check,
               line->text, line->action[0] != '\0' ? "; next: " : "", line->action);
    }
}

static void print_json(const struct doctor_report *r, const unsigned counts[3])
{
    struct buffer text;
    struct json_writer w;
    buffer_init(&text, memory_system(), API_ANSWER_MAX);
    json_writer_init(&w, &text);
    json_write_open(&w, '{');
    for (unsigned i = 0; i < 3; i++) {
        json_put_u64(&w, level_words[i], counts[i]);
    }
    json_put_open(&w, "checks", '[');
    for (size_t i = 0; i < r->count; i++) {
        const struct doctor_line *line = &r->lines[i];
        json_write_open(&w, '{');
        json_put_text(&w, "check", line->check);
        json_put_text(&w, "level", level_words[line->level]);
        json_put_text(&w, "text", line->text);
        json_put_text(&w, "action", line->action);
        json_write_close(&w);
    }
    json_write_close(&w);
    json_write_close(&w);
    buffer_append_byte(&text, '\n');
    struct slice bytes = buffer_bytes(&text);
    (void)fwrite(bytes.data, 1, bytes.len, stdout);
    buffer_close(&text);
}

static int print_report(const struct doctor_report *r, bool json)
{
    unsigned counts[3] = {0, 0, 0};
    for (size_t i = 0; i < r->count; i++) {
        counts[r->lines[i].level]++;
    }
    if (json) {
        print_json(r, counts);
    } else {
        print_text(r);
        printf("\n%u ok, %u to look at, %u failed\n", counts[DOCTOR_OK], counts[DOCTOR_WARN],
               counts[DOCTOR_FAIL]);
    }
    return counts[DOCTOR_FAIL] > 0 ? EXIT_FAILED : 0;
}

/* ---- settings ---- */

/* One line for each problem; the rest of the checks needs valid settings. */
static bool load_config(const char *file, struct config *c, struct doctor_report *r)
{
    struct buffer problems;
    char flag[CONFIG_PATH + 16];
    char *arguments[] = {flag, NULL};
    buffer_init(&problems, memory_system(), 1 << 16);
    int len = snprintf(flag, sizeof(flag), "--config=%s", file == NULL ? "" : file);
    bool is_good =
        (size_t)len < sizeof(flag) && config_load(c, file == NULL ? 0 : 1, arguments, &problems);
    if (is_good) {
        doctor_add(r, DOCTOR_OK, "settings", NULL, "%s: node %llu, %u member%s",
                   file == NULL ? "without a file" : file, (unsigned long long)c->id,
                   c->member_count, c->member_count == 1 ? "" : "s");
    }
    struct slice left = buffer_bytes(&problems);
    while (!is_good && left.len > 0) {
        const uint8_t *end = memchr(left.data, '\n', left.len);
        size_t line = end == NULL ? left.len : (size_t)(end - left.data);
        doctor_add(r, DOCTOR_FAIL, "settings", "correct the setting", "%.*s", (int)line,
                   (const char *)left.data);
        left = slice_make(left.data + line, left.len - line);
        left = left.len > 0 ? slice_make(left.data + 1, left.len - 1) : left;
    }
    if (!is_good && r->count == 0) {
        doctor_add(r, DOCTOR_FAIL, "settings", "give the path of a file", "--config is too long");
    }
    buffer_close(&problems);
    return is_good;
}

/* The CA of the nodes verifies them, unless the caller has chosen another. */
static bool prepare_api(struct api *api, const struct doctor_settings *o, const struct config *c)
{
    static char own[ADDRESS_TEXT];
    struct cli_common common = o->common;
    struct address client = c->client;
    if (common.security.ca == NULL && getenv("HOLDFAST_CA") == NULL && c->tls_ca[0] != '\0') {
        common.security.ca = c->tls_ca;
    }
    if (common.endpoints == NULL && getenv("HOLDFAST_ENDPOINTS") == NULL) {
        if (client.host[0] == '\0') {
            (void)snprintf(client.host, sizeof(client.host), "127.0.0.1");
        }
        address_format(&client, own, sizeof(own));
        common.endpoints = own;
    }
    return api_init(api, &common);
}

int doctor_main(int count, char **arguments)
{
    static struct doctor_settings o = {.common = CLI_COMMON_DEFAULT};
    static struct doctor_report report;
    static struct config config;
    static struct api api;
    struct flag_words words;
    if (!flags_read("doctor", doctor_options, FLAGS_ANY_ORDER, count, arguments, &o, &words) ||
        !cli_words_check("doctor", &words, 0, 0)) {
        return EXIT_USAGE;
    }
    if (load_config(o.config, &config, &report)) {
        doctor_check_data(&config, &report);
        doctor_check_disk(&config, &report);
        doctor_check_limits(&config, &report);
        doctor_check_clock("/sys", &report);
        doctor_check_tls(&config, (int64_t)time(NULL), &report);
        bool has_api = prepare_api(&api, &o, &config);
        if (!has_api) {
            doctor_add(&report, DOCTOR_FAIL, "member",
                       "give another file with --ca, --cert and --key",
                       "no node can be requested with these files");
        }
        doctor_check_net(&config, has_api ? &api : NULL, o.common.timeout_ms, &report);
    }
    return print_report(&report, o.common.json);
}
