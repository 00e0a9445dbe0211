/* Common parts of answers: ids, times, holders, and what other clients see of a holder (S4.4). */
#ifndef HOLDFAST_SERVICE_HTTP_REPLY_H
#define HOLDFAST_SERVICE_HTTP_REPLY_H

#include "core/view.h"
#include "service/service.h"
#include "wire/json_write.h"

/* Hexadecimal digits of an id. */
enum { REPLY_ID = 32 };
void reply_format_id(struct id id, char out[REPLY_ID + 1]);
/* False: not an id. Lower case only: each id has one form. */
bool reply_parse_id(struct slice text, struct id *out);
void reply_put_id(struct json_writer *w, const char *key, struct id id);

/* Wall-clock time in ms, for display. */
uint64_t reply_wall_ms(const struct service *s, uint64_t cluster_ms);

/* 0 if the deadline (cluster time) has passed. */
uint64_t reply_left_ms(const struct service *s, uint64_t deadline_ms);

/* A cluster time as RFC 3339; null for 0 and UINT64_MAX. */
void reply_put_when(struct json_writer *w, const struct service *s, const char *key,
                    uint64_t cluster_ms);
/* expires_at and expires_in_ms. */
/* `expires_in_ms`, null without a deadline; the other one also `expires_at`. */
void reply_put_left(struct json_writer *w, const struct service *s, uint64_t deadline_ms);
void reply_put_expiry(struct json_writer *w, const struct service *s, uint64_t deadline_ms);

/* The state stores metadata as JSON text, checked on input. Empty is null. */
void reply_put_metadata(struct json_writer *w, struct slice metadata);
/* The wall clock at that moment, if the state has it; else by the present difference of the clocks. */
uint64_t reply_since_ms(const struct service *s, uint64_t since_ms, uint64_t since_wall_ms);
void reply_put_since(struct json_writer *w, const struct service *s, const char *key,
                     uint64_t since_ms, uint64_t since_wall_ms);
/* hold_until; nothing if there is no max_hold. */
void reply_put_hold(struct json_writer *w, const struct service *s, uint64_t hold_until_ms);
/* Left out if empty. */
void reply_put_trace(struct json_writer *w, struct slice trace);

void reply_holder_members(struct json_writer *w, const struct service *s,
                          const struct holder_view *holder);

/* If it changes, all locks of the tier EFFICIENCY are lost (S10.2). */
uint64_t reply_epoch(const struct service *s);
/* Of the leader, not of an election. */
void reply_put_epoch(struct json_writer *w, const struct service *s);

#endif
