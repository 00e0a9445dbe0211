/* Certificate, key and CAs: what is accepted, and the text of each refusal. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "certificates.h"
#include "temporary.h"
#include "tls/context.h"

static const char *folder;

static int set_up(void **state)
{
    (void)state;
    folder = temporary_folder(NULL);
    assert_int_equal(chdir(folder), 0);
    certificate_make("ca", &(struct test_certificate){.is_ca = true});
    certificate_make("other-ca", &(struct test_certificate){.is_ca = true});
    certificate_make("node", &(struct test_certificate){
                                 .ca = "ca", .names = "URI:holdfast-node:main/1,DNS:localhost"});
    certificate_make("other", &(struct test_certificate){.ca = "ca"});
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    assert_int_equal(chdir("/"), 0);
    temporary_remove(folder);
    return 0;
}

static struct credentials *load(const char *certificate, const char *key, const char *ca,
                                char *problem)
{
    struct credential_files files = {certificate, key, ca};
    problem[0] = '\0';
    return credentials_load(&files, problem);
}

static void a_matching_set_is_loaded(void **state)
{
    (void)state;
    char problem[TLS_PROBLEM];
    struct credentials *c = load("node.pem", "node-key.pem", "ca.pem", problem);
    assert_non_null(c);
    assert_true(credentials_have_certificate(c) && credentials_have_ca(c));
    assert_true(identity_has_uri(credentials_identity(c), "holdfast-node:main/1"));
    assert_int_equal(credentials_identity(c)->uri_count, 1);
    int64_t left = credentials_not_after_s(c) - (int64_t)time(NULL);
    assert_true(left > 86000 && left <= 86400);
    credentials_free(c);
}

static void refuses(const char *certificate, const char *key, const char *ca, const char *text)
{
    char problem[TLS_PROBLEM];
    struct credentials *c = load(certificate, key, ca, problem);
    if (c != NULL || strstr(problem, text) == NULL) {
        fail_msg("expected \"%s\", found \"%s\"", text, problem);
    }
}

static void each_mismatch_has_its_text(void **state)
{
    (void)state;
    refuses("missing.pem", "node-key.pem", "ca.pem", "missing.pem: No such file");
    refuses("node.pem", "other-key.pem", "ca.pem", "other-key.pem: this key does not belong");
    refuses("node.pem", "node-key.pem", "other-ca.pem", "node.pem: the CA file does not verify");
    refuses("node.pem", "node-key.pem", "other.pem",
            "other.pem: a certificate in this file is not");
    refuses("node-key.pem", "node-key.pem", "ca.pem", "no certificate in PEM form");
    assert_int_equal(chmod("node.pem", 0600), 0);
    refuses("node.pem", "node.pem", "ca.pem", "no private key in PEM form");
    refuses(".", "node-key.pem", "ca.pem", "not a regular file");
    certificate_make("mail", &(struct test_certificate){.ca = "ca", .usage = "emailProtection"});
    refuses("mail.pem", "mail-key.pem", NULL, "neither a server nor a client");
}

static void a_key_that_others_may_read_is_refused(void **state)
{
    (void)state;
    assert_int_equal(chmod("node-key.pem", 0640), 0);
    refuses("node.pem", "node-key.pem", "ca.pem", "other users may read");
    assert_int_equal(chmod("node-key.pem", 0604), 0);
    refuses("node.pem", "node-key.pem", "ca.pem", "other users may read");
    assert_int_equal(chmod("node-key.pem", 0600), 0);
}

static void malformed_names_are_refused(void **state)
{
    (void)state;
    certificate_make("many", &(struct test_certificate){
                                 .ca = "ca",
                                 .names = "URI:holdfast:a/1,URI:holdfast:a/2,URI:holdfast:a/3,"
                                          "URI:holdfast:a/4,URI:holdfast:a/5"});
    refuses("many.pem", "many-key.pem", "ca.pem", "malformed");
    certificate_make("space",
                     &(struct test_certificate){.ca = "ca", .names = "URI:holdfast:a/b c"});
    refuses("space.pem", "space-key.pem", "ca.pem", "malformed");
    char problem[TLS_PROBLEM];
    certificate_make("foreign", &(struct test_certificate){
                                    .ca = "ca", .names = "URI:https://x.example/,DNS:a.example"});
    struct credentials *c = load("foreign.pem", "foreign-key.pem", "ca.pem", problem);
    assert_non_null(c);
    assert_int_equal(credentials_identity(c)->uri_count, 0);
    credentials_free(c);
}

static void an_expired_certificate_is_loaded_with_its_dates(void **state)
{
    (void)state;
    char problem[TLS_PROBLEM];
    certificate_make("old", &(struct test_certificate){.ca = "ca", .from_s = -7200, .to_s = -3600});
    struct credentials *c = load("old.pem", "old-key.pem", "ca.pem", problem);
    assert_non_null(c);
    assert_true(credentials_not_after_s(c) < (int64_t)time(NULL));
    credentials_free(c);
}

static void a_role_needs_its_credentials(void **state)
{
    (void)state;
    char problem[TLS_PROBLEM];
    struct credentials *none = load(NULL, NULL, NULL, problem);
    struct credentials *no_ca = load("node.pem", "node-key.pem", "", problem);
    assert_non_null(none);
    assert_non_null(no_ca);
    assert_null(tls_context_new(none, &(struct tls_context_options){.role = TLS_SERVER}, problem));
    assert_non_null(strstr(problem, "needs a certificate"));
    assert_null(
        tls_context_new(no_ca, &(struct tls_context_options){.role = TLS_PEER_CLIENT}, problem));
    assert_non_null(strstr(problem, "need the file of the CA"));
    struct tls_context *client =
        tls_context_new(none, &(struct tls_context_options){.role = TLS_CLIENT}, problem);
    assert_non_null(client);
    tls_context_free(client);
    credentials_free(none);
    credentials_free(no_ca);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_matching_set_is_loaded),
        cmocka_unit_test(each_mismatch_has_its_text),
        cmocka_unit_test(a_key_that_others_may_read_is_refused),
        cmocka_unit_test(malformed_names_are_refused),
        cmocka_unit_test(an_expired_certificate_is_loaded_with_its_dates),
        cmocka_unit_test(a_role_needs_its_credentials),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
