/* The file is text: one line per node, and a checksum. `removed` and `used` are stored as the store
 * id of an impossible node id: older versions of Holdfast can read the file. */
#include "node/peers/known_stores.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/panic.h"
#include "storage/bytes.h"

#define TITLE "holdfast known stores 1\n"
#define TEMPORARY "known-stores.tmp"
enum { LINE = 64, FILE_MAX = sizeof(TITLE) + (KNOWN_STORES_MAX + 2) * LINE };

/* The impossible node id. */
#define IDS_LINE UINT64_MAX

const struct known_store *known_stores_find(const struct known_stores *known, uint64_t node)
{
    for (uint32_t i = 0; i < known->count; i++) {
        if (known->at[i].node == node) {
            return &known->at[i];
        }
    }
    return NULL;
}

bool known_stores_add(struct known_stores *known, uint64_t node, struct id store)
{
    hf_assert(known_stores_find(known, node) == NULL);
    if (known->count == KNOWN_STORES_MAX) {
        return false;
    }
    known->at[known->count++] = (struct known_store){node, store};
    return true;
}

bool known_stores_is_used(const struct known_stores *known, uint64_t node)
{
    return node <= known->used || known_stores_find(known, node) != NULL;
}

static void forget(struct known_stores *known, uint32_t i)
{
    known->count--;
    memmove(known->at + i, known->at + i + 1, (known->count - i) * sizeof(known->at[0]));
}

void known_stores_remove(struct known_stores *known, uint64_t node)
{
    for (uint32_t i = 0; i < known->count; i++) {
        if (known->at[i].node == node) {
            forget(known, i);
            return;
        }
    }
}

static bool is_among(struct known_members members, uint64_t node)
{
    for (uint32_t i = 0; i < members.count; i++) {
        if (members.ids[i] == node) {
            return true;
        }
    }
    return false;
}

bool known_stores_raise_used(struct known_stores *known, uint64_t used)
{
    if (used <= known->used || used > KNOWN_STORES_ID_MAX) {
        return false;
    }
    known->used = used;
    return true;
}

bool known_stores_follow(struct known_stores *known, struct known_members before,
                         struct known_members now)
{
    uint64_t removed = known->removed;
    for (uint32_t i = 0; i < before.count; i++) {
        uint64_t id = before.ids[i];
        if (!is_among(now, id) && id > known->removed && id <= KNOWN_STORES_ID_MAX) {
            known->removed = id;
        }
    }
    if (known->removed == removed) {
        return false;
    }
    (void)known_stores_raise_used(known, known->removed);
    for (uint32_t i = known->count; i > 0; i--) {
        if (known->at[i - 1].node <= known->removed && !is_among(now, known->at[i - 1].node)) {
            forget(known, i - 1);
        }
    }
    return true;
}

void known_stores_evict(struct known_stores *known, struct known_members now)
{
    uint32_t lowest = known->count;
    for (uint32_t i = 0; i < known->count; i++) {
        if (!is_among(now, known->at[i].node) &&
            (lowest == known->count || known->at[i].node < known->at[lowest].node)) {
            lowest = i;
        }
    }
    if (known->count < KNOWN_STORES_MAX || lowest == known->count) {
        return;
    }
    (void)known_stores_raise_used(known, known->at[lowest].node);
    forget(known, lowest);
}

static size_t format(const struct known_stores *known, char *text)
{
    size_t len = (size_t)snprintf(text, FILE_MAX, TITLE);
    for (uint32_t i = 0; i < known->count; i++) {
        const struct known_store *k = &known->at[i];
        len += (size_t)snprintf(text + len, FILE_MAX - len,
                                "%" PRIu64 " %016" PRIx64 "%016" PRIx64 "\n", k->node,
                                k->store.high, k->store.low);
    }
    if (known->used > 0) {
        len += (size_t)snprintf(text + len, FILE_MAX - len,
                                "%" PRIu64 " %016" PRIx64 "%016" PRIx64 "\n", IDS_LINE,
                                known->removed, known->used);
    }
    uint64_t sum = storage_checksum(text, len, 0);
    return len + (size_t)snprintf(text + len, FILE_MAX - len, "checksum %016" PRIx64 "\n", sum);
}

static bool take_line(struct known_stores *out, const struct known_store *k)
{
    if (k->node != IDS_LINE) {
        return known_stores_find(out, k->node) == NULL && known_stores_add(out, k->node, k->store);
    }
    out->removed = k->store.high;
    out->used = k->store.low;
    return out->removed <= out->used && out->used <= KNOWN_STORES_ID_MAX;
}

static bool parse(struct known_stores *out, const char *text, size_t len)
{
    static const char title[] = TITLE;
    const char *at = text + sizeof(title) - 1;
    const char *end = text + len;
    if (len < sizeof(title) || memcmp(text, title, sizeof(title) - 1) != 0) {
        return false;
    }
    while (at < end && *at >= '0' && *at <= '9') {
        struct known_store k;
        int used = 0;
        if (sscanf(at, "%20" SCNu64 " %16" SCNx64 "%16" SCNx64 "%n", &k.node, &k.store.high,
                   &k.store.low, &used) != 3 ||
            at[used] != '\n' || !take_line(out, &k)) {
            return false;
        }
        at += used + 1;
    }
    char last[LINE];
    snprintf(last, sizeof(last), "checksum %016" PRIx64 "\n",
             storage_checksum(text, (size_t)(at - text), 0));
    return (size_t)(end - at) == strlen(last) && memcmp(at, last, strlen(last)) == 0;
}

enum storage_status known_stores_load(struct known_stores *known, struct disk *disk,
                                      struct problem *problem)
{
    *known = (struct known_stores){0};
    struct disk_file *file;
    enum storage_status status = disk_open(disk, KNOWN_STORES_NAME, DISK_READ, &file, problem);
    if (status == STORAGE_MISSING) {
        return STORAGE_OK;
    }
    if (status != STORAGE_OK) {
        return status;
    }
    static char text[FILE_MAX + 1];
    size_t len = 0;
    status = disk_read(file, 0, text, FILE_MAX, &len, problem);
    disk_close(file);
    if (status != STORAGE_OK) {
        return status;
    }
    text[len] = '\0';
    if (!parse(known, text, len)) {
        return problem_set(problem, STORAGE_CORRUPT,
                           "%s is damaged: if every member of the cluster still has its disk, "
                           "remove that file and start again",
                           KNOWN_STORES_NAME);
    }
    return STORAGE_OK;
}

enum storage_status known_stores_save(const struct known_stores *known, struct disk *disk,
                                      struct problem *problem)
{
    static char text[FILE_MAX + 1];
    size_t len = format(known, text);
    struct disk_file *file = NULL;
    enum storage_status status = disk_remove(disk, TEMPORARY, problem);
    if (status == STORAGE_OK) {
        status = disk_open(disk, TEMPORARY, DISK_CREATE, &file, problem);
    }
    if (status == STORAGE_OK) {
        status = disk_write(file, 0, text, len, problem);
    }
    if (status == STORAGE_OK) {
        status = disk_sync(file, problem);
    }
    if (status == STORAGE_OK) {
        status = disk_rename_file(disk, file, KNOWN_STORES_NAME, problem);
    }
    if (status == STORAGE_OK) {
        status = disk_sync_folder(disk, problem);
    }
    disk_close(file);
    return status;
}
