/* See auth_local.h. One JSON line is sent, one is received. */
#include "cli/auth_local.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/buffer.h"
#include "cli/exits.h"
#include "cli/say.h"
#include "cli/secret.h"
#include "wire/json_tree.h"
#include "wire/json_write.h"

enum { ANSWER_MAX = 64 << 10, TIMEOUT_S = 10 };

static int connect_to(const char *data)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct timeval timeout = {TIMEOUT_S, 0};
    int len = snprintf(address.sun_path, sizeof(address.sun_path), "%s/admin.sock", data);
    if (len < 0 || (size_t)len >= sizeof(address.sun_path)) {
        cli_say("%s: the path is too long for a Unix socket; change to the folder and use "
                "--data .",
                data);
        return -1;
    }
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout)) == 0 &&
        setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout)) == 0 &&
        connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0) {
        return fd;
    }
    cli_say("%s: %s; the node must be running with --auth on, and this command needs its user",
            address.sun_path, strerror(errno));
    if (fd >= 0) {
        close(fd);
    }
    return -1;
}

static bool send_all(int fd, struct slice bytes)
{
    while (bytes.len > 0) {
        ssize_t sent = send(fd, bytes.data, bytes.len, MSG_NOSIGNAL);
        if (sent < 0 && errno != EINTR) {
            return false;
        }
        size_t done = sent > 0 ? (size_t)sent : 0;
        bytes = slice_make(bytes.data + done, bytes.len - done);
    }
    return true;
}

/* One line. */
static bool receive(int fd, struct buffer *answer)
{
    for (;;) {
        char piece[4096];
        ssize_t got = recv(fd, piece, sizeof(piece), 0);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got <= 0 || !buffer_append(answer, piece, (size_t)got)) {
            return false;
        }
        if (memchr(piece, '\n', (size_t)got) != NULL) {
            return true;
        }
    }
}

static void write_line(const struct auth_local *r, const struct secret *secret, struct buffer *line)
{
    struct json_writer w;
    json_writer_init(&w, line);
    json_write_open(&w, '{');
    json_put_text(&w, "op", r->op);
    json_put_text(&w, "principal", r->principal);
    json_put_text(&w, "sha256", secret->sha256);
    json_put_text(&w, "description", r->op);
    json_write_close(&w);
    buffer_append_byte(line, '\n');
}

static int report(const struct auth_local *r, const struct secret *secret, struct slice text)
{
    struct fault fault;
    struct json_t *tree = json_tree_parse(text, &fault);
    struct slice error = json_tree_text(json_tree_get(tree, "error"));
    struct slice message = json_tree_text(json_tree_get(tree, "message"));
    struct slice principal = json_tree_text(json_tree_get(tree, "principal"));
    int code = 0;
    if (tree == NULL || error.len > 0 || principal.len == 0) {
        cli_say("%s: %.*s (%.*s)", r->op, (int)message.len, (const char *)message.data,
                (int)error.len, (const char *)error.data);
        code = EXIT_FAILED;
    } else if (r->json) {
        printf("%.*s\n", (int)text.len - 1, (const char *)text.data);
    } else {
        cli_say("%.*s is an administrator of the cluster%s", (int)principal.len,
                (const char *)principal.data,
                strcmp(r->op, "rescue") == 0 ? "; the earlier ones are removed" : "");
    }
    if (code == 0 && r->secret_file == NULL && r->out == NULL) {
        printf("%s\n", secret->text);
    }
    json_tree_free(tree);
    return code;
}

/* Without an answer the token may be valid: `*is_unknown`. */
static int send_request(const struct auth_local *r, const struct secret *secret, bool *is_unknown)
{
    struct buffer line;
    struct buffer answer;
    int fd = connect_to(r->data);
    if (fd < 0) {
        return EXIT_UNREACHABLE;
    }
    buffer_init(&line, memory_system(), 8192);
    buffer_init(&answer, memory_system(), ANSWER_MAX);
    write_line(r, secret, &line);
    int code = EXIT_UNREACHABLE;
    if (send_all(fd, buffer_bytes(&line)) && receive(fd, &answer)) {
        code = report(r, secret, buffer_bytes(&answer));
    } else {
        *is_unknown = true;
        cli_say("%s: the node sent no answer; it may have been executed", r->op);
    }
    close(fd);
    buffer_close(&line);
    buffer_close(&answer);
    return code;
}

int auth_local_run(const struct auth_local *r)
{
    struct secret secret;
    bool is_unknown = false;
    if (r->secret_file != NULL) {
        if (!secret_read(&secret, r->secret_file)) {
            return EXIT_USAGE;
        }
    } else {
        secret_make(&secret);
        if (r->out != NULL && !secret_store(&secret, r->out)) {
            return EXIT_FAILED;
        }
    }
    int code = send_request(r, &secret, &is_unknown);
    if (code != 0 && !is_unknown && r->secret_file == NULL && r->out != NULL) {
        (void)unlink(r->out);
    }
    secret_wipe(&secret);
    return code;
}
