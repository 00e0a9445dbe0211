/* Names of quotas, and the entries of tenants, see quota.h. */
#include "replica/quota.h"

#include "base/panic.h"

enum { BUCKETS = 256 };

struct quota_book {
    const struct memory *memory;
    struct quota_tenant *tenants[BUCKETS]; /* by number */
};

const char *quota_name(enum quota quota)
{
    static const char *const names[] = {
#define X(name) #name,
        QUOTA_LIST(X)
#undef X
    };
    _Static_assert(sizeof(names) / sizeof(names[0]) == QUOTA_COUNT, "enum quota has QUOTA_LIST");
    hf_assert(quota < QUOTA_COUNT);
    return names[quota];
}

uint64_t quota_of(const struct quotas *quotas, enum quota quota)
{
    const uint64_t all[] = {
#define X(name) quotas->name,
        QUOTA_LIST(X)
#undef X
    };
    hf_assert(quota < QUOTA_COUNT);
    return all[quota];
}

bool quotas_limit(const struct quotas *quotas)
{
#define X(name) || quotas->name != 0
    return false QUOTA_LIST(X);
#undef X
}

/* ---- entries ---- */

struct quota_book *quota_book_new(const struct memory *memory)
{
    struct quota_book *book = memory_alloc(memory, sizeof(*book));
    memset(book, 0, sizeof(*book));
    book->memory = memory;
    return book;
}

static void drop(struct quota_book *book, struct quota_tenant **at)
{
    struct quota_tenant *t = *at;
    *at = t->next;
    memory_free(book->memory, t, sizeof(*t));
}

void quota_book_free(struct quota_book *book)
{
    if (book == NULL) {
        return;
    }
    for (unsigned i = 0; i < BUCKETS; i++) {
        while (book->tenants[i] != NULL) {
            drop(book, &book->tenants[i]);
        }
    }
    memory_free(book->memory, book, sizeof(*book));
}

const struct quota_tenant *quota_tenant_find(const struct quota_book *book, uint32_t number)
{
    const struct quota_tenant *t = book->tenants[number % BUCKETS];
    while (t != NULL && t->number != number) {
        t = t->next;
    }
    return t;
}

struct quota_tenant *quota_tenant_get(struct quota_book *book, uint32_t number)
{
    struct quota_tenant *t = (struct quota_tenant *)(uintptr_t)quota_tenant_find(book, number);
    if (t == NULL) {
        struct quota_tenant **bucket = &book->tenants[number % BUCKETS];
        t = memory_alloc(book->memory, sizeof(*t));
        *t = (struct quota_tenant){.number = number, .next = *bucket};
        *bucket = t;
    }
    return t;
}

void quota_book_prune(struct quota_book *book, const struct policy *policy)
{
    for (unsigned i = 0; i < BUCKETS; i++) {
        struct quota_tenant **at = &book->tenants[i];
        while (*at != NULL) {
            struct tenant_view tenant;
            bool is_limited =
                policy_tenant(policy, (*at)->number, &tenant) && quotas_limit(&tenant.quotas);
            if (!is_limited && (*at)->watchers == 0 && quota_use_is_nothing(&(*at)->in_flight)) {
                drop(book, at);
            } else {
                at = &(*at)->next;
            }
        }
    }
}

/* ---- what is in flight ---- */

void quota_take(struct quota_book *book, const struct quota_use *use, uint64_t now_us)
{
    if (use->rate != 0) {
        rate_take(&quota_tenant_get(book, use->tenant)->requests, use->rate, now_us);
    }
}

void quota_use_add(struct quota_use *sum, const struct quota_use *use)
{
    hf_assert(!sum->is_counted || sum->tenant == use->tenant);
    sum->is_counted = true;
    sum->tenant = use->tenant;
    sum->locks += use->locks;
    sum->sessions += use->sessions;
    sum->waiters += use->waiters;
    sum->bytes += use->bytes;
}

void quota_propose(struct quota_book *book, const struct quota_use *use)
{
    if (use->is_counted) {
        quota_use_add(&quota_tenant_get(book, use->tenant)->in_flight, use);
    }
}

void quota_settle(struct quota_book *book, const struct quota_use *use)
{
    if (use->is_counted) {
        struct quota_use *sum = &quota_tenant_get(book, use->tenant)->in_flight;
        hf_assert(sum->locks >= use->locks && sum->sessions >= use->sessions);
        hf_assert(sum->waiters >= use->waiters && sum->bytes >= use->bytes);
        sum->locks -= use->locks;
        sum->sessions -= use->sessions;
        sum->waiters -= use->waiters;
        sum->bytes -= use->bytes;
    }
}
