/* See issue_file.h. */
#include "tls/issue_file.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/panic.h"

static bool fail(char problem[ISSUE_PROBLEM], const char *path, const char *text)
{
    (void)snprintf(problem, ISSUE_PROBLEM, "%.300s: %s", path, text);
    return false;
}

bool issue_file_names(const char *dir, const char *stem, struct issue_files *files,
                      char problem[ISSUE_PROBLEM])
{
    int a = snprintf(files->certificate, sizeof(files->certificate), "%s/%s.pem", dir, stem);
    int b = snprintf(files->key, sizeof(files->key), "%s/%s-key.pem", dir, stem);
    bool fits =
        a > 0 && b > 0 && (size_t)a < sizeof(files->certificate) && (size_t)b < sizeof(files->key);
    return fits || fail(problem, dir, "the path is too long");
}

static bool write_all(int fd, const char *bytes, size_t len)
{
    while (len > 0) {
        ssize_t written = write(fd, bytes, len);
        if (written < 0 && errno == EINTR) {
            continue;
        }
        if (written <= 0) {
            return false;
        }
        bytes += written;
        len -= (size_t)written;
    }
    return true;
}

/* A new file with the bytes of `memory`. False: errno is set, and this call left no file. */
static bool create(const char *path, mode_t mode, BIO *memory)
{
    char *bytes;
    long len = BIO_get_mem_data(memory, &bytes);
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode);
    if (fd < 0) {
        return false;
    }
    /* The umask may allow less to others than `mode`, never more. */
    bool is_written = write_all(fd, bytes, (size_t)len) && fsync(fd) == 0;
    int error = errno;
    is_written = close(fd) == 0 && is_written;
    if (!is_written) {
        (void)unlink(path);
        errno = error;
    }
    return is_written;
}

static bool create_or_fail(const char *path, mode_t mode, BIO *memory, char problem[ISSUE_PROBLEM])
{
    return create(path, mode, memory) ||
           fail(problem, path,
                errno == EEXIST ? "the file exists already and is not overwritten"
                                : strerror(errno));
}

bool issue_write(X509 *certificate, EVP_PKEY *key, const struct issue_files *files,
                 char problem[ISSUE_PROBLEM])
{
    BIO *key_text = BIO_new(BIO_s_secmem()); /* cleared when it is freed */
    BIO *text = BIO_new(BIO_s_mem());
    hf_assert(key_text != NULL && text != NULL);
    hf_assert(PEM_write_bio_PrivateKey(key_text, key, NULL, NULL, 0, NULL, NULL) == 1);
    hf_assert(PEM_write_bio_X509(text, certificate) == 1);
    bool has_key = create_or_fail(files->key, 0600, key_text, problem);
    bool is_done = has_key && create_or_fail(files->certificate, 0644, text, problem);
    if (has_key && !is_done) {
        (void)unlink(files->key);
    }
    BIO_free(key_text);
    BIO_free(text);
    return is_done;
}

static int no_password(char *to, int size, int rwflag, void *arg)
{
    return -1;
}

static X509 *read_certificate(const char *path, char problem[ISSUE_PROBLEM])
{
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        (void)fail(problem, path, strerror(errno));
        return NULL;
    }
    X509 *certificate = PEM_read_X509(file, NULL, no_password, NULL);
    (void)fclose(file);
    if (certificate == NULL) {
        (void)fail(problem, path, "it is not a certificate in PEM");
    }
    return certificate;
}

static EVP_PKEY *read_key(const char *path, char problem[ISSUE_PROBLEM])
{
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        (void)fail(problem, path, strerror(errno));
        return NULL;
    }
    EVP_PKEY *key = PEM_read_PrivateKey(file, NULL, no_password, NULL);
    (void)fclose(file);
    if (key == NULL) {
        (void)fail(problem, path, "it is not a private key in PEM without a password");
    }
    return key;
}

static const char *check_authority(X509 *ca, EVP_PKEY *key)
{
    return X509_check_ca(ca) == 0                 ? "it is not the certificate of a CA"
           : X509_check_private_key(ca, key) != 1 ? "ca-key.pem is not its key"
           : X509_cmp_current_time(X509_get0_notAfter(ca)) <= 0 ? "the CA has expired"
                                                                : NULL;
}

bool issue_read_authority(const char *dir, X509 **ca, EVP_PKEY **key, char problem[ISSUE_PROBLEM])
{
    struct issue_files files;
    if (!issue_file_names(dir, "ca", &files, problem)) {
        return false;
    }
    *ca = read_certificate(files.certificate, problem);
    *key = *ca == NULL ? NULL : read_key(files.key, problem);
    const char *text = *key == NULL ? NULL : check_authority(*ca, *key);
    if (*key == NULL || text != NULL) {
        (void)(text != NULL && fail(problem, files.certificate, text));
        X509_free(*ca);
        EVP_PKEY_free(*key);
        return false;
    }
    return true;
}
