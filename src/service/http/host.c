/* See host.h. */
#include "service/http/host.h"

#include <arpa/inet.h>

enum { LITERAL_MAX = 64 };

static bool is_port(struct slice text)
{
    for (size_t i = 0; i < text.len; i++) {
        if (text.data[i] < '0' || text.data[i] > '9') {
            return false;
        }
    }
    return text.len <= 5;
}

static bool is_literal(int family, struct slice text)
{
    char copy[LITERAL_MAX];
    unsigned char address[16];
    if (text.len == 0 || text.len >= sizeof(copy) || memchr(text.data, '\0', text.len) != NULL) {
        return false;
    }
    memcpy(copy, text.data, text.len);
    copy[text.len] = '\0';
    return inet_pton(family, copy, address) == 1;
}

static bool is_ipv6(struct slice host)
{
    const uint8_t *end = memchr(host.data, ']', host.len);
    if (end == NULL) {
        return false;
    }
    size_t len = (size_t)(end - host.data);
    struct slice rest = slice_make(end + 1, host.len - len - 1);
    bool has_port =
        rest.len > 0 && rest.data[0] == ':' && is_port(slice_make(rest.data + 1, rest.len - 1));
    return (rest.len == 0 || has_port) && is_literal(AF_INET6, slice_make(host.data + 1, len - 1));
}

static uint8_t small_letter(uint8_t c)
{
    return c >= 'A' && c <= 'Z' ? (uint8_t)(c - 'A' + 'a') : c;
}

static bool is_same(struct slice a, struct slice b)
{
    if (a.len != b.len) {
        return false;
    }
    for (size_t i = 0; i < a.len; i++) {
        if (small_letter(a.data[i]) != small_letter(b.data[i])) {
            return false;
        }
    }
    return true;
}

static bool is_listed(struct slice name, const char *names)
{
    while (*names != '\0') {
        size_t len = strcspn(names, ", ");
        struct slice one = slice_make(names, len);
        if (len > 0 && (is_same(name, one) || slice_equal(one, slice_of("*")))) {
            return true;
        }
        names += len + (names[len] != '\0');
    }
    return false;
}

bool host_is_served(struct slice host, const char *names)
{
    if (host.len == 0) {
        return true;
    }
    if (host.data[0] == '[') {
        return is_ipv6(host);
    }
    struct slice name = host;
    const uint8_t *colon = memchr(host.data, ':', host.len);
    if (colon != NULL) {
        name.len = (size_t)(colon - host.data);
        if (!is_port(slice_make(colon + 1, host.len - name.len - 1))) {
            return is_listed(slice_make("", 0), names);
        }
    }
    if (name.len > 1 && name.data[name.len - 1] == '.') {
        name.len--; /* the root of the domain names */
    }
    return is_literal(AF_INET, name) || is_same(name, slice_of("localhost")) ||
           is_listed(name, names);
}
