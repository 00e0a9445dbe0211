/* See secret.h. */
#include "cli/secret.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/say.h"
#include "tls/digest.h"

enum { RANDOM_BYTES = 32 };

static void set_digest(struct secret *s)
{
    uint8_t digest[DIGEST_SIZE];
    digest_sha256(slice_of(s->text), digest);
    for (size_t i = 0; i < sizeof(digest); i++) {
        (void)snprintf(s->sha256 + 2 * i, 3, "%02x", digest[i]);
    }
}

static void write_base64url(const uint8_t *bytes, size_t len, char *out)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    unsigned bits = 0;
    unsigned count = 0;
    for (size_t i = 0; i < len; i++) {
        bits = (bits << 8 | bytes[i]) & 0xffff;
        for (count += 8; count >= 6; count -= 6) {
            *out++ = digits[bits >> (count - 6) & 63];
        }
    }
    if (count > 0) {
        *out++ = digits[bits << (6 - count) & 63];
    }
    *out = '\0';
}

void secret_make(struct secret *s)
{
    uint8_t bytes[RANDOM_BYTES];
    digest_random(bytes, sizeof(bytes));
    memcpy(s->text, "hf_", 3);
    write_base64url(bytes, sizeof(bytes), s->text + 3);
    digest_wipe(bytes, sizeof(bytes));
    set_digest(s);
}

bool secret_read(struct secret *s, const char *path)
{
    char problem[SECURITY_PROBLEM];
    *s = (struct secret){.text = ""};
    if (!security_read_token(path, s->text, problem)) {
        cli_say("%s", problem);
        return false;
    }
    set_digest(s);
    return true;
}

static bool fail(const char *path)
{
    cli_say("%s: %s", path,
            errno == EEXIST ? "the file exists already and is not overwritten" : strerror(errno));
    return false;
}

bool secret_store(const struct secret *s, const char *path)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) {
        return fail(path);
    }
    bool is_written = dprintf(fd, "%s\n", s->text) > 0 && fsync(fd) == 0;
    int error = errno;
    is_written = close(fd) == 0 && is_written;
    if (!is_written) {
        (void)unlink(path);
        errno = error;
    }
    return is_written || fail(path);
}

void secret_wipe(struct secret *s)
{
    digest_wipe(s, sizeof(*s));
}
