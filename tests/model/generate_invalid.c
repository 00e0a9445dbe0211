/* Makes a command invalid, each time in another of the ways in which a command can be: the core has
 * to refuse it as the model does. */
#include "generator.h"

static struct slice bad_name(struct generator *g)
{
    static const char *const bad[] = {"", "a//b", "/", "a/..", ".", "a\nb", "\xc3(", "\xc2\x80"};
    return slice_of(bad[random_below(&g->random, 8)]);
}

static void invalid_acquire(struct generator *g, struct command_acquire *a)
{
    struct random *r = &g->random;
    switch (random_below(r, 13)) {
    case 12:
        a->max_hold_ms = random_chance(r, 50) ? LIMIT_TTL_MIN_MS - 1 : LIMIT_HELD_MAX_MS + 1;
        break;
    case 0:
        a->lease = (struct id){0, 0};
        break;
    case 1:
        a->client = random_chance(r, 50) ? slice_of("a\tb") : slice_make(NULL, 0);
        break;
    case 2:
        a->owner = slice_of("\x7f");
        break;
    case 3:
        a->names.count = random_chance(r, 50) ? 0 : a->names.count;
        a->names.at[0] = bad_name(g);
        break;
    case 4:
        a->names.at[a->names.count] = a->names.at[0];
        a->names.count++;
        a->mode = MODE_EXCLUSIVE;
        a->limit = 0;
        a->permits = 0;
        a->value = slice_make(NULL, 0);
        break;
    case 5:
        a->mode = (a->mode + 1) % MODE_COUNT;
        break;
    case 6:
        a->limit = random_chance(r, 50) ? LIMIT_HOLDERS + 1 : 0;
        break;
    case 7:
        a->ttl_ms = random_chance(r, 50) ? LIMIT_TTL_MIN_MS - 1 : LIMIT_TTL_MAX_MS + 1;
        break;
    case 8:
        a->delay_ms = LIMIT_DELAY_MAX_MS + 1;
        break;
    case 9:
        a->metadata = slice_of("\xff");
        break;
    case 10:
        a->trace = slice_of("00-trace");
        break;
    default:
        a->value = slice_of("value");
        break;
    }
}

static void invalid_header(struct generator *g, struct command *c)
{
    switch (random_below(&g->random, 5)) {
    case 0:
        c->request_id = slice_of("with space");
        break;
    case 1:
        c->seq = 3;
        c->request_id = slice_of("both");
        break;
    case 2:
        c->session = (struct id){0, 0};
        c->seq = 3;
        break;
    case 3:
        c->session = (struct id){0, 0};
        break;
    default:
        c->seq = LIMIT_NUMBER;
        break;
    }
}

void generate_invalid(struct generator *g, struct command *c)
{
    struct random *r = &g->random;
    if (random_chance(r, 30)) {
        invalid_header(g, c);
        return;
    }
    switch (c->type) {
    case COMMAND_ACQUIRE:
        invalid_acquire(g, &c->acquire);
        break;
    case COMMAND_SESSION_OPEN:
        c->session_open.linger_ms = random_chance(r, 50) ? LIMIT_LINGER_MAX_MS + 1 : 0;
        c->session_open.ttl_ms = random_chance(r, 50) ? c->session_open.ttl_ms : 0;
        break;
    case COMMAND_RELEASE:
        c->release.name = random_chance(r, 50) ? bad_name(g) : slice_make(NULL, 0);
        c->release.token = random_chance(r, 50) ? 0 : c->release.token;
        break;
    case COMMAND_RENEW:
        c->renew.ttl_ms = random_chance(r, 50) ? 99 : 0;
        c->renew.client = slice_of("\x01");
        break;
    case COMMAND_ALERT_SET:
        c->alert_set.held_ms = random_chance(r, 50) ? LIMIT_HELD_MIN_MS - 1 : LIMIT_HELD_MAX_MS + 1;
        break;
    case COMMAND_ALERT_REMOVE:
        c->alert_remove.prefix = random_chance(r, 50) ? slice_of("a\n") : slice_of("//");
        break;
    case COMMAND_LONG_HELD:
        c->long_held.token = 0;
        break;
    case COMMAND_SINK_POSITION:
        c->sink_position.name = slice_make(NULL, 0);
        break;
    case COMMAND_FORCE_UNLOCK:
        c->force_unlock.actor = slice_make(NULL, 0);
        break;
    case COMMAND_REVOKE:
        c->revoke.reason = random_chance(r, 50) ? slice_make(NULL, 0) : c->revoke.reason;
        c->revoke.grace_ms = LIMIT_DELAY_MAX_MS + 1;
        break;
    case COMMAND_FENCE_CHECK:
        c->fence_check.resource = random_chance(r, 50) ? bad_name(g) : c->fence_check.resource;
        c->fence_check.token = random_chance(r, 50) ? 0 : c->fence_check.token;
        break;
    case COMMAND_FENCE_RESET:
        c->fence_reset.actor = slice_make(NULL, 0);
        break;
    case COMMAND_PROCLAIM:
        c->proclaim.value = slice_of("\xfe");
        break;
    case COMMAND_POLICY_CHANGE:
        invalid_policy_change(g, c);
        break;
    case COMMAND_TRANSACT:
        invalid_transact(g, c);
        break;
    default:
        break;
    }
}
