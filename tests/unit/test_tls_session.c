/* Two sessions that pass each other their bytes: verification of both ends, and plain bytes only
 * after it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <unistd.h>

#include "certificates.h"
#include "temporary.h"
#include "tls/session.h"

static const char *folder;

static int set_up(void **state)
{
    (void)state;
    folder = temporary_folder(NULL);
    assert_int_equal(chdir(folder), 0);
    certificate_make("ca", &(struct test_certificate){.is_ca = true});
    certificate_make("other-ca", &(struct test_certificate){.is_ca = true});
    certificate_make("node", &(struct test_certificate){.ca = "ca",
                                                        .names = "URI:holdfast-node:main/1,"
                                                                 "DNS:localhost,IP:127.0.0.1"});
    certificate_make("two",
                     &(struct test_certificate){.ca = "ca", .names = "URI:holdfast-node:main/2"});
    certificate_make("client",
                     &(struct test_certificate){.ca = "ca", .names = "URI:holdfast:default/app"});
    certificate_make("old",
                     &(struct test_certificate){
                         .ca = "ca", .names = "DNS:localhost", .from_s = -7200, .to_s = -3600});
    certificate_make("early",
                     &(struct test_certificate){
                         .ca = "ca", .names = "DNS:localhost", .from_s = 3600, .to_s = 7200});
    certificate_make("foreign",
                     &(struct test_certificate){.ca = "other-ca", .names = "DNS:localhost"});
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    assert_int_equal(chdir("/"), 0);
    temporary_remove(folder);
    return 0;
}

/* ---- two ends ---- */

struct end {
    struct tls_context *context;
    struct tls_session *session;
    struct buffer plain;
    struct buffer wire;
};

static void end_init(struct end *e, enum tls_role role, enum tls_version min, const char *name,
                     const char *server_name)
{
    static const char *const protocols[] = {"h2", "http/1.1", NULL};
    char certificate[64] = "", key[64] = "", problem[TLS_PROBLEM] = "";
    if (name != NULL) {
        snprintf(certificate, sizeof(certificate), "%s.pem", name);
        snprintf(key, sizeof(key), "%s-key.pem", name);
    }
    /* The foreign one does not match this CA, so its owner has another file. */
    bool is_foreign = name != NULL && strcmp(name, "foreign") == 0;
    struct credential_files files = {certificate, key, is_foreign ? "other-ca.pem" : "ca.pem"};
    struct credentials *c = credentials_load(&files, problem);
    assert_string_equal(problem, "");
    struct tls_context_options options = {.role = role, .min = min, .protocols = protocols};
    e->context = tls_context_new(c, &options, problem);
    assert_string_equal(problem, "");
    credentials_free(c);
    e->session = tls_session_new(e->context, server_name);
    buffer_init(&e->plain, memory_system(), 1u << 20);
    buffer_init(&e->wire, memory_system(), 1u << 20);
}

static void end_close(struct end *e)
{
    tls_session_free(e->session);
    tls_context_free(e->context);
    buffer_close(&e->plain);
    buffer_close(&e->wire);
}

/* Passes at most `piece` bytes at a time. */
static void pass(struct end *from, struct end *to, size_t piece)
{
    while (buffer_len(&from->wire) > 0) {
        struct slice bytes = buffer_bytes(&from->wire);
        bytes.len = bytes.len < piece ? bytes.len : piece;
        tls_session_receive(to->session, bytes, &to->plain, &to->wire);
        buffer_consume(&from->wire, bytes.len);
    }
}

static void shake_hands(struct end *client, struct end *server, size_t piece)
{
    tls_session_receive(client->session, slice_make(NULL, 0), &client->plain, &client->wire);
    while (buffer_len(&client->wire) + buffer_len(&server->wire) > 0) {
        pass(client, server, piece);
        pass(server, client, piece);
    }
}

static void pair_init(struct end *client, struct end *server, const char *client_name,
                      const char *server_name)
{
    end_init(server, TLS_SERVER, TLS_1_3, server_name, NULL);
    end_init(client, TLS_CLIENT, TLS_1_3, client_name, "localhost");
}

static void expect_text(struct end *e, const char *text)
{
    assert_int_equal(buffer_len(&e->plain), strlen(text));
    assert_memory_equal(buffer_bytes(&e->plain).data, text, strlen(text));
    buffer_truncate(&e->plain, 0);
}

/* ---- tests ---- */

static void bytes_pass_both_ways_in_any_pieces(void **state)
{
    (void)state;
    static const size_t pieces[] = {1, 7, 1000, SIZE_MAX};
    for (size_t i = 0; i < sizeof(pieces) / sizeof(pieces[0]); i++) {
        struct end client, server;
        pair_init(&client, &server, "client", "node");
        assert_false(tls_session_write(server.session, slice_of("early"), &server.wire));
        shake_hands(&client, &server, pieces[i]);
        assert_int_equal(tls_session_state(client.session), TLS_OPEN);
        assert_int_equal(tls_session_state(server.session), TLS_OPEN);
        assert_string_equal(tls_session_protocol(server.session), "h2");
        assert_string_equal(tls_session_version(client.session), "TLSv1.3");
        assert_true(tls_session_write(client.session, slice_of("ping"), &client.wire));
        pass(&client, &server, pieces[i]);
        expect_text(&server, "ping");
        assert_true(tls_session_write(server.session, slice_of("pong"), &server.wire));
        pass(&server, &client, pieces[i]);
        expect_text(&client, "pong");
        end_close(&client);
        end_close(&server);
    }
}

static void large_output_arrives_whole(void **state)
{
    (void)state;
    enum { LEN = 300000 };
    struct end client, server;
    pair_init(&client, &server, NULL, "node");
    shake_hands(&client, &server, SIZE_MAX);
    uint8_t *bytes = memory_alloc(memory_system(), LEN);
    for (int i = 0; i < LEN; i++) {
        bytes[i] = (uint8_t)(i * 7 + i / 256);
    }
    assert_true(tls_session_write(server.session, slice_make(bytes, LEN), &server.wire));
    pass(&server, &client, 65536);
    assert_int_equal(buffer_len(&client.plain), LEN);
    assert_memory_equal(buffer_bytes(&client.plain).data, bytes, LEN);
    memory_free(memory_system(), bytes, LEN);
    end_close(&client);
    end_close(&server);
}

static void the_identity_is_that_of_the_certificate(void **state)
{
    (void)state;
    struct end client, server;
    pair_init(&client, &server, "client", "node");
    shake_hands(&client, &server, SIZE_MAX);
    const struct peer_identity *identity = tls_session_identity(server.session);
    assert_non_null(identity);
    assert_true(identity_has_uri(identity, "holdfast:default/app"));
    assert_false(identity_has_uri(identity, "holdfast:default/ap"));
    assert_true(strlen(identity->serial) > 0 && identity->not_after_s > 0);
    assert_true(identity_has_uri(tls_session_identity(client.session), "holdfast-node:main/1"));
    end_close(&client);
    end_close(&server);
    pair_init(&client, &server, NULL, "node");
    shake_hands(&client, &server, SIZE_MAX);
    assert_int_equal(tls_session_state(server.session), TLS_OPEN);
    assert_null(tls_session_identity(server.session));
    end_close(&client);
    end_close(&server);
}

static void expect_failure(struct end *e, const char *text)
{
    if (tls_session_state(e->session) != TLS_FAILED ||
        strstr(tls_session_problem(e->session), text) == NULL) {
        fail_msg("expected \"%s\", found state %d, \"%s\"", text,
                 (int)tls_session_state(e->session), tls_session_problem(e->session));
    }
    assert_int_equal(buffer_len(&e->plain), 0);
}

static void a_client_refuses_a_server_that_it_cannot_verify(void **state)
{
    (void)state;
    static const struct {
        const char *server, *name, *text;
    } rows[] = {
        {"old", "localhost", "certificate has expired"},
        {"early", "localhost", "certificate is not yet valid"},
        {"foreign", "localhost", "certificate"},
        {"node", "elsewhere.example", "ostname mismatch"},
        {"node", "127.0.0.2", "IP address mismatch"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct end client, server;
        end_init(&server, TLS_SERVER, TLS_1_3, rows[i].server, NULL);
        end_init(&client, TLS_CLIENT, TLS_1_3, NULL, rows[i].name);
        shake_hands(&client, &server, SIZE_MAX);
        expect_failure(&client, rows[i].text);
        assert_false(tls_session_write(client.session, slice_of("secret"), &client.wire));
        assert_int_not_equal(tls_session_state(server.session), TLS_OPEN);
        end_close(&client);
        end_close(&server);
    }
}

static void an_address_is_verified_as_one(void **state)
{
    (void)state;
    struct end client, server;
    end_init(&server, TLS_SERVER, TLS_1_3, "node", NULL);
    end_init(&client, TLS_CLIENT, TLS_1_3, NULL, "127.0.0.1");
    shake_hands(&client, &server, SIZE_MAX);
    assert_int_equal(tls_session_state(client.session), TLS_OPEN);
    end_close(&client);
    end_close(&server);
}

static void a_server_refuses_a_client_that_it_cannot_verify(void **state)
{
    (void)state;
    static const char *const names[] = {"old", "early", "foreign"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        struct end client, server;
        end_init(&server, TLS_SERVER, TLS_1_3, "node", NULL);
        end_init(&client, TLS_PEER_CLIENT, TLS_1_3, names[i], NULL);
        tls_session_receive(client.session, slice_make(NULL, 0), &client.plain, &client.wire);
        pass(&client, &server, SIZE_MAX);
        pass(&server, &client, SIZE_MAX);
        if (strcmp(names[i], "foreign") == 0) { /* its owner does not know our CA either */
            expect_failure(&client, "certificate");
        } else {
            tls_session_write(client.session, slice_of("hello"), &client.wire);
            pass(&client, &server, SIZE_MAX);
            expect_failure(&server, "certificate");
        }
        end_close(&client);
        end_close(&server);
    }
}

static void a_peer_needs_a_certificate(void **state)
{
    (void)state;
    struct end client, server;
    end_init(&server, TLS_PEER_SERVER, TLS_1_3, "node", NULL);
    end_init(&client, TLS_CLIENT, TLS_1_3, NULL, "localhost");
    shake_hands(&client, &server, SIZE_MAX);
    expect_failure(&server, "certificate");
    end_close(&client);
    end_close(&server);
    end_init(&server, TLS_PEER_SERVER, TLS_1_3, "node", NULL);
    end_init(&client, TLS_PEER_CLIENT, TLS_1_3, "two", NULL);
    shake_hands(&client, &server, SIZE_MAX);
    assert_true(identity_has_uri(tls_session_identity(server.session), "holdfast-node:main/2"));
    assert_true(identity_has_uri(tls_session_identity(client.session), "holdfast-node:main/1"));
    end_close(&client);
    end_close(&server);
}

static void clear_text_and_noise_end_the_session(void **state)
{
    (void)state;
    struct end server;
    end_init(&server, TLS_SERVER, TLS_1_3, "node", NULL);
    tls_session_receive(server.session, slice_of("GET / HTTP/1.1\r\n"), &server.plain,
                        &server.wire);
    expect_failure(&server, "does not speak TLS");
    assert_true(tls_session_is_clear_text(server.session));
    end_close(&server);
    end_init(&server, TLS_SERVER, TLS_1_3, "node", NULL);
    tls_session_receive(server.session, slice_of("\x16\x03\x01\x01\x01nonsense............"),
                        &server.plain, &server.wire);
    uint8_t noise[600];
    memset(noise, 0x5a, sizeof(noise));
    tls_session_receive(server.session, slice_make(noise, sizeof(noise)), &server.plain,
                        &server.wire);
    expect_failure(&server, "");
    assert_false(tls_session_is_clear_text(server.session));
    end_close(&server);
}

static void a_damaged_record_ends_the_session(void **state)
{
    (void)state;
    struct end client, server;
    pair_init(&client, &server, NULL, "node");
    shake_hands(&client, &server, SIZE_MAX);
    tls_session_write(client.session, slice_of("ping"), &client.wire);
    struct slice bytes = buffer_bytes(&client.wire);
    ((uint8_t *)(uintptr_t)bytes.data)[bytes.len - 1] ^= 1;
    pass(&client, &server, SIZE_MAX);
    expect_failure(&server, "");
    assert_true(buffer_len(&server.wire) > 0); /* the alert */
    end_close(&client);
    end_close(&server);
}

static void each_end_reports_its_close(void **state)
{
    (void)state;
    struct end client, server;
    pair_init(&client, &server, NULL, "node");
    shake_hands(&client, &server, SIZE_MAX);
    tls_session_write(client.session, slice_of("last"), &client.wire);
    tls_session_end(client.session, &client.wire);
    pass(&client, &server, SIZE_MAX);
    expect_text(&server, "last");
    assert_int_equal(tls_session_state(server.session), TLS_ENDED);
    assert_true(tls_session_write(server.session, slice_of("answer"), &server.wire));
    tls_session_end(server.session, &server.wire);
    pass(&server, &client, SIZE_MAX);
    expect_text(&client, "answer");
    end_close(&client);
    end_close(&server);
}

/* Each connection keeps the key of its key exchange there. The last test: it changes the process. */
static void protected_memory_is_enough_for_all_sessions(void **state)
{
    (void)state;
    enum { SESSIONS = 5000 };
    static struct tls_session *sessions[SESSIONS];
    struct end client, server;
    assert_true(credentials_protect_keys(SESSIONS));
    pair_init(&client, &server, NULL, "node");
    for (int i = 0; i < SESSIONS; i++) {
        shake_hands(&client, &server, SIZE_MAX);
        assert_int_equal(tls_session_state(server.session), TLS_OPEN);
        assert_int_equal(tls_session_state(client.session), TLS_OPEN);
        sessions[i] = server.session;
        tls_session_free(client.session);
        server.session = tls_session_new(server.context, NULL);
        client.session = tls_session_new(client.context, "localhost");
    }
    for (int i = 0; i < SESSIONS; i++) {
        tls_session_free(sessions[i]);
    }
    end_close(&client);
    end_close(&server);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_pass_both_ways_in_any_pieces),
        cmocka_unit_test(large_output_arrives_whole),
        cmocka_unit_test(the_identity_is_that_of_the_certificate),
        cmocka_unit_test(a_client_refuses_a_server_that_it_cannot_verify),
        cmocka_unit_test(an_address_is_verified_as_one),
        cmocka_unit_test(a_server_refuses_a_client_that_it_cannot_verify),
        cmocka_unit_test(a_peer_needs_a_certificate),
        cmocka_unit_test(clear_text_and_noise_end_the_session),
        cmocka_unit_test(a_damaged_record_ends_the_session),
        cmocka_unit_test(each_end_reports_its_close),
        cmocka_unit_test(protected_memory_is_enough_for_all_sessions),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
