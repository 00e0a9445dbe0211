/* As writer.py, in C with libholdfast:  c_writer FOLDER ENDPOINTS LOCK TTL VALUE
 *
 * Writes FOLDER/bare without a fence and FOLDER/fenced with hf_fence_write_file. */
#include <holdfast.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void fail(const char *what)
{
    printf("failed %s: %s\n", what, hf_last_error());
    exit(1);
}

static void write_bare(const char *path, const char *value)
{
    FILE *file = fopen(path, "w");
    if (file == NULL || fputs(value, file) < 0 || fclose(file) != 0) {
        fail(path);
    }
}

int main(int argc, char **argv)
{
    char bare[4096], fenced[4096], line[64];
    struct hf_options options = HF_OPTIONS;
    struct hf_lock_options wait = HF_LOCK_OPTIONS;
    hf_client *client;
    hf_lock *lock;
    if (argc != 6) {
        return 64;
    }
    (void)snprintf(bare, sizeof(bare), "%s/bare", argv[1]);
    (void)snprintf(fenced, sizeof(fenced), "%s/fenced", argv[1]);
    (void)setvbuf(stdout, NULL, _IOLBF, 0);
    options.session_ttl_ms = (uint32_t)(strtod(argv[4], NULL) * 1000);
    wait.wait_ms = 60000;
    if (hf_client_open(&client, argv[2], &options) != 0 ||
        hf_acquire(client, argv[3], &wait, &lock) != 0 || hf_lock_check(lock) != 0) {
        fail("acquire");
    }
    uint64_t token = hf_lock_token(lock);
    printf("held %llu\n", (unsigned long long)token);
    while (fgets(line, sizeof(line), stdin) != NULL) { /* it is stopped here */
        write_bare(bare, argv[5]);
        int error = hf_fence_write_file(fenced, argv[5], strlen(argv[5]), token, 60000, NULL);
        if (error == HF_ERR_STALE) {
            printf("refused %s\n", hf_last_error());
        } else if (error != 0) {
            fail("write");
        } else {
            puts("written");
        }
    }
    hf_client_close(client);
    return 0;
}
