/* See show_graph.h. An edge goes from each waiter of a lock to each holder. Reads all locks with
 * queues (reports if there are more than NAMES_MAX), then walks depth first from the holders of one
 * lock. */
#include "cli/show_graph.h"

#include <stdio.h>
#include <stdlib.h>

#include "cli/exits.h"

enum { NAMES_MAX = 256, DEPTH_MAX = 32, LINES_MAX = 200 };

struct graph {
    struct api_answer names[NAMES_MAX];
    size_t count;
    bool is_cut;
    FILE *to;
    unsigned lines;
    const struct json_t *path[DEPTH_MAX]; /* root to current holder */
};

#define TEXT(s) (int)(s).len, (const char *)(s).data

static struct slice text_of(const struct json_t *object, const char *key)
{
    return json_tree_text(json_tree_get(object, key));
}

int show_graph_query(struct api *api, struct slice name, struct api_answer *answer)
{
    struct buffer target;
    buffer_init(&target, memory_system(), API_TARGET);
    buffer_append_text(&target, "/api/v1/locks/");
    http_escape(&target, name, false); /* "x/history" is a name, too */
    buffer_append_text(&target, "?limit=1000");
    buffer_append_byte(&target, 0);
    int code = api_get(api, (const char *)buffer_bytes(&target).data, answer);
    buffer_close(&target);
    return code;
}

/* By session and owner name (S4.1); by client if sessions are not visible. */
static bool is_same(const struct json_t *a, const struct json_t *b)
{
    struct slice session = text_of(a, "session_id");
    if (session.len > 0) {
        return slice_equal(session, text_of(b, "session_id")) &&
               slice_equal(text_of(a, "owner"), text_of(b, "owner"));
    }
    return slice_equal(text_of(a, "client_id"), text_of(b, "client_id")) &&
           slice_equal(text_of(a, "owner"), text_of(b, "owner"));
}

static int read_queued(struct graph *g, struct api *api)
{
    struct api_pages pages;
    int code = api_pages_read(api, "/api/v1/locks?limit=1000", "locks", &pages);
    if (code != 0) {
        return code;
    }
    for (size_t i = 0; i < pages.count && code == 0; i++) {
        if (json_tree_u64(json_tree_get(pages.items[i], "queue_length"), 0) == 0) {
            continue;
        }
        if (g->count == NAMES_MAX) {
            g->is_cut = true;
            break;
        }
        code = show_graph_query(api, text_of(pages.items[i], "name"), &g->names[g->count]);
        g->count += code == 0;
    }
    api_pages_close(&pages);
    return code;
}

static bool is_above(const struct graph *g, unsigned depth, const struct json_t *who)
{
    for (unsigned i = 0; i < depth; i++) {
        if (is_same(g->path[i], who)) {
            return true;
        }
    }
    return false;
}

static void walk(struct graph *g, const struct json_t *who, unsigned depth);

/* `who` waits for `lock`: a line per holder. */
static void walk_lock(struct graph *g, const struct json_t *who, const struct json_t *lock,
                      unsigned depth)
{
    const struct json_t *holders = json_tree_get(lock, "holders");
    struct slice client = text_of(who, "client_id");
    struct slice name = text_of(lock, "name");
    for (size_t i = 0; i < json_tree_count(holders) && g->lines < LINES_MAX; i++) {
        const struct json_t *holder = json_tree_at(holders, i);
        struct slice held = text_of(holder, "client_id");
        bool is_circle = is_above(g, depth, holder);
        if (g->lines++ == 0) {
            fprintf(g->to, "\nWaiting clients:\n");
        }
        fprintf(g->to, "%*s%.*s waits for %.*s, held by %.*s%s\n", (int)(2 * depth), "",
                TEXT(client), TEXT(name), TEXT(held),
                is_circle ? "   <- a cycle: this is a deadlock" : "");
        if (!is_circle) {
            walk(g, holder, depth);
        }
    }
}

static void walk(struct graph *g, const struct json_t *who, unsigned depth)
{
    if (depth == DEPTH_MAX) {
        return;
    }
    g->path[depth] = who;
    for (size_t i = 0; i < g->count; i++) {
        const struct json_t *waiters = json_tree_get(g->names[i].tree, "waiters");
        for (size_t k = 0; k < json_tree_count(waiters); k++) {
            if (is_same(json_tree_at(waiters, k), who)) {
                walk_lock(g, who, g->names[i].tree, depth + 1);
                break;
            }
        }
    }
}

int show_graph_print(FILE *to, struct api *api, const struct json_t *lock)
{
    struct graph *g = calloc(1, sizeof(*g));
    hf_assert(g != NULL);
    g->to = to;
    const struct json_t *holders = json_tree_get(lock, "holders");
    int code = json_tree_count(holders) == 0 ? 0 : read_queued(g, api);
    for (size_t i = 0; code == 0 && i < json_tree_count(holders); i++) {
        walk(g, json_tree_at(holders, i), 0);
    }
    if (code == 0 && g->is_cut) {
        fprintf(to, "\nMore than %d locks have queues; only the first ones were read.\n",
                NAMES_MAX);
    }
    for (size_t i = 0; i < g->count; i++) {
        api_answer_close(&g->names[i]);
    }
    free(g);
    return code;
}
