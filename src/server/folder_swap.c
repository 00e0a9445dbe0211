/* RENAME_EXCHANGE swaps two names atomically. Between two renames there would be no data folder,
 * and a node that starts then would bootstrap an empty cluster. */
#include "server/folder_swap.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool complain(const char *what, const char *path)
{
    fprintf(stderr, "holdfast: cannot %s %s: %s\n", what, path, strerror(errno));
    return false;
}

/* If root runs the command, the node's user must be able to write the new files. */
static bool give_to_owner(const char *data, const char *fresh)
{
    struct stat owner;
    if (stat(data, &owner) != 0) {
        return complain("read the owner of", data);
    }
    if (geteuid() != 0 || owner.st_uid == 0) {
        return true;
    }
    DIR *dir = opendir(fresh);
    struct dirent *entry;
    bool fine = dir != NULL && fchown(dirfd(dir), owner.st_uid, owner.st_gid) == 0;
    while (fine && (entry = readdir(dir)) != NULL) {
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) {
            fine = fchownat(dirfd(dir), entry->d_name, owner.st_uid, owner.st_gid,
                            AT_SYMLINK_NOFOLLOW) == 0;
        }
    }
    if (!fine) {
        complain("change the owner of", fresh);
    }
    if (dir != NULL) {
        closedir(dir);
    }
    return fine;
}

static bool sync_parent(const char *path)
{
    char copy[FOLDER_PATH];
    snprintf(copy, sizeof(copy), "%s", path);
    const char *parent = dirname(copy);
    int fd = open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool fine = fd >= 0 && fsync(fd) == 0;
    if (!fine) {
        complain("sync", parent);
    }
    if (fd >= 0) {
        close(fd);
    }
    return fine;
}

bool folder_swap(const char *data, const char *fresh, const char *backup)
{
    if (!give_to_owner(data, fresh)) {
        return false;
    }
    if (renameat2(AT_FDCWD, fresh, AT_FDCWD, data, RENAME_EXCHANGE) != 0) {
        complain("swap the new folder with", data);
        fprintf(stderr,
                "holdfast: nothing was changed. If the folder is a mount point, or the file "
                "system cannot swap folders, use --into DIR and start the node with that folder\n");
        return false;
    }
    /* `data` is the new folder now. */
    if (!sync_parent(data)) {
        return true;
    }
    if (rename(fresh, backup) != 0) {
        complain("rename the old folder", fresh);
        fprintf(stderr, "holdfast: the recovery is complete; the old folder is %s\n", fresh);
        return true;
    }
    (void)sync_parent(data);
    return true;
}
