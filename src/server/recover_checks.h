/* What must be true before a folder becomes a new cluster: shared by `recover` and `snapshot
 * restore`. Each check says what is wrong on stderr. */
#ifndef HOLDFAST_SERVER_RECOVER_CHECKS_H
#define HOLDFAST_SERVER_RECOVER_CHECKS_H

#include "net/address.h"
#include "node/offline.h"

/* "3": the number of a node. */
bool check_node_id(const char *text, uint64_t *out);
/* "3=HOST:PORT", this node and no other; `address` is what others will know it by. */
bool check_self(const char *cluster, uint64_t node, char address[ADDRESS_TEXT]);
/* Who does it, and why, for the audit record. Without `actor` it is the user. */
bool check_audit(const char *actor, const char *reason, struct offline_new *out);

/* Whether nobody else of the old cluster answers at its peer port: a running majority would go on
 * granting. Waits for a second at most, names aside. */
bool check_others_are_gone(const struct offline_state *state, uint64_t self);

uint64_t now_wall_ms(void);

#endif
