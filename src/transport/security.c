/* See security.h. */
#include "transport/security.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"
#include "tls/digest.h"

enum { NAME_MAX_BYTES = 256, KEPT = 192 };

struct security {
    struct tls_context *context; /* NULL: clear text */
    char server_name[NAME_MAX_BYTES];
    char token[SECURITY_TOKEN_MAX + 1];
    char tenant[SECURITY_TENANT_MAX + 1];
    char kept[KEPT];
};

static bool fail(char problem[SECURITY_PROBLEM], const char *what, const char *text)
{
    (void)snprintf(problem, SECURITY_PROBLEM, "%.300s: %s", what, text);
    return false;
}

/* NULL: neither given nor in the environment. */
static const char *choose(const char *given, const char *variable)
{
    const char *text = given != NULL && given[0] != '\0' ? given : getenv(variable);
    return text != NULL && text[0] != '\0' ? text : NULL;
}

static struct security_files choose_all(const struct security_files *given)
{
    return (struct security_files){
        .ca = choose(given->ca, "HOLDFAST_CA"),
        .certificate = choose(given->certificate, "HOLDFAST_CERT"),
        .key = choose(given->key, "HOLDFAST_KEY"),
        .server_name = choose(given->server_name, "HOLDFAST_SERVER_NAME"),
        .token_file = choose(given->token_file, "HOLDFAST_TOKEN_FILE"),
        .tenant = choose(given->tenant, "HOLDFAST_TENANT"),
    };
}

/* ---- the token ---- */

/* The bytes read; -1: failed. */
static ssize_t read_all(int fd, char *to, size_t size)
{
    size_t len = 0;
    while (len < size) {
        ssize_t got = read(fd, to + len, size - len);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0) {
            return -1;
        }
        if (got == 0) {
            break;
        }
        len += (size_t)got;
    }
    return (ssize_t)len;
}

/* One line of printable characters: it becomes a part of a header. */
static bool take_token(char *out, const char *text, size_t len)
{
    size_t line = 0;
    while (line < len && text[line] > ' ' && text[line] <= '~') {
        line++;
    }
    for (size_t i = line; i < len; i++) {
        if (strchr("\r\n", text[i]) == NULL) {
            return false;
        }
    }
    if (line == 0 || line > SECURITY_TOKEN_MAX) {
        return false;
    }
    memcpy(out, text, line);
    out[line] = '\0';
    return true;
}

bool security_read_token(const char *path, char out[SECURITY_TOKEN_MAX + 1],
                         char problem[SECURITY_PROBLEM])
{
    char text[SECURITY_TOKEN_MAX + 4];
    struct stat about;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return fail(problem, path, strerror(errno));
    }
    bool is_open_to_others = fstat(fd, &about) == 0 && S_ISREG(about.st_mode) &&
                             (about.st_mode & (S_IRWXG | S_IRWXO)) != 0;
    ssize_t len = is_open_to_others ? 0 : read_all(fd, text, sizeof(text));
    (void)close(fd);
    if (is_open_to_others) {
        return fail(problem, path, "other users may read the token: use mode 0600");
    }
    bool is_taken = len > 0 && take_token(out, text, (size_t)len);
    digest_wipe(text, sizeof(text));
    return is_taken ||
           fail(problem, path, "it is not a file with one token of 1 to 256 characters");
}

/* ---- the rest ---- */

static bool take_name(char *to, size_t size, const char *text)
{
    size_t len = strlen(text);
    for (size_t i = 0; i < len; i++) {
        if (text[i] <= ' ' || text[i] > '~') {
            return false;
        }
    }
    if (len >= size) {
        return false;
    }
    memcpy(to, text, len + 1);
    return true;
}

static bool make_context(struct security *s, const struct security_files *f,
                         const char *const *protocols, char problem[SECURITY_PROBLEM])
{
    bool is_system = f->ca != NULL && strcmp(f->ca, "system") == 0;
    if ((f->certificate == NULL) != (f->key == NULL)) {
        return fail(problem, f->key == NULL ? "a certificate without its key" : "a key",
                    "certificate and key must be given together");
    }
    struct credential_files files = {f->certificate, f->key, is_system ? NULL : f->ca};
    struct credentials *credentials = credentials_load(&files, problem);
    if (credentials == NULL) {
        return false;
    }
    struct tls_context_options options = {TLS_CLIENT, TLS_1_3, protocols};
    s->context = tls_context_new(credentials, &options, problem);
    credentials_free(credentials);
    return s->context != NULL;
}

static bool load(struct security *s, const struct security_files *f, const char *const *protocols,
                 char problem[SECURITY_PROBLEM])
{
    bool uses_tls =
        f->ca != NULL || f->certificate != NULL || f->key != NULL || f->server_name != NULL;
    if (f->server_name != NULL &&
        !take_name(s->server_name, sizeof(s->server_name), f->server_name)) {
        return fail(problem, "server name", "it is not a host name or an IP address");
    }
    if (f->tenant != NULL && !take_name(s->tenant, sizeof(s->tenant), f->tenant)) {
        return fail(problem, "tenant", "a name has 1 to 64 letters, digits, '.', '_' or '-'");
    }
    return (!uses_tls || make_context(s, f, protocols, problem)) &&
           (f->token_file == NULL || security_read_token(f->token_file, s->token, problem));
}

struct security *security_load(const struct security_files *given, const char *const *protocols,
                               char problem[SECURITY_PROBLEM])
{
    struct security *s = memory_alloc(memory_system(), sizeof(*s));
    struct security_files files = choose_all(given);
    memset(s, 0, sizeof(*s));
    if (!load(s, &files, protocols, problem)) {
        security_free(s);
        return NULL;
    }
    return s;
}

void security_free(struct security *s)
{
    if (s != NULL) {
        tls_context_free(s->context);
        digest_wipe(s->token, sizeof(s->token));
        memory_free(memory_system(), s, sizeof(*s));
    }
}

struct tls_context *security_context(const struct security *s)
{
    return s->context;
}

const char *security_server_name(const struct security *s)
{
    return s->server_name[0] != '\0' ? s->server_name : NULL;
}

const char *security_token(const struct security *s)
{
    return s->token;
}

const char *security_tenant(const struct security *s)
{
    return s->tenant;
}

const char *security_keep_problem(struct security *s, const char *text)
{
    (void)snprintf(s->kept, sizeof(s->kept), "%s", text);
    return s->kept;
}
