/* See signature.h. */
#include "sinks/signature.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tls/digest.h"

enum { FILE_BYTES = SIGNATURE_SECRETS * (SIGNATURE_SECRET_MAX + 2) + 1 };

static bool complain(char problem[SIGNATURE_PROBLEM], const char *path, const char *text)
{
    snprintf(problem, SIGNATURE_PROBLEM, "%.120s: %s", path, text);
    return false;
}

static bool take_line(struct signature_secrets *out, const uint8_t *line, size_t len,
                      const char *path, char problem[SIGNATURE_PROBLEM])
{
    len -= len > 0 && line[len - 1] == '\r';
    if (len == 0) {
        return true;
    }
    if (out->count == SIGNATURE_SECRETS) {
        return complain(problem, path, "there are at most two secrets, one a line");
    }
    if (len < SIGNATURE_SECRET_MIN || len > SIGNATURE_SECRET_MAX) {
        return complain(problem, path,
                        "a secret has 16 to 256 bytes, for example: openssl rand -hex 32");
    }
    memcpy(out->bytes[out->count], line, len);
    out->len[out->count++] = (uint32_t)len;
    return true;
}

static bool take_lines(struct signature_secrets *out, const uint8_t *bytes, size_t len,
                       const char *path, char problem[SIGNATURE_PROBLEM])
{
    while (len > 0) {
        const uint8_t *end = memchr(bytes, '\n', len);
        size_t used = end == NULL ? len : (size_t)(end - bytes) + 1;
        if (!take_line(out, bytes, end == NULL ? len : used - 1, path, problem)) {
            return false;
        }
        bytes += used;
        len -= used;
    }
    return out->count > 0 || complain(problem, path, "there is no secret in the file");
}

bool signature_load(struct signature_secrets *out, const char *path,
                    char problem[SIGNATURE_PROBLEM])
{
    struct signature_secrets found = {0};
    uint8_t bytes[FILE_BYTES];
    struct stat info;
    bool is_fine = false;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) {
        return complain(problem, path, strerrordesc_np(errno));
    }
    ssize_t len = read(fd, bytes, sizeof(bytes));
    if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
        (void)complain(problem, path, "this is not a regular file");
    } else if ((info.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
        (void)complain(problem, path,
                       "other users may read or change this secret; run: chmod 600 on it");
    } else if (len < 0) {
        (void)complain(problem, path, strerrordesc_np(errno));
    } else if ((size_t)len == sizeof(bytes)) {
        (void)complain(problem, path, "the file is too large for two secrets");
    } else {
        is_fine = take_lines(&found, bytes, (size_t)len, path, problem);
    }
    close(fd);
    if (is_fine) {
        *out = found;
    }
    digest_wipe(bytes, sizeof(bytes));
    signature_wipe(&found);
    return is_fine;
}

void signature_wipe(struct signature_secrets *secrets)
{
    digest_wipe(secrets, sizeof(*secrets));
}

void signature_write(const struct signature_secrets *secrets, uint64_t wall_s, struct slice body,
                     char out[SIGNATURE_TEXT])
{
    char time[24];
    int used = snprintf(time, sizeof(time), "%" PRIu64, wall_s);
    const struct slice parts[] = {slice_make(time, (size_t)used), slice_of("."), body};
    used = snprintf(out, SIGNATURE_TEXT, "t=%s", time);
    for (uint32_t i = 0; i < secrets->count; i++) {
        uint8_t mac[DIGEST_SIZE];
        digest_hmac(slice_make(secrets->bytes[i], secrets->len[i]), parts, 3, mac);
        used += snprintf(out + used, SIGNATURE_TEXT - (size_t)used, ",v1=");
        for (size_t j = 0; j < sizeof(mac); j++) {
            used += snprintf(out + used, SIGNATURE_TEXT - (size_t)used, "%02x", mac[j]);
        }
    }
}
