/* One blocking request to the first endpoint that answers, before the load begins. */
#include "cli/bench_targets.h"

#include <errno.h>
#include <jansson.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>
#include <unistd.h>

enum { TIMEOUT_S = 5, ANSWER_MAX = 256 << 10 };

/* "HOST:PORT" or "[IPV6]:PORT". */
static bool resolve(const char *text, struct bench_target *out, char problem[BENCH_PROBLEM])
{
    char host[BENCH_HOST];
    const char *colon = strrchr(text, ':');
    size_t len = colon == NULL ? 0 : (size_t)(colon - text);
    if (len == 0 || colon[1] == '\0' || strlen(text) >= sizeof(out->host)) {
        (void)snprintf(problem, BENCH_PROBLEM, "\"%.200s\" is not HOST:PORT", text);
        return false;
    }
    bool bracketed = text[0] == '[' && text[len - 1] == ']';
    (void)snprintf(host, sizeof(host), "%.*s", (int)(bracketed ? len - 2 : len),
                   bracketed ? text + 1 : text);
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    struct addrinfo *list = NULL;
    int status = getaddrinfo(host, colon + 1, &hints, &list);
    if (status != 0) {
        (void)snprintf(problem, BENCH_PROBLEM, "%.200s: %s", text, gai_strerror(status));
        return false;
    }
    memcpy(&out->address, list->ai_addr, list->ai_addrlen);
    out->address_len = list->ai_addrlen;
    (void)snprintf(out->host, sizeof(out->host), "%s", text);
    freeaddrinfo(list);
    return true;
}

/* ---- the request ---- */

static bool fail(const char *host, const char *words, char problem[BENCH_PROBLEM])
{
    (void)snprintf(problem, BENCH_PROBLEM, "%s: %s", host, words);
    return false;
}

static bool exchange(int fd, const struct bench_target *target, char *answer, size_t *len,
                     char problem[BENCH_PROBLEM])
{
    char request[BENCH_HOST + 80];
    struct timeval limit = {.tv_sec = TIMEOUT_S};
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    (void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
    int request_len = snprintf(request, sizeof(request),
                               "GET /api/v1/cluster HTTP/1.1\r\nHost: %s\r\nConnection: "
                               "close\r\n\r\n",
                               target->host);
    if (connect(fd, (const struct sockaddr *)&target->address, target->address_len) != 0 ||
        send(fd, request, (size_t)request_len, MSG_NOSIGNAL) != request_len) {
        return fail(target->host, strerror(errno == EINPROGRESS ? ETIMEDOUT : errno), problem);
    }
    *len = 0;
    for (;;) {
        ssize_t got = recv(fd, answer + *len, ANSWER_MAX - *len, 0);
        if (got < 0) {
            return fail(target->host, errno == EAGAIN ? "no answer" : strerror(errno), problem);
        }
        *len += (size_t)got;
        if (got == 0 || *len == ANSWER_MAX) {
            return true;
        }
    }
}

static json_t *ask_cluster(const struct bench_target *target, char problem[BENCH_PROBLEM])
{
    static char answer[ANSWER_MAX];
    size_t len = 0;
    int fd = socket(target->address.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        fail(target->host, strerror(errno), problem);
        return NULL;
    }
    bool answered = exchange(fd, target, answer, &len, problem);
    close(fd);
    if (!answered) {
        return NULL;
    }
    const char *body = memmem(answer, len, "\r\n\r\n", 4);
    json_t *root =
        body == NULL ? NULL : json_loadb(body + 4, len - 4 - (size_t)(body - answer), 0, NULL);
    if (!json_is_object(root) || json_object_get(root, "members") == NULL) {
        json_decref(root);
        fail(target->host, "the answer to GET /api/v1/cluster is not that of a holdfast node",
             problem);
        return NULL;
    }
    return root;
}

/* ---- the answer ---- */

static void add_member(struct bench_targets *out, const json_t *member)
{
    struct bench_target target;
    char problem[BENCH_PROBLEM];
    const char *address = json_string_value(json_object_get(member, "client_address"));
    bool is_leader = json_integer_value(json_object_get(member, "id")) == (json_int_t)out->leader;
    if (address == NULL || out->count == BENCH_TARGETS_MAX ||
        (!json_is_true(json_object_get(member, "healthy")) && !is_leader) ||
        !resolve(address, &target, problem)) {
        return;
    }
    out->at[out->count++] = target;
    if (is_leader) {
        out->leads = true;
        struct bench_target first = out->at[0];
        out->at[0] = target;
        out->at[out->count - 1] = first;
    }
}

static bool read_cluster(const json_t *root, const char *host, struct bench_targets *out,
                         char problem[BENCH_PROBLEM])
{
    *out = (struct bench_targets){
        .leader = (uint64_t)json_integer_value(json_object_get(root, "leader")),
    };
    const json_t *members = json_object_get(root, "members");
    const char *version = json_string_value(json_object_get(root, "version"));
    (void)snprintf(out->version, sizeof(out->version), "%s", version == NULL ? "" : version);
    out->members = json_array_size(members);
    for (size_t i = 0; i < json_array_size(members); i++) {
        add_member(out, json_array_get(members, i));
    }
    if (out->leader == 0 || out->count == 0) {
        return fail(host, "the cluster has no leader now", problem);
    }
    return true;
}

bool bench_targets_find(const char *endpoints, struct bench_targets *out,
                        char problem[BENCH_PROBLEM])
{
    (void)snprintf(problem, BENCH_PROBLEM, "there is no endpoint");
    for (const char *at = endpoints; *at != '\0';) {
        char text[BENCH_HOST];
        size_t len = strcspn(at, ",");
        struct bench_target target;
        (void)snprintf(text, sizeof(text), "%.*s", (int)len, at);
        at += len + (at[len] == ',' ? 1 : 0);
        if (len == 0 || !resolve(text, &target, problem)) {
            continue;
        }
        json_t *root = ask_cluster(&target, problem);
        bool found = root != NULL && read_cluster(root, target.host, out, problem);
        json_decref(root);
        if (found) {
            return true;
        }
    }
    return false;
}
