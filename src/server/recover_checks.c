/* The checks before a recovery or a restore. */
#include "server/recover_checks.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/text.h"
#include "server/config_value.h"

enum { PROBE_MS = 1000 };

bool check_node_id(const char *text, uint64_t *out)
{
    if (text != NULL && value_number(text, out) && *out >= 1 && *out <= UINT32_MAX) {
        return true;
    }
    fprintf(stderr, "holdfast: --id must be the id of the node, 1 to 4294967295\n");
    return false;
}

bool check_self(const char *cluster, uint64_t node, char address[ADDRESS_TEXT])
{
    char id_text[24];
    uint64_t id = 0;
    struct address parsed;
    const char *equals = strchr(cluster, '=');
    size_t len = equals == NULL ? 0 : (size_t)(equals - cluster);
    if (strchr(cluster, ',') != NULL) {
        fprintf(stderr, "holdfast: --cluster: name this node only; the other nodes join the new "
                        "cluster afterwards, with empty folders\n");
        return false;
    }
    snprintf(id_text, sizeof(id_text), "%.*s", (int)len, cluster);
    if (len == 0 || len >= sizeof(id_text) || !value_number(id_text, &id) ||
        !address_parse(equals + 1, &parsed) || parsed.host[0] == '\0' || parsed.port == 0) {
        fprintf(stderr, "holdfast: --cluster: \"%s\" is not ID=HOST:PORT\n", cluster);
        return false;
    }
    if (id != node) {
        fprintf(stderr,
                "holdfast: --cluster names node %" PRIu64 ", but this is node %" PRIu64 " (--id)\n",
                id, node);
        return false;
    }
    address_format(&parsed, address, ADDRESS_TEXT);
    return true;
}

static const char *user_name(void)
{
    const char *behind = getenv("SUDO_USER");
    const struct passwd *user = getpwuid(geteuid());
    return behind != NULL && behind[0] != '\0' ? behind : user != NULL ? user->pw_name : "operator";
}

bool check_audit(const char *actor, const char *reason, struct offline_new *out)
{
    out->actor = slice_of(actor != NULL ? actor : user_name());
    if (reason == NULL) {
        fprintf(stderr, "holdfast: --reason TEXT is missing; the audit record needs it\n");
        return false;
    }
    out->reason = slice_of(reason);
    if (out->actor.len > LIMIT_ACTOR || !text_is_plain(out->actor)) {
        fprintf(stderr, "holdfast: --actor: at most %d bytes without control characters\n",
                LIMIT_ACTOR);
        return false;
    }
    if (out->reason.len > LIMIT_REASON || !text_is_plain(out->reason)) {
        fprintf(stderr, "holdfast: --reason: at most %d bytes without control characters\n",
                LIMIT_REASON);
        return false;
    }
    return true;
}

uint64_t now_wall_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* ---- probing other members ---- */

/* Returns a socket with a connection in progress, or -1. */
static int begin_probe(const char *text)
{
    struct address address;
    struct sockaddr_storage found;
    const char *problem;
    if (!address_parse(text, &address) || address_resolve(&address, &found, 1, &problem) == 0) {
        return -1;
    }
    int fd = socket(found.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, (const struct sockaddr *)&found, address_len(&found)) != 0 &&
        errno != EINPROGRESS) {
        close(fd);
        fd = -1;
    }
    return fd;
}

static bool is_connected(const struct pollfd *probe)
{
    int error = 0;
    socklen_t len = sizeof(error);
    return (probe->revents & POLLOUT) != 0 &&
           getsockopt(probe->fd, SOL_SOCKET, SO_ERROR, &error, &len) == 0 && error == 0;
}

bool check_others_are_gone(const struct offline_state *state, uint64_t self)
{
    struct pollfd probes[LIMIT_NODES];
    bool answered[LIMIT_NODES] = {false};
    uint64_t until_ms = now_wall_ms() + PROBE_MS;
    unsigned open = 0;
    bool gone = true;
    for (uint32_t i = 0; i < state->member_count; i++) {
        const struct offline_member *m = &state->members[i];
        probes[i] =
            (struct pollfd){.fd = m->id == self ? -1 : begin_probe(m->address), .events = POLLOUT};
        open += probes[i].fd >= 0;
    }
    while (open > 0) {
        uint64_t now_ms = now_wall_ms();
        int left_ms = now_ms < until_ms ? (int)(until_ms - now_ms) : 0;
        if (poll(probes, state->member_count, left_ms > PROBE_MS ? PROBE_MS : left_ms) <= 0) {
            break;
        }
        for (uint32_t i = 0; i < state->member_count; i++) {
            if (probes[i].fd >= 0 && probes[i].revents != 0) {
                answered[i] = is_connected(&probes[i]);
                close(probes[i].fd);
                probes[i].fd = -1;
                open--;
            }
        }
    }
    for (uint32_t i = 0; i < state->member_count; i++) {
        if (probes[i].fd >= 0) {
            close(probes[i].fd);
        }
        if (answered[i]) {
            fprintf(stderr,
                    "holdfast: node %" PRIu64 " still answers at %s: stop every remaining node of "
                    "the old cluster first\n",
                    state->members[i].id, state->members[i].address);
            gone = false;
        }
    }
    return gone;
}
