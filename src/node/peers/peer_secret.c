/* See peer_secret.h. */
#include "node/peers/peer_secret.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tls/digest.h"

_Static_assert((int)PEER_PROOF_BYTES == (int)DIGEST_SIZE, "a proof is a digest");

enum { FILE_MAX = PEER_SECRETS * (PEER_SECRET_MAX + 2) + 1 };

/* ---- the file ---- */

static bool complain(char problem[PEER_SECRET_PROBLEM], const char *path, const char *text)
{
    snprintf(problem, PEER_SECRET_PROBLEM, "peer-secret-file: %s: %s", path, text);
    return false;
}

/* The length, or -1 with errno. */
static ssize_t read_all(int fd, uint8_t *to, size_t max)
{
    size_t len = 0;
    while (len < max) {
        ssize_t got = read(fd, to + len, max - len);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got <= 0) {
            return got < 0 ? -1 : (ssize_t)len;
        }
        len += (size_t)got;
    }
    errno = EFBIG;
    return -1;
}

static ssize_t read_file(const char *path, uint8_t bytes[FILE_MAX],
                         char problem[PEER_SECRET_PROBLEM])
{
    struct stat info;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) {
        (void)complain(problem, path, strerrordesc_np(errno));
        return -1;
    }
    ssize_t len = -1;
    if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
        (void)complain(problem, path, "this is not a regular file");
    } else if ((info.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
        (void)complain(problem, path,
                       "other users may read or change this secret; run: chmod 600 on it");
    } else {
        len = read_all(fd, bytes, FILE_MAX);
        if (len < 0) {
            (void)complain(problem, path, strerrordesc_np(errno));
        }
    }
    close(fd);
    return len;
}

/* The next line that is not empty. */
static bool next_line(struct slice *left, struct slice *line)
{
    while (left->len > 0) {
        const uint8_t *end = memchr(left->data, '\n', left->len);
        size_t len = end == NULL ? left->len : (size_t)(end - left->data);
        size_t used = end == NULL ? len : len + 1;
        *line = slice_make(left->data, len > 0 && left->data[len - 1] == '\r' ? len - 1 : len);
        *left = slice_make(left->data + used, left->len - used);
        if (line->len > 0) {
            return true;
        }
    }
    return false;
}

static bool parse(struct peer_secrets *s, const char *path, struct slice text,
                  char problem[PEER_SECRET_PROBLEM])
{
    struct slice line;
    while (next_line(&text, &line)) {
        if (s->count == PEER_SECRETS) {
            return complain(problem, path, "there are more than 2 lines; each is a secret");
        }
        if (line.len < PEER_SECRET_MIN || line.len > PEER_SECRET_MAX) {
            return complain(problem, path,
                            "a secret must have 16 to 256 bytes; make one with: openssl rand -hex "
                            "32");
        }
        struct peer_secret *secret = &s->at[s->count++];
        memcpy(secret->bytes, line.data, line.len);
        secret->len = line.len;
    }
    return s->count > 0 ||
           complain(problem, path, "the file has no secret; make one with: openssl rand -hex 32");
}

bool peer_secrets_load(struct peer_secrets *s, const char *path, char problem[PEER_SECRET_PROBLEM])
{
    uint8_t bytes[FILE_MAX];
    struct peer_secrets new = {.is_required = s->is_required};
    ssize_t len = read_file(path, bytes, problem);
    bool done = len >= 0 && parse(&new, path, slice_make(bytes, (size_t)len), problem);
    if (done) {
        *s = new;
    }
    peer_secrets_wipe(&new);
    digest_wipe(bytes, sizeof(bytes));
    return done;
}

void peer_secrets_wipe(struct peer_secrets *s)
{
    digest_wipe(s->at, sizeof(s->at));
    s->count = 0;
}

/* ---- proofs ---- */

static void make_proof(const struct peer_secret *secret, bool by_dialler,
                       const struct peer_transcript *transcript, uint8_t proof[PEER_PROOF_BYTES])
{
    /* All parts have a fixed length. */
    const struct slice parts[] = {
        slice_of(by_dialler ? "holdfast peer 1 dialler:" : "holdfast peer 1 acceptor"),
        slice_make(transcript->hello, sizeof(transcript->hello)),
        slice_make(transcript->welcome, sizeof(transcript->welcome)),
    };
    digest_hmac(slice_make(secret->bytes, secret->len), parts, sizeof(parts) / sizeof(parts[0]),
                proof);
}

void peer_secrets_prove(const struct peer_secrets *s, bool by_dialler,
                        const struct peer_transcript *transcript, uint8_t proof[PEER_PROOF_BYTES])
{
    hf_assert(s->count > 0);
    make_proof(&s->at[0], by_dialler, transcript, proof);
}

bool peer_secrets_verify(const struct peer_secrets *s, bool by_dialler,
                         const struct peer_transcript *transcript,
                         const uint8_t proof[PEER_PROOF_BYTES])
{
    bool fits = false;
    for (uint32_t i = 0; i < s->count; i++) {
        uint8_t expected[PEER_PROOF_BYTES];
        make_proof(&s->at[i], by_dialler, transcript, expected);
        fits = digest_equal(expected, proof, sizeof(expected)) || fits;
        digest_wipe(expected, sizeof(expected));
    }
    return fits;
}
