/* Addresses "HOST:PORT", and their socket addresses. */
#ifndef HOLDFAST_NET_ADDRESS_H
#define HOLDFAST_NET_ADDRESS_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#define ADDRESS_HOST_MAX 255 /* the limit of a DNS name */
#define ADDRESS_TEXT (ADDRESS_HOST_MAX + 10)

/* The host is a name, an IPv4 or IPv6 address without brackets, or "" for all interfaces. */
struct address {
    char host[ADDRESS_HOST_MAX + 1];
    uint16_t port;
};

/* "HOST:PORT", "[IPV6]:PORT", ":PORT" or "*:PORT". False for anything else; `out` is untouched
 * then. */
bool address_parse(const char *text, struct address *out);
/* `size` should be ADDRESS_TEXT. */
void address_format(const struct address *address, char *text, size_t size);

/* Fills in the socket address if the host needs no resolver. */
bool address_is_numeric(const struct address *address, struct sockaddr_storage *out);

/* Blocks: for listeners, at the start. Returns how many of `max` were found; 0 with the resolver's
 * message in `problem`. "" is all interfaces. */
int address_resolve(const struct address *address, struct sockaddr_storage *out, int max,
                    const char **problem);

/* An address without its port; IPv4 is ::ffff:a.b.c.d, also when an IPv6 socket accepted it. */
struct ip_address {
    uint8_t bytes[16];
};
struct ip_address address_ip(const struct sockaddr_storage *address);
bool ip_is_loopback(const struct ip_address *ip);

/* Only this machine can reach it. */
bool address_is_loopback(const struct sockaddr_storage *address);
uint16_t address_port(const struct sockaddr_storage *address);
void address_set_port(struct sockaddr_storage *address, uint16_t port);
/* "127.0.0.1:4653", "[::1]:4653". */
void address_print(const struct sockaddr_storage *address, char *text, size_t size);

static inline socklen_t address_len(const struct sockaddr_storage *address)
{
    return address->ss_family == AF_INET6 ? (socklen_t)sizeof(struct sockaddr_in6)
                                          : (socklen_t)sizeof(struct sockaddr_in);
}

#endif
