/* `holdfast snapshot save FILE`: a backup of a running cluster. server/snapshot_tool.c has the
 * parts without a cluster. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/api.h"
#include "cli/commands.h"
#include "cli/exits.h"
#include "cli/say.h"
#include "server/progress.h"
#include "server/snapshot_file.h"
#include "server/snapshot_tool.h"
#include "transport/clock.h"

enum {
    TIMEOUT_MS = 120000, /* to the first byte: the node writes the snapshot first */
    STALL_MS = 30000,    /* without a byte */
    RECEIVE_MAX = 64 << 10,
};

static int receive(struct http *h, struct snapshot_file *file)
{
    struct problem problem;
    struct buffer bytes;
    enum http_state state = HTTP_MORE;
    int code = 0;
    uint64_t total = h->left;
    uint64_t received = 0;
    buffer_init(&bytes, memory_system(), RECEIVE_MAX);
    while (state == HTTP_MORE && code == 0) {
        state = http_read_body(h, &bytes, clock_boot_ms() + STALL_MS);
        received += buffer_len(&bytes);
        progress_update(received, total);
        if (!snapshot_file_put(file, buffer_bytes(&bytes), &problem)) {
            cli_say("%s", problem.text);
            code = EXIT_OURS;
        }
        buffer_truncate(&bytes, 0);
    }
    buffer_close(&bytes);
    progress_end();
    if (code == 0 && state == HTTP_BROKEN) {
        cli_say("the snapshot from %s ended after %" PRIu64 " of %" PRIu64
                " bytes: %s; nothing was saved, try again",
                h->authority, received, total, h->problem);
        code = EXIT_UNREACHABLE;
    }
    return code;
}

static void print_result(const struct snapshot_save *request, const struct snapshot_file *file,
                         const char *endpoint)
{
    const struct snapshot_info *info = &file->info;
    FILE *to = strcmp(request->file, "-") == 0 ? stderr : stdout;
    char cluster[33];
    (void)snprintf(cluster, sizeof(cluster), "%016" PRIx64 "%016" PRIx64, info->cluster.high,
                   info->cluster.low);
    if (!request->json) {
        fprintf(to,
                "saved %s: index %" PRIu64 ", term %" PRIu64 ", cluster %s, %" PRIu64
                " bytes, from %s\n",
                request->file, info->index, info->term, cluster, file->check.offset, endpoint);
        return;
    }
    struct buffer text;
    struct json_writer w;
    buffer_init(&text, memory_system(), 6 * SNAPSHOT_FILE_PATH + 1024);
    json_writer_init(&w, &text);
    json_write_open(&w, '{');
    json_put_text(&w, "path", request->file);
    json_put_text(&w, "cluster_id", cluster);
    json_put_u64(&w, "index", info->index);
    json_put_u64(&w, "term", info->term);
    json_put_u64(&w, "bytes", file->check.offset);
    json_put_text(&w, "endpoint", endpoint);
    json_write_close(&w);
    fprintf(to, "%.*s\n", (int)buffer_len(&text), (const char *)buffer_bytes(&text).data);
    buffer_close(&text);
}

/* Opens the file first: a problem with it is found before the cluster creates a snapshot. */
static int fetch(const struct snapshot_save *request, struct api *api, struct snapshot_file *file)
{
    struct http http;
    struct problem problem;
    if (!snapshot_file_open(file, request->file, request->force, &problem)) {
        cli_say("%s", problem.text);
        return EXIT_FAILED;
    }
    progress_begin("waiting for the snapshot", PROGRESS_BYTES, NULL, request->json);
    int code = api_stream(api, "/api/v1/snapshot", &http);
    if (code != 0) {
        progress_end();
        return code;
    }
    progress_rename("saving the snapshot");
    code = receive(&http, file);
    http_close(&http);
    if (code == 0 && !snapshot_file_finish(file, &problem)) {
        cli_say("%s", problem.text);
        code = EXIT_OURS;
    }
    return code;
}

static int save(const struct snapshot_save *request)
{
    /* TLS and token are those of the environment. */
    struct cli_common common = {
        .endpoints = request->endpoints,
        .timeout_ms = request->timeout_ms != 0 ? request->timeout_ms : TIMEOUT_MS,
        .json = request->json,
    };
    struct api api;
    struct snapshot_file file;
    if (strcmp(request->file, "-") == 0 && isatty(STDOUT_FILENO) == 1) {
        cli_say("the snapshot is not written to a terminal: redirect stdout to a file or a pipe");
        return EXIT_USAGE;
    }
    if (!api_init(&api, &common)) {
        return EXIT_USAGE;
    }
    int code = fetch(request, &api, &file);
    if (code == 0) {
        print_result(request, &file, api.endpoints[api.current]);
    }
    snapshot_file_abandon(&file);
    return code;
}

int snapshot_main(int count, char **arguments)
{
    return snapshot_tool_main(count, arguments, save);
}
