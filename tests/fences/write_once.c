/* Writes one file with hf_fence_write_file and prints what is synced and renamed, in order:  write_once PATH
 *
 * libholdfast finds these functions before those of libc. */
#define _GNU_SOURCE
#include <holdfast.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

int fsync(int fd)
{
    char link[64], path[4096];
    (void)snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    ssize_t len = readlink(link, path, sizeof(path) - 1);
    path[len < 0 ? 0 : len] = '\0';
    puts(basename(path));
    return (int)syscall(SYS_fsync, fd);
}

int fdatasync(int fd)
{
    return fsync(fd);
}

int rename(const char *from, const char *to)
{
    puts(basename(to));
    return (int)syscall(SYS_renameat2, -100 /* AT_FDCWD */, from, -100, to, 0);
}

int main(int argc, char **argv)
{
    return argc != 2 || hf_fence_write_file(argv[1], "x", 1, 5, 0, NULL) != 0;
}
