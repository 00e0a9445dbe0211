/* The peer secret of a running node: read at the start and on SIGHUP. */
#include <stdio.h>

#include "node/node_state.h"

static bool has_file(const struct node *n)
{
    return n->options.peer_secret_file != NULL && n->options.peer_secret_file[0] != '\0';
}

bool node_open_secret(struct node *n, char problem[NODE_PROBLEM])
{
    char text[PEER_SECRET_PROBLEM];
    if (!has_file(n)) {
        return true;
    }
    n->secrets.is_required = !n->options.peer_secret_optional;
    if (!peer_secrets_load(&n->secrets, n->options.peer_secret_file, text)) {
        snprintf(problem, NODE_PROBLEM, "%s", text);
        return false;
    }
    n->self.secrets = &n->secrets;
    if (!n->secrets.is_required) {
        journal_note(n->options.journal, WARN, PEER, "peer_secret_optional",
                     JOURNAL_TEXT("next", "nodes without the secret are accepted: when all nodes "
                                          "have it, remove peer-secret-required = off"));
    }
    return true;
}

void node_reload_secret(struct node *n)
{
    char text[PEER_SECRET_PROBLEM];
    if (!has_file(n) || n->phase >= NODE_CLOSING) {
        return;
    }
    if (peer_secrets_load(&n->secrets, n->options.peer_secret_file, text)) {
        journal_note(n->options.journal, INFO, PEER, "peer_secret_reloaded",
                     JOURNAL_NUMBER("secrets", n->secrets.count));
        return;
    }
    journal_note(n->options.journal, ERROR, PEER, "peer_secret_not_reloaded",
                 JOURNAL_TEXT("reason", text),
                 JOURNAL_TEXT("next", "the old secret stays in use: correct the file, then send "
                                      "SIGHUP again"));
}

void node_close_secret(struct node *n)
{
    peer_secrets_wipe(&n->secrets);
}
