/* What is wrong with a cluster and what to do about it, for `holdfast status`: rules over the answers of its
 * nodes. Pure: the caller has made the requests and has read the clocks. */
#ifndef HOLDFAST_CLI_STATUS_PROBLEMS_H
#define HOLDFAST_CLI_STATUS_PROBLEMS_H

#include "wire/json_tree.h"
#include "wire/json_write.h"

/* Rising: how much it matters. */
enum status_severity {
    STATUS_INFO,     /* to know */
    STATUS_WARNING,  /* the cluster serves; one more failure may change that */
    STATUS_CRITICAL, /* the cluster does not serve, or a node will soon not */
};

enum { STATUS_PROBLEMS_MAX = 64, STATUS_TEXT = 400 };

struct status_problem {
    enum status_severity severity;
    const char *code; /* a contract with scripts */
    char text[STATUS_TEXT];
    char action[STATUS_TEXT];
};

struct status_problems {
    struct status_problem items[STATUS_PROBLEMS_MAX]; /* the worst first */
    size_t count;
};

/* One member, requested at its own client address. */
struct status_node {
    uint64_t id;
    const char *address;       /* "": not known */
    const struct json_t *view; /* its /api/v1/cluster; NULL: no answer */
    const char *problem;       /* why not */
    bool is_denied;            /* it answered, but not that */
    int64_t clock_ms;          /* its clock minus ours, if it has sent one */
    uint64_t clock_error_ms;   /* at most that much wrong; UINT64_MAX: it sent none */
};

struct status_facts {
    const struct json_t *cluster; /* /api/v1/cluster, of the leader if possible */
    const struct status_node *nodes;
    size_t node_count;
    const struct json_t *stats;   /* /api/v1/stats; NULL: not known */
    const struct json_t *tenants; /* /api/v1/auth/tenants; NULL: not known */
    const struct json_t *sinks;   /* /api/v1/sinks; NULL: not known */
};

void status_problems_find(const struct status_facts *facts, struct status_problems *out);
/* The key `problems` of an object. */
void status_problems_write(const struct status_problems *problems, struct json_writer *w);
/* "critical", "warning", "info". */
const char *status_severity_text(enum status_severity severity);

#endif
