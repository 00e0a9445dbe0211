/* The scripts and their replies. */
#include "redis/backend.h"

#include <hiredis/hiredis.h>
#include <inttypes.h>
#include <stdio.h>

#include "base/list.h"

enum backend_script {
    SCRIPT_TAKE,
    SCRIPT_HAND_OVER,
    SCRIPT_EXTEND,
    SCRIPT_GIVE_BACK,
    SCRIPT_TRIAL,
    SCRIPTS
};

/* pcall: GETRANGE fails on another user's key that is no string. Each script checks all keys before
 * it writes: all or nothing. */
static const char take_script[] =
    "local value = 'hf:' .. ARGV[1] .. ':' .. ARGV[2] .. ':' .. ARGV[5]\n"
    "if #KEYS == 1 and redis.call('SET', KEYS[1], value, 'NX', 'PX', ARGV[4]) then\n"
    "  return {1}\n"
    "end\n"
    "for i, key in ipairs(KEYS) do\n"
    "  if redis.call('EXISTS', key) == 1 then\n"
    "    local held = redis.pcall('GETRANGE', key, 0, 359)\n"
    "    if type(held) ~= 'string' then held = '' end\n"
    "    local cluster, token = string.match(held, '^hf:(%x+):(%d+):')\n"
    "    token = tonumber(token)\n"
    "    if cluster ~= ARGV[1] or token < tonumber(ARGV[3]) or token > tonumber(ARGV[2]) then\n"
    "      return {0, i, held, redis.call('PTTL', key)}\n"
    "    end\n"
    "  end\n"
    "end\n"
    "for _, key in ipairs(KEYS) do redis.call('SET', key, value, 'PX', ARGV[4]) end\n"
    "return {1}\n";

static const char hand_over_script[] =
    "local mark = 'hf:' .. ARGV[1] .. ':' .. ARGV[2] .. ':'\n"
    "if redis.pcall('GETRANGE', KEYS[1], 0, #mark - 1) ~= mark then return {0, 1} end\n"
    "redis.call('SET', KEYS[1], 'hf:' .. ARGV[1] .. ':' .. ARGV[3] .. ':' .. ARGV[5],\n"
    "           'PX', ARGV[4])\n"
    "return {1}\n";

/* A later token of ours shares the name and the key. */
static const char extend_script[] =
    "for i, key in ipairs(KEYS) do\n"
    "  local held = redis.pcall('GETRANGE', key, 0, 63)\n"
    "  if type(held) ~= 'string' then return {0, i} end\n"
    "  local cluster, token = string.match(held, '^hf:(%x+):(%d+):')\n"
    "  if cluster ~= ARGV[1] or tonumber(token) < tonumber(ARGV[2 + i]) then return {0, i} end\n"
    "end\n"
    "for _, key in ipairs(KEYS) do\n"
    "  if redis.call('PTTL', key) < tonumber(ARGV[2]) then\n"
    "    redis.call('PEXPIRE', key, ARGV[2])\n"
    "  end\n"
    "end\n"
    "return {1}\n";

/* A call with unknown outcome may have left an earlier token of this lead. */
static const char give_back_script[] =
    "local missing = 0\n"
    "for i, key in ipairs(KEYS) do\n"
    "  local held = redis.pcall('GETRANGE', key, 0, 63)\n"
    "  if type(held) ~= 'string' then held = '' end\n"
    "  local cluster, token = string.match(held, '^hf:(%x+):(%d+):')\n"
    "  token = tonumber(token)\n"
    "  if cluster == ARGV[1] and token >= tonumber(ARGV[2]) and token <= tonumber(ARGV[2 + i]) "
    "then\n"
    "    redis.call('DEL', key)\n"
    "  else\n"
    "    missing = i\n"
    "  end\n"
    "end\n"
    "return missing == 0 and {1} or {0, missing}\n";

static const char trial_script[] =
    "redis.call('SET', KEYS[1], 'hf:' .. ARGV[1] .. ': a trial', 'PX', 1000)\n"
    "return {1}\n";

static const char *const scripts[SCRIPTS] = {
    [SCRIPT_TAKE] = take_script,     [SCRIPT_HAND_OVER] = hand_over_script,
    [SCRIPT_EXTEND] = extend_script, [SCRIPT_GIVE_BACK] = give_back_script,
    [SCRIPT_TRIAL] = trial_script,
};

#define KEY_MAX (REDIS_PREFIX_MAX + REDIS_NAME_MAX)
#define NUMBER_TEXT 21

struct redis_backend {
    struct redis_backend_options options;
    struct redis_link *link;
    char cluster[33];
    struct redis_call trial;
    char trial_key[REDIS_PREFIX_MAX + 16];
    struct redis_call call;
    char keys[LIMIT_MULTILOCK_NAMES][KEY_MAX];
    char numbers[LIMIT_MULTILOCK_NAMES + 4][NUMBER_TEXT];
    uint32_t number_count;
    struct list pending;
};

struct pending_call {
    struct redis_backend *backend;
    struct list all;
    redis_result_fn done;
    void *owner;
    bool takes;
};

/* {1}: done. {0, index, value, pttl}: not done. */
static bool read_reply(const redisReply *reply, bool takes, struct redis_result *out)
{
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements < 1 ||
        reply->element[0]->type != REDIS_REPLY_INTEGER) {
        return false;
    }
    if (reply->element[0]->integer == 1) {
        out->verdict = REDIS_DONE;
        return true;
    }
    out->verdict = takes ? REDIS_HELD : REDIS_GONE;
    if (reply->elements < 2 || reply->element[1]->type != REDIS_REPLY_INTEGER ||
        reply->element[1]->integer < 1 || reply->element[1]->integer > LIMIT_MULTILOCK_NAMES) {
        return false;
    }
    out->name = (uint32_t)reply->element[1]->integer - 1;
    if (!takes) {
        return true;
    }
    if (reply->elements != 4 || reply->element[2]->type != REDIS_REPLY_STRING ||
        reply->element[3]->type != REDIS_REPLY_INTEGER) {
        return false;
    }
    out->holder = slice_make(reply->element[2]->str, reply->element[2]->len);
    out->holder_ms =
        reply->element[3]->integer < 0 ? UINT64_MAX : (uint64_t)reply->element[3]->integer;
    return true;
}

static void on_answer(void *owner, const struct redis_answer *answer)
{
    struct pending_call *pending = owner;
    struct redis_result result = {.verdict = REDIS_AWAY, .problem = ""};
    if (answer->outcome == REDIS_ANSWERED) {
        if (!read_reply(answer->reply, pending->takes, &result)) {
            result =
                (struct redis_result){.verdict = REDIS_UNSURE, .problem = "the reply is malformed"};
        }
    } else {
        result.verdict = answer->outcome == REDIS_DOUBT ? REDIS_UNSURE : REDIS_AWAY;
        result.problem = answer->problem;
    }
    redis_result_fn done = pending->done;
    void *to = pending->owner;
    list_remove(&pending->all);
    memory_free(pending->backend->options.link.net->memory, pending, sizeof(*pending));
    done(to, &result);
}

static void begin(struct redis_backend *b, enum backend_script script,
                  const struct redis_names *names)
{
    hf_assert(names->count >= 1 && names->count <= LIMIT_MULTILOCK_NAMES);
    size_t prefix = strlen(b->options.prefix);
    b->number_count = 0;
    b->call.script = script;
    b->call.key_count = names->count;
    b->call.argument_count = 0;
    for (uint32_t i = 0; i < names->count; i++) {
        hf_assert(names->at[i].len <= REDIS_NAME_MAX);
        memcpy(b->keys[i], b->options.prefix, prefix);
        memcpy(b->keys[i] + prefix, names->at[i].data, names->at[i].len);
        b->call.at[i] = slice_make(b->keys[i], prefix + names->at[i].len);
    }
}

static void add(struct redis_backend *b, struct slice argument)
{
    hf_assert(b->call.key_count + b->call.argument_count < REDIS_ARGUMENTS_MAX);
    b->call.at[b->call.key_count + b->call.argument_count++] = argument;
}

static void add_number(struct redis_backend *b, uint64_t number)
{
    char *text = b->numbers[b->number_count++];
    int len = snprintf(text, NUMBER_TEXT, "%" PRIu64, number);
    add(b, slice_make(text, (size_t)len));
}

static void finish(struct redis_backend *b, redis_result_fn done, void *owner)
{
    struct pending_call *pending = memory_alloc(b->options.link.net->memory, sizeof(*pending));
    *pending = (struct pending_call){
        .backend = b, .done = done, .owner = owner, .takes = b->call.script == SCRIPT_TAKE};
    list_init(&pending->all);
    list_append(&b->pending, &pending->all);
    redis_link_call(b->link, &b->call, on_answer, pending);
}

void redis_take(struct redis_backend *b, const struct redis_names *names, uint64_t token,
                uint64_t floor, uint64_t px_ms, struct slice client, redis_result_fn done,
                void *owner)
{
    hf_assert(token >= floor && token < LIMIT_NUMBER && px_ms > 0 && client.len <= LIMIT_CLIENT);
    begin(b, SCRIPT_TAKE, names);
    add(b, slice_of(b->cluster));
    add_number(b, token);
    add_number(b, floor);
    add_number(b, px_ms);
    add(b, client);
    finish(b, done, owner);
}

void redis_hand_over(struct redis_backend *b, struct slice name, uint64_t from, uint64_t to,
                     uint64_t px_ms, struct slice client, redis_result_fn done, void *owner)
{
    const struct redis_names names = {.count = 1, .at = {name}};
    hf_assert(to < LIMIT_NUMBER && px_ms > 0 && client.len <= LIMIT_CLIENT);
    begin(b, SCRIPT_HAND_OVER, &names);
    add(b, slice_of(b->cluster));
    add_number(b, from);
    add_number(b, to);
    add_number(b, px_ms);
    add(b, client);
    finish(b, done, owner);
}

void redis_extend(struct redis_backend *b, const struct redis_names *names, const uint64_t *tokens,
                  uint64_t px_ms, redis_result_fn done, void *owner)
{
    hf_assert(px_ms > 0);
    begin(b, SCRIPT_EXTEND, names);
    add(b, slice_of(b->cluster));
    add_number(b, px_ms);
    for (uint32_t i = 0; i < names->count; i++) {
        add_number(b, tokens[i]);
    }
    finish(b, done, owner);
}

void redis_give_back(struct redis_backend *b, const struct redis_names *names,
                     const uint64_t *tokens, uint64_t floor, redis_result_fn done, void *owner)
{
    begin(b, SCRIPT_GIVE_BACK, names);
    add(b, slice_of(b->cluster));
    add_number(b, floor);
    for (uint32_t i = 0; i < names->count; i++) {
        add_number(b, tokens[i]);
    }
    finish(b, done, owner);
}

struct redis_backend *redis_backend_new(const struct redis_backend_options *options)
{
    struct redis_backend *b = memory_alloc(options->link.net->memory, sizeof(*b));
    memset(b, 0, sizeof(*b));
    b->options = *options;
    list_init(&b->pending);
    snprintf(b->cluster, sizeof(b->cluster), "%016" PRIx64 "%016" PRIx64, options->cluster.high,
             options->cluster.low);
    /* No lock has a name with an empty segment. */
    int len = snprintf(b->trial_key, sizeof(b->trial_key), "%s//trial", options->prefix);
    b->trial = (struct redis_call){.script = SCRIPT_TRIAL, .key_count = 1, .argument_count = 1};
    b->trial.at[0] = slice_make(b->trial_key, (size_t)len);
    b->trial.at[1] = slice_of(b->cluster);
    for (unsigned i = 0; i < SCRIPTS; i++) {
        b->options.link.scripts[i] = scripts[i];
    }
    b->options.link.script_count = SCRIPTS;
    b->options.link.trial = &b->trial;
    b->link = redis_link_new(&b->options.link);
    return b;
}

void redis_backend_close(struct redis_backend *b)
{
    if (b != NULL) {
        redis_link_close(b->link); /* drops outstanding calls */
        while (!list_is_empty(&b->pending)) {
            struct pending_call *pending =
                LIST_OBJECT(list_take(&b->pending), struct pending_call, all);
            memory_free(b->options.link.net->memory, pending, sizeof(*pending));
        }
        memory_free(b->options.link.net->memory, b, sizeof(*b));
    }
}

bool redis_backend_is_usable(const struct redis_backend *b)
{
    return redis_link_is_usable(b->link);
}

void redis_backend_view(const struct redis_backend *b, struct redis_link_view *out)
{
    redis_link_view(b->link, out);
}
