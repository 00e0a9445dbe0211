/* Small lists as the value of a key without an owner (S13.11): queues of lock libraries.
 *
 * An element is its length (base/codec.h) and its bytes. A list has at most resp_value_max bytes,
 * so every search is linear. */
#include "service/resp/conn.h"

#include "base/codec.h"
#include "service/resp/number.h"

static const char not_a_number[] = "value is not an integer or out of range";

static bool next_element(struct reader *r, struct slice *out)
{
    if (reader_left(r) == 0) {
        return false;
    }
    *out = read_slice(r, SIZE_MAX);
    return !r->bad;
}

static int64_t count_elements(struct slice list)
{
    struct reader r = reader_make(list);
    struct slice element;
    int64_t count = 0;
    while (next_element(&r, &element)) {
        count++;
    }
    return count;
}

/* The list from its element number `n` on; empty beyond the last. */
static struct slice after_elements(struct slice list, int64_t n)
{
    struct reader r = reader_make(list);
    struct slice element;
    while (n > 0 && next_element(&r, &element)) {
        n--;
    }
    return slice_make(r.at, reader_left(&r));
}

/* The first `n` elements. */
static struct slice first_elements(struct slice list, int64_t n)
{
    return slice_make(list.data, list.len - after_elements(list, n).len);
}

static struct key *open_list(struct keyspace *k, struct slice name, const struct key_sink *to,
                             struct slice *list)
{
    return keyspace_typed(k, name, KEY_LIST, to, list);
}

static size_t size_of(struct slice element)
{
    uint8_t head[16];
    struct writer w = writer_make(head, sizeof(head));
    write_u64(&w, element.len);
    return (size_t)(w.at - head) + element.len;
}

/* Space for a list of so many bytes, in memory of the run. False: more than `max`; the error was sent. */
static bool begin_list(struct keyspace *k, size_t size, size_t max, struct writer *w,
                       uint8_t **bytes, const struct key_sink *to)
{
    if (size > max) {
        resp_value_too_long(k->service, "limit_value: the elements of a list take", to);
        return false;
    }
    *bytes = bump_take(&k->arena, size > 0 ? size : 1);
    if (*bytes == NULL) {
        to->error(to->ctx, "ERR", "the transaction takes too much memory");
        return false;
    }
    *w = writer_make(*bytes, size);
    return true;
}

/* Of begin_list; it has exactly the announced size. */
static struct slice end_list(const struct writer *w, uint8_t *bytes)
{
    hf_assert(!w->full && w->at == w->end);
    return slice_make(bytes, (size_t)(w->at - bytes));
}

/* With `count` more elements: in front of it, each before the one that precedes it in `elements`, or
 * behind it. */
static bool add_elements(struct keyspace *k, struct slice list, const struct slice *elements,
                         uint32_t count, bool in_front, struct slice *out,
                         const struct key_sink *to)
{
    struct writer w;
    uint8_t *bytes;
    size_t size = list.len;
    for (uint32_t i = 0; i < count; i++) {
        size += size_of(elements[i]);
    }
    if (!begin_list(k, size, resp_value_max(k->service), &w, &bytes, to)) {
        return false;
    }
    for (uint32_t i = count; in_front && i > 0; i--) {
        write_slice(&w, elements[i - 1]);
    }
    write_bytes(&w, list.data, list.len);
    for (uint32_t i = 0; !in_front && i < count; i++) {
        write_slice(&w, elements[i]);
    }
    *out = end_list(&w, bytes);
    return true;
}

static bool is_left(struct slice word)
{
    return word.data[0] == 'l' || word.data[0] == 'L';
}

/* LPUSH, RPUSH, and with X only if the list exists. */
void key_push(struct keyspace *k, const struct slice *args, uint32_t count,
              const struct key_sink *to)
{
    struct slice list;
    struct key *key = open_list(k, args[1], to, &list);
    if (key == NULL) {
        return;
    }
    bool needs_list = args[0].len == sizeof("LPUSHX") - 1;
    if (needs_list && !key_is_present(key)) {
        to->integer(to->ctx, 0);
    } else if (key_may_change(k, key, to) &&
               add_elements(k, list, args + 2, count - 2, is_left(args[0]), &list, to)) {
        key_put_shared(k, key, KEY_LIST, list);
        to->integer(to->ctx, count_elements(list));
    }
}

/* Takes `n` elements, at most all: `taken` and `rest` are parts of the list. */
static void split(struct slice list, bool from_left, int64_t n, struct slice *taken,
                  struct slice *rest)
{
    if (from_left) {
        *taken = first_elements(list, n);
        *rest = slice_make(list.data + taken->len, list.len - taken->len);
    } else {
        *rest = first_elements(list, count_elements(list) - n);
        *taken = slice_make(list.data + rest->len, list.len - rest->len);
    }
}

static struct slice only_element(struct slice list)
{
    struct reader r = reader_make(list);
    struct slice element = slice_make("", 0);
    (void)next_element(&r, &element);
    return element;
}

/* The last one first. False: above the memory of the run; the error was sent. */
static bool put_reversed(struct keyspace *k, struct slice list, uint32_t count,
                         const struct key_sink *to)
{
    struct reader r = reader_make(list);
    struct slice *elements = bump_take(&k->arena, count * sizeof(*elements));
    if (elements == NULL) {
        to->error(to->ctx, "ERR", "the transaction takes too much memory");
        return false;
    }
    for (uint32_t i = 0; i < count; i++) {
        (void)next_element(&r, &elements[i]);
    }
    to->array(to->ctx, count);
    for (uint32_t i = count; i > 0; i--) {
        to->bulk(to->ctx, elements[i - 1]);
    }
    return true;
}

static void put_elements(struct slice list, const struct key_sink *to)
{
    struct reader r = reader_make(list);
    struct slice element;
    to->array(to->ctx, (uint32_t)count_elements(list));
    while (next_element(&r, &element)) {
        to->bulk(to->ctx, element);
    }
}

/* LPOP and RPOP with a count. */
static void pop_several(struct keyspace *k, struct key *key, struct slice list, bool from_left,
                        int64_t n, const struct key_sink *to)
{
    struct slice taken;
    struct slice rest;
    int64_t all = count_elements(list);
    n = n < all ? n : all;
    split(list, from_left, n, &taken, &rest);
    if (from_left || n == 0) {
        put_elements(taken, to);
    } else if (!put_reversed(k, taken, (uint32_t)n, to)) {
        return;
    }
    if (n > 0) {
        key_put_shared(k, key, KEY_LIST, rest);
    }
}

/* The list is not empty; the element is valid until the run ends. */
static struct slice pop_one(struct keyspace *k, struct key *key, struct slice list, bool from_left)
{
    struct slice taken;
    struct slice rest;
    split(list, from_left, 1, &taken, &rest);
    key_put_shared(k, key, KEY_LIST, rest);
    return only_element(taken);
}

/* LPOP, RPOP: key [count] */
void key_pop(struct keyspace *k, const struct slice *args, uint32_t count,
             const struct key_sink *to)
{
    struct slice list;
    int64_t n = 1;
    bool from_left = is_left(args[0]);
    if (count > 3) {
        to->error(to->ctx, "ERR",
                  from_left ? "wrong number of arguments for 'lpop' command"
                            : "wrong number of arguments for 'rpop' command");
        return;
    }
    if (count == 3 && (!resp_parse_number(args[2], &n) || n < 0)) {
        to->error(to->ctx, "ERR", "value is out of range, must be positive");
        return;
    }
    struct key *key = open_list(k, args[1], to, &list);
    if (key == NULL) {
        return;
    }
    if (list.len == 0 && count == 3) {
        resp_null_array(resp_sink_writer(to));
    } else if (list.len == 0) {
        to->null(to->ctx);
    } else if (count == 3) {
        pop_several(k, key, list, from_left, n, to);
    } else {
        resp_list_pop(k, key, list, from_left, to);
    }
}

void resp_list_pop(struct keyspace *k, struct key *key, struct slice list, bool from_left,
                   const struct key_sink *to)
{
    to->bulk(to->ctx, pop_one(k, key, list, from_left));
}

void key_llen(struct keyspace *k, const struct slice *args, uint32_t count,
              const struct key_sink *to)
{
    (void)count;
    struct slice list;
    if (open_list(k, args[1], to, &list) != NULL) {
        to->integer(to->ctx, count_elements(list));
    }
}

/* Two positions, both included; negative ones count from the end. False: not two numbers; the error
 * was sent. */
static bool read_range(const struct slice *words, int64_t *start, int64_t *end,
                       const struct key_sink *to)
{
    if (!resp_parse_number(words[0], start) || !resp_parse_number(words[1], end)) {
        to->error(to->ctx, "ERR", not_a_number);
        return false;
    }
    return true;
}

/* That part of the list. */
static struct slice part_of(struct slice list, int64_t start, int64_t end)
{
    int64_t count = count_elements(list);
    start = start >= 0 ? start : start < -count ? 0 : start + count;
    end = end >= count ? count - 1 : end >= 0 ? end : end < -count ? -1 : end + count;
    return start > end ? slice_make(NULL, 0)
                       : first_elements(after_elements(list, start), end - start + 1);
}

void key_lrange(struct keyspace *k, const struct slice *args, uint32_t count,
                const struct key_sink *to)
{
    (void)count;
    struct slice list;
    int64_t start;
    int64_t end;
    if (read_range(args + 2, &start, &end, to) && open_list(k, args[1], to, &list) != NULL) {
        put_elements(part_of(list, start, end), to);
    }
}

void key_ltrim(struct keyspace *k, const struct slice *args, uint32_t count,
               const struct key_sink *to)
{
    (void)count;
    struct slice list;
    int64_t start;
    int64_t end;
    if (!read_range(args + 2, &start, &end, to)) {
        return;
    }
    struct key *key = open_list(k, args[1], to, &list);
    if (key == NULL) {
        return;
    }
    struct slice part = part_of(list, start, end);
    if (part.len < list.len) {
        key_put_shared(k, key, KEY_LIST, part);
    }
    to->status(to->ctx, "OK");
}

/* The element at a position, as a list of one; empty: there is none. `before`: the list up to it. */
static struct slice find_index(struct slice list, int64_t index, struct slice *before)
{
    int64_t count = count_elements(list);
    index = index >= 0 ? index : index + count;
    if (index < 0 || index >= count) {
        return slice_make(NULL, 0);
    }
    *before = first_elements(list, index);
    return first_elements(after_elements(list, index), 1);
}

void key_lindex(struct keyspace *k, const struct slice *args, uint32_t count,
                const struct key_sink *to)
{
    (void)count;
    struct slice list;
    struct slice before;
    int64_t index;
    if (open_list(k, args[1], to, &list) == NULL) {
        return;
    }
    if (!resp_parse_number(args[2], &index)) {
        if (list.len == 0) {
            to->null(to->ctx);
        } else {
            to->error(to->ctx, "ERR", not_a_number);
        }
        return;
    }
    struct slice found = find_index(list, index, &before);
    if (found.len > 0) {
        to->bulk(to->ctx, only_element(found));
    } else {
        to->null(to->ctx);
    }
}

/* The list with `element` after its first `before` bytes, in place of `cut` bytes. */
static bool replace(struct keyspace *k, struct slice list, size_t before, size_t cut,
                    struct slice element, struct slice *out, const struct key_sink *to)
{
    struct writer w;
    uint8_t *bytes;
    hf_assert(before + cut <= list.len);
    size_t max = resp_value_max(k->service);
    if (!begin_list(k, list.len - cut + size_of(element), max > list.len ? max : list.len, &w,
                    &bytes, to)) {
        return false;
    }
    write_bytes(&w, list.data, before);
    write_slice(&w, element);
    write_bytes(&w, list.data + before + cut, list.len - before - cut);
    *out = end_list(&w, bytes);
    return true;
}

void key_lset(struct keyspace *k, const struct slice *args, uint32_t count,
              const struct key_sink *to)
{
    (void)count;
    struct slice list;
    struct slice before;
    int64_t index;
    struct key *key = open_list(k, args[1], to, &list);
    if (key == NULL) {
        return;
    }
    if (list.len == 0) {
        to->error(to->ctx, "ERR", "no such key");
        return;
    }
    if (!resp_parse_number(args[2], &index)) {
        to->error(to->ctx, "ERR", not_a_number);
        return;
    }
    struct slice found = find_index(list, index, &before);
    if (found.len == 0) {
        to->error(to->ctx, "ERR", "index out of range");
    } else if (replace(k, list, before.len, found.len, args[3], &list, to)) {
        key_put_shared(k, key, KEY_LIST, list);
        to->status(to->ctx, "OK");
    }
}

/* LINSERT key BEFORE|AFTER pivot element */
void key_linsert(struct keyspace *k, const struct slice *args, uint32_t count,
                 const struct key_sink *to)
{
    (void)count;
    struct slice list;
    struct slice element;
    bool is_after = resp_is_word(args[2], "AFTER");
    if (!is_after && !resp_is_word(args[2], "BEFORE")) {
        to->error(to->ctx, "ERR", "syntax error");
        return;
    }
    struct key *key = open_list(k, args[1], to, &list);
    if (key == NULL) {
        return;
    }
    struct reader r = reader_make(list);
    size_t at = 0;
    bool is_found = false;
    while (!is_found && next_element(&r, &element)) {
        is_found = slice_equal(element, args[3]);
        at = is_found && !is_after ? at : list.len - reader_left(&r);
    }
    if (!is_found) {
        to->integer(to->ctx, list.len == 0 ? 0 : -1);
    } else if (replace(k, list, at, 0, args[4], &list, to)) {
        key_put_shared(k, key, KEY_LIST, list);
        to->integer(to->ctx, count_elements(list));
    }
}

static int64_t count_equal(struct slice list, struct slice wanted)
{
    struct reader r = reader_make(list);
    struct slice element;
    int64_t count = 0;
    while (next_element(&r, &element)) {
        count += slice_equal(element, wanted);
    }
    return count;
}

/* LREM key count element: the first `count` ones; the last if negative; all if 0. */
void key_lrem(struct keyspace *k, const struct slice *args, uint32_t count,
              const struct key_sink *to)
{
    (void)count;
    struct slice list;
    struct slice element;
    int64_t wanted;
    if (!resp_parse_number(args[2], &wanted)) {
        to->error(to->ctx, "ERR", not_a_number);
        return;
    }
    struct key *key = open_list(k, args[1], to, &list);
    if (key == NULL) {
        return;
    }
    int64_t all = count_equal(list, args[3]);
    bool from_end = wanted < 0;
    wanted = wanted == 0 || wanted >= all || wanted <= -all ? all : from_end ? -wanted : wanted;
    if (wanted > 0) {
        struct writer w;
        uint8_t *bytes;
        if (!begin_list(k, list.len - (size_t)wanted * size_of(args[3]), list.len, &w, &bytes,
                        to)) {
            return;
        }
        int64_t seen = 0;
        struct reader r = reader_make(list);
        while (next_element(&r, &element)) {
            bool is_equal = slice_equal(element, args[3]);
            bool goes = is_equal && (from_end ? seen >= all - wanted : seen < wanted);
            seen += is_equal;
            if (!goes) {
                write_slice(&w, element);
            }
        }
        key_put_shared(k, key, KEY_LIST, end_list(&w, bytes));
    }
    to->integer(to->ctx, wanted);
}

/* From one end of a list to one of another, or of the same. */
static void move(struct keyspace *k, struct slice source, struct slice target, bool from_left,
                 bool to_left, const struct key_sink *to)
{
    struct slice list;
    struct slice other;
    struct slice taken;
    struct slice rest;
    struct slice element;
    struct key *from = open_list(k, source, to, &list);
    if (from == NULL) {
        return;
    }
    if (list.len == 0) {
        resp_null(resp_sink_writer(to));
        return;
    }
    struct key *into = open_list(k, target, to, &other);
    if (into == NULL || !key_may_change(k, into, to)) {
        return;
    }
    split(list, from_left, 1, &taken, &rest);
    element = only_element(taken);
    if (!add_elements(k, from == into ? rest : other, &element, 1, to_left, &other, to)) {
        return; /* nothing was changed */
    }
    if (from != into) {
        key_put_shared(k, from, KEY_LIST, rest);
    }
    key_put_shared(k, into, KEY_LIST, other);
    to->bulk(to->ctx, element);
}

static bool read_end(struct slice word, bool *left)
{
    *left = resp_is_word(word, "LEFT");
    return *left || resp_is_word(word, "RIGHT");
}

bool resp_list_ends(struct slice from, struct slice target, const struct key_sink *to)
{
    bool left;
    if (read_end(from, &left) && read_end(target, &left)) {
        return true;
    }
    to->error(to->ctx, "ERR", "syntax error");
    return false;
}

/* LMOVE source destination LEFT|RIGHT LEFT|RIGHT */
void key_lmove(struct keyspace *k, const struct slice *args, uint32_t count,
               const struct key_sink *to)
{
    (void)count;
    bool from_left;
    bool to_left;
    if (!resp_list_ends(args[3], args[4], to)) {
        return;
    }
    (void)read_end(args[3], &from_left);
    (void)read_end(args[4], &to_left);
    move(k, args[1], args[2], from_left, to_left, to);
}

void key_rpoplpush(struct keyspace *k, const struct slice *args, uint32_t count,
                   const struct key_sink *to)
{
    (void)count;
    move(k, args[1], args[2], false, true, to);
}
