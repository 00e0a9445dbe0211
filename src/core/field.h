/* Types of the fields of records, and the operations that a list of fields expands to.
 *
 * A record is one list with a line for each field:
 *
 *   F(role, since, type, name, limit)
 *
 *   role   its meaning depends on the record: see the lists
 *   since  the first version of the state that has the field (core/version.h)
 *   type   one of those below, or of the file that has the list
 *   limit  the largest number, or the largest length
 *
 * The struct, its encoder and its decoder follow from the list. The order of the lines is the
 * format: a new field is added at the end, with the version that introduces it. */
#ifndef HOLDFAST_CORE_FIELD_H
#define HOLDFAST_CORE_FIELD_H

#include "base/codec.h"
#include "core/version.h"

/* Expansions of F for a struct, an encoder and a decoder. They use `f` (the struct), `version`, and
 * `w` (struct writer) or `r` (struct reader). A field that the version does not have is cleared. */
#define FIELD_MEMBER(role, since, type, name, limit) FIELD_C_##type name;
#define FIELD_PUT(role, since, type, name, limit) \
    if ((since) <= version) {                     \
        field_put_##type(w, version, &f->name);   \
    }
#define FIELD_TAKE(role, since, type, name, limit)        \
    if ((since) <= version) {                             \
        field_take_##type(r, version, &f->name, (limit)); \
    } else {                                              \
        field_clear_##type(&f->name);                     \
    }

/* FIELD_SLICE_##type(each, name) is each(name) for a field of type slice, and empty for others. */
#define FIELD_SLICE_slice(each, name) each(name)
#define FIELD_SLICE_id(each, name)
#define FIELD_SLICE_u32(each, name)
#define FIELD_SLICE_u64(each, name)
#define FIELD_SLICE_mode(each, name)
#define FIELD_SLICE_reason(each, name)
#define FIELD_SLICE_ended(each, name)
#define FIELD_SLICE_event_type(each, name)

/* The operations of a type that is a number in C. */
#define FIELD_NUMBER_TYPE(type, c_type)                                                          \
    typedef c_type FIELD_C_##type;                                                               \
    static inline void field_clear_##type(c_type *field)                                         \
    {                                                                                            \
        *field = (c_type)0;                                                                      \
    }                                                                                            \
    static inline bool field_is_set_##type(const c_type *field)                                  \
    {                                                                                            \
        return *field != (c_type)0;                                                              \
    }                                                                                            \
    static inline void field_put_##type(struct writer *w, uint32_t version, const c_type *field) \
    {                                                                                            \
        (void)version;                                                                           \
        write_u64(w, (uint64_t)*field);                                                          \
    }                                                                                            \
    static inline void field_take_##type(struct reader *r, uint32_t version, c_type *field,      \
                                         uint64_t max)                                           \
    {                                                                                            \
        (void)version;                                                                           \
        uint64_t value = read_u64(r);                                                            \
        if (value > max) {                                                                       \
            r->bad = true;                                                                       \
        }                                                                                        \
        *field = (c_type)value;                                                                  \
    }

FIELD_NUMBER_TYPE(u8, uint8_t)
FIELD_NUMBER_TYPE(u32, uint32_t)
FIELD_NUMBER_TYPE(u64, uint64_t)
FIELD_NUMBER_TYPE(flag, bool)

typedef struct id FIELD_C_id;

static inline void field_clear_id(struct id *field)
{
    *field = (struct id){0, 0};
}

static inline bool field_is_set_id(const struct id *field)
{
    return !id_is_zero(*field);
}

static inline void field_put_id(struct writer *w, uint32_t version, const struct id *field)
{
    (void)version;
    write_id(w, *field);
}

static inline void field_take_id(struct reader *r, uint32_t version, struct id *field, uint64_t max)
{
    (void)version;
    (void)max;
    *field = read_id(r);
}

typedef struct slice FIELD_C_slice;

static inline void field_clear_slice(struct slice *field)
{
    *field = slice_make(NULL, 0);
}

static inline bool field_is_set_slice(const struct slice *field)
{
    return field->len > 0;
}

static inline void field_put_slice(struct writer *w, uint32_t version, const struct slice *field)
{
    (void)version;
    write_slice(w, *field);
}

static inline void field_take_slice(struct reader *r, uint32_t version, struct slice *field,
                                    uint64_t max)
{
    (void)version;
    *field = read_slice(r, (size_t)max);
}

#endif
