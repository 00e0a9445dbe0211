/* Which wall clock time a cluster time was (S16.1): rows of both, one for each step of the wall clock
 * against cluster time. Leaders have different clocks, clocks are set, and cluster time stands still
 * while no node runs; the rows are replicated, so every node shows the same time for a grant, always. */
#include "core/state.h"

enum { WALL_VERSION = 7 };

/* As the clock of this row would show it; not before 1970. */
static uint64_t by_row(const struct wall_row *row, uint64_t cluster_ms)
{
    if (cluster_ms >= row->cluster_ms) {
        return row->wall_ms + (cluster_ms - row->cluster_ms);
    }
    uint64_t before_ms = row->cluster_ms - cluster_ms;
    return row->wall_ms > before_ms ? row->wall_ms - before_ms : 0;
}

/* The last row that is not later, or else the first. */
static const struct wall_row *row_of(const struct core *c, uint64_t cluster_ms)
{
    uint32_t from = 0;
    uint32_t to = c->wall_row_count;
    hf_assert(to > 0);
    if (c->wall_rows[to - 1].cluster_ms <= cluster_ms) {
        return &c->wall_rows[to - 1];
    }
    while (to - from > 1) {
        uint32_t middle = from + (to - from) / 2;
        if (c->wall_rows[middle].cluster_ms <= cluster_ms) {
            from = middle;
        } else {
            to = middle;
        }
    }
    return &c->wall_rows[from];
}

uint64_t core_wall_ms(const struct core *c, uint64_t cluster_ms)
{
    struct wall_row last_entry = {c->now_ms, c->wall_ms};
    return by_row(c->wall_row_count == 0 ? &last_entry : row_of(c, cluster_ms), cluster_ms);
}

void wall_row_add(struct core *c, const struct wall_row *row)
{
    hf_assert(c->wall_row_count <= LIMIT_WALL_ROWS);
    hf_assert(c->wall_row_count == 0 ||
              c->wall_rows[c->wall_row_count - 1].cluster_ms < row->cluster_ms);
    if (c->wall_row_count == LIMIT_WALL_ROWS) {
        memmove(c->wall_rows, c->wall_rows + 1, sizeof(*row) * (LIMIT_WALL_ROWS - 1));
        c->wall_row_count--;
    }
    c->wall_rows[c->wall_row_count++] = *row;
}

/* Only when cluster time moved: the grants of an earlier entry at the same time keep their row. */
void wall_row_begin(struct core *c)
{
    if (c->version < WALL_VERSION) {
        return;
    }
    if (c->wall_row_count > 0) {
        uint64_t shown_ms = by_row(&c->wall_rows[c->wall_row_count - 1], c->now_ms);
        uint64_t step_ms = shown_ms > c->wall_ms ? shown_ms - c->wall_ms : c->wall_ms - shown_ms;
        if (step_ms <= LIMIT_WALL_STEP_MS) {
            return;
        }
    }
    wall_row_add(c, &(struct wall_row){c->now_ms, c->wall_ms});
}
