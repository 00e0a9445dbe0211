/* The memory limit, see conn_budget.h. */
#include "service/http/conn_budget.h"

#include "service/http/http2_conn.h"

/* Bytes of output up to which a last frame is appended. A connection with more does not read, or
 * holds the memory to be freed. */
enum { LAST_FRAME_BEHIND = 32 << 10 };

static void *account_alloc(void *ctx, size_t size)
{
    struct conn_account *account = ctx;
    conn_account_add(account, size);
    return memory_alloc(account->from, size);
}

static void account_free(void *ctx, void *block, size_t size)
{
    struct conn_account *account = ctx;
    conn_account_subtract(account, size);
    memory_free(account->from, block, size);
}

void conn_budget_open(struct conn_budget *budget, size_t max)
{
    *budget = (struct conn_budget){.max = max};
    list_init(&budget->held_back);
}

void conn_account_open(struct conn_account *account, struct conn_budget *budget,
                       const struct memory *from)
{
    *account = (struct conn_account){
        .memory = {account_alloc, account_free, account}, .from = from, .budget = budget};
}

void conn_account_close(const struct conn_account *account)
{
    hf_assert(account->used == 0);
}

void conn_account_add(struct conn_account *account, size_t bytes)
{
    account->used += bytes;
    account->budget->used += bytes;
    account->budget->is_due |= conn_budget_is_over(account->budget);
}

void conn_account_subtract(struct conn_account *account, size_t bytes)
{
    hf_assert(bytes <= account->used && account->used <= account->budget->used);
    account->used -= bytes;
    account->budget->used -= bytes;
}

bool conn_budget_takes_input(struct http_conn *conn)
{
    struct conn_budget *budget = conn->account.budget;
    if (budget->turn_bytes < CONN_TURN_BYTES && !conn_budget_is_over(budget)) {
        return true;
    }
    if (list_is_empty(&conn->held_back)) {
        list_append(&budget->held_back, &conn->held_back);
    }
    return false;
}

void conn_budget_begin_turn(struct service *s)
{
    struct list *link;
    s->budget.turn_bytes = 0;
    while ((link = list_take(&s->budget.held_back)) != NULL) {
        conn_mark_ready(LIST_OBJECT(link, struct http_conn, held_back));
    }
}

static struct http_conn *largest(struct service *s)
{
    struct http_conn *found = NULL;
    for (struct list *link = s->conns.next; link != &s->conns; link = link->next) {
        struct http_conn *conn = LIST_OBJECT(link, struct http_conn, link);
        if (!conn->is_broken_off && (found == NULL || conn->account.used > found->account.used)) {
            found = conn;
        }
    }
    return found;
}

static void close_conn(struct http_conn *conn)
{
    bool is_reading = conn->http2 != NULL && conn->out.capacity <= LAST_FRAME_BEHIND;
    conn->is_broken_off = true;
    if (conn->http2 != NULL) {
        http2_conn_break_off(conn, is_reading);
    } else {
        api_request_abandon(&conn->x);
    }
    if (!is_reading) {
        buffer_close(&conn->out);
    }
    buffer_close(&conn->in);
    buffer_close(&conn->body);
    conn->piece = slice_make(NULL, 0);
    conn_set_state(conn, CONN_CLOSING);
    conn_mark_ready(conn);
}

static bool close_largest(struct service *s)
{
    struct http_conn *conn = largest(s);
    size_t used = conn == NULL ? 0 : conn->account.used;
    if (resp_break_off_largest(s, used)) {
        return true;
    }
    if (used > 0) {
        close_conn(conn);
    }
    return used > 0;
}

void conn_budget_enforce(struct service *s)
{
    s->budget.is_due = false;
    for (int i = 0; i < CONN_CLOSED_AT_ONCE && conn_budget_is_over(&s->budget); i++) {
        if (!close_largest(s)) {
            return; /* closing connections hold the rest */
        }
        s->budget.closed++;
    }
    s->budget.is_due = conn_budget_is_over(&s->budget);
}
