/* The entries in the log of a node's folder, for chaos.py to compare with those of other nodes.
 *
 *   logdump FOLDER
 *
 * Writes 24 bytes for each: index, term, a digest of type and payload. All whole records of all
 * segments count, those that a later one replaced too: two entries with one index and one term must
 * be equal wherever they are, committed or not. The node may be running; a segment that it removes
 * or makes meanwhile is left out. */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "storage/log_format.h"

enum { PAGE_STORE = 24 };

static bool put_entry(const struct log_record *record)
{
    uint8_t bytes[24];
    put_u64(bytes, record->index);
    put_u64(bytes + 8, record->term);
    put_u64(bytes + 16, storage_checksum(record->payload.data, record->payload.len, record->type));
    return fwrite(bytes, sizeof(bytes), 1, stdout) == 1;
}

/* A segment that is no whole one yet has no entries. */
static bool dump(const uint8_t *bytes, size_t size, uint64_t number, const char *name)
{
    struct log_segment segment;
    struct problem problem;
    struct log_record record;
    if (size < LOG_PAGE) {
        return true;
    }
    struct id store = {get_u64(bytes + PAGE_STORE), get_u64(bytes + PAGE_STORE + 8)};
    memset(&segment, 0, sizeof(segment));
    if (log_segment_decode(&segment, store, number, name, bytes, size, &problem) != STORAGE_OK) {
        return true;
    }
    for (size_t at = LOG_PAGE; log_record_decode(&segment, bytes + at, size - at, &record);
         at += record.size) {
        if (record.kind == LOG_ENTRY && !put_entry(&record)) {
            return false;
        }
    }
    return true;
}

static bool read_file(int folder, const char *name, uint8_t **bytes, size_t *size)
{
    struct stat about;
    int fd = openat(folder, name, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &about) != 0) {
        return false;
    }
    *size = (size_t)about.st_size;
    *bytes = malloc(*size + 1);
    ssize_t got = *bytes == NULL ? -1 : pread(fd, *bytes, *size, 0);
    close(fd);
    return got == about.st_size;
}

int main(int argc, char **argv)
{
    DIR *folder = argc == 2 ? opendir(argv[1]) : NULL;
    if (folder == NULL) {
        fprintf(stderr, "usage: logdump FOLDER, which must be there\n");
        return 64;
    }
    bool fine = true;
    for (struct dirent *file = readdir(folder); fine && file != NULL; file = readdir(folder)) {
        uint64_t number;
        uint8_t *bytes = NULL;
        size_t size = 0;
        if (log_segment_number(file->d_name, "log", &number) &&
            read_file(dirfd(folder), file->d_name, &bytes, &size)) {
            fine = dump(bytes, size, number, file->d_name);
        }
        free(bytes);
    }
    closedir(folder);
    return fine && fclose(stdout) == 0 ? 0 : 1;
}
