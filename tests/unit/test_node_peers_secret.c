/* The shared secret of nodes: who is admitted with it, its file, and how refusals are reported. */
#include "base_testing.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "peers_world.h"
#include "temporary.h"
#include "tls/digest.h"

static const char right[] = "the secret of all nodes";
static const char wrong[] = "the secret of nobody";

static void add_secret(struct end *e, const char *text)
{
    struct peer_secret *secret = &e->secrets.at[e->secrets.count++];
    secret->len = strlen(text);
    memcpy(secret->bytes, text, secret->len);
    e->secrets.is_required = true;
    e->self.secrets = &e->secrets;
}

/* Nodes 1 and 2 of cluster 9; NULL: without a secret. */
static void two_nodes(struct peers_world *w, const char *secret_of_1, const char *secret_of_2)
{
    world_open(w);
    end_open(w, 0, 1, 9, 11, 1);
    end_open(w, 1, 2, 9, 22, 1);
    if (secret_of_1 != NULL) {
        add_secret(&w->ends[0], secret_of_1);
    }
    if (secret_of_2 != NULL) {
        add_secret(&w->ends[1], secret_of_2);
    }
}

static void assert_connected(struct peers_world *w)
{
    let_dial(&w->ends[0], &w->ends[1]);
    UNTIL(w, w->ends[0].up == 1);
    assert_true(peers_send(w->ends[0].peers, 2, slice_of("entries")));
    UNTIL(w, says(&w->ends[1].got, "entries"));
    assert_int_equal(w->ends[0].refusals + w->ends[1].refusals, 0);
}

static void nodes_with_one_secret_connect(void **state)
{
    (void)state;
    struct peers_world w;
    two_nodes(&w, right, right);
    assert_connected(&w);
    world_close(&w);
}

static void a_dialler_refuses_a_node_with_another_secret(void **state)
{
    (void)state;
    struct peers_world w;
    two_nodes(&w, right, wrong);
    let_dial(&w.ends[0], &w.ends[1]);
    UNTIL(&w, w.ends[0].refusals == 1);
    assert_string_equal(w.ends[0].refusal.reason,
                        "node 2 has another peer secret than node 1: all nodes need the same "
                        "peer-secret-file");
    assert_string_equal(w.ends[0].refusal.address, "127.0.0.1");
    assert_int_equal(w.ends[0].refusal.peer, 2);
    assert_int_equal(w.ends[0].refusal.count, 1);
    assert_int_equal(w.ends[0].up, 0);
    /* The other end receives the reason and logs it too. */
    UNTIL(&w, says(&w.ends[1].journal, "refused_by_peer:node 2 has another peer secret"));
    world_close(&w);
}

static void a_node_without_a_secret_is_refused_where_it_is_required(void **state)
{
    (void)state;
    struct peers_world w;
    two_nodes(&w, NULL, right);
    let_dial(&w.ends[0], &w.ends[1]);
    UNTIL(&w, w.ends[1].refusals == 1);
    assert_string_equal(w.ends[1].refusal.reason,
                        "node 1 has no peer secret, and node 2 requires one: set peer-secret-file "
                        "on node 1");
    assert_int_equal(w.ends[0].up, 0);
    world_close(&w);
    two_nodes(&w, right, NULL);
    let_dial(&w.ends[0], &w.ends[1]);
    UNTIL(&w, w.ends[0].refusals == 1);
    assert_true(strstr(w.ends[0].refusal.reason, "node 2 has no peer secret") != NULL);
    assert_int_equal(w.ends[0].up, 0);
    world_close(&w);
}

static void a_secret_can_be_introduced_and_replaced_node_by_node(void **state)
{
    (void)state;
    struct peers_world w;
    two_nodes(&w, NULL, right);
    w.ends[1].secrets.is_required = false;
    assert_connected(&w);
    world_close(&w);
    two_nodes(&w, right, NULL);
    w.ends[0].secrets.is_required = false;
    assert_connected(&w);
    world_close(&w);
    /* One that has a secret must have ours. */
    two_nodes(&w, right, wrong);
    w.ends[0].secrets.is_required = false;
    let_dial(&w.ends[0], &w.ends[1]);
    UNTIL(&w, w.ends[0].refusals == 1);
    world_close(&w);
    /* The old secret, and the new one with the old one behind it; then the reverse. */
    two_nodes(&w, wrong, right);
    add_secret(&w.ends[0], right);
    add_secret(&w.ends[1], wrong);
    assert_connected(&w);
    world_close(&w);
}

/* ---- a dialler that is the test itself ---- */

struct party {
    struct peers_world *world;
    int fd;
    struct peer_transcript transcript;
    uint8_t proof[PEER_PROOF_BYTES]; /* of the other end */
    bool has_proof;
    struct peer_introduction intro; /* of the other end */
    uint8_t bytes[4096];
    size_t len;
};

static int connect_to(const struct end *to)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(peers_port(to->peers))};
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&at, sizeof(at)), 0);
    return fd;
}

static void send_frame(const struct party *p, enum peer_frame type, const void *data, size_t len)
{
    struct buffer out;
    buffer_init(&out, memory_system(), 8192);
    assert_true(peer_frame_append(&out, type, slice_make(data, len)));
    assert_int_equal(send(p->fd, buffer_bytes(&out).data, buffer_len(&out), MSG_NOSIGNAL),
                     buffer_len(&out));
    buffer_close(&out);
}

/* HELLO or WELCOME of node 1 of cluster 9, with a nonce that is all `nonce`. */
static void send_introduction(struct party *p, enum peer_frame type, uint8_t nonce)
{
    uint8_t drawn[PEER_NONCE];
    uint8_t bytes[1024];
    memset(drawn, nonce, sizeof(drawn));
    struct peer_introduction us = {.oldest = 1,
                                   .newest = PEER_PROTOCOL_NEWEST,
                                   .purpose = PEER_FOR_MESSAGES,
                                   .cluster = {9, 9},
                                   .node = 1,
                                   .to = 2,
                                   .number = 77,
                                   .store = {1, 11},
                                   .life = 5,
                                   .state = 2,
                                   .nonce = slice_make(drawn, nonce != 0 ? sizeof(drawn) : 0)};
    size_t len = peer_introduction_encode(&us, bytes, sizeof(bytes));
    digest_sha256(slice_make(bytes, len),
                  type == PEER_HELLO ? p->transcript.hello : p->transcript.welcome);
    send_frame(p, type, bytes, len);
}

/* The length, 0 at the end, -1: nothing yet. */
static ssize_t receive(struct party *p)
{
    ssize_t got = recv(p->fd, p->bytes + p->len, sizeof(p->bytes) - p->len, MSG_DONTWAIT);
    return got < 0 && errno == ECONNRESET ? 0 : got;
}

/* Reads frames until one of this type. False: the other end has closed, or has sent REFUSE. */
static bool read_until(struct party *p, enum peer_frame wanted)
{
    for (;;) {
        enum peer_frame type;
        struct slice payload;
        ssize_t got = -1;
        int64_t len =
            peer_frame_parse(slice_make(p->bytes, p->len), sizeof(p->bytes), &type, &payload);
        assert_true(len >= 0);
        if (len == 0) {
            UNTIL(p->world, (got = got >= 0 ? got : receive(p)) >= 0);
            if (got == 0) {
                return false;
            }
            p->len += (size_t)got;
            continue;
        }
        if (type == PEER_PROOF) {
            assert_int_equal(payload.len, PEER_PROOF_BYTES);
            memcpy(p->proof, payload.data, PEER_PROOF_BYTES);
            p->has_proof = true;
        } else if (type == PEER_HELLO || type == PEER_WELCOME) {
            digest_sha256(payload,
                          type == PEER_HELLO ? p->transcript.hello : p->transcript.welcome);
            assert_true(peer_introduction_decode(payload, &p->intro));
        }
        memmove(p->bytes, p->bytes + len, p->len - (size_t)len);
        p->len -= (size_t)len;
        if (type == wanted || type == PEER_REFUSE) {
            return type == wanted;
        }
    }
}

/* Dials node 2 and greets it up to its WELCOME. */
static void greet(struct party *p, struct peers_world *w, uint8_t nonce)
{
    memset(p, 0, sizeof(*p));
    p->world = w;
    p->fd = connect_to(&w->ends[1]);
    send_introduction(p, PEER_HELLO, nonce);
    assert_true(read_until(p, PEER_WELCOME));
}

static void begin(struct party *p, const uint8_t proof[PEER_PROOF_BYTES])
{
    uint8_t number[8];
    struct writer writer = writer_make(number, sizeof(number));
    write_fixed64(&writer, p->intro.number);
    if (proof != NULL) {
        send_frame(p, PEER_PROOF, proof, PEER_PROOF_BYTES);
    }
    send_frame(p, PEER_BEGIN, number, sizeof(number));
    send_frame(p, PEER_MESSAGE, "forged", 6);
}

static void prove(const struct party *p, const char *secret, bool by_dialler,
                  uint8_t proof[PEER_PROOF_BYTES])
{
    struct peer_secrets secrets = {.count = 1};
    secrets.at[0].len = strlen(secret);
    memcpy(secrets.at[0].bytes, secret, strlen(secret));
    peer_secrets_prove(&secrets, by_dialler, &p->transcript, proof);
}

/* Node 2, which has the secret and knows node 1. */
static void node_2(struct peers_world *w)
{
    world_open(w);
    end_open(w, 1, 2, 9, 22, 1);
    add_secret(&w->ends[1], right);
    w->ends[1].first_store_of[1] = 11;
}

static void assert_refused(struct party *p)
{
    assert_false(read_until(p, PEER_PING));
    assert_int_equal(buffer_len(&p->world->ends[1].got), 0);
    assert_int_equal(p->world->ends[1].refusals, 1);
    assert_true(strstr(p->world->ends[1].refusal.reason, "node 1 has another peer secret") != NULL);
    close(p->fd);
    world_close(p->world);
}

static void the_right_proof_admits_a_dialler(void **state)
{
    (void)state;
    struct peers_world w;
    struct party p;
    uint8_t proof[PEER_PROOF_BYTES];
    node_2(&w);
    greet(&p, &w, 7);
    assert_true(p.has_proof);
    prove(&p, right, false, proof);
    assert_memory_equal(p.proof, proof, sizeof(proof)); /* of the acceptor */
    prove(&p, right, true, proof);
    begin(&p, proof);
    UNTIL(&w, says(&w.ends[1].got, "forged"));
    close(p.fd);
    world_close(&w);
}

static void a_dialler_without_a_proof_is_refused(void **state)
{
    (void)state;
    struct peers_world w;
    struct party p;
    node_2(&w);
    greet(&p, &w, 7);
    begin(&p, NULL);
    assert_refused(&p);
}

static void a_dialler_with_another_secret_is_refused(void **state)
{
    (void)state;
    struct peers_world w;
    struct party p;
    uint8_t proof[PEER_PROOF_BYTES];
    node_2(&w);
    greet(&p, &w, 7);
    prove(&p, wrong, true, proof);
    begin(&p, proof);
    assert_refused(&p);
}

static void the_proof_of_an_acceptor_is_not_taken_back(void **state)
{
    (void)state;
    struct peers_world w;
    struct party p;
    node_2(&w);
    greet(&p, &w, 7);
    begin(&p, p.proof);
    assert_refused(&p);
}

static void a_proof_of_another_link_is_not_taken(void **state)
{
    (void)state;
    struct peers_world w;
    struct party earlier;
    struct party p;
    uint8_t proof[PEER_PROOF_BYTES];
    node_2(&w);
    greet(&earlier, &w, 7);
    prove(&earlier, right, true, proof);
    greet(&p, &w, 7); /* the same HELLO: node 2 has drawn another nonce */
    assert_memory_equal(p.transcript.hello, earlier.transcript.hello, PEER_PROOF_BYTES);
    begin(&p, proof);
    close(earlier.fd);
    assert_refused(&p);
}

/* What was not sent so is not proven: here the HELLO that node 2 received. */
static void a_proof_fits_the_greeting_that_was_sent(void **state)
{
    (void)state;
    struct peers_world w;
    struct party p;
    uint8_t proof[PEER_PROOF_BYTES];
    node_2(&w);
    greet(&p, &w, 7);
    p.transcript.hello[0] ^= 1;
    prove(&p, right, true, proof);
    begin(&p, proof);
    assert_refused(&p);
}

static void frames_out_of_place_end_the_link(void **state)
{
    (void)state;
    const uint8_t zeros[PEER_PROOF_BYTES + 1] = {0};
    for (int i = 0; i < 4; i++) {
        struct peers_world w;
        struct party p;
        node_2(&w);
        if (i == 3) { /* no proof is expected */
            w.ends[1].secrets.is_required = false;
            greet(&p, &w, 0);
            send_frame(&p, PEER_PROOF, zeros, PEER_PROOF_BYTES);
        } else {
            greet(&p, &w, 7);
            if (i == 0) {
                send_frame(&p, PEER_PROOF, zeros, PEER_PROOF_BYTES + 1);
            } else if (i == 1) {
                send_frame(&p, PEER_PROOF, zeros, PEER_PROOF_BYTES);
                send_frame(&p, PEER_PROOF, zeros, PEER_PROOF_BYTES);
            } else {
                send_frame(&p, PEER_MESSAGE, "too early", 9);
            }
        }
        assert_false(read_until(&p, PEER_PING));
        assert_int_equal(buffer_len(&w.ends[1].got), 0);
        close(p.fd);
        world_close(&w);
    }
}

/* ---- an acceptor that is the test itself ---- */

enum answer { NO_NONCE, NO_PROOF, WRONG_PROOF, OWN_PROOF, RIGHT_PROOF, ANSWERS };

static void answer(struct party *p, enum answer how)
{
    uint8_t proof[PEER_PROOF_BYTES];
    uint8_t welcome[1024];
    uint8_t nonce[PEER_NONCE] = {1, 2, 3};
    struct peer_introduction us = {.oldest = 1,
                                   .newest = PEER_PROTOCOL_NEWEST,
                                   .purpose = PEER_FOR_MESSAGES,
                                   .cluster = {9, 9},
                                   .node = 2,
                                   .to = 1,
                                   .number = 77,
                                   .store = {1, 22},
                                   .life = 1,
                                   .state = 2,
                                   .nonce = slice_make(nonce, how == NO_NONCE ? 0 : sizeof(nonce))};
    size_t len = peer_introduction_encode(&us, welcome, sizeof(welcome));
    digest_sha256(slice_make(welcome, len), p->transcript.welcome);
    if (how == WRONG_PROOF || how == RIGHT_PROOF) {
        prove(p, how == RIGHT_PROOF ? right : wrong, false, proof);
        send_frame(p, PEER_PROOF, proof, sizeof(proof));
    } else if (how == OWN_PROOF) {
        prove(p, right, true, proof);
        send_frame(p, PEER_PROOF, proof, sizeof(proof));
    }
    send_frame(p, PEER_WELCOME, welcome, len);
}

static void a_dialler_begins_only_with_a_node_that_has_proven_itself(void **state)
{
    (void)state;
    for (enum answer how = 0; how < ANSWERS; how++) {
        struct peers_world w;
        struct party p = {.world = &w};
        struct sockaddr_in at = {.sin_family = AF_INET};
        socklen_t size = sizeof(at);
        world_open(&w);
        end_open(&w, 0, 1, 9, 11, 1);
        add_secret(&w.ends[0], right);
        at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        assert_int_equal(bind(listener, (struct sockaddr *)&at, sizeof(at)), 0);
        assert_int_equal(listen(listener, 8), 0);
        assert_int_equal(getsockname(listener, (struct sockaddr *)&at, &size), 0);
        struct address address = {.host = "127.0.0.1", .port = ntohs(at.sin_port)};
        peers_set(w.ends[0].peers, 2, &address);
        p.fd = -1;
        UNTIL(&w, (p.fd = p.fd >= 0 ? p.fd : accept(listener, NULL, NULL)) >= 0);
        assert_true(read_until(&p, PEER_HELLO));
        assert_int_equal(p.intro.nonce.len, PEER_NONCE);
        answer(&p, how);
        assert_int_equal(read_until(&p, PEER_BEGIN), how == RIGHT_PROOF);
        assert_int_equal(w.ends[0].refusals, how == RIGHT_PROOF ? 0 : 1);
        assert_int_equal(w.ends[0].first_store_of[2], how == RIGHT_PROOF ? 22 : 0);
        if (how == RIGHT_PROOF) {
            uint8_t expected[PEER_PROOF_BYTES];
            prove(&p, right, true, expected);
            assert_memory_equal(p.proof, expected, sizeof(expected));
        }
        close(p.fd);
        close(listener);
        world_close(&w);
    }
}

/* ---- the file ---- */

static void write_file(const char *path, const char *text, mode_t mode)
{
    (void)unlink(path);
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, mode);
    assert_true(fd >= 0);
    assert_int_equal(fchmod(fd, mode), 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    close(fd);
}

static void the_file_has_one_or_two_secrets(void **state)
{
    (void)state;
    char problem[PEER_SECRET_PROBLEM];
    struct peer_secrets s = {.is_required = true};
    const char *folder = temporary_folder(NULL);
    assert_int_equal(chdir(folder), 0);
    write_file("f", "0123456789abcdef", 0600);
    assert_true(peer_secrets_load(&s, "f", problem));
    assert_int_equal(s.count, 1);
    write_file("f", "\n0123456789abcdef\r\n\nanother one of 22 bytes\n", 0400);
    assert_true(peer_secrets_load(&s, "f", problem));
    assert_int_equal(s.count, 2);
    assert_memory_equal(s.at[0].bytes, "0123456789abcdef", s.at[0].len);
    assert_int_equal(s.at[1].len, 23);
    assert_true(s.is_required);
    char longest[2 * PEER_SECRET_MAX + 8];
    memset(longest, 'x', sizeof(longest));
    longest[PEER_SECRET_MAX] = longest[2 * PEER_SECRET_MAX + 1] = '\n';
    longest[2 * PEER_SECRET_MAX + 2] = '\0';
    write_file("f", longest, 0600);
    assert_true(peer_secrets_load(&s, "f", problem));
    assert_int_equal(s.at[1].len, PEER_SECRET_MAX);
    peer_secrets_wipe(&s);
    assert_int_equal(s.count + s.at[0].bytes[0] + s.at[1].bytes[0], 0);
    assert_int_equal(chdir("/"), 0);
    temporary_remove(folder);
}

static void a_wrong_file_is_refused_and_changes_nothing(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        mode_t mode;
        const char *problem;
    } cases[] = {
        {"0123456789abcdef", 0640, "other users may read or change this secret"},
        {"0123456789abcdef", 0602, "other users may read or change this secret"},
        {"0123456789abcde", 0600, "16 to 256 bytes"},
        {"0123456789abcdef\nshort\n", 0600, "16 to 256 bytes"},
        {"0123456789abcdef\n0123456789abcdef\n0123456789abcdef\n", 0600, "more than 2 lines"},
        {"", 0600, "the file has no secret"},
        {"\n\r\n", 0600, "the file has no secret"},
    };
    char problem[PEER_SECRET_PROBLEM];
    struct peer_secrets s = {.count = 1};
    char big[1024];
    const char *folder = temporary_folder(NULL);
    assert_int_equal(chdir(folder), 0);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        write_file("f", cases[i].text, cases[i].mode);
        assert_false(peer_secrets_load(&s, "f", problem));
        assert_non_null(strstr(problem, cases[i].problem));
        assert_non_null(strstr(problem, "peer-secret-file: f: "));
        assert_null(strstr(problem, "0123456789"));
        assert_int_equal(s.count, 1);
    }
    memset(big, 'x', sizeof(big) - 1);
    big[sizeof(big) - 1] = '\0';
    write_file("f", big, 0600);
    assert_false(peer_secrets_load(&s, "f", problem));
    assert_false(peer_secrets_load(&s, ".", problem));
    assert_non_null(strstr(problem, "not a regular file"));
    assert_false(peer_secrets_load(&s, "missing", problem));
    assert_non_null(strstr(problem, "No such file"));
    assert_int_equal(chdir("/"), 0);
    temporary_remove(folder);
}

/* ---- reports of refusals ---- */

static void an_address_is_reported_once_per_interval_with_a_count(void **state)
{
    (void)state;
    static struct peer_refusals r;
    struct peer_refusal out;
    uint64_t now = 5000;
    memset(&r, 0, sizeof(r));
    peer_refusals_add(&r, "10.0.0.1:40001", 3, "because", now);
    assert_true(peer_refusals_next(&r, now, &out));
    assert_string_equal(out.address, "10.0.0.1");
    assert_string_equal(out.reason, "because");
    assert_int_equal(out.count, 1);
    assert_int_equal(out.peer, 3);
    uint64_t interval = PEER_REFUSAL_MIN_MS;
    for (int i = 0; i < 10; i++) {
        peer_refusals_add(&r, "10.0.0.1:40002", 3, "again", now + 1);
        peer_refusals_add(&r, "10.0.0.1:40003", 4, "at last", now + 2);
        assert_false(peer_refusals_next(&r, now + interval - 1, &out));
        now += interval;
        assert_true(peer_refusals_next(&r, now, &out));
        assert_int_equal(out.count, 2);
        assert_string_equal(out.reason, "at last");
        assert_false(peer_refusals_next(&r, now, &out));
        interval = 2 * interval < PEER_REFUSAL_MAX_MS ? 2 * interval : PEER_REFUSAL_MAX_MS;
    }
    assert_int_equal(interval, PEER_REFUSAL_MAX_MS);
    /* After an hour without a refusal it begins again. */
    now += 2 * PEER_REFUSAL_MAX_MS;
    peer_refusals_add(&r, "10.0.0.1:40004", 3, "because", now);
    assert_true(peer_refusals_next(&r, now, &out));
    peer_refusals_add(&r, "10.0.0.1:40004", 3, "because", now);
    assert_true(peer_refusals_next(&r, now + PEER_REFUSAL_MIN_MS, &out));
}

static void many_addresses_share_one_report(void **state)
{
    (void)state;
    static struct peer_refusals r;
    struct peer_refusal out;
    uint32_t reports = 0;
    uint64_t count = 0;
    char remote[64];
    memset(&r, 0, sizeof(r));
    for (int i = 0; i < 1000; i++) {
        snprintf(remote, sizeof(remote), "[2001:db8::%x]:1", i);
        peer_refusals_add(&r, remote, 0, "because", 1);
        while (peer_refusals_next(&r, 1, &out)) {
            reports++;
            count += out.count;
        }
    }
    assert_int_equal(reports, PEER_REFUSALS + 1);
    assert_string_equal(r.at[0].address, "[2001:db8::0]");
    assert_string_equal(r.at[PEER_REFUSALS].address, "other-addresses");
    assert_true(peer_refusals_next(&r, 1 + PEER_REFUSAL_MIN_MS, &out));
    assert_int_equal(count + out.count, 1000);
}

static void a_flood_of_wrong_proofs_is_logged_once(void **state)
{
    (void)state;
    struct peers_world w;
    struct party p;
    const uint8_t zeros[PEER_PROOF_BYTES] = {0};
    node_2(&w);
    for (int i = 0; i < 50; i++) {
        greet(&p, &w, 7);
        begin(&p, zeros);
        assert_false(read_until(&p, PEER_PING));
        close(p.fd);
    }
    assert_int_equal(w.ends[1].refusals, 1);
    buffer_append_byte(&w.ends[1].journal, 0);
    const char *lines = (const char *)buffer_bytes(&w.ends[1].journal).data;
    const char *first = strstr(lines, "peer_refused");
    assert_non_null(first);
    assert_null(strstr(first + 1, "peer_refused"));
    world_close(&w);
}

int main(void)
{
    signal(SIGPIPE, SIG_IGN);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nodes_with_one_secret_connect),
        cmocka_unit_test(a_dialler_refuses_a_node_with_another_secret),
        cmocka_unit_test(a_node_without_a_secret_is_refused_where_it_is_required),
        cmocka_unit_test(a_secret_can_be_introduced_and_replaced_node_by_node),
        cmocka_unit_test(the_right_proof_admits_a_dialler),
        cmocka_unit_test(a_dialler_without_a_proof_is_refused),
        cmocka_unit_test(a_dialler_with_another_secret_is_refused),
        cmocka_unit_test(the_proof_of_an_acceptor_is_not_taken_back),
        cmocka_unit_test(a_proof_of_another_link_is_not_taken),
        cmocka_unit_test(a_proof_fits_the_greeting_that_was_sent),
        cmocka_unit_test(frames_out_of_place_end_the_link),
        cmocka_unit_test(a_dialler_begins_only_with_a_node_that_has_proven_itself),
        cmocka_unit_test(the_file_has_one_or_two_secrets),
        cmocka_unit_test(a_wrong_file_is_refused_and_changes_nothing),
        cmocka_unit_test(an_address_is_reported_once_per_interval_with_a_count),
        cmocka_unit_test(many_addresses_share_one_report),
        cmocka_unit_test(a_flood_of_wrong_proofs_is_logged_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
