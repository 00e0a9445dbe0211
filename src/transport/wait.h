/* Transport calls that block, with a deadline on clock_boot_ms. On failure t->problem has the
 * reason; the caller closes the transport. */
#ifndef HOLDFAST_TRANSPORT_WAIT_H
#define HOLDFAST_TRANSPORT_WAIT_H

#include "transport/transport.h"

/* While `fd` is readable, for example a signalfd, the calls below fail with the problem "interrupted"
 * instead of waiting. -1: nothing interrupts them. For a program with one thread. */
void transport_interrupt_by(int fd);

/* Resolves and connects; t must be initialized or closed. */
bool transport_open(struct transport *t, const struct host_port *to, int64_t deadline_ms);
bool transport_put(struct transport *t, struct slice bytes, int64_t deadline_ms);
/* Reads once: at least one byte, END or FAILED. */
enum transport_io transport_get(struct transport *t, void *to, size_t size, size_t *done,
                                int64_t deadline_ms);

#endif
