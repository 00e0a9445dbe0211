/* See identity.h. The texts are made once: the bench shares the CPU with what it measures. */
#include "bench/identity.h"

#include <stdio.h>

enum { AUTHORIZATION_TEXT = SECURITY_TOKEN_MAX + 16, LINES_TEXT = 512 };

static struct {
    const struct security *security;
    char authorization[AUTHORIZATION_TEXT];
    char lines[LINES_TEXT];
    struct http2_client_header headers[2];
    size_t header_count;
} identity;

void bench_identity_set(const struct security *security)
{
    const char *token = security_token(security);
    const char *tenant = security_tenant(security);
    bool has_token = token[0] != '\0';
    bool has_tenant = tenant[0] != '\0';
    identity.security = security;
    identity.header_count = 0;
    (void)snprintf(identity.authorization, sizeof(identity.authorization), "Bearer %s", token);
    if (has_token) {
        identity.headers[identity.header_count++] =
            (struct http2_client_header){"authorization", slice_of(identity.authorization)};
    }
    if (has_tenant) {
        identity.headers[identity.header_count++] =
            (struct http2_client_header){"holdfast-tenant", slice_of(tenant)};
    }
    (void)snprintf(identity.lines, sizeof(identity.lines), "%s%s%s%s%s%s",
                   has_token ? "Authorization: " : "", has_token ? identity.authorization : "",
                   has_token ? "\r\n" : "", has_tenant ? "Holdfast-Tenant: " : "", tenant,
                   has_tenant ? "\r\n" : "");
}

struct slice bench_identity_lines(void)
{
    return slice_of(identity.lines);
}

const struct http2_client_header *bench_identity_headers(size_t *count)
{
    *count = identity.header_count;
    return identity.headers;
}

const char *bench_identity_token(void)
{
    return identity.security == NULL ? "" : security_token(identity.security);
}
