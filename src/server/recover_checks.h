/* Checks before `recover` and `snapshot restore` create a new cluster. Each prints its problem to
 * stderr. */
#ifndef HOLDFAST_SERVER_RECOVER_CHECKS_H
#define HOLDFAST_SERVER_RECOVER_CHECKS_H

#include "net/address.h"
#include "node/offline.h"

bool check_node_id(const char *text, uint64_t *out);
/* "3=HOST:PORT", which must name `node` only; `address` is its peer address. */
bool check_self(const char *cluster, uint64_t node, char address[ADDRESS_TEXT]);
/* Actor and reason of the audit record. `actor` NULL: the current user. */
bool check_audit(const char *actor, const char *reason, struct offline_new *out);

/* No other member of the old cluster accepts connections at its peer address: a running majority
 * would continue to grant locks. Takes at most 1 s and the time of DNS lookups. */
bool check_others_are_gone(const struct offline_state *state, uint64_t self);

uint64_t now_wall_ms(void);

#endif
