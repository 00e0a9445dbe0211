/* The overlay of keyspace.h, and its `transact`. */
#include "service/resp/keyspace_state.h"

#include <stdio.h>

#include "base/text.h"
#include "service/resp/commands.h"
#include "service/resp/conn.h"
#include "service/state.h"

void keyspace_open(struct keyspace *k, struct service *s)
{
    k->service = s;
    bump_init(&k->arena, s->memory, KEYSPACE_ARENA_MAX);
    k->checks = memory_alloc(s->memory, LIMIT_TRANSACT_BYTES);
    k->effects = memory_alloc(s->memory, LIMIT_TRANSACT_BYTES);
    uncommitted_open(&k->uncommitted, s->memory);
}

void keyspace_close(struct keyspace *k)
{
    memory_free(k->service->memory, k->checks, LIMIT_TRANSACT_BYTES);
    memory_free(k->service->memory, k->effects, LIMIT_TRANSACT_BYTES);
    bump_close(&k->arena);
    uncommitted_close(&k->uncommitted);
}

bool keyspace_begin(struct keyspace *k, struct caller_id who, struct slice client,
                    bool is_read_only)
{
    bump_reset(&k->arena);
    k->core = service_tier_core(k->service, k->service->options.resp_tier);
    k->who = who;
    k->client = client;
    k->now_ms = service_cluster_ms(k->service);
    k->is_read_only = is_read_only;
    k->database = 0;
    k->is_script = false;
    k->is_flush = false;
    k->is_early = false;
    k->is_hopeful = false;
    k->is_busy = false;
    k->is_expecting = false;
    k->is_settled = false;
    k->waits = false;
    k->is_denied = false;
    k->conn = NULL;
    k->count = 0;
    k->message_count = 0;
    return k->core != NULL;
}

void keyspace_enter_script(struct keyspace *k)
{
    k->is_script = true;
}

struct service *keyspace_service(const struct keyspace *k)
{
    return k->service;
}

uint64_t keyspace_now_ms(const struct keyspace *k)
{
    return k->now_ms;
}

struct bump *keyspace_arena(struct keyspace *k)
{
    return &k->arena;
}

void keyspace_call(struct keyspace *k, const struct slice *args, uint32_t count,
                   const struct key_sink *to)
{
    const struct resp_command *command = count > 0 ? resp_command_find(args[0]) : NULL;
    if (command == NULL) {
        to->error(to->ctx, "ERR", "Unknown Redis command called from script");
    } else if (command->run == NULL || (command->flags & RESP_NO_SCRIPT)) {
        to->error(to->ctx, "ERR", "This Redis command is not allowed from script");
    } else if (!resp_command_takes(command, count)) {
        to->error(to->ctx, "ERR", "Wrong number of args calling Redis command from script");
    } else {
        command->run(k, args, count, to);
    }
}

bool keyspace_copy(struct keyspace *k, struct slice *text, const struct key_sink *to)
{
    uint8_t *copy = text->len == 0 ? (uint8_t *)"" : bump_take(&k->arena, text->len);
    if (copy == NULL) {
        to->error(to->ctx, "ERR", "the transaction takes too much memory");
        return false;
    }
    if (text->len > 0) {
        memcpy(copy, text->data, text->len);
    }
    text->data = copy;
    return true;
}

static struct key *find_key(struct keyspace *k, struct slice name)
{
    for (uint32_t i = 0; i < k->count; i++) {
        if (slice_equal(k->keys[i].name, name)) {
            return &k->keys[i];
        }
    }
    return NULL;
}

void keyspace_deny(struct keyspace *k, enum right right, struct slice name,
                   const struct key_sink *to)
{
    char text[AUTH_TEXT];
    auth_denial(service_policy(k->service), k->who, right, name, text);
    if (!k->is_denied) {
        memcpy(k->denial, text, sizeof(text));
    }
    k->is_denied = true;
    to->error(to->ctx, "NOPERM", text);
}

/* A read without a run is answered from the state alone: it must not see what may be refused. */
static void view(struct keyspace *k, struct slice name, struct key_view *out)
{
    uint32_t tenant = k->who.tenant;
    enum uncommitted_state state = k->is_read_only || k->is_settled
                                       ? UNCOMMITTED_NONE
                                       : uncommitted_look(&k->uncommitted, tenant, name, out);
    k->is_expecting = k->is_expecting || state == UNCOMMITTED_KNOWN;
    if (state != UNCOMMITTED_KNOWN) {
        view_key(k->core, tenant, name, out);
    }
    bool is_free = out->kind == KEY_ABSENT || out->kind == KEY_RESERVED;
    k->is_busy = k->is_busy || state == UNCOMMITTED_BUSY ||
                 (k->is_early && state == UNCOMMITTED_NONE && (is_free || !k->is_hopeful));
}

bool resp_name_in(const struct service *s, uint32_t database, struct slice key,
                  uint8_t out[RESP_NAME_BYTES], struct slice *name)
{
    if (resp_is_upgraded(s)) {
        return resp_name_of_key(database, key, out, name);
    }
    *name = key;
    return database == 0 && text_is_name(key);
}

bool keyspace_name(const struct keyspace *k, struct slice key, uint8_t out[RESP_NAME_BYTES],
                   struct slice *name)
{
    return resp_name_in(k->service, k->database, key, out, name);
}

bool keyspace_can_exist(const struct keyspace *k, struct slice key)
{
    uint8_t bytes[RESP_NAME_BYTES];
    struct slice name;
    return keyspace_name(k, key, bytes, &name);
}

static const char *invalid_key(const struct keyspace *k)
{
    return resp_is_upgraded(k->service)
               ? "invalid key: a key has 1 to 512 bytes, and at most 512 as a lock name, in which "
                 "another database and bytes that are no text take more"
               : "invalid key: until all nodes are upgraded, a key is a lock name, 1 to 512 bytes "
                 "of "
                 "UTF-8 without control characters and without an empty, '.' or '..' segment "
                 "between slashes";
}

struct key *keyspace_key(struct keyspace *k, struct slice name, const struct key_sink *to)
{
    uint8_t bytes[RESP_NAME_BYTES];
    if (!keyspace_name(k, name, bytes, &name)) {
        to->error(to->ctx, "ERR", invalid_key(k));
        return NULL;
    }
    bool is_lasting = !k->is_read_only || name.data != bytes; /* a run copies it */
    return is_lasting || keyspace_copy(k, &name, to) ? keyspace_named(k, name, to) : NULL;
}

struct key *keyspace_named(struct keyspace *k, struct slice name, const struct key_sink *to)
{
    struct key *key = k->is_read_only ? NULL : find_key(k, name);
    if (key != NULL) {
        return key;
    }
    if (!caller_may(service_policy(k->service), k->who, RIGHT_READ, name)) {
        keyspace_deny(k, RIGHT_READ, name, to);
        return NULL;
    }
    if (k->is_read_only) {
        k->count = 0; /* reads are not recorded, so one slot is enough */
    } else if (k->count == LIMIT_CHECKS) {
        to->error(to->ctx, "ERR", "limit_transaction: a command or script has at most 64 keys");
        return NULL;
    } else if (!keyspace_copy(k, &name, to)) {
        return NULL;
    }
    key = &k->keys[k->count++];
    memset(key, 0, sizeof(*key));
    key->name = name;
    view(k, name, &key->seen);
    key->kind = key->seen.kind;
    key->value = key->seen.value;
    key->number = key->seen.number;
    key->deadline_ms = key->seen.deadline_ms;
    return key;
}

/* From the state alone: without a check, what it may become does not matter. */
bool keyspace_flush(struct keyspace *k, struct slice name)
{
    if (find_key(k, name) != NULL) {
        return true;
    }
    if (k->count == LIMIT_EFFECTS) {
        return false;
    }
    uint8_t *copy = bump_take(&k->arena, name.len);
    hf_assert(copy != NULL); /* nothing else is in the arena */
    memcpy(copy, name.data, name.len);
    struct key *key = &k->keys[k->count++];
    memset(key, 0, sizeof(*key));
    key->name = slice_make(copy, name.len);
    view_key(k->core, k->who.tenant, name, &key->seen);
    key_drop(k, key);
    key->is_forced = true;
    k->is_busy = k->is_busy || k->is_early; /* it may be removed already */
    return true;
}

bool key_is_own(const struct keyspace *k, const struct key *key)
{
    if (key->seen.kind == KEY_ABSENT || key->seen.kind == KEY_COUNTER) {
        return true; /* created by the run, or without an owner */
    }
    if (!key_kind_has_value(key->seen.kind)) {
        return false;
    }
    if (key->seen.is_value || key_kind_is_shared(key->seen.kind)) {
        return true;
    }
    if (k->who.principal != 0) {
        return key->seen.principal == k->who.principal || key->seen.principal == 0;
    }
    return (k->is_script && key->is_compared) || slice_equal(key->seen.client, k->client);
}

struct key *keyspace_typed(struct keyspace *k, struct slice name, enum key_kind kind,
                           const struct key_sink *to, struct slice *value)
{
    struct key *key = keyspace_key(k, name, to);
    if (key == NULL) {
        return NULL;
    }
    if (key_is_present(key) && key->kind != kind) {
        to->error(to->ctx, "WRONGTYPE", KEY_WRONG_TYPE);
        return NULL;
    }
    *value = key->kind == kind ? key->value : slice_make(NULL, 0);
    return key;
}

bool key_may_change(const struct keyspace *k, const struct key *key, const struct key_sink *to)
{
    if (key->kind == KEY_RESERVED) {
        to->error(
            to->ctx, "ERR",
            "the lock is free, but a lock-delay or a queue prevents acquiring it; try again later");
        return false;
    }
    if (!key_is_own(k, key)) {
        to->error(to->ctx, "ERR",
                  "the lock is held by another connection: compare it in a script (HEXISTS, HGET) "
                  "before it is changed");
        return false;
    }
    return true;
}

void key_put_shared(struct keyspace *k, struct key *key, enum key_kind kind, struct slice value)
{
    bool is_new = !key_is_present(key);
    if (value.len > 0) {
        key->is_value = key->is_value || is_new;
        key_put(k, key, kind, value, is_new ? resp_ttl_default_ms(k->service) : 0);
    } else if (!is_new) {
        key_drop(k, key);
    }
}

void key_put(struct keyspace *k, struct key *key, enum key_kind kind, struct slice value,
             uint64_t ttl_ms)
{
    key->kind = kind;
    key->value = value;
    key->is_changed = true;
    key->is_forced = false;
    if (ttl_ms != 0) {
        key_set_ttl(k, key, ttl_ms);
    }
}

void key_set_ttl(struct keyspace *k, struct key *key, uint64_t ttl_ms)
{
    key->ttl_ms = ttl_ms;
    key->deadline_ms = ttl_ms == TTL_NONE ? 0 : k->now_ms + ttl_ms;
    key->is_persisted = false;
}

void key_persist_counter(struct key *key)
{
    key->ttl_ms = 0;
    key->deadline_ms = 0;
    key->is_persisted = key->seen.kind == KEY_COUNTER && key->seen.deadline_ms != 0;
}

void key_set_number(struct key *key, int64_t number)
{
    if (key->kind != KEY_COUNTER) {
        key_persist_counter(key); /* a new counter, even if the run deleted one before */
    }
    key->kind = KEY_COUNTER;
    key->number = number;
    key->is_changed = true;
}

bool key_may_drop(const struct keyspace *k, const struct key *key, const struct key_sink *to)
{
    if (!key_is_own(k, key) && k->service->options.resp_del_refused) {
        to->error(to->ctx, "NOPERM",
                  "the lock was taken by another connection, and its deletion is disabled "
                  "(resp-del = refuse); compare its value in a script, or use force-unlock");
        return false;
    }
    return true;
}

void key_drop(struct keyspace *k, struct key *key)
{
    key->is_forced = !key_is_own(k, key);
    key->is_value = false;
    key->kind = KEY_ABSENT;
    key->is_changed = true;
    key->ttl_ms = 0;
}

static bool name_channel(const struct keyspace *k, struct slice *channel, bool is_shard,
                         uint8_t bytes[RESP_NAME_BYTES])
{
    if (is_shard) {
        return resp_name_of_shard(*channel, bytes, channel);
    }
    return resp_is_upgraded(k->service)
               ? resp_name_of_channel(*channel, bytes, channel)
               : channel->len > 0 && channel->len <= LIMIT_NAME && text_is_plain(*channel);
}

bool keyspace_publish(struct keyspace *k, struct slice channel, bool is_shard, struct slice text,
                      const struct key_sink *to)
{
    uint8_t bytes[RESP_NAME_BYTES];
    if (!name_channel(k, &channel, is_shard, bytes)) {
        to->error(to->ctx, "ERR",
                  "a channel has 1 to 512 bytes, and fewer if they are no text: see REDIS.md");
        return false;
    }
    if (text.len > LIMIT_VALUE) {
        to->error(to->ctx, "ERR", "a message is at most 4,096 bytes");
        return false;
    }
    if (k->message_count == LIMIT_EFFECTS) {
        to->error(to->ctx, "ERR", "limit_transaction: a script publishes at most 64 messages");
        return false;
    }
    if (!keyspace_copy(k, &channel, to) || !keyspace_copy(k, &text, to)) {
        return false;
    }
    k->messages[k->message_count++] = (struct key_message){channel, text};
    return true;
}

void keyspace_cancel(struct keyspace *k)
{
    for (uint32_t i = 0; i < k->count; i++) {
        k->keys[i].kind = k->keys[i].seen.kind;
        k->keys[i].is_changed = false;
        k->keys[i].ttl_ms = 0;
        k->keys[i].is_persisted = false;
    }
    k->message_count = 0;
}

static bool has_effect(const struct key *key)
{
    bool was = key->seen.kind != KEY_ABSENT && key->seen.kind != KEY_RESERVED;
    if (!key_is_present(key) && !was) {
        return false; /* created and deleted within the run */
    }
    return key->is_changed || key->ttl_ms != 0 || key->is_persisted;
}

/* Without the id of a lease. */
static struct effect effect_of(const struct key *key)
{
    struct effect e = {.name = key->name, .ttl_ms = key->ttl_ms};
    if (!key_is_present(key)) {
        e.kind = EFFECT_DROP;
        e.flags = key->is_forced ? EFFECT_FORCED : 0;
        e.ttl_ms = 0;
    } else if (key->kind == KEY_COUNTER) {
        e.kind = EFFECT_COUNTER;
        e.number = key->number;
        e.flags = key->ttl_ms != 0 ? EFFECT_TTL : key->is_persisted ? EFFECT_PERSIST : 0;
    } else if (key->is_changed) {
        e.kind = EFFECT_PUT;
        e.flags = key_kind_effect_flag(key->kind) |
                  (key->is_value && key->seen.kind == KEY_ABSENT ? EFFECT_VALUE : 0u);
        e.value = key->value;
    } else {
        e.kind = EFFECT_EXPIRE;
    }
    return e;
}

enum hf_error keyspace_build(struct keyspace *k, struct command *out)
{
    struct packer checks = packer_make(k->checks, LIMIT_TRANSACT_BYTES);
    struct packer effects = packer_make(k->effects, LIMIT_TRANSACT_BYTES);
    bool fits = true;
    bool is_forced = false;
    for (uint32_t i = 0; i < k->count; i++) {
        const struct key *key = &k->keys[i];
        struct key_check check = {key->name, key->seen.version};
        fits = (k->is_flush || pack_check(&checks, &check)) && fits;
        if (has_effect(key)) {
            struct effect effect = effect_of(key);
            if (effect.kind == EFFECT_PUT) {
                effect.lease = service_random_id(k->service);
            }
            fits = pack_effect(&effects, &effect) && fits;
            is_forced = is_forced || (effect.flags & EFFECT_FORCED) != 0;
        }
    }
    for (uint32_t i = 0; i < k->message_count; i++) {
        struct effect effect = {
            .kind = EFFECT_PUBLISH, .name = k->messages[i].channel, .value = k->messages[i].text};
        fits = pack_effect(&effects, &effect) && fits;
    }
    command_init(out, COMMAND_TRANSACT);
    caller_sign(out, k->who);
    out->transact.id = service_random_id(k->service);
    out->transact.client = k->client;
    if (is_forced) {
        out->transact.actor = k->client;
        out->transact.reason =
            slice_of(k->is_script  ? "deleted by a script over the Redis protocol"
                     : k->is_flush ? "FLUSHDB or FLUSHALL over the Redis protocol"
                                   : "DEL over the Redis protocol");
    }
    out->transact.checks = packer_list(&checks);
    out->transact.effects = packer_list(&effects);
    size_t size = out->transact.checks.bytes.len + out->transact.effects.bytes.len;
    fits = fits && (core_version(k->core) >= 9 || size <= LIMIT_TRANSACT_8_BYTES);
    return !fits ? HF_TRANSACT_TOO_LARGE : command_check(out);
}

void keyspace_forget_reads(struct keyspace *k)
{
    hf_assert(k->is_settled && k->message_count == 0);
    k->count = 0;
}

bool keyspace_is_idle(const struct keyspace *k)
{
    return k->count == 0 && k->message_count == 0;
}

bool keyspace_is_busy(const struct keyspace *k)
{
    return k->is_busy;
}

uint64_t keyspace_submitted(struct keyspace *k)
{
    uint64_t number = uncommitted_begin(&k->uncommitted);
    for (uint32_t i = 0; i < k->count; i++) {
        const struct key *key = &k->keys[i];
        if (has_effect(key)) {
            struct effect effect = effect_of(key);
            uncommitted_note(&k->uncommitted, k->core, k->who.tenant, &effect, &key->seen);
        }
    }
    return number;
}
