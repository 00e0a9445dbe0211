/* Fencing tokens for Redis clients. HF.ACQUIRE replies with the token; HF.TOKEN returns it again.
 *
 * A holder that paused past its TTL must not get the token of the next grant, or the fence would
 * accept it. So HF.TOKEN requires the value of the acquire, and replies nil for another value. */
#include "service/resp/conn.h"

#include "service/resp/number.h"

static const char usage[] =
    "syntax error: HF.ACQUIRE key value PX milliseconds [WAIT milliseconds] [MAXHOLD milliseconds]";

/* Returns NULL, or a description of the error. */
static const char *read_options(const struct service *s, const struct slice *args, uint32_t count,
                                struct resp_set *out)
{
    bool has_ttl = false;
    bool has_wait = false;
    for (uint32_t i = 3; i + 1 < count; i += 2) {
        int64_t wait_ms;
        if (resp_is_word(args[i], "PX") && !has_ttl) {
            const char *problem =
                resp_ttl_ms(s, (struct resp_time){args[i + 1], 1, false, args[0]}, &out->ttl_ms);
            if (problem != NULL) {
                return problem;
            }
            has_ttl = true;
        } else if (resp_is_word(args[i], "WAIT") && !has_wait) {
            if (!resp_parse_number(args[i + 1], &wait_ms) || wait_ms < 0 ||
                wait_ms > LIMIT_RESP_WAIT_MS) {
                return "invalid WAIT: it is 0 to 86400000 ms (24 h)";
            }
            out->wait_ms = (uint64_t)wait_ms;
            has_wait = true;
        } else if (resp_is_word(args[i], "MAXHOLD") && out->max_hold_ms == 0) {
            int64_t hold_ms;
            if (!resp_parse_number(args[i + 1], &hold_ms) || hold_ms < LIMIT_TTL_MIN_MS ||
                hold_ms > LIMIT_HELD_MAX_MS) {
                return "invalid MAXHOLD: it is 100 to 2678400000 ms (31 days)";
            }
            out->max_hold_ms = (uint32_t)hold_ms;
        } else {
            return usage;
        }
    }
    return has_ttl && count % 2 == 1 ? NULL : usage;
}

bool resp_token_is_acquire(const struct service *s, const struct slice *args, uint32_t count,
                           struct resp_set *out)
{
    if (count < 3 || args[2].len > LIMIT_VALUE) {
        return false;
    }
    *out = (struct resp_set){.value = args[2], .gives_token = true};
    return read_options(s, args, count, out) == NULL;
}

/* The command is invalid: a valid one is an acquire (acquire.c). Scripts and MULTI refuse it. */
void key_acquire(struct keyspace *k, const struct slice *args, uint32_t count,
                 const struct key_sink *to)
{
    struct resp_set ignored = {.wait_ms = 0};
    const char *problem = read_options(k->service, args, count, &ignored);
    if (problem != NULL) {
        to->error(to->ctx, "ERR", problem);
    } else if (args[2].len > LIMIT_VALUE) {
        to->error(to->ctx, "ERR", "a value is at most 4,096 bytes");
    } else if (keyspace_key(k, args[1], to) != NULL) {
        /* The leader changed after the first check. */
        to->error(to->ctx, "TRYAGAIN", "the leader has just changed; nothing was done");
    }
}

/* The value; for a hash one of its fields, as Redisson does. */
static bool is_owner(const struct key *key, struct slice value)
{
    return (key->kind == KEY_STRING && slice_equal(key->value, value)) ||
           (key->kind == KEY_HASH && resp_hash_has(key->value, value));
}

void key_token(struct keyspace *k, const struct slice *args, uint32_t count,
               const struct key_sink *to)
{
    if (count == 2) {
        to->error(
            to->ctx, "ERR",
            "HF.TOKEN needs the value that the lock was acquired with (HF.TOKEN key value): only "
            "its owner may read the token; HF.ACQUIRE key value PX ms returns it directly");
        return;
    }
    if (count > 3) {
        to->error(to->ctx, "ERR", "wrong number of arguments for 'hf.token' command");
        return;
    }
    struct key *key = keyspace_key(k, args[1], to);
    if (key == NULL) {
        return;
    }
    key->is_compared = true;
    if (!is_owner(key, args[2])) {
        to->null(to->ctx);
    } else if (key->seen.token == 0) {
        to->error(to->ctx, "ERR", "the lock gets its token after the script: call HF.TOKEN then");
    } else {
        to->integer(to->ctx, (int64_t)key->seen.token);
    }
}
