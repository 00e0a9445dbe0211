/* Reads the members of the cluster and resolves their addresses. */
#include "bench/targets.h"

#include <stdio.h>
#include <stdlib.h>

#include "cli/api.h"
#include "cli/exits.h"
#include "transport/resolve.h"

/* Resolves "HOST:PORT" or "[IPV6]:PORT". False: invalid, or the name cannot be resolved. */
static bool resolve(struct slice text, struct bench_target *out)
{
    struct host_port address;
    if (!host_port_parse((const char *)text.data, text.len, NULL, &address)) {
        return false;
    }
    host_port_format(&address, out->host, sizeof(out->host));
    (void)snprintf(out->name, sizeof(out->name), "%s", address.host);
    out->address_len = resolve_now(&address, &out->address);
    return out->address_len > 0;
}

bool bench_targets_of_list(const char *list, struct bench_targets *out)
{
    out->count = 0;
    for (const char *from = list; from != NULL;) {
        const char *comma = strchr(from, ',');
        size_t len = comma == NULL ? strlen(from) : (size_t)(comma - from);
        if (out->count == BENCH_TARGETS_MAX ||
            !resolve(slice_make(from, len), &out->at[out->count])) {
            return false;
        }
        out->count++;
        from = comma == NULL ? NULL : comma + 1;
    }
    out->leads = true;
    return true;
}

void bench_targets_shift(struct bench_targets *targets, unsigned by)
{
    for (unsigned i = 0; i < targets->count; i++) {
        struct bench_target *t = &targets->at[i];
        char *colon = strrchr(t->host, ':');
        unsigned port = (unsigned)strtoul(colon + 1, NULL, 10) + by;
        (void)snprintf(colon + 1, sizeof(t->host) - (size_t)(colon + 1 - t->host), "%u", port);
        in_port_t *at = t->address.ss_family == AF_INET6
                            ? &((struct sockaddr_in6 *)&t->address)->sin6_port
                            : &((struct sockaddr_in *)&t->address)->sin_port;
        *at = htons((uint16_t)port);
    }
}

static void add_member(struct bench_targets *out, const struct json_t *member)
{
    struct bench_target target;
    bool is_leader = json_tree_u64(json_tree_get(member, "id"), 0) == out->leader;
    bool is_healthy = json_tree_true(json_tree_get(member, "healthy"));
    if (out->count == BENCH_TARGETS_MAX || (!is_healthy && !is_leader) ||
        !resolve(json_tree_text(json_tree_get(member, "client_address")), &target)) {
        return;
    }
    out->at[out->count++] = target;
    if (is_leader) {
        out->leads = true;
        out->at[out->count - 1] = out->at[0];
        out->at[0] = target;
    }
}

static void read_cluster(const struct json_t *tree, struct bench_targets *out)
{
    const struct json_t *members = json_tree_get(tree, "members");
    struct slice version = json_tree_text(json_tree_get(tree, "version"));
    *out = (struct bench_targets){
        .leader = json_tree_u64(json_tree_get(tree, "leader"), 0),
        .members = json_tree_count(members),
    };
    (void)snprintf(out->version, sizeof(out->version), "%.*s", (int)version.len,
                   version.len == 0 ? "" : (const char *)version.data);
    for (size_t i = 0; i < json_tree_count(members); i++) {
        add_member(out, json_tree_at(members, i));
    }
}

int bench_targets_find(const struct bench_settings *settings, struct bench_targets *out)
{
    struct cli_common common = CLI_COMMON_DEFAULT;
    struct api api;
    struct api_answer answer;
    common.endpoints = settings->endpoints;
    common.security = settings->files;
    if (!api_init(&api, &common)) {
        return EXIT_USAGE;
    }
    int code = api_get(&api, "/api/v1/cluster", &answer);
    if (code == 0) {
        read_cluster(answer.tree, out);
        api_answer_close(&answer);
    }
    return code;
}
