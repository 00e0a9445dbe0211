/* The TLS contexts of a node's listeners, all made from the same credentials. */
#include <stdio.h>

#include "node/node_state.h"

static const char *const http_protocols[] = {"h2", "http/1.1", NULL};

static struct tls_context *make(struct node *n, const struct credentials *credentials,
                                const char *const *protocols, char problem[NODE_PROBLEM])
{
    char text[TLS_PROBLEM];
    struct tls_context_options options = {
        .role = TLS_SERVER, .min = n->options.tls_min, .protocols = protocols};
    struct tls_context *context = tls_context_new(credentials, &options, text);
    if (context == NULL) {
        snprintf(problem, NODE_PROBLEM, "TLS: %s", text);
    }
    return context;
}

bool node_open_tls(struct node *n, char problem[NODE_PROBLEM])
{
    const struct credential_files *files = &n->options.tls;
    char text[TLS_PROBLEM];
    if (files->certificate == NULL || files->certificate[0] == '\0') {
        return true;
    }
    (void)credentials_protect_keys(); /* without it, keys are in ordinary memory */
    struct credentials *credentials = credentials_load(files, text);
    if (credentials == NULL) {
        snprintf(problem, NODE_PROBLEM, "TLS: %s", text);
        return false;
    }
    n->tls_http = make(n, credentials, http_protocols, problem);
    n->tls_resp = make(n, credentials, NULL, problem);
    credentials_free(credentials);
    return n->tls_http != NULL && n->tls_resp != NULL;
}

void node_close_tls(struct node *n)
{
    tls_context_free(n->tls_http);
    tls_context_free(n->tls_resp);
    n->tls_http = n->tls_resp = NULL;
}
