/* Memory, bytes and lists for the model. */
#include "model_state.h"

void *model_alloc(size_t size)
{
    void *block = calloc(1, size > 0 ? size : 1);
    hf_assert(block != NULL);
    return block;
}

struct owned owned_copy(struct slice bytes)
{
    struct owned text = {model_alloc(bytes.len), bytes.len};
    if (bytes.len > 0) {
        memcpy(text.data, bytes.data, bytes.len);
    }
    return text;
}

void owned_free(struct owned *text)
{
    free(text->data);
    *text = (struct owned){NULL, 0};
}

struct slice owned_slice(const struct owned *text)
{
    return slice_make(text->data, text->len);
}

void model_list_add(struct list *list, void *item)
{
    if (list->count == list->size) {
        list->size = list->size == 0 ? 8 : list->size * 2;
        list->at = realloc(list->at, list->size * sizeof(*list->at));
        hf_assert(list->at != NULL);
    }
    list->at[list->count++] = item;
}

void model_list_remove_at(struct list *list, size_t i)
{
    hf_assert(i < list->count);
    memmove(&list->at[i], &list->at[i + 1], (list->count - i - 1) * sizeof(*list->at));
    list->count--;
}

bool model_list_remove(struct list *list, const void *item)
{
    for (size_t i = 0; i < list->count; i++) {
        if (list->at[i] == item) {
            model_list_remove_at(list, i);
            return true;
        }
    }
    return false;
}

void model_list_free(struct list *list)
{
    free(list->at);
    *list = (struct list){NULL, 0, 0};
}

void *model_scratch(struct model *m, size_t size)
{
    void *block = model_alloc(size);
    model_list_add(&m->scratch, block);
    return block;
}

struct slice model_keep(struct model *m, struct slice bytes)
{
    if (bytes.len == 0) {
        return slice_make(NULL, 0);
    }
    void *copy = model_scratch(m, bytes.len);
    memcpy(copy, bytes.data, bytes.len);
    return slice_make(copy, bytes.len);
}

void model_forget_scratch(struct model *m)
{
    for (size_t i = 0; i < m->scratch.count; i++) {
        free(m->scratch.at[i]);
    }
    m->scratch.count = 0;
}

uint64_t model_print(uint64_t print, struct slice bytes)
{
    print ^= UINT64_C(14695981039346656037);
    for (size_t i = 0; i < bytes.len; i++) {
        print = (print ^ bytes.data[i]) * UINT64_C(1099511628211);
    }
    return print;
}
