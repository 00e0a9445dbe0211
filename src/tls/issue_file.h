/* Files of issue.c: certificates and keys in PEM. */
#ifndef HOLDFAST_TLS_ISSUE_FILE_H
#define HOLDFAST_TLS_ISSUE_FILE_H

#include <openssl/types.h>

#include "tls/issue.h"

/* DIR/STEM.pem and DIR/STEM-key.pem. */
bool issue_file_names(const char *dir, const char *stem, struct issue_files *files,
                      char problem[ISSUE_PROBLEM]);
/* Creates both files and syncs them; neither remains if one cannot be written. */
bool issue_write(X509 *certificate, EVP_PKEY *key, const struct issue_files *files,
                 char problem[ISSUE_PROBLEM]);
/* The CA of the folder, a matching pair that is valid now. The caller frees both. */
bool issue_read_authority(const char *dir, X509 **ca, EVP_PKEY **key, char problem[ISSUE_PROBLEM]);

#endif
