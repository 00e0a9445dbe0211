/* Writes and reads the records of snapshot_record.h from their lists. */
#include "core/snapshot_record.h"

/* The first version with a byte for the mode and a number for the flags. */
enum { WIDE_HEAD_SINCE = 5 };

void record_head_write(struct writer *w, uint32_t version, const struct record_head *head)
{
    hf_assert(head->mode < MODE_COUNT && (head->flags & MODE_BITS) == 0);
    if (version < WIDE_HEAD_SINCE) {
        hf_assert(head->flags <= UINT8_MAX);
        write_u8(w, (uint8_t)(head->flags | head->mode));
        return;
    }
    write_u8(w, head->mode);
    write_u64(w, head->flags);
}

struct record_head record_head_read(struct reader *r, uint32_t version, uint32_t flags)
{
    struct record_head head;
    uint8_t first = read_u8(r);
    if (version < WIDE_HEAD_SINCE) {
        head = (struct record_head){first & MODE_BITS, first & ~(uint32_t)MODE_BITS};
    } else {
        head = (struct record_head){first, read_u32(r)};
    }
    r->bad = r->bad || head.mode >= MODE_COUNT || (head.flags & ~flags) != 0;
    return head;
}

static void field_put_byte(struct writer *w, uint32_t version, const uint8_t *field)
{
    (void)version;
    write_u8(w, *field);
}

static void field_take_byte(struct reader *r, uint32_t version, uint8_t *field, uint64_t max)
{
    (void)version;
    (void)max;
    *field = read_u8(r);
}

static void field_put_tie(struct writer *w, uint32_t version, const struct tie *tie)
{
    (void)version;
    if (tie->kind == TIED_BY_ID) {
        write_slice(w, tie->id);
        write_fixed64(w, tie->digest);
    } else if (tie->kind == TIED_BY_SEQ) {
        write_u64(w, tie->seq);
    }
}

static void field_take_tie(struct reader *r, uint32_t version, struct tie *tie, uint64_t max)
{
    (void)version;
    (void)max;
    if (tie->kind == TIED_BY_ID) {
        tie->id = read_slice(r, LIMIT_REQUEST_ID);
        tie->digest = read_fixed64(r);
    } else if (tie->kind == TIED_BY_SEQ) {
        tie->seq = read_u64(r);
    } else if (tie->kind != TIED_TO_NONE) {
        r->bad = true;
    }
}

static void field_put_carried(struct writer *w, uint32_t version, const struct carried *f)
{
    CARRIED_FIELDS(FIELD_PUT)
}

static void field_take_carried(struct reader *r, uint32_t version, struct carried *f, uint64_t max)
{
    (void)max;
    CARRIED_FIELDS(FIELD_TAKE)
}

/* Up to version 4 it is missing when the grant is no key. */
static void field_put_key(struct writer *w, uint32_t version, const struct key_mark *key)
{
    if (key->flags != 0 || version >= WIDE_HEAD_SINCE) {
        write_u8(w, key->flags);
    }
    if (key->flags != 0) {
        write_u64(w, key->changes);
    }
}

static void field_take_key(struct reader *r, uint32_t version, struct key_mark *key, uint64_t max)
{
    (void)max;
    if (version < WIDE_HEAD_SINCE && reader_left(r) == 0) {
        return;
    }
    key->flags = read_u8(r);
    bool is_key = (key->flags & GRANT_IS_KEY) != 0;
    key->changes = is_key ? read_u32(r) : 0;
    r->bad = r->bad || (!is_key && (key->flags != 0 || version < WIDE_HEAD_SINCE));
}

#define RECORD_PUT(present, since, type, name, limit) \
    if ((since) <= version && (present)) {            \
        field_put_##type(w, version, &f->name);       \
    }
#define RECORD_TAKE(present, since, type, name, limit)    \
    if ((since) <= version && (present)) {                \
        field_take_##type(r, version, &f->name, (limit)); \
    }

void session_record_write(struct writer *w, uint32_t version, const struct session_record *f)
{
    SESSION_RECORD(RECORD_PUT)
}

void session_record_read(struct reader *r, uint32_t version, struct session_record *f)
{
    *f = (struct session_record){.timer_ms = UINT64_MAX};
    SESSION_RECORD(RECORD_TAKE)
}

void grant_record_write(struct writer *w, uint32_t version, const struct grant_record *f)
{
    record_head_write(w, version, &f->head);
    GRANT_RECORD(RECORD_PUT)
}

void grant_record_read(struct reader *r, uint32_t version, bool is_private, struct grant_record *f)
{
    *f = (struct grant_record){.is_private = is_private, .timer_ms = UINT64_MAX};
    f->head = record_head_read(r, version, version < 7 ? GRANT_FLAGS : GRANT_FLAGS_7);
    f->tie.kind = f->head.flags >> GRANT_REQUEST_SHIFT & 3;
    GRANT_RECORD(RECORD_TAKE)
    if ((f->head.flags & GRANT_HAS_LIFE) == 0) {
        f->life_ms = f->since_ms;
    }
}

void waiter_record_write(struct writer *w, uint32_t version, const struct waiter_record *f)
{
    record_head_write(w, version, &f->head);
    WAITER_RECORD(RECORD_PUT)
}

void waiter_record_read(struct reader *r, uint32_t version, bool is_private,
                        struct waiter_record *f)
{
    *f = (struct waiter_record){
        .is_private = is_private, .wait_deadline_ms = UINT64_MAX, .timer_ms = UINT64_MAX};
    f->head = record_head_read(r, version, WAITER_FLAGS);
    f->tie.kind = f->head.flags >> WAITER_REQUEST_SHIFT;
    WAITER_RECORD(RECORD_TAKE)
}

void audit_fields_write(struct writer *w, uint32_t version, const struct audit_fields *f)
{
    AUDIT_RECORD(RECORD_PUT)
}

void audit_fields_read(struct reader *r, uint32_t version, struct audit_fields *f)
{
    *f = (struct audit_fields){0};
    AUDIT_RECORD(RECORD_TAKE)
}
