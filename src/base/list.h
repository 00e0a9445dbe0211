/* An intrusive doubly linked list. A link in no list points to itself, so removing it twice is
 * harmless. */
#ifndef HOLDFAST_BASE_LIST_H
#define HOLDFAST_BASE_LIST_H

#include <stdbool.h>
#include <stddef.h>

struct list {
    struct list *next;
    struct list *prev;
};

/* The object whose member `member` is `link`. */
#define LIST_OBJECT(link, type, member) ((type *)(void *)((char *)(link)-offsetof(type, member)))

/* For heads and links. */
static inline void list_init(struct list *list)
{
    list->next = list;
    list->prev = list;
}

static inline bool list_is_empty(const struct list *head)
{
    return head->next == head;
}

static inline void list_remove(struct list *link)
{
    link->prev->next = link->next;
    link->next->prev = link->prev;
    list_init(link);
}

/* From whatever list it is in. */
static inline void list_append(struct list *head, struct list *link)
{
    list_remove(link);
    link->prev = head->prev;
    link->next = head;
    head->prev->next = link;
    head->prev = link;
}

/* NULL when there is none. */
static inline struct list *list_take(struct list *head)
{
    if (list_is_empty(head)) {
        return NULL;
    }
    struct list *first = head->next;
    list_remove(first);
    return first;
}

/* To the end of `to`. */
static inline void list_move_all(struct list *to, struct list *from)
{
    for (struct list *link = list_take(from); link != NULL; link = list_take(from)) {
        list_append(to, link);
    }
}

#endif
