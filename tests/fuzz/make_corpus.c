/* Makes the inputs that the fuzzers begin with, so that they can be made again when a format
 * changes: remove the files corpus/NAME/NAME.seed of command, entry, snapshot and script, then
 *
 *   build-clang/tests/fuzz/make_corpus tests/fuzz/corpus
 *
 * What fuzzers find later may be put next to them by hand. */
#define _POSIX_C_SOURCE 200809L
#include <errno.h>
#include <sys/stat.h>

#include "../support/rich_core.h"

#include "base/codec.h"
#include "core/entry.h"
#include "core/snapshot_format.h"

static const char *root;

static void save(const char *target, const char *name, const void *data, size_t len)
{
    char path[4096];
    (void)snprintf(path, sizeof(path), "%s/%s", root, target);
    if (mkdir(path, 0777) != 0 && errno != EEXIST) {
        perror(path);
        exit(1);
    }
    (void)snprintf(path, sizeof(path), "%s/%s/%s.seed", root, target, name);
    FILE *file = fopen(path, "wb");
    if (file == NULL || fwrite(data, 1, len, file) != len || fclose(file) != 0) {
        perror(path);
        exit(1);
    }
}

/* ---- commands and entries ---- */

/* The packed ids of a keep-alive. */
static const uint8_t *packed_sessions(void)
{
    static uint8_t packed[32];
    struct writer w = writer_make(packed, sizeof(packed));
    for (uint64_t i = 1; i <= 2; i++) {
        write_fixed64(&w, rich_session(i).high);
        write_fixed64(&w, rich_session(i).low);
    }
    return packed;
}

static struct command example_of_acquire(void)
{
    struct command c = rich_acquire_command(0, 900, "multi/a");
    rich_add_name(&c, "plain");
    c.acquire.delay_ms = 1000;
    c.acquire.metadata = slice_of("{\"a\":1}");
    c.request_id = slice_of("abc-1");
    return c;
}

/* One of each type, about what is in the rich core. */
/* One effect of each kind, with checks that hold in a rich core and one that does not. */
static struct command transaction(void)
{
    static uint8_t bytes[2][1024];
    struct packer checks = packer_make(bytes[0], sizeof(bytes[0]));
    struct packer effects = packer_make(bytes[1], sizeof(bytes[1]));
    const struct key_check expected[] = {{slice_of("new"), {0, 0, 0}},
                                         {slice_of("key/hash"), {1024 * 30, 1, 1041400}}};
    const struct effect wanted[] = {
        rich_put(700, "new", slice_of("v")),
        {.kind = EFFECT_EXPIRE, .name = slice_of("key/hash"), .ttl_ms = 1000},
        {.kind = EFFECT_DROP, .name = slice_of("key/string")},
        {.kind = EFFECT_COUNTER,
         .flags = EFFECT_TTL,
         .name = slice_of("n/one"),
         .number = -9,
         .ttl_ms = 60000},
        {.kind = EFFECT_PUBLISH, .name = slice_of("topic"), .value = slice_of("0")},
    };
    for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++) {
        hf_assert(pack_check(&checks, &expected[i]));
    }
    for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
        hf_assert(pack_effect(&effects, &wanted[i]));
    }
    struct command c;
    command_init(&c, COMMAND_TRANSACT);
    c.transact.id = rich_lease(701);
    c.transact.client = slice_of("resp");
    c.transact.checks = packer_list(&checks);
    c.transact.effects = packer_list(&effects);
    return c;
}

/* Some changes that fit into the policy of a rich core. */
static struct command policy_change(void)
{
    static uint8_t bytes[2048];
    struct packer changes = packer_make(bytes, sizeof(bytes));
    const struct policy_change all[] = {
        {.kind = POLICY_TENANT_PUT, .tenant = slice_of("new"), .quotas = {.locks = 5}},
        {.kind = POLICY_TOKEN_ADD,
         .tenant = slice_of("pay"),
         .name = slice_of("worker"),
         .sha256 = slice_of("0123456789abcdef0123456789abcdef")},
        {.kind = POLICY_TOKEN_REMOVE, .token = 1},
        {.kind = POLICY_SERIAL_BAR, .serial = slice_of("1f")},
        {.kind = POLICY_SERIAL_ALLOW, .serial = slice_of("abc")},
        {.kind = POLICY_PRINCIPAL_REMOVE, .tenant = slice_of("pay"), .name = slice_of("worker")},
    };
    rich_add_principal(&changes, "pay", "other",
                       (struct policy_grant){slice_of("*"), slice_of("a"), RIGHT_READ});
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        hf_assert(pack_policy_change(&changes, &all[i]));
    }
    struct command c;
    command_init(&c, COMMAND_POLICY_CHANGE);
    c.policy_change.expect = UINT64_MAX;
    c.policy_change.actor = slice_of("ann");
    c.policy_change.reason = slice_of("new team");
    c.policy_change.end_sessions = 1;
    c.policy_change.changes = packer_list(&changes);
    return c;
}

static struct command example(enum command_type type)
{
    struct command c;
    command_init(&c, type);
    switch (type) {
    case COMMAND_LEAD:
        c.lead.node = 3;
        break;
    case COMMAND_UPGRADE:
        c.upgrade.version = 1;
        break;
    case COMMAND_NOTE:
        c.note.action = 2;
        c.note.name = slice_of("queue");
        c.note.actor = slice_of("admin");
        c.note.reason = slice_of("stuck");
        c.note.count = 1;
        break;
    case COMMAND_FENCE_RESET:
        c.fence_reset.resource = slice_of("disk/1");
        c.fence_reset.actor = slice_of("admin");
        c.fence_reset.reason = slice_of("made up");
        break;
    case COMMAND_SESSION_OPEN:
        c.session_open.id = rich_session(50);
        c.session_open.client = slice_of("new");
        c.session_open.ttl_ms = 5000;
        c.session_open.linger_ms = 100;
        break;
    case COMMAND_KEEPALIVE:
        c.keepalive.sessions = (struct ids){2, packed_sessions()};
        break;
    case COMMAND_SESSION_CLOSE:
    case COMMAND_STREAM_UP:
        c.session = rich_session(2);
        break;
    case COMMAND_STREAM_DOWN:
        c.session = rich_session(2);
        c.stream_down.stream = 1;
        break;
    case COMMAND_ACQUIRE:
        c = example_of_acquire();
        break;
    case COMMAND_CANCEL:
        c.cancel.lease = rich_lease(40);
        c.cancel.attachment = 2;
        break;
    case COMMAND_DETACH:
        c.detach.lease = rich_lease(42);
        c.detach.attachment = 4;
        break;
    case COMMAND_NODE_GONE:
        c.node_gone.node = 1;
        break;
    case COMMAND_RELEASE:
        c.session = rich_session(1);
        c.seq = 20;
        c.acked_through = 1;
        c.release.lease = rich_lease(1);
        break;
    case COMMAND_RENEW:
        c.renew.name = slice_of("leader");
        c.renew.token = 1024 * 11;
        c.renew.ttl_ms = 7000;
        break;
    case COMMAND_PROCLAIM:
        c.proclaim.name = slice_of("leader");
        c.proclaim.token = 1024 * 11;
        c.proclaim.value = slice_of("10.0.0.9:80");
        break;
    case COMMAND_FORCE_UNLOCK:
        c.force_unlock.name = slice_of("shared/one");
        c.force_unlock.actor = slice_of("ann");
        c.force_unlock.reason = slice_of("stuck");
        c.force_unlock.now = 1;
        break;
    case COMMAND_REVOKE:
        c.revoke.name = slice_of("pool");
        c.revoke.actor = slice_of("bob");
        c.revoke.reason = slice_of("tired");
        c.revoke.grace_ms = 100;
        break;
    case COMMAND_FENCE_CHECK:
        c.fence_check.resource = slice_of("disk/1");
        c.fence_check.token = 9000;
        break;
    case COMMAND_TRANSACT:
        c = transaction();
        break;
    case COMMAND_POLICY_CHANGE:
        c = policy_change();
        break;
    default:
        break;
    }
    return c;
}

static void save_entry(const char *name, enum command_type from, enum command_type to,
                       uint64_t time_ms)
{
    uint8_t buffer[8192];
    struct entry_writer w;
    entry_writer_init(&w, CORE_VERSION, buffer, sizeof(buffer));
    for (unsigned type = from; type <= to; type++) {
        struct command c = example((enum command_type)type);
        hf_assert(entry_writer_add(&w, &c));
    }
    size_t len = entry_writer_seal(&w, time_ms, UINT64_C(1700000000000));
    save("entry", name, buffer, len);
}

static void make_commands(void)
{
    for (unsigned type = COMMAND_NONE + 1; type < COMMAND_COUNT; type++) {
        struct command c = example((enum command_type)type);
        const char *name = command_name((enum command_type)type);
        uint8_t buffer[4096];
        save("command", name, buffer, command_encode(&c, CORE_VERSION, buffer, sizeof(buffer)));
        save_entry(name, (enum command_type)type, (enum command_type)type, 1002000);
    }
    struct command c = example(COMMAND_ACQUIRE);
    uint8_t buffer[4096];
    c.principal = 2;
    c.tenant = 1;
    save("command", "of_a_principal", buffer,
         command_encode(&c, CORE_VERSION, buffer, sizeof(buffer)));
    save_entry("all", COMMAND_LEAD, COMMAND_FENCE_RESET, 1003000);
    save_entry("much_later", COMMAND_TICK, COMMAND_TICK, 1100000);
}

/* ---- snapshots ---- */

/* In both forms that fuzz_snapshot takes. */
static void save_snapshot(const char *name, const struct core *core)
{
    struct bytes snapshot = snapshot_of(core);
    struct bytes input = {NULL, 0, 0};
    char path[64];
    bytes_add(&input, "\0", 1);
    bytes_add(&input, snapshot.data, snapshot.len);
    (void)snprintf(path, sizeof(path), "%s_whole", name);
    save("snapshot", path, input.data, input.len);

    input.len = 0;
    bytes_add(&input, core_version(core) == 1 ? "\3" : "\1", 1);
    struct reader r = reader_make(
        slice_make(snapshot.data + SNAPSHOT_HEADER_BYTES, snapshot.len - SNAPSHOT_HEADER_BYTES));
    const uint8_t *from = r.at;
    uint8_t end = snapshot_end_of(snapshot_format_of(core_version(core)));
    while (read_slice(&r, SNAPSHOT_RECORD_MAX).data[0] != end) {
        bytes_add(&input, from, (size_t)(r.at - from));
        from = r.at;
    }
    (void)snprintf(path, sizeof(path), "%s_records", name);
    save("snapshot", path, input.data, input.len);
    bytes_free(&input);
    bytes_free(&snapshot);
}

static void make_snapshots(void)
{
    struct core_options options = {.memory = memory_system(), .hash_key = 1};
    struct rich r = {.core = core_new(&options), .now_ms = 1000000};
    save_snapshot("empty", r.core);
    rich_pass(&r, 0);
    rich_open(&r, 1, "web", 60000);
    save_snapshot("session", r.core);
    rich_acquire(&r, 1, 1, "a");
    save_snapshot("grant", r.core);
    rich_acquire(&r, 0, 2, "a");
    save_snapshot("waiter", r.core);
    rich_operate(&r, false, "a");
    save_snapshot("revoked", r.core);
    rich_operate(&r, true, "a");
    save_snapshot("forced", r.core);
    core_free(r.core);

    options.version = 3;
    r = (struct rich){.core = core_new(&options), .now_ms = 1000000};
    rich_pass(&r, 0);
    rich_once(&r);
    rich_grants(&r);
    save_snapshot("grants", r.core);
    rich_waiters(&r);
    save_snapshot("waiters", r.core);
    rich_past(&r);
    rich_keys(&r);
    rich_policy(&r);
    save_snapshot("rich", r.core);
    core_free(r.core);
}

/* ---- scripts: any bytes are one ---- */

static void make_scripts(void)
{
    uint64_t state = 20240607;
    for (unsigned i = 0; i < 60; i++) {
        uint8_t script[512];
        size_t len = 16 + i * 8;
        for (size_t at = 0; at < len; at++) { /* splitmix64, Vigna */
            uint64_t z = state += UINT64_C(0x9e3779b97f4a7c15);
            z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
            z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
            script[at] = (uint8_t)(z ^ z >> 31);
        }
        char name[32];
        (void)snprintf(name, sizeof(name), "random_%02u", i);
        save("script", name, script, len);
    }
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: make_corpus FOLDER\n");
        return 2;
    }
    root = argv[1];
    if (mkdir(root, 0777) != 0 && errno != EEXIST) {
        perror(root);
        return 1;
    }
    make_commands();
    make_snapshots();
    make_scripts();
    return 0;
}
