/* `holdfast dev --secure`: certificates of the nodes before they start; then an administrator, two
 * tenants and a principal in each, made by the commands `holdfast auth` and `holdfast token`.
 *
 *     DIR/secure/ca.pem, ca-key.pem, node-N.pem, node-N-key.pem
 *     DIR/secure/admin.token, red-app.token, blue-app.token      mode 0600
 *     DIR/secure/policy.json, setup.log                          what was applied; its messages
 *
 * What exists is kept. */
#ifndef HOLDFAST_SERVER_DEV_SECURE_H
#define HOLDFAST_SERVER_DEV_SECURE_H

#include "server/dev_cluster.h"

/* Both print the problem as `holdfast: ...`. */
bool dev_secure_prepare(const struct dev_cluster *c);
/* All nodes are ready. */
bool dev_secure_make_principals(const struct dev_cluster *c);

/* The commands to try, for a shell. `name`: the word that runs this program. */
void dev_secure_print(const struct dev_cluster *c, const char *name);

#endif
