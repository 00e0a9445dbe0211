/* The TLS contexts of a node's listeners, all made from the same credentials. */
#include <stdio.h>

#include "node/clients/tls_filter.h"
#include "node/node_state.h"

static const char *const http_protocols[] = {"h2", "http/1.1", NULL};

static struct tls_context *make(struct node *n, const struct credentials *credentials,
                                enum tls_role role, const char *const *protocols,
                                char problem[NODE_PROBLEM])
{
    char text[TLS_PROBLEM];
    struct tls_context_options options = {.role = role,
                                          .min = role == TLS_SERVER ? n->options.tls_min : TLS_1_3,
                                          .protocols = protocols};
    struct tls_context *context = tls_context_new(credentials, &options, text);
    if (context == NULL) {
        snprintf(problem, NODE_PROBLEM, "TLS: %s", text);
    }
    return context;
}

/* Other nodes refuse a certificate without the name of this node. A cluster of one node has no
 * other nodes, so it may have any certificate. */
static bool check_name(struct node *n, const struct credentials *credentials,
                       char problem[NODE_PROBLEM])
{
    const struct node_options *o = &n->options;
    char uri[IDENTITY_URI];
    peer_uri(o->cluster_name, o->id, uri);
    if (identity_has_uri(credentials_identity(credentials), uri)) {
        return true;
    }
    snprintf(problem, NODE_PROBLEM,
             "TLS: %s: the certificate has no subject alternative name URI:%s, so that other nodes "
             "would refuse this one; make one with `holdfast cert node`",
             o->tls.certificate, uri);
    if (o->member_count > 1 || o->join) {
        return false;
    }
    journal_note(o->journal, WARN, PEER, "certificate_without_node",
                 JOURNAL_TEXT("reason", problem));
    return true;
}

static bool open_contexts(struct node *n, const struct credentials *credentials,
                          char problem[NODE_PROBLEM])
{
    if (!check_name(n, credentials, problem)) {
        return false;
    }
    n->tls_http = make(n, credentials, TLS_SERVER, http_protocols, problem);
    n->tls_resp = make(n, credentials, TLS_SERVER, NULL, problem);
    n->tls_peer_server = make(n, credentials, TLS_PEER_SERVER, NULL, problem);
    n->tls_peer_client = make(n, credentials, TLS_PEER_CLIENT, NULL, problem);
    return n->tls_http != NULL && n->tls_resp != NULL && n->tls_peer_server != NULL &&
           n->tls_peer_client != NULL;
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
    bool done = open_contexts(n, credentials, problem);
    credentials_free(credentials);
    n->self.is_certified = done;
    return done;
}

void node_close_tls(struct node *n)
{
    tls_context_free(n->tls_http);
    tls_context_free(n->tls_resp);
    tls_context_free(n->tls_peer_server);
    tls_context_free(n->tls_peer_client);
    n->tls_http = n->tls_resp = n->tls_peer_server = n->tls_peer_client = NULL;
}

void node_secure_peer(void *ctx, struct connection *c, bool dialled)
{
    struct node *n = ctx;
    if (n->self.is_certified) {
        tls_filter_set(c, n->options.memory, dialled ? n->tls_peer_client : n->tls_peer_server,
                       dialled, NULL);
    }
}
