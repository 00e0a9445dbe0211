/* See dashboard.h. Each file is an array made by tools/embed.py. */
#include "server/dashboard.h"

#define HTML "text/html; charset=utf-8"
#define CSS "text/css; charset=utf-8"
#define JS "text/javascript; charset=utf-8"
#define SVG "image/svg+xml"

/* Path, array, content type; frequent ones need no order. The same files are in meson.build. */
#define DASHBOARD_FILES(F)                       \
    F("/", index_html, HTML)                     \
    F("/dashboard/style.css", style_css, CSS)    \
    F("/dashboard/icon.svg", icon_svg, SVG)      \
    F("/dashboard/api.js", api_js, JS)           \
    F("/dashboard/app.js", app_js, JS)           \
    F("/dashboard/dom.js", dom_js, JS)           \
    F("/dashboard/events.js", events_js, JS)     \
    F("/dashboard/graph.js", graph_js, JS)       \
    F("/dashboard/live.js", live_js, JS)         \
    F("/dashboard/lock.js", lock_js, JS)         \
    F("/dashboard/locks.js", locks_js, JS)       \
    F("/dashboard/operate.js", operate_js, JS)   \
    F("/dashboard/overview.js", overview_js, JS) \
    F("/dashboard/plot.js", plot_js, JS)         \
    F("/dashboard/rows.js", rows_js, JS)         \
    F("/dashboard/tables.js", tables_js, JS)

#define DECLARE(path, name, type)                  \
    extern const unsigned char dashboard_##name[]; \
    extern const size_t dashboard_##name##_len;
DASHBOARD_FILES(DECLARE)

bool dashboard_asset(struct slice path, struct service_asset *out)
{
#define MATCH(where, name, type)                                                                   \
    if (slice_equal(path, slice_of(where))) {                                                      \
        *out = (struct service_asset){slice_make(dashboard_##name, dashboard_##name##_len), type}; \
        return true;                                                                               \
    }
    DASHBOARD_FILES(MATCH)
    return false;
}
