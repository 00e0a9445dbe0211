/* Makes a private CA, and certificates of nodes and clients that it signs: ECDSA P-256, PEM files.
 *
 *     DIR/ca.pem, DIR/ca-key.pem            the CA; the key is needed only to issue certificates
 *     DIR/STEM.pem, DIR/STEM-key.pem        a certificate with its key
 *
 * Keys have mode 0600. No file is overwritten: a lost key cannot be restored. Identities are SAN
 * entries; the common name is for display only. */
#ifndef HOLDFAST_TLS_ISSUE_H
#define HOLDFAST_TLS_ISSUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    ISSUE_PROBLEM = 512,
    ISSUE_PATH = 4096,
    ISSUE_NAME = 64,    /* characters of a common name */
    ISSUE_HOSTS = 64,   /* per certificate */
    ISSUE_DAYS = 36500, /* longest validity */
};

struct issue_request {
    const char *dir;  /* has the CA; gets the files */
    const char *stem; /* "node-1" */
    const char *common_name;
    const char *uri; /* SAN: "holdfast:TENANT/PRINCIPAL" */
    const char *const *hosts;
    size_t host_count;
    bool is_node; /* may also be the server of a connection */
    uint32_t days;
};

struct issue_files {
    char certificate[ISSUE_PATH];
    char key[ISSUE_PATH];
};

/* Makes the folder if it does not exist (0700). False: `problem` is set and no file remains. */
bool issue_authority(const char *dir, const char *common_name, uint32_t days,
                     struct issue_files *files, char problem[ISSUE_PROBLEM]);
/* The certificate does not outlive the CA. */
bool issue_certificate(const struct issue_request *request, struct issue_files *files,
                       char problem[ISSUE_PROBLEM]);

/* DNS name (a wildcard only as the first label) or IP address. */
bool issue_is_host(const char *text);
/* A name of a tenant or a principal: 1 to 64 of a-z A-Z 0-9 . _ -, first a letter or digit. */
bool issue_is_name(const char *text, size_t len);

#endif
