/* A radix sort, byte by byte from the lowest. It skips bytes that all keys share: tokens and
 * tickets are small, so few passes remain. */
#include "core/keyed.h"

enum {
    FIRST_SIZE = 64,
    DIGIT_BITS = 8,
    DIGITS = 1 << DIGIT_BITS,
    KEY_BITS = 64,
};

void keyed_init(struct keyed_list *list, const struct memory *memory)
{
    hf_assert(memory != NULL);
    *list = (struct keyed_list){.memory = memory};
}

void keyed_close(struct keyed_list *list)
{
    if (list->size > 0) {
        memory_free(list->memory, list->at, list->size * sizeof(*list->at));
    }
    *list = (struct keyed_list){.memory = list->memory};
}

void keyed_add(struct keyed_list *list, uint64_t key, ref obj)
{
    hf_assert(obj != 0 && list->count <= list->size);
    if (list->count == list->size) {
        size_t size = list->size == 0 ? FIRST_SIZE : list->size * 2;
        list->at = memory_grow(list->memory, list->at, list->size * sizeof(*list->at),
                               size * sizeof(*list->at));
        list->size = size;
    }
    list->at[list->count++] = (struct keyed){key, obj};
}

static unsigned digit_of(const struct keyed *item, unsigned shift)
{
    return (unsigned)(item->key >> shift) & (DIGITS - 1);
}

static void sort_by_digit(const struct keyed *from, struct keyed *to, size_t count, unsigned shift)
{
    size_t place[DIGITS] = {0};
    for (size_t i = 0; i < count; i++) {
        place[digit_of(&from[i], shift)]++;
    }
    size_t next = 0;
    for (unsigned digit = 0; digit < DIGITS; digit++) {
        size_t have = place[digit];
        place[digit] = next;
        next += have;
    }
    hf_assert(next == count);
    for (size_t i = 0; i < count; i++) {
        to[place[digit_of(&from[i], shift)]++] = from[i];
    }
}

void keyed_sort(struct keyed_list *list)
{
    hf_assert(list->count <= list->size);
    uint64_t differ = 0;
    bool sorted = true;
    for (size_t i = 1; i < list->count; i++) {
        differ |= list->at[i].key ^ list->at[0].key;
        sorted = sorted && list->at[i - 1].key <= list->at[i].key;
    }
    if (sorted) {
        return;
    }
    size_t bytes = list->size * sizeof(*list->at);
    struct keyed *other = memory_alloc(list->memory, bytes);
    for (unsigned shift = 0; shift < KEY_BITS; shift += DIGIT_BITS) {
        if ((differ >> shift & (DIGITS - 1)) != 0) {
            sort_by_digit(list->at, other, list->count, shift);
            struct keyed *swap = list->at;
            list->at = other;
            other = swap;
        }
    }
    memory_free(list->memory, other, bytes);
}

bool keyed_is_unique(const struct keyed_list *list)
{
    for (size_t i = 1; i < list->count; i++) {
        if (list->at[i - 1].key == list->at[i].key) {
            return false;
        }
    }
    return true;
}
