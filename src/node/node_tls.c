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
    if (o->member_count > 1 || o->join || n->absence_count > 0) {
        return false;
    }
    journal_note(o->journal, WARN, PEER, "certificate_without_node",
                 JOURNAL_TEXT("reason", problem));
    return true;
}

static void free_contexts(struct node_contexts *contexts)
{
    tls_context_free(contexts->http);
    tls_context_free(contexts->resp);
    tls_context_free(contexts->peer_server);
    tls_context_free(contexts->peer_client);
    *contexts = (struct node_contexts){.http = NULL};
}

/* All or none: after a failure the old ones stay. Connections keep the context that they have. */
static bool replace_contexts(struct node *n, const struct credentials *credentials,
                             char problem[NODE_PROBLEM])
{
    if (!check_name(n, credentials, problem)) {
        return false;
    }
    struct node_contexts new = {
        .http = make(n, credentials, TLS_SERVER, http_protocols, problem),
        .resp = make(n, credentials, TLS_SERVER, NULL, problem),
        .peer_server = make(n, credentials, TLS_PEER_SERVER, NULL, problem),
        .peer_client = make(n, credentials, TLS_PEER_CLIENT, NULL, problem),
    };
    if (new.http == NULL || new.resp == NULL || new.peer_server == NULL ||
        new.peer_client == NULL) {
        free_contexts(&new);
        return false;
    }
    free_contexts(&n->tls);
    n->tls = new;
    return true;
}

bool node_load_tls(struct node *n, char problem[NODE_PROBLEM])
{
    char text[TLS_PROBLEM];
    struct credentials *credentials = credentials_load(&n->options.tls, text);
    if (credentials == NULL) {
        snprintf(problem, NODE_PROBLEM, "TLS: %s", text);
        return false;
    }
    bool done = replace_contexts(n, credentials, problem);
    if (done) {
        n->certificate.until_s = credentials_not_after_s(credentials);
        n->certificate.ca_until_s = credentials_ca_not_after_s(credentials);
        n->certificate.warn_us = 0;
    }
    credentials_free(credentials);
    return done;
}

bool node_open_tls(struct node *n, char problem[NODE_PROBLEM])
{
    const struct credential_files *files = &n->options.tls;
    if (files->certificate == NULL || files->certificate[0] == '\0') {
        return true;
    }
    /* Without it, keys are in ordinary memory. Links between nodes are few. */
    (void)credentials_protect_keys(n->options.max_clients);
    node_watch_tls(n);
    n->self.is_certified = node_load_tls(n, problem);
    return n->self.is_certified;
}

void node_close_tls(struct node *n)
{
    free_contexts(&n->tls);
}

void node_secure_peer(void *ctx, struct connection *c, bool dialled)
{
    struct node *n = ctx;
    if (n->self.is_certified) {
        tls_filter_set(c, n->options.memory, dialled ? n->tls.peer_client : n->tls.peer_server,
                       dialled, NULL);
    }
}
