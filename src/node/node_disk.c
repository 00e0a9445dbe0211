/* The free space of the data folder and the mean time of writes to the log, for operators. statfs may
 * block, so a thread of libuv calls it; at most one call is outstanding. */
#include "node/node_state.h"

enum { LOOK_US = 10000000 };

static void on_looked(uv_fs_t *request)
{
    struct node *n = request->data;
    const uv_statfs_t *found = request->ptr;
    n->disk_use.is_looking = false;
    if (request->result >= 0 && found != NULL) {
        n->disk_use.free_bytes = found->f_bavail * found->f_bsize;
        n->disk_use.total_bytes = found->f_blocks * found->f_bsize;
    }
    uv_fs_req_cleanup(request);
}

static void measure_appends(struct node *n)
{
    struct node_disk_use *use = &n->disk_use;
    struct logger_stats stats;
    logger_stats(n->logger, &stats);
    uint64_t count = stats.appends - use->appends;
    use->append_us = count == 0 ? 0 : (stats.sync_us - use->sync_us) / count;
    use->appends = stats.appends;
    use->sync_us = stats.sync_us;
}

void node_step_disk(struct node *n, struct replica_time now)
{
    struct node_disk_use *use = &n->disk_use;
    if (now.boot_us < use->next_us) {
        return;
    }
    use->next_us = now.boot_us + LOOK_US;
    measure_appends(n);
    if (!use->is_looking) {
        use->request.data = n;
        use->is_looking =
            uv_fs_statfs(n->options.loop, &use->request, n->options.data, on_looked) == 0;
    }
}

/* The loop runs until a call that has begun returns. */
void node_close_disk(struct node *n)
{
    if (n->disk_use.is_looking) {
        (void)uv_cancel((uv_req_t *)&n->disk_use.request);
    }
}
