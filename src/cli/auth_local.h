/* `holdfast auth bootstrap` and `auth rescue`: requests to the Unix socket in a node's data folder. */
#ifndef HOLDFAST_CLI_AUTH_LOCAL_H
#define HOLDFAST_CLI_AUTH_LOCAL_H

#include <stdbool.h>

struct auth_local {
    const char *op; /* "bootstrap", "rescue" */
    const char *data;
    const char *principal;
    const char *secret_file; /* a prepared secret; NULL: make one */
    const char *out;         /* file for the new secret; NULL: stdout */
    bool json;
};

/* The exit code. */
int auth_local_run(const struct auth_local *request);

#endif
