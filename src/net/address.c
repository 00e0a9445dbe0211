/* Parses and resolves addresses. Only address_resolve blocks. */
#include "net/address.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static bool parse_port(const char *text, uint16_t *out)
{
    unsigned port = 0;
    if (*text == '\0' || strlen(text) > 5) {
        return false;
    }
    for (; *text != '\0'; text++) {
        if (*text < '0' || *text > '9') {
            return false;
        }
        port = port * 10 + (unsigned)(*text - '0');
    }
    if (port > UINT16_MAX) {
        return false;
    }
    *out = (uint16_t)port;
    return true;
}

/* False when the brackets are not valid. */
static bool find_host(const char *text, const char **host, size_t *len, const char **port)
{
    const char *colon = strrchr(text, ':');
    if (colon == NULL) {
        return false;
    }
    *host = text;
    *len = (size_t)(colon - text);
    *port = colon + 1;
    if (text[0] == '[') {
        if (*len < 3 || colon[-1] != ']') {
            return false;
        }
        *host = text + 1;
        *len -= 2;
        return true;
    }
    /* Without brackets the end of an IPv6 address is ambiguous. */
    return memchr(text, ':', *len) == NULL;
}

bool address_parse(const char *text, struct address *out)
{
    const char *host;
    const char *port_text;
    size_t len;
    uint16_t port;
    if (!find_host(text, &host, &len, &port_text) || !parse_port(port_text, &port)) {
        return false;
    }
    if (len > ADDRESS_HOST_MAX) {
        return false;
    }
    for (size_t i = 0; i < len; i++) {
        if (host[i] <= ' ' || host[i] > '~' || strchr("[]/,=", host[i]) != NULL) {
            return false;
        }
    }
    if (len == 1 && host[0] == '*') {
        len = 0;
    }
    memcpy(out->host, host, len);
    out->host[len] = '\0';
    out->port = port;
    return true;
}

void address_format(const struct address *address, char *text, size_t size)
{
    bool brackets = strchr(address->host, ':') != NULL;
    snprintf(text, size, "%s%s%s:%u", brackets ? "[" : "", address->host, brackets ? "]" : "",
             (unsigned)address->port);
}

bool address_is_numeric(const struct address *address, struct sockaddr_storage *out)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(address->port)};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons(address->port)};
    if (inet_pton(AF_INET, address->host, &v4.sin_addr) == 1) {
        memset(out, 0, sizeof(*out));
        memcpy(out, &v4, sizeof(v4));
        return true;
    }
    if (inet_pton(AF_INET6, address->host, &v6.sin6_addr) == 1) {
        memset(out, 0, sizeof(*out));
        memcpy(out, &v6, sizeof(v6));
        return true;
    }
    return false;
}

/* An IPv6 socket that also accepts IPv4, or an IPv4 socket if the machine has no IPv6. */
static int all_interfaces(const struct address *address, struct sockaddr_storage *out)
{
    struct address any = {.host = "::", .port = address->port};
    int probe = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (probe >= 0) {
        close(probe);
    } else {
        any = (struct address){.host = "0.0.0.0", .port = address->port};
    }
    return address_is_numeric(&any, out) ? 1 : 0;
}

int address_resolve(const struct address *address, struct sockaddr_storage *out, int max,
                    const char **problem)
{
    if (address_is_numeric(address, out)) {
        return 1;
    }
    if (address->host[0] == '\0') {
        return all_interfaces(address, out);
    }
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    struct addrinfo *found;
    int status = getaddrinfo(address->host, NULL, &hints, &found);
    if (status != 0) {
        *problem = gai_strerror(status);
        return 0;
    }
    int count = 0;
    for (const struct addrinfo *at = found; at != NULL && count < max; at = at->ai_next) {
        if (at->ai_family != AF_INET && at->ai_family != AF_INET6) {
            continue;
        }
        memset(&out[count], 0, sizeof(out[count]));
        memcpy(&out[count], at->ai_addr, at->ai_addrlen);
        address_set_port(&out[count], address->port);
        count++;
    }
    freeaddrinfo(found);
    if (count == 0) {
        *problem = "the name has no address";
    }
    return count;
}

struct ip_address address_ip(const struct sockaddr_storage *address)
{
    struct ip_address ip = {{0}};
    if (address->ss_family == AF_INET6) {
        memcpy(ip.bytes, &((const struct sockaddr_in6 *)address)->sin6_addr, sizeof(ip.bytes));
    } else if (address->ss_family == AF_INET) {
        ip.bytes[10] = ip.bytes[11] = 0xff;
        memcpy(ip.bytes + 12, &((const struct sockaddr_in *)address)->sin_addr, 4);
    }
    return ip;
}

bool ip_is_loopback(const struct ip_address *ip)
{
    struct in6_addr v6;
    memcpy(&v6, ip->bytes, sizeof(v6));
    return IN6_IS_ADDR_LOOPBACK(&v6) || (IN6_IS_ADDR_V4MAPPED(&v6) && v6.s6_addr[12] == 127);
}

bool address_is_loopback(const struct sockaddr_storage *address)
{
    struct ip_address ip = address_ip(address);
    return ip_is_loopback(&ip);
}

uint16_t address_port(const struct sockaddr_storage *address)
{
    if (address->ss_family == AF_INET6) {
        return ntohs(((const struct sockaddr_in6 *)address)->sin6_port);
    }
    return ntohs(((const struct sockaddr_in *)address)->sin_port);
}

void address_set_port(struct sockaddr_storage *address, uint16_t port)
{
    if (address->ss_family == AF_INET6) {
        ((struct sockaddr_in6 *)address)->sin6_port = htons(port);
    } else {
        ((struct sockaddr_in *)address)->sin_port = htons(port);
    }
}

void address_print(const struct sockaddr_storage *address, char *text, size_t size)
{
    struct address readable = {.port = address_port(address)};
    const void *bytes = address->ss_family == AF_INET6
                            ? (const void *)&((const struct sockaddr_in6 *)address)->sin6_addr
                            : (const void *)&((const struct sockaddr_in *)address)->sin_addr;
    if (inet_ntop(address->ss_family, bytes, readable.host, sizeof(readable.host)) == NULL) {
        snprintf(text, size, "unknown");
        return;
    }
    address_format(&readable, text, size);
}
