/* Prints an offline state. The names of the first locks help an operator to recognize it. */
#include "server/offline_show.h"

#include <inttypes.h>
#include <stdio.h>
#include <time.h>

#include "core/view.h"
#include "server/progress.h"
#include "wire/json_write.h"

enum { LOCKS_SHOWN = 20, JSON_MAX = 1 << 20 };

void cluster_id_format(struct id id, char text[CLUSTER_ID_TEXT])
{
    snprintf(text, CLUSTER_ID_TEXT, "%016" PRIx64 "%016" PRIx64, id.high, id.low);
}

/* ---- locks ---- */

struct offline_listing {
    struct json_writer *json; /* NULL: print text */
    unsigned shown;
};

static void on_lock(void *ctx, const struct lock_view *lock)
{
    struct offline_listing *l = ctx;
    if (l->shown == LOCKS_SHOWN || lock->holders == 0) {
        return;
    }
    l->shown++;
    struct slice client = lock->has_holder ? lock->first.holder.client : slice_of("");
    if (l->json != NULL) {
        json_write_open(l->json, '{');
        json_put_string(l->json, "name", lock->name);
        json_put_string(l->json, "client_id", client);
        json_put_u64(l->json, "fencing_token", lock->first.token);
        json_put_u64(l->json, "holders", lock->holders);
        json_put_u64(l->json, "queue_length", lock->queue_length);
        json_write_close(l->json);
        return;
    }
    printf("    %.*s  held by %.*s, token %" PRIu64, (int)lock->name.len,
           (const char *)lock->name.data, (int)client.len, (const char *)client.data,
           lock->first.token);
    if (lock->holders > 1) {
        printf(" and %u more", lock->holders - 1);
    }
    if (lock->queue_length > 0) {
        printf(", %u waiting", lock->queue_length);
    }
    printf("\n");
}

static unsigned list_locks(const struct core *core, struct json_writer *json)
{
    struct offline_listing l = {.json = json};
    for (uint64_t cursor = 0; cursor < VIEW_END && l.shown < LOCKS_SHOWN;) {
        cursor = view_locks(core, 0, slice_of(""), cursor, LOCKS_SHOWN, on_lock, &l);
    }
    return l.shown;
}

/* ---- text ---- */

static void show_time(const char *title, uint64_t wall_ms)
{
    char text[64];
    struct tm when;
    time_t seconds = (time_t)(wall_ms / 1000);
    if (wall_ms != 0 && gmtime_r(&seconds, &when) != NULL &&
        strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S UTC", &when) > 0) {
        printf("  %-12s %s\n", title, text);
    }
}

void offline_show(const struct offline_state *state, const char *where)
{
    char cluster[CLUSTER_ID_TEXT];
    struct core_stats stats;
    core_stats(state->core, &stats);
    cluster_id_format(state->cluster, cluster);
    printf("%s\n  cluster      %s\n", where, cluster);
    if (state->node != 0) {
        printf("  node         %" PRIu64 "\n", state->node);
    }
    printf("  last entry   index %" PRIu64 ", term %" PRIu64 "\n", state->index, state->term);
    show_time("at", core_last_wall_ms(state->core));
    if (state->snapshot_index != 0) {
        printf("  snapshot     index %" PRIu64 ", %" PRIu64 " bytes\n", state->snapshot_index,
               state->snapshot_bytes);
    }
    printf("  members      as of index %" PRIu64 ":\n", state->members_index);
    for (uint32_t i = 0; i < state->member_count; i++) {
        const struct offline_member *m = &state->members[i];
        printf("    node %" PRIu64 "  %s  %s%s\n", m->id, m->address,
               m->voter ? "voter" : "learner", m->id == state->node ? "  (this node)" : "");
    }
    printf("  state        %" PRIu64 " grants, %" PRIu64 " waiting, %" PRIu64
           " sessions, highest token below %" PRIu64 "\n",
           stats.grants, stats.waiters, stats.sessions,
           (core_counter(state->core) + 1) * UINT64_C(1024));
    if (stats.grants > 0 && list_locks(state->core, NULL) == LOCKS_SHOWN) {
        printf("    ...\n");
    }
}

/* ---- JSON ---- */

void offline_show_json(const struct offline_state *state, const char *where)
{
    char cluster[CLUSTER_ID_TEXT];
    struct core_stats stats;
    struct buffer text;
    struct json_writer w;
    buffer_init(&text, memory_system(), JSON_MAX);
    core_stats(state->core, &stats);
    cluster_id_format(state->cluster, cluster);
    json_writer_init(&w, &text);
    json_write_open(&w, '{');
    json_put_text(&w, "path", where);
    json_put_text(&w, "cluster_id", cluster);
    if (state->node != 0) {
        json_put_u64(&w, "node", state->node);
    }
    json_put_u64(&w, "index", state->index);
    json_put_u64(&w, "term", state->term);
    json_put_u64(&w, "snapshot_index", state->snapshot_index);
    json_put_u64(&w, "snapshot_bytes", state->snapshot_bytes);
    json_put_u64(&w, "members_index", state->members_index);
    json_put_open(&w, "members", '[');
    for (uint32_t i = 0; i < state->member_count; i++) {
        json_write_open(&w, '{');
        json_put_u64(&w, "id", state->members[i].id);
        json_put_text(&w, "peer_address", state->members[i].address);
        json_put_bool(&w, "voter", state->members[i].voter);
        json_write_close(&w);
    }
    json_write_close(&w);
    json_put_u64(&w, "version", core_version(state->core));
    json_put_u64(&w, "grants", stats.grants);
    json_put_u64(&w, "waiters", stats.waiters);
    json_put_u64(&w, "sessions", stats.sessions);
    json_put_u64(&w, "audit_records", stats.audit_records);
    json_put_u64(&w, "fence_marks", stats.fence_marks);
    json_put_u64(&w, "token_counter", core_counter(state->core));
    json_put_open(&w, "first_locks", '[');
    (void)list_locks(state->core, &w);
    json_write_close(&w);
    json_write_close(&w);
    struct slice bytes = buffer_bytes(&text);
    printf("%.*s\n", (int)bytes.len, (const char *)bytes.data);
    buffer_close(&text);
}

static struct {
    const char *step; /* that has the line */
    bool is_quiet;
} shown;

static void show_step(void *ctx, const char *step, bool is_bytes, uint64_t done, uint64_t total)
{
    (void)ctx;
    if (step != shown.step) {
        shown.step = step;
        progress_begin(step, is_bytes ? PROGRESS_BYTES : PROGRESS_COUNT, "entries", shown.is_quiet);
    }
    progress_update(done, total);
}

void offline_show_progress(struct offline_state *state, bool is_quiet)
{
    shown.step = NULL;
    shown.is_quiet = is_quiet;
    state->watch = (struct offline_watch){show_step, NULL};
}
