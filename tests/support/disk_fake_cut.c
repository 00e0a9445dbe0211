/* What is durable on the disk in memory, and what a crash or a power cut leaves. */
#include <stdio.h>

#include "disk_fake_state.h"

#include "base/memory.h"
#include "base/panic.h"

/* Grows a list by one; the size of its elements is that of what `list` points to. */
#define PUSH(list, count, capacity)                                                     \
    do {                                                                                \
        if ((count) == (capacity)) {                                                    \
            size_t more = (capacity) == 0 ? 8 : 2 * (capacity);                         \
            (list) = memory_grow(memory_system(), (list), (capacity) * sizeof(*(list)), \
                                 more * sizeof(*(list)));                               \
            (capacity) = more;                                                          \
        }                                                                               \
        (count)++;                                                                      \
    } while (0)

static void give_back(void *block, size_t size)
{
    if (size > 0) {
        memory_free(memory_system(), block, size);
    }
}

static void *keep(const void *data, size_t size)
{
    void *copy = size == 0 ? NULL : memory_alloc(memory_system(), size);
    if (size > 0) {
        memcpy(copy, data, size);
    }
    return copy;
}

uint64_t fake_below(struct disk_fake *fake, uint64_t limit)
{
    uint64_t z = fake->random += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return (z ^ z >> 31) % limit;
}

/* ---- files ---- */

struct fake_inode *fake_inode_new(struct disk_fake *fake)
{
    struct fake_inode *inode = memory_alloc(memory_system(), sizeof(*inode));
    *inode = (struct fake_inode){0};
    PUSH(fake->inodes, fake->inode_count, fake->inode_capacity);
    fake->inodes[fake->inode_count - 1] = inode;
    return inode;
}

static void reserve(struct fake_inode *inode, uint64_t size)
{
    if (size > inode->capacity) {
        uint64_t capacity = size < 2 * inode->capacity ? 2 * inode->capacity : size;
        inode->bytes =
            memory_grow(memory_system(), inode->bytes, (size_t)inode->capacity, (size_t)capacity);
        inode->capacity = capacity;
    }
}

static void resize(struct fake_inode *inode, uint64_t size)
{
    reserve(inode, size);
    if (size > inode->size) {
        memset(inode->bytes + inode->size, 0, (size_t)(size - inode->size));
    }
    inode->size = size;
}

/* Writes without a trace. */
static void put_bytes(struct fake_inode *inode, uint64_t offset, const void *data, size_t len)
{
    if (offset > inode->size) {
        resize(inode, offset); /* the gap reads as zeros */
    }
    if (offset + len > inode->size) {
        reserve(inode, offset + len);
        inode->size = offset + len;
    }
    if (len > 0) {
        memcpy(inode->bytes + offset, data, len);
    }
}

static struct fake_edit *edit_push(struct fake_inode *inode)
{
    PUSH(inode->edits, inode->edit_count, inode->edit_capacity);
    struct fake_edit *edit = &inode->edits[inode->edit_count - 1];
    *edit = (struct fake_edit){.state = FAKE_PENDING, .size_before = inode->size};
    return edit;
}

static void edits_clear(struct fake_inode *inode)
{
    for (size_t i = 0; i < inode->edit_count; i++) {
        give_back(inode->edits[i].bytes, inode->edits[i].len);
        give_back(inode->edits[i].before, inode->edits[i].before_len);
    }
    inode->edit_count = 0;
}

void fake_inode_write(struct fake_inode *inode, uint64_t offset, const void *data, size_t len)
{
    struct fake_edit *edit = edit_push(inode);
    edit->offset = offset;
    edit->len = len;
    edit->bytes = keep(data, len);
    if (offset < inode->size) {
        uint64_t end = offset + len < inode->size ? offset + len : inode->size;
        edit->before_len = (size_t)(end - offset);
        edit->before = keep(inode->bytes + offset, edit->before_len);
    }
    put_bytes(inode, offset, data, len);
}

void fake_inode_truncate(struct fake_inode *inode, uint64_t size)
{
    struct fake_edit *edit = edit_push(inode);
    edit->is_truncate = true;
    edit->offset = size;
    if (size < inode->size) {
        edit->before_len = (size_t)(inode->size - size);
        edit->before = keep(inode->bytes + size, edit->before_len);
    }
    resize(inode, size);
}

void fake_inode_sync(struct fake_inode *inode)
{
    bool all = true;
    for (size_t i = 0; i < inode->edit_count; i++) {
        if (inode->edits[i].state == FAKE_PENDING) {
            inode->edits[i].state = FAKE_SYNCED;
        }
        all = all && inode->edits[i].state == FAKE_SYNCED;
    }
    if (all) {
        edits_clear(inode);
    }
}

void fake_inode_lose(struct fake_inode *inode)
{
    for (size_t i = 0; i < inode->edit_count; i++) {
        if (inode->edits[i].state == FAKE_PENDING) {
            inode->edits[i].state = FAKE_LOST;
        }
    }
}

static void undo(struct fake_inode *inode, const struct fake_edit *edit)
{
    resize(inode, edit->size_before);
    if (edit->before_len > 0) {
        memcpy(inode->bytes + edit->offset, edit->before, edit->before_len);
    }
}

/* How much of what is pending reaches the disk. */
enum survival { NOTHING, ALL, SOME, SURVIVALS };

static bool survives(struct disk_fake *fake, enum survival survival)
{
    return survival == ALL || (survival == SOME && fake_below(fake, 2) == 0);
}

/* Does an edit again, a sector at a time. */
static void redo(struct disk_fake *fake, struct fake_inode *inode, const struct fake_edit *edit,
                 enum survival survival)
{
    if (edit->is_truncate) {
        if (survives(fake, survival)) {
            resize(inode, edit->offset);
        }
        return;
    }
    for (uint64_t at = edit->offset; at < edit->offset + edit->len;) {
        uint64_t end = (at / FAKE_SECTOR + 1) * FAKE_SECTOR;
        end = end < edit->offset + edit->len ? end : edit->offset + edit->len;
        if (survives(fake, survival)) {
            put_bytes(inode, at, edit->bytes + (at - edit->offset), (size_t)(end - at));
        }
        if (survival == SOME && fake->garbage && fake_below(fake, 4) == 0) {
            uint64_t garbage = fake_below(fake, UINT64_MAX);
            put_bytes(inode, at, &garbage, end - at < 8 ? (size_t)(end - at) : 8);
        }
        at = end;
    }
}

static void cut_inode(struct disk_fake *fake, struct fake_inode *inode)
{
    for (size_t i = inode->edit_count; i-- > 0;) {
        undo(inode, &inode->edits[i]);
    }
    enum survival survival = (enum survival)fake_below(fake, SURVIVALS);
    for (size_t i = 0; i < inode->edit_count; i++) {
        const struct fake_edit *edit = &inode->edits[i];
        redo(fake, inode, edit,
             edit->state == FAKE_SYNCED ? ALL
             : edit->state == FAKE_LOST ? NOTHING
                                        : survival);
    }
    edits_clear(inode);
}

static void inode_free(struct fake_inode *inode)
{
    edits_clear(inode);
    give_back(inode->edits, inode->edit_capacity * sizeof(*inode->edits));
    give_back(inode->bytes, (size_t)inode->capacity);
    memory_free(memory_system(), inode, sizeof(*inode));
}

/* ---- names ---- */

static size_t find_at(const struct fake_names *names, const char *name)
{
    for (size_t i = 0; i < names->count; i++) {
        if (strcmp(names->names[i].text, name) == 0) {
            return i;
        }
    }
    return SIZE_MAX;
}

struct fake_inode *fake_find(const struct fake_names *names, const char *name)
{
    size_t at = find_at(names, name);
    return at == SIZE_MAX ? NULL : names->names[at].inode;
}

static void names_set(struct fake_names *names, const char *name, struct fake_inode *inode)
{
    size_t at = find_at(names, name);
    if (at == SIZE_MAX) {
        PUSH(names->names, names->count, names->capacity);
        at = names->count - 1;
        snprintf(names->names[at].text, sizeof(names->names[at].text), "%s", name);
    }
    names->names[at].inode = inode;
}

static void names_unset(struct fake_names *names, const char *name)
{
    size_t at = find_at(names, name);
    if (at != SIZE_MAX) {
        names->names[at] = names->names[--names->count];
    }
}

static void names_copy(struct fake_names *to, const struct fake_names *from)
{
    to->count = 0;
    for (size_t i = 0; i < from->count; i++) {
        PUSH(to->names, to->count, to->capacity);
        to->names[i] = from->names[i];
    }
}

/* Each change is about a file and not only about a name: what it does when one before it was lost
 * is done to that same file. */
static void apply(struct fake_names *names, const struct fake_change *change)
{
    if (change->kind != FAKE_LINK && fake_find(names, change->from) == change->inode) {
        names_unset(names, change->from);
    }
    if (change->kind != FAKE_UNLINK) {
        names_set(names, change->kind == FAKE_LINK ? change->from : change->to, change->inode);
    }
}

void fake_change(struct disk_fake *fake, enum fake_change_kind kind, struct fake_inode *inode,
                 const char *from, const char *to)
{
    hf_assert(strlen(from) <= DISK_NAME_MAX && strlen(to) <= DISK_NAME_MAX);
    PUSH(fake->changes, fake->change_count, fake->change_capacity);
    struct fake_change *change = &fake->changes[fake->change_count - 1];
    *change = (struct fake_change){.kind = kind, .inode = inode};
    snprintf(change->from, sizeof(change->from), "%s", from);
    snprintf(change->to, sizeof(change->to), "%s", to);
    apply(&fake->visible, change);
}

void fake_settle_names(struct disk_fake *fake)
{
    names_copy(&fake->durable, &fake->visible);
    fake->change_count = 0;
    fake_sweep(fake);
}

void fake_sweep(struct disk_fake *fake)
{
    for (size_t i = 0; i < fake->inode_count; i++) {
        fake->inodes[i]->reached = fake->inodes[i]->handles > 0;
    }
    for (size_t i = 0; i < fake->visible.count; i++) {
        fake->visible.names[i].inode->reached = true;
    }
    for (size_t i = 0; i < fake->durable.count; i++) {
        fake->durable.names[i].inode->reached = true;
    }
    for (size_t i = 0; i < fake->change_count; i++) {
        fake->changes[i].inode->reached = true;
    }
    size_t kept = 0;
    for (size_t i = 0; i < fake->inode_count; i++) {
        if (fake->inodes[i]->reached) {
            fake->inodes[kept++] = fake->inodes[i];
        } else {
            inode_free(fake->inodes[i]);
        }
    }
    fake->inode_count = kept;
}

/* ---- ends ---- */

void disk_fake_crash(struct disk_fake *fake)
{
    fake->life++;
    fake->locked = false;
    fake->stop_in = UINT64_MAX;
    fake->stopped = false;
    fake->fail_in = UINT64_MAX;
}

void disk_fake_power_cut(struct disk_fake *fake)
{
    for (size_t i = 0; i < fake->inode_count; i++) {
        cut_inode(fake, fake->inodes[i]);
    }
    names_copy(&fake->visible, &fake->durable);
    enum survival survival = (enum survival)fake_below(fake, SURVIVALS);
    for (size_t i = 0; i < fake->change_count; i++) {
        if (survives(fake, survival)) {
            apply(&fake->visible, &fake->changes[i]);
        }
    }
    disk_fake_crash(fake);
    fake_settle_names(fake);
}

void disk_fake_settle(struct disk_fake *fake)
{
    for (size_t i = 0; i < fake->inode_count; i++) {
        edits_clear(fake->inodes[i]);
    }
    fake_settle_names(fake);
}

/* ---- copies ---- */

static void inode_copy(struct fake_inode *to, const struct fake_inode *from)
{
    put_bytes(to, 0, from->bytes, (size_t)from->size);
    for (size_t i = 0; i < from->edit_count; i++) {
        struct fake_edit *edit = edit_push(to);
        *edit = from->edits[i];
        edit->bytes = keep(edit->bytes, edit->len);
        edit->before = keep(edit->before, edit->before_len);
    }
}

/* The copies lie in the same order. */
static struct fake_inode *copied(const struct disk_fake *from, const struct disk_fake *to,
                                 const struct fake_inode *inode)
{
    for (size_t i = 0; i < from->inode_count; i++) {
        if (from->inodes[i] == inode) {
            return to->inodes[i];
        }
    }
    return NULL;
}

struct disk_fake *disk_fake_copy(const struct disk_fake *fake, uint64_t seed)
{
    struct disk_fake *copy = disk_fake_new(seed);
    for (size_t i = 0; i < fake->inode_count; i++) {
        inode_copy(fake_inode_new(copy), fake->inodes[i]);
    }
    for (size_t i = 0; i < fake->visible.count; i++) {
        const struct fake_name *name = &fake->visible.names[i];
        names_set(&copy->visible, name->text, copied(fake, copy, name->inode));
    }
    for (size_t i = 0; i < fake->durable.count; i++) {
        const struct fake_name *name = &fake->durable.names[i];
        names_set(&copy->durable, name->text, copied(fake, copy, name->inode));
    }
    for (size_t i = 0; i < fake->change_count; i++) {
        PUSH(copy->changes, copy->change_count, copy->change_capacity);
        struct fake_change *change = &copy->changes[i];
        *change = fake->changes[i];
        change->inode = copied(fake, copy, change->inode);
    }
    copy->capacity = fake->capacity;
    copy->garbage = fake->garbage;
    return copy;
}

void disk_fake_free(struct disk_fake *fake)
{
    if (fake == NULL) {
        return;
    }
    for (size_t i = 0; i < fake->inode_count; i++) {
        hf_assert(fake->inodes[i]->handles == 0);
        inode_free(fake->inodes[i]);
    }
    give_back(fake->inodes, fake->inode_capacity * sizeof(*fake->inodes));
    give_back(fake->visible.names, fake->visible.capacity * sizeof(*fake->visible.names));
    give_back(fake->durable.names, fake->durable.capacity * sizeof(*fake->durable.names));
    give_back(fake->changes, fake->change_capacity * sizeof(*fake->changes));
    memory_free(memory_system(), fake, sizeof(*fake));
}
