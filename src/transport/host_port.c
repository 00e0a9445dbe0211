/* See host_port.h. */
#include "transport/host_port.h"

#include <stdio.h>
#include <string.h>

static bool is_port(const char *text, size_t len)
{
    unsigned value = 0;
    if (len == 0 || len > 5) {
        return false;
    }
    for (size_t i = 0; i < len; i++) {
        if (text[i] < '0' || text[i] > '9') {
            return false;
        }
        value = value * 10 + (unsigned)(text[i] - '0');
    }
    return value >= 1 && value <= 65535;
}

static bool is_host(const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (text[i] <= ' ' || text[i] > '~' || text[i] == '[' || text[i] == ']') {
            return false;
        }
    }
    return len > 0 && len < HOST_PORT_TEXT;
}

bool host_port_parse(const char *text, size_t len, const char *default_port, struct host_port *out)
{
    const char *end = text + len;
    const char *bracket = len > 0 && text[0] == '[' ? memchr(text, ']', len) : NULL;
    const char *after = bracket != NULL ? bracket + 1 : text; /* where a port may begin */
    const char *colon = memchr(after, ':', (size_t)(end - after));
    const char *host = bracket != NULL ? text + 1 : text;
    const char *host_end = bracket != NULL ? bracket : colon != NULL ? colon : end;
    bool has_gap = bracket != NULL && after != (colon != NULL ? colon : end);
    if (has_gap || !is_host(host, (size_t)(host_end - host)) ||
        (colon == NULL && default_port == NULL) ||
        (colon != NULL && !is_port(colon + 1, (size_t)(end - colon - 1)))) {
        return false;
    }
    snprintf(out->host, sizeof(out->host), "%.*s", (int)(host_end - host), host);
    snprintf(out->port, sizeof(out->port), "%.*s", colon != NULL ? (int)(end - colon - 1) : 5,
             colon != NULL ? colon + 1 : default_port);
    return true;
}

void host_port_format(const struct host_port *address, char *text, size_t size)
{
    bool is_ipv6 = strchr(address->host, ':') != NULL;
    snprintf(text, size, "%s%s%s:%s", is_ipv6 ? "[" : "", address->host, is_ipv6 ? "]" : "",
             address->port);
}
