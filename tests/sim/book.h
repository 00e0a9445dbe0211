/* Who holds what and who waits in which order, by the events of one core: the replicated one, or
 * the tier EFFICIENCY of one leadership. What can be checked without knowing which of them it is, is
 * checked here: FIFO, one holder, no lease cut short. */
#ifndef HOLDFAST_TESTS_SIM_BOOK_H
#define HOLDFAST_TESTS_SIM_BOOK_H

#include "world.h"

struct book;

struct book *book_new(const char *whose); /* a word for its violations; borrowed */
void book_free(struct book *b);           /* takes NULL */

/* Names are n0, n1, ...; -1 for others. */
int book_number(struct slice name);

void book_event(struct book *b, const struct event *e);
bool book_is_held(const struct book *b, uint32_t name);
bool book_is_used(const struct book *b, uint32_t name); /* held or waited for */
bool book_holds(const struct book *b, uint32_t name, uint64_t token);
uint64_t book_first_token(const struct book *b, uint32_t name); /* of its first holder; 0: none */
bool book_has_token(const struct book *b, uint64_t token);      /* on any name */
/* Whether anything is held or waited for by this session. */
bool book_knows_session(const struct book *b, struct id session);

/* All grants that ever were, in the order of time. Starts as all zeros. */
struct granted {
    uint64_t token;
    uint64_t names; /* a bit each */
};
struct grants {
    struct granted *at;
    uint64_t count;
    uint64_t capacity;
};
void grants_add(struct grants *g, uint64_t token, int name);
void grants_free(struct grants *g); /* and starts anew */

#endif
