/* Lines that arrive at the admin socket, with a real core, a cluster that fails as the input says,
 * and a policy that changes with each line that is accepted. Nothing crashes, every line gets one
 * line of JSON, and an answer without an error means that the principal is an administrator.
 *
 * The input is a script: each line is a request; one that begins with a byte below 16 sets how the
 * gateway fails first. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/panic.h"
#include "core/policy.h"
#include "core/view.h"
#include "fake_gateway.h"
#include "node/admin/admin_request.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { LINES_MAX = 100, TURNS_MAX = 50 };

static struct fake_gateway gateway;
static struct service *service;

/* "TENANT/NAME" is a principal that may do everything. */
static bool is_administrator(const char *text)
{
    const char *slash = strchr(text, '/');
    const struct policy *p = core_policy(gateway.core);
    struct tenant_view tenant;
    struct principal_view principal;
    return slash != NULL &&
           policy_find_tenant(p, slice_make(text, (size_t)(slash - text)), &tenant) &&
           policy_find_principal(p, tenant.number, slice_of(slash + 1), &principal) &&
           policy_allows_cluster(p, principal.number, RIGHT_ADMIN);
}

static void check_answer(const struct admin_request *r)
{
    struct buffer out;
    buffer_init(&out, memory_system(), ADMIN_ANSWER_MAX);
    admin_request_answer(r, &out);
    struct slice text = buffer_bytes(&out);
    hf_assert(!out.overflowed && text.len > 1);
    hf_assert(memchr(text.data, '\n', text.len) == text.data + text.len - 1);
    json_t *json = json_loadb((const char *)text.data, text.len, JSON_REJECT_DUPLICATES, NULL);
    hf_assert(json_is_object(json));
    const char *made = json_string_value(json_object_get(json, "principal"));
    const char *error = json_string_value(json_object_get(json, "error"));
    hf_assert((made == NULL) == (error != NULL));
    hf_assert(made == NULL || is_administrator(made));
    json_decref(json);
    buffer_close(&out);
}

static void run_line(struct slice line)
{
    static const enum hf_error errors[] = {HF_OK, HF_UNAVAILABLE, HF_OUTCOME_UNKNOWN, HF_BUSY};
    struct admin_request r;
    if (line.len > 0 && line.data[0] < 16) {
        gateway.fails = errors[line.data[0] % 4];
        gateway.does_before = gateway.fails == HF_OUTCOME_UNKNOWN && line.data[0] > 7;
        line = slice_make(line.data + 1, line.len - 1);
    }
    line.len = line.len < ADMIN_LINE_MAX ? line.len : ADMIN_LINE_MAX; /* admin_socket.c */
    admin_request_begin(&r, &gateway.gateway, line, 1000);
    for (int i = 0; i < TURNS_MAX && r.state != ADMIN_ANSWERED; i++) {
        (void)fake_gateway_deliver(&gateway);
        admin_request_run(&r);
    }
    hf_assert(r.state == ADMIN_ANSWERED);
    check_answer(&r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fake_gateway_open(&gateway);
    struct service_options options = {
        .memory = memory_system(), .gateway = gateway.gateway, .event_bytes = 64 << 10};
    service = service_new(&options);
    gateway.service = service;
    for (int lines = 0; size > 0 && lines < LINES_MAX; lines++) {
        const uint8_t *end = memchr(data, '\n', size);
        size_t len = end == NULL ? size : (size_t)(end - data);
        run_line(slice_make(data, len));
        size -= len + (end == NULL ? 0 : 1);
        data += len + (end == NULL ? 0 : 1);
    }
    const char *problem = core_check_invariants(gateway.core);
    if (problem != NULL) {
        fprintf(stderr, "fuzz_admin: %s\n", problem);
        abort();
    }
    service_free(service);
    fake_gateway_close(&gateway);
    return 0;
}
