/* During a rolling upgrade the leader may run an older program, which reads no later format than
 * its own. */
#include "node/forward/forward_state.h"

/* As the node's greeting reports. Without a greeting there is no link, and nothing is sent. */
static uint32_t supported_by(const struct forward *f, uint64_t node)
{
    struct peer_view view;
    bool is_known = peers_view(f->peers, node, &view) && view.state != 0;
    return is_known && view.state < CORE_VERSION ? view.state : CORE_VERSION;
}

bool forward_supports(const struct forward *f, uint64_t node, uint32_t version)
{
    return supported_by(f, node) >= version;
}

bool forward_fit(struct forward *f, uint64_t leader, struct slice *bytes, enum command_type *type)
{
    uint32_t version = supported_by(f, leader);
    if (version == CORE_VERSION) {
        return true;
    }
    struct command command;
    enum hf_error error = command_decode(*bytes, &command);
    hf_assert(error == HF_OK);
    *type = command.type;
    if (command_since(&command) > version) {
        return false;
    }
    size_t len = command_encode(&command, version, f->scratch, FORWARD_SCRATCH);
    hf_assert(len > 0);
    *bytes = slice_make(f->scratch, len);
    return true;
}
