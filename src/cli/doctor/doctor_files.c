/* The files of a node: its data folder, its certificate, key and secret. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/doctor/doctor.h"
#include "tls/credentials.h"

enum { DAY_S = 86400, CERTIFICATE_DAYS = 14, OTHERS = S_IRWXG | S_IRWXO };

void doctor_existing_folder(const char *path, char *out, size_t size)
{
    (void)snprintf(out, size, "%s", path);
    while (access(out, F_OK) != 0) {
        char *slash = strrchr(out, '/');
        if (slash == NULL) {
            (void)snprintf(out, size, ".");
            return;
        }
        slash[slash == out ? 1 : 0] = '\0';
        if (strcmp(out, "/") == 0) {
            return;
        }
    }
}

void doctor_check_data(const struct config *c, struct doctor_report *r)
{
    struct stat is;
    char folder[CONFIG_PATH];
    if (stat(c->data, &is) != 0) {
        int reason = errno;
        doctor_existing_folder(c->data, folder, sizeof(folder));
        if (reason != ENOENT && reason != ENOTDIR) {
            doctor_add(r, DOCTOR_FAIL, "data", "run this command as the user of the node",
                       "%s cannot be inspected: %s", c->data, strerror(reason));
        } else if (access(folder, W_OK) != 0) {
            doctor_add(
                r, DOCTOR_FAIL, "data",
                "create the folder for the user of the node, or run this command as that user",
                "%s does not exist, and this user may not create it in %s", c->data, folder);
        } else {
            doctor_add(r, DOCTOR_OK, "data", NULL, "%s does not exist yet; the node creates it",
                       c->data);
        }
    } else if (!S_ISDIR(is.st_mode)) {
        doctor_add(r, DOCTOR_FAIL, "data", "choose another path", "%s is not a folder", c->data);
    } else if (is.st_uid != geteuid()) {
        doctor_add(r, DOCTOR_FAIL, "data",
                   "run this command and the node as the owner, or change the owner (chown -R)",
                   "%s belongs to user %u, and this command runs as user %u", c->data,
                   (unsigned)is.st_uid, (unsigned)geteuid());
    } else if (access(c->data, R_OK | W_OK | X_OK) != 0) {
        doctor_add(r, DOCTOR_FAIL, "data", "give its owner all permissions (chmod 700)",
                   "%s cannot be written: %s", c->data, strerror(errno));
    } else if ((is.st_mode & OTHERS) != 0) {
        doctor_add(r, DOCTOR_WARN, "data", "chmod 700; the node does it at its next start",
                   "other users may enter %s (mode %04o)", c->data, (unsigned)is.st_mode & 07777);
    } else {
        doctor_add(r, DOCTOR_OK, "data", NULL, "%s belongs to this user alone", c->data);
    }
}

static void check_date(const char *check, const char *what, int64_t until_s, int64_t now_s,
                       struct doctor_report *r)
{
    int64_t days = (until_s - now_s) / DAY_S;
    if (until_s <= now_s) {
        doctor_add(r, DOCTOR_FAIL, check,
                   "make a new one and replace the file; a running node notices it",
                   "%s has expired %" PRId64 " days ago", what, -days);
    } else if (days < CERTIFICATE_DAYS) {
        doctor_add(r, DOCTOR_WARN, check,
                   "make a new one and replace the file; a running node notices it",
                   "%s expires in %" PRId64 " days", what, days);
    } else {
        doctor_add(r, DOCTOR_OK, check, NULL, "%s is valid for %" PRId64 " days", what, days);
    }
}

static void check_secret(const char *path, struct doctor_report *r)
{
    struct stat is;
    if (stat(path, &is) != 0) {
        doctor_add(r, DOCTOR_FAIL, "peer-secret",
                   "create it (mode 0600) with the same content on all nodes",
                   "%s cannot be read: %s", path, strerror(errno));
    } else if ((is.st_mode & OTHERS) != 0) {
        doctor_add(r, DOCTOR_FAIL, "peer-secret", "chmod 600",
                   "%s can be read by other users (mode %04o)", path, (unsigned)is.st_mode & 07777);
    } else {
        doctor_add(r, DOCTOR_OK, "peer-secret", NULL, "%s is for its owner alone", path);
    }
}

void doctor_check_tls(const struct config *c, int64_t now_s, struct doctor_report *r)
{
    struct credential_files files = {c->tls_cert, c->tls_key, c->tls_ca};
    char problem[TLS_PROBLEM];
    char what[CONFIG_PATH + 32];
    if (c->peer_secret_file[0] != '\0') {
        check_secret(c->peer_secret_file, r);
    }
    if (c->tls_cert[0] == '\0') {
        if (c->member_count > 1 && c->insecure) {
            doctor_add(r, DOCTOR_WARN, "certificate",
                       "set tls-cert, tls-key and tls-ca (`holdfast cert` makes them)",
                       "nodes and clients speak in clear text (insecure)");
        } else {
            doctor_add(r, DOCTOR_OK, "certificate", NULL, "TLS is not used");
        }
        return;
    }
    struct credentials *loaded = credentials_load(&files, problem);
    if (loaded == NULL) {
        doctor_add(r, DOCTOR_FAIL, "certificate",
                   "correct the file; `holdfast cert show FILE` prints one", "%s", problem);
        return;
    }
    (void)snprintf(what, sizeof(what), "the certificate %s", c->tls_cert);
    if (credentials_not_before_s(loaded) > now_s) {
        doctor_add(r, DOCTOR_FAIL, "certificate", "check the clock of this machine",
                   "%s is not valid yet", what);
    } else {
        check_date("certificate", what, credentials_not_after_s(loaded), now_s, r);
    }
    check_date("ca", "the CA that expires first", credentials_ca_not_after_s(loaded), now_s, r);
    credentials_free(loaded);
}
