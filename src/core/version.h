/* The version of the state machine, and how it shows in the format of a record.
 *
 * Each version adds commands, fields or rules. `upgrade` raises the version of a state when all
 * members support the new one; until then, commands of a later version are refused. The log, the
 * snapshot and the messages between members have no fields of a later version than the state, so
 * every member can read them.
 *   1  locks, sessions, elections, fence marks
 *   2  keys, counters and transactions (S13); notes of the tier without a log (S10)
 *   3  `advance` raises C by 64, not by one (S3.1, decision 22); the audit trail marks notes;
 *      the answer `not_held` is remembered (S8)
 *   4  a fence check refuses tokens that were never issued; `fence_reset` (S11); requests that are
 *      done are remembered in three memories (S8.3); counters may have a TTL (S13.5); the node of
 *      a stream is recorded (S4.6)
 *   5  heads of snapshot records have a byte for the mode and a number for the flags; an acquire may
 *      have a trace (S4.4)
 *   6  each tenant has its own memories; the policy: tenants, principals, tokens, barred serials; commands
 *      have a principal, sessions an owner (S14)
 *   7  rows of true times, long-held rules, max_hold (S16); `if_token` of operators; positions of
 *      event sinks
 *   8  the version of a counter is its number and its deadline (S13.3); keys with a TTL of 1 ms to 10
 *      years, and without a TTL (S13.1); values (S13.9)
 *   9  lists, sorted sets and sets (S13.11); values of keys of up to 64 KiB, transactions of 160
 *      KiB */
#ifndef HOLDFAST_CORE_VERSION_H
#define HOLDFAST_CORE_VERSION_H

#include <stdint.h>

#define CORE_VERSION 9

/* The first byte of a record is its format: the version that its list of fields is taken from. The
 * versions up to 4 have one list, format 1. */
#define RECORD_FORMAT_1_VERSION 4

static inline uint8_t record_format(uint32_t version)
{
    return version <= RECORD_FORMAT_1_VERSION ? 1 : (uint8_t)version;
}

/* The version of a format; 0: no program writes this format. The caller compares it with
 * CORE_VERSION: a higher one was written by a newer program. */
static inline uint32_t record_version(uint8_t format)
{
    return format == 1 ? RECORD_FORMAT_1_VERSION : format > RECORD_FORMAT_1_VERSION ? format : 0;
}

#endif
