/* The files of the certificate while a node runs: loaded again when they change, warned about before
 * they expire.
 *
 * The files are looked at once a second, not watched by inotify: that also notices files that are
 * renamed over the old ones, links that point elsewhere, and file systems of other machines. */
#include <inttypes.h>
#include <stdio.h>
#include <sys/stat.h>

#include "node/node_state.h"

enum {
    LOOK_US = 1000000,
    DAY_S = 86400,
    WARN_DAYS = 14,
};

#define DAY_US (UINT64_C(1000000) * DAY_S)

static struct node_file_stamp stamp_of(const char *path)
{
    struct stat info;
    if (path == NULL || stat(path, &info) != 0) {
        return (struct node_file_stamp){0};
    }
    return (struct node_file_stamp){.device = (uint64_t)info.st_dev,
                                    .inode = (uint64_t)info.st_ino,
                                    .size = (uint64_t)info.st_size,
                                    .changed_s = (int64_t)info.st_ctim.tv_sec,
                                    .changed_ns = (int64_t)info.st_ctim.tv_nsec};
}

static bool stamp_equal(const struct node_file_stamp *a, const struct node_file_stamp *b)
{
    return a->device == b->device && a->inode == b->inode && a->size == b->size &&
           a->changed_s == b->changed_s && a->changed_ns == b->changed_ns;
}

/* Whether a file is another one than at the last call. */
static bool have_changed(struct node *n)
{
    const struct credential_files *files = &n->options.tls;
    const char *const paths[NODE_TLS_FILES] = {files->certificate, files->key, files->ca};
    bool changed = false;
    for (unsigned i = 0; i < NODE_TLS_FILES; i++) {
        struct node_file_stamp now = stamp_of(paths[i]);
        changed = changed || !stamp_equal(&now, &n->certificate.stamps[i]);
        n->certificate.stamps[i] = now;
    }
    return changed;
}

void node_watch_tls(struct node *n)
{
    (void)have_changed(n);
}

void node_reload_tls(struct node *n)
{
    char problem[NODE_PROBLEM];
    if (!n->self.is_certified || n->phase >= NODE_CLOSING) {
        return;
    }
    (void)have_changed(n);
    n->certificate.is_settling = false;
    n->certificate.is_refused = !node_load_tls(n, problem);
    if (!n->certificate.is_refused) {
        journal_note(n->options.journal, INFO, NODE, "certificate_reloaded",
                     JOURNAL_TEXT("file", n->options.tls.certificate),
                     JOURNAL_NUMBER("expires_s", (uint64_t)n->certificate.until_s));
        return;
    }
    journal_note(n->options.journal, ERROR, NODE, "certificate_not_reloaded",
                 JOURNAL_TEXT("reason", problem),
                 JOURNAL_TEXT("next", "the old certificate, key and CA stay in use: correct the "
                                      "files of tls-cert, tls-key and tls-ca; they are read again "
                                      "when one of them changes, or on SIGHUP"));
}

/* A warning for one date. */
static void warn(struct node *n, const char *file, int64_t until_s, int64_t now_s)
{
    int64_t left_s = until_s - now_s;
    if (left_s > (int64_t)WARN_DAYS * DAY_S) {
        return;
    }
    if (left_s <= 0) {
        journal_note(n->options.journal, ERROR, NODE, "certificate_expired",
                     JOURNAL_TEXT("file", file), JOURNAL_NUMBER("expired_s", (uint64_t)until_s),
                     JOURNAL_TEXT("next", "replace it: clients and nodes refuse new connections"));
        return;
    }
    journal_note(
        n->options.journal, WARN, NODE, "certificate_expires", JOURNAL_TEXT("file", file),
        JOURNAL_NUMBER("expires_s", (uint64_t)until_s),
        JOURNAL_NUMBER("days_left", (uint64_t)(left_s / DAY_S)),
        JOURNAL_TEXT("next", "replace the file before that; it is loaded when it changes"));
}

static void warn_daily(struct node *n, struct replica_time now)
{
    int64_t now_s = (int64_t)(now.wall_ms / 1000);
    if (now.boot_us < n->certificate.warn_us) {
        return;
    }
    n->certificate.warn_us = now.boot_us + DAY_US;
    warn(n, n->options.tls.certificate, n->certificate.until_s, now_s);
    warn(n, n->options.tls.ca, n->certificate.ca_until_s, now_s);
}

void node_step_tls(struct node *n, struct replica_time now)
{
    if (!n->self.is_certified || now.boot_us < n->certificate.look_us) {
        return;
    }
    n->certificate.look_us = now.boot_us + LOOK_US;
    if (have_changed(n)) {
        n->certificate.is_settling = true; /* the other files may follow */
    } else if (n->certificate.is_settling) {
        node_reload_tls(n);
    }
    warn_daily(n, now);
}
