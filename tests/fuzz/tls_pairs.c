/* Implements tls_pairs.h. */
#define OPENSSL_SUPPRESS_DEPRECATED /* RAND_set_rand_method: fixed random numbers */
#include "tls_pairs.h"

#include <openssl/rand.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/panic.h"
#include "certificates.h"
#include "tls/internal.h"

static uint64_t number;

static int fixed_bytes(unsigned char *to, int len)
{
    for (int i = 0; i < len; i++) {
        number = number * 6364136223846793005u + 1442695040888963407u;
        to[i] = (unsigned char)(number >> 56);
    }
    return 1;
}

static int is_seeded(void)
{
    return 1;
}

static const RAND_METHOD fixed = {
    .bytes = fixed_bytes, .pseudorand = fixed_bytes, .status = is_seeded};

/* ---- contexts ---- */

enum { CLIENT_ENDS = PAIR_KINDS, CONTEXTS = 2 * PAIR_KINDS };

static struct tls_context *contexts[CONTEXTS]; /* of servers, then of clients */

static struct tls_context *make(enum tls_role role, enum tls_version min, const char *own,
                                const char *ca)
{
    static const char *const protocols[] = {"h2", "http/1.1", NULL};
    char certificate[64] = "", key[64] = "", problem[TLS_PROBLEM] = "";
    if (own != NULL) {
        snprintf(certificate, sizeof(certificate), "%s.pem", own);
        snprintf(key, sizeof(key), "%s-key.pem", own);
    }
    struct credential_files files = {certificate, key, ca};
    struct credentials *c = credentials_load(&files, problem);
    if (c == NULL) {
        fprintf(stderr, "%s\n", problem);
        abort();
    }
    bool is_peer = role == TLS_PEER_SERVER || role == TLS_PEER_CLIENT;
    struct tls_context_options options = {
        .role = role, .min = min, .protocols = is_peer ? NULL : protocols};
    struct tls_context *context = tls_context_new(c, &options, problem);
    hf_assert(context != NULL);
    credentials_free(c);
    return context;
}

static void make_contexts(void)
{
    static const struct {
        enum tls_role server, client;
        enum tls_version min;
        const char *own, *ca; /* of the client */
    } pairs[PAIR_KINDS] = {
        [PAIR_PLAIN] = {TLS_SERVER, TLS_CLIENT, TLS_1_3, NULL, "ca.pem"},
        [PAIR_CERTIFIED] = {TLS_SERVER, TLS_CLIENT, TLS_1_3, "client", "ca.pem"},
        [PAIR_PEERS] = {TLS_PEER_SERVER, TLS_PEER_CLIENT, TLS_1_3, "two", "ca.pem"},
        [PAIR_1_2] = {TLS_SERVER, TLS_CLIENT, TLS_1_2, "client", "ca.pem"},
        [PAIR_FOREIGN_CLIENT] = {TLS_SERVER, TLS_CLIENT, TLS_1_3, "foreign", "both.pem"},
        [PAIR_FOREIGN_PEER] = {TLS_PEER_SERVER, TLS_PEER_CLIENT, TLS_1_3, "foreign", "both.pem"},
        [PAIR_WRONG_NAME] = {TLS_SERVER, TLS_CLIENT, TLS_1_3, NULL, "ca.pem"},
    };
    certificate_make("ca", &(struct test_certificate){.is_ca = true});
    certificate_make("other-ca",
                     &(struct test_certificate){.is_ca = true, .common_name = "other CA"});
    certificate_make("node", &(struct test_certificate){
                                 .ca = "ca", .names = "URI:holdfast-node:main/1,DNS:localhost"});
    certificate_make("two",
                     &(struct test_certificate){.ca = "ca", .names = "URI:holdfast-node:main/2"});
    certificate_make("client",
                     &(struct test_certificate){.ca = "ca", .names = "URI:holdfast:default/app"});
    certificate_make("foreign", &(struct test_certificate){.ca = "other-ca",
                                                           .names = "URI:holdfast-node:main/2"});
    hf_assert(system("cat ca.pem other-ca.pem > both.pem") == 0);
    for (int i = 0; i < PAIR_KINDS; i++) {
        contexts[i] = make(pairs[i].server, pairs[i].min, "node", "ca.pem");
        contexts[CLIENT_ENDS + i] = make(pairs[i].client, pairs[i].min, pairs[i].own, pairs[i].ca);
    }
    SSL_CTX_set_max_proto_version(contexts[CLIENT_ENDS + PAIR_1_2]->ssl, TLS1_2_VERSION);
}

void tls_pairs_begin(void)
{
    char folder[] = "/tmp/holdfast-fuzz-XXXXXX";
    char before[4096], command[64];
    number = 1;
    if (contexts[0] != NULL) {
        return;
    }
    RAND_set_rand_method(&fixed);
    hf_assert(getcwd(before, sizeof(before)) != NULL && mkdtemp(folder) != NULL);
    hf_assert(chdir(folder) == 0);
    make_contexts();
    hf_assert(chdir(before) == 0);
    snprintf(command, sizeof(command), "rm -r %s", folder);
    hf_assert(system(command) == 0);
}

void tls_pair_open(struct tls_pair *pair, enum tls_pair_kind kind)
{
    bool is_peer = kind == PAIR_PEERS || kind == PAIR_FOREIGN_PEER;
    const char *name = kind == PAIR_WRONG_NAME ? "example.org" : "localhost";
    pair->server = tls_session_new(contexts[kind], NULL);
    pair->client = tls_session_new(contexts[CLIENT_ENDS + kind], is_peer ? NULL : name);
}

void tls_pair_close(struct tls_pair *pair)
{
    tls_session_free(pair->server);
    tls_session_free(pair->client);
}

bool tls_pair_must_fail(enum tls_pair_kind kind)
{
    return kind >= PAIR_FOREIGN_CLIENT;
}
