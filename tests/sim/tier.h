/* The tier EFFICIENCY (S10) on simulated nodes: tier.c plugs the production one in, as
 * src/node/node_tier.c and forward.c do; tier_truth.c checks what it does. */
#ifndef HOLDFAST_TESTS_SIM_TIER_H
#define HOLDFAST_TESTS_SIM_TIER_H

#include "replica/memory_tier.h"
#include "world.h"

/* ---- tier.c ---- */
void tier_open(struct sim_node *n);
void tier_close(struct sim_node *n); /* with the node's life */
/* The lead came or went. */
void tier_follow(struct sim_node *n);
/* Each turn, and when it wants to be called again in node time. */
void tier_run(struct sim_node *n);
uint64_t tier_next_us(const struct sim_node *n);
void tier_node_gone(struct sim_node *n, const struct command *gone);
/* On the leader, for every command. TIER_TAKEN: clients_tier_result was called. */
enum tier_taken tier_submit(struct sim_node *n, enum tier requested, const struct command *command,
                            void *cookie);

/* ---- tier_truth.c ---- */
struct tier_truth *tier_truth_begin(const struct sim_node *n);
void tier_truth_end(struct tier_truth *t); /* takes NULL */
/* An event of the tier; one of the replicated state on a node whose tier is on. */
void tier_truth_event(const struct sim_node *n, const struct event *e);
void tier_truth_replicated(const struct sim_node *n, const struct event *e);
/* What a command was answered; `held`: its token was, before. */
bool tier_truth_holds(const struct sim_node *n, const struct command *command);
void tier_truth_result(const struct sim_node *n, enum tier requested, const struct command *command,
                       bool held, const struct result *result);
void tier_truth_epoch(uint64_t epoch); /* on first sight, in log order */
uint64_t tier_truth_highest(void);     /* token of all leaders */
bool tier_truth_has_grant(uint64_t token, uint32_t name);
void tier_truth_forget(void);

#endif
