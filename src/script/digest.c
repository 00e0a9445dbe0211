/* The name of a script: the SHA-1 of its text, in hexadecimal, as Redis has it and clients compute
 * it. It has no security purpose. */
#include <openssl/evp.h>

#include "base/panic.h"
#include "script/vm.h"

void script_digest(struct slice text, char *name)
{
    static const char digits[] = "0123456789abcdef";
    static EVP_MD *sha1; /* cached: the lookup is slower than the digest */
    if (sha1 == NULL) {
        sha1 = EVP_MD_fetch(NULL, "SHA1", NULL);
        hf_assert(sha1 != NULL);
    }
    unsigned char sum[EVP_MAX_MD_SIZE];
    unsigned len = 0;
    int done = EVP_Digest(text.data, text.len, sum, &len, sha1, NULL);
    hf_assert(done == 1 && len == SCRIPT_NAME_LEN / 2);
    for (unsigned i = 0; i < len; i++) {
        name[2 * i] = digits[sum[i] >> 4];
        name[2 * i + 1] = digits[sum[i] & 15];
    }
    name[SCRIPT_NAME_LEN] = '\0';
}
