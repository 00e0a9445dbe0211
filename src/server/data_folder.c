/* Checks and restricts the data folder and what is in it. Sub-folders are not entered: nobody else
 * passes the folder itself. */
#include "server/data_folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { OTHERS = S_IRWXG | S_IRWXO };

struct data_folder_check {
    const char *path;
    const struct journal *journal;
    char *problem;
    uint32_t files; /* whose permissions were changed */
};

static bool refuse(struct data_folder_check *c, const char *name, const char *what,
                   const char *remedy)
{
    snprintf(c->problem, DATA_FOLDER_PROBLEM, "data: %s%s%s %s: %s", c->path,
             name[0] == '\0' ? "" : "/", name, what, remedy);
    return false;
}

static bool check_owner(struct data_folder_check *c, const char *name, const struct stat *is)
{
    char what[96];
    if (is->st_uid == geteuid()) {
        return true;
    }
    snprintf(what, sizeof(what), "belongs to user %u, and this node runs as user %u",
             (unsigned)is->st_uid, (unsigned)geteuid());
    return refuse(c, name, what,
                  "start the node as the owner, change the owner (chown -R), or choose a folder "
                  "below it, which the node creates");
}

/* Some file systems (FAT, some network shares) accept a change of permissions and ignore it. */
static bool change_mode(struct data_folder_check *c, const char *name, int fd, mode_t mode)
{
    struct stat now;
    if (fchmod(fd, mode) != 0 || fstat(fd, &now) != 0) {
        return refuse(c, name, "can be read or changed by other users, and this cannot be changed",
                      strerror(errno));
    }
    return (now.st_mode & OTHERS) == 0 ||
           refuse(c, name,
                  "can be read or changed by other users, and its file system ignores chmod",
                  "choose a folder on another file system, or mount it with umask=077");
}

static bool restrict_file(struct data_folder_check *c, int folder, const char *name)
{
    struct stat is;
    if (fstatat(folder, name, &is, AT_SYMLINK_NOFOLLOW) != 0) {
        return errno == ENOENT || refuse(c, name, "cannot be inspected", strerror(errno));
    }
    if (!check_owner(c, name, &is)) {
        return false;
    }
    if (!S_ISREG(is.st_mode) || (is.st_mode & OTHERS) == 0) {
        return true;
    }
    int fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0) {
        return refuse(c, name, "cannot be opened", strerror(errno));
    }
    bool fine = change_mode(c, name, fd, is.st_mode & 07777 & ~(mode_t)OTHERS);
    close(fd);
    c->files += fine;
    return fine;
}

static bool restrict_files(struct data_folder_check *c, DIR *dir)
{
    struct dirent *entry;
    while (errno = 0, (entry = readdir(dir)) != NULL) {
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0 &&
            !restrict_file(c, dirfd(dir), entry->d_name)) {
            return false;
        }
    }
    return errno == 0 || refuse(c, "", "cannot be listed", strerror(errno));
}

/* First the folder, so that nobody else adds a file meanwhile. */
static bool restrict_folder(struct data_folder_check *c, DIR *dir)
{
    struct stat is;
    if (fstat(dirfd(dir), &is) != 0) {
        return refuse(c, "", "cannot be inspected", strerror(errno));
    }
    bool is_open = (is.st_mode & OTHERS) != 0;
    if (!check_owner(c, "", &is) || (is_open && !change_mode(c, "", dirfd(dir), S_IRWXU)) ||
        !restrict_files(c, dir)) {
        return false;
    }
    if (is_open || c->files > 0) {
        char mode[8];
        snprintf(mode, sizeof(mode), "%04o", (unsigned)(is.st_mode & 07777));
        journal_note(c->journal, WARN, NODE, "data_folder_restricted",
                     JOURNAL_TEXT("data", c->path), JOURNAL_TEXT("mode_before", mode),
                     JOURNAL_NUMBER("files", c->files));
    }
    return true;
}

bool data_folder_restrict(const char *path, const struct journal *journal,
                          char problem[DATA_FOLDER_PROBLEM])
{
    struct data_folder_check c = {.path = path, .journal = journal, .problem = problem};
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    if (dir == NULL) {
        return errno == ENOENT || refuse(&c, "", "cannot be opened", strerror(errno));
    }
    bool fine = restrict_folder(&c, dir);
    closedir(dir);
    return fine;
}
