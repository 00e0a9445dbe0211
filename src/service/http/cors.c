/* See cors.h. */
#include "service/http/cors.h"

#include <stdio.h>

enum { MEMBERS_MAX = LIMIT_NODES };

static const char *scheme_of(const struct service *s)
{
    struct gateway_status status;
    s->gateway.status(s->gateway.ctx, &status);
    return status.certificate_until_s != 0 ? "https://" : "http://";
}

static uint32_t list_members(const struct service *s, struct gateway_member members[MEMBERS_MAX])
{
    const struct gateway *g = &s->gateway;
    uint32_t count = g->members == NULL ? 0 : g->members(g->ctx, members, MEMBERS_MAX);
    return count < MEMBERS_MAX ? count : MEMBERS_MAX;
}

/* A configured address. Anything else must not get into a header. */
static bool is_plain(const char *address)
{
    size_t len =
        strspn(address, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_:[]");
    return len > 0 && address[len] == '\0';
}

static bool is_member(const struct service *s, struct slice origin)
{
    struct gateway_member members[MEMBERS_MAX];
    const char *scheme = scheme_of(s);
    size_t scheme_len = strlen(scheme);
    if (origin.len <= scheme_len || memcmp(origin.data, scheme, scheme_len) != 0) {
        return false;
    }
    struct slice host = slice_make(origin.data + scheme_len, origin.len - scheme_len);
    uint32_t count = list_members(s, members);
    for (uint32_t i = 0; i < count; i++) {
        if (is_plain(members[i].client_address) &&
            slice_equal(host, slice_of(members[i].client_address))) {
            return true;
        }
    }
    return false;
}

void cors_note_origin(struct api_request *x)
{
    if (x->origin.len == 0 || x->page_origin != NULL || !is_member(x->service, x->origin)) {
        return;
    }
    x->page_origin = memory_alloc(x->service->memory, x->origin.len + 1);
    memcpy(x->page_origin, x->origin.data, x->origin.len);
    x->page_origin[x->origin.len] = '\0';
}

void cors_close(struct api_request *x)
{
    if (x->page_origin != NULL) {
        memory_free(x->service->memory, x->page_origin, strlen(x->page_origin) + 1);
        x->page_origin = NULL;
    }
}

size_t cors_headers(const struct api_request *x, const char *allow,
                    struct http1_extra out[CORS_HEADERS])
{
    size_t count = 0;
    if (x->page_origin == NULL) {
        return 0;
    }
    out[count++] = (struct http1_extra){"access-control-allow-origin", slice_of(x->page_origin)};
    out[count++] = (struct http1_extra){"vary", slice_of("Origin")};
    if (x->method != HTTP_OPTIONS || allow == NULL) {
        out[count++] = (struct http1_extra){"access-control-expose-headers",
                                            slice_of("Holdfast-Leader, Retry-After")};
        return count;
    }
    out[count++] = (struct http1_extra){"access-control-allow-methods", slice_of(allow)};
    out[count++] = (struct http1_extra){
        "access-control-allow-headers",
        slice_of("Authorization, Content-Type, Holdfast-Tenant, Idempotency-Key, Last-Event-ID")};
    out[count++] = (struct http1_extra){"access-control-max-age", slice_of("600")};
    return count;
}

/* connect-src names each member: nothing else may be contacted. */
static void write_policy(const struct service *s, char policy[CORS_POLICY_MAX])
{
    struct gateway_member members[MEMBERS_MAX];
    const char *scheme = scheme_of(s);
    uint32_t count = list_members(s, members);
    static const char end[] = "; img-src 'self'; base-uri 'none'; form-action 'none'; "
                              "frame-ancestors 'none'";
    int used = snprintf(policy, CORS_POLICY_MAX,
                        "default-src 'none'; script-src 'self'; style-src 'self'; "
                        "connect-src 'self'");
    size_t len = (size_t)used;
    for (uint32_t i = 0; i < count; i++) {
        const char *address = members[i].client_address;
        if (is_plain(address) &&
            len + strlen(scheme) + strlen(address) + 1 + sizeof(end) < CORS_POLICY_MAX) {
            len += (size_t)snprintf(policy + len, CORS_POLICY_MAX - len, " %s%s", scheme, address);
        }
    }
    memcpy(policy + len, end, sizeof(end));
}

size_t cors_page_headers(const struct service *s, char policy[CORS_POLICY_MAX],
                         struct http1_extra out[CORS_PAGE_HEADERS])
{
    write_policy(s, policy);
    out[0] = (struct http1_extra){"content-security-policy", slice_of(policy)};
    out[1] = (struct http1_extra){"x-content-type-options", slice_of("nosniff")};
    out[2] = (struct http1_extra){"referrer-policy", slice_of("no-referrer")};
    out[3] = (struct http1_extra){"cache-control", slice_of("no-store")};
    return 4;
}
