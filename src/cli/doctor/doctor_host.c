/* The machine of a node: disk, memory, open files, clock. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/statfs.h>
#include <sys/timex.h>
#include <unistd.h>

#include "cli/doctor/doctor.h"
#include "server/usable_memory.h"
#include "transport/clock.h"

/* ---- disk ---- */

enum {
    WRITES = 64,       /* of the test, at most */
    WRITE_SIZE = 4096, /* about what a batch of requests takes in the log */
    TEST_MS = 2000,    /* the test ends after this, also with fewer writes */
    SLOW_MS = 10,      /* a lock takes one or two such writes */
    WORST_MS = 200,    /* one write above this is worth a look; an election begins at 1 s */
    FREE_PERCENT = 10,
    FREE_LAST_PERCENT = 2,
};

void doctor_rate_disk(double median_ms, double worst_ms, struct doctor_report *r)
{
    if (median_ms > SLOW_MS || worst_ms > WORST_MS) {
        doctor_add(r, DOCTOR_WARN, "disk-speed",
                   "use a local SSD for the data folder; check what else uses this disk",
                   "a write of 4 KiB with its sync takes %.2f ms, the slowest %.1f ms; each lock "
                   "waits for one",
                   median_ms, worst_ms);
    } else {
        doctor_add(r, DOCTOR_OK, "disk-speed", NULL,
                   "a write of 4 KiB with its sync takes %.2f ms, the slowest %.1f ms", median_ms,
                   worst_ms);
    }
}

static int compare(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a;
    int64_t y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static int64_t now_us(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

/* Returns the number of writes, 0: it failed with errno. The file has no name, so nothing is left behind. */
static size_t time_writes(const char *folder, int64_t took_us[WRITES])
{
    static uint8_t block[WRITE_SIZE];
    char path[CONFIG_PATH + 32];
    int fd = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd < 0) { /* not on every file system */
        (void)snprintf(path, sizeof(path), "%s/.holdfast-doctor-XXXXXX", folder);
        fd = mkostemp(path, O_CLOEXEC);
        if (fd < 0) {
            return 0;
        }
        (void)unlink(path);
    }
    size_t count = 0;
    int64_t end_ms = clock_boot_ms() + TEST_MS;
    /* The log writes into space that it has prepared. */
    int reason = posix_fallocate(fd, 0, (off_t)WRITES * WRITE_SIZE);
    bool is_good = (reason == 0 || reason == EOPNOTSUPP || reason == EINVAL) && fsync(fd) == 0;
    errno = reason != 0 ? reason : errno;
    while (is_good && count < WRITES && (count == 0 || clock_boot_ms() < end_ms)) {
        int64_t began_us = now_us();
        memset(block, (int)count + 1, sizeof(block));
        is_good = pwrite(fd, block, sizeof(block), (off_t)count * WRITE_SIZE) == WRITE_SIZE &&
                  fdatasync(fd) == 0;
        took_us[count] = now_us() - began_us;
        count += is_good ? 1 : 0;
    }
    reason = errno;
    (void)close(fd);
    errno = reason;
    return is_good ? count : 0;
}

static void check_speed(const char *folder, struct doctor_report *r)
{
    int64_t took_us[WRITES];
    size_t count = time_writes(folder, took_us);
    if (count == 0) {
        doctor_add(r, DOCTOR_FAIL, "disk-speed",
                   "free space, or run this command as the user of the node",
                   "no file can be written in %s: %s", folder, strerror(errno));
        return;
    }
    qsort(took_us, count, sizeof(took_us[0]), compare);
    doctor_rate_disk((double)took_us[count / 2] / 1000, (double)took_us[count - 1] / 1000, r);
}

void doctor_rate_file_system(uint64_t type, const char *folder, struct doctor_report *r)
{
    static const struct {
        uint64_t type;
        const char *name;
        const char *why;
    } bad[] = {
        {0x6969, "nfs", "a server that is slow or away stops the node"},
        {0xff534d42, "cifs", "a server that is slow or away stops the node"},
        {0xfe534d42, "smb2", "a server that is slow or away stops the node"},
        {0x01021997, "9p", "its sync does not always reach a disk"},
        {0x65735546, "fuse", "its sync does not always reach a disk"},
        {0x794c7630, "overlay", "a container's own layer is slow, and is lost with the container"},
        {0x01021994, "tmpfs", "it is memory: the data is lost with the machine"},
        {0x858458f6, "ramfs", "it is memory: the data is lost with the machine"},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        if (bad[i].type == type) {
            doctor_add(r, DOCTOR_WARN, "file-system",
                       "put the data folder on a local disk (ext4, xfs)", "%s is on %s: %s", folder,
                       bad[i].name, bad[i].why);
            return;
        }
    }
    doctor_add(r, DOCTOR_OK, "file-system", NULL, "%s is on a local disk (type 0x%" PRIx64 ")",
               folder, type);
}

void doctor_rate_space(uint64_t free_bytes, uint64_t total_bytes, struct doctor_report *r)
{
    double gib = (double)(1 << 30);
    double left = total_bytes == 0 ? 0 : 100.0 * (double)free_bytes / (double)total_bytes;
    enum doctor_level level = left < FREE_LAST_PERCENT ? DOCTOR_FAIL
                              : left < FREE_PERCENT    ? DOCTOR_WARN
                                                       : DOCTOR_OK;
    doctor_add(r, level, "disk-space", "free space, or enlarge the file system",
               "%.1f of %.1f GiB are free (%.0f %%)", (double)free_bytes / gib,
               (double)total_bytes / gib, left);
}

void doctor_check_disk(const struct config *c, struct doctor_report *r)
{
    char folder[CONFIG_PATH];
    struct statfs is;
    doctor_existing_folder(c->data, folder, sizeof(folder));
    if (statfs(folder, &is) != 0) {
        doctor_add(r, DOCTOR_FAIL, "file-system", "check the mount", "%s: %s", folder,
                   strerror(errno));
        return;
    }
    doctor_rate_file_system((uint64_t)(uint32_t)is.f_type, folder, r);
    doctor_rate_space((uint64_t)is.f_bavail * (uint64_t)is.f_bsize,
                      (uint64_t)is.f_blocks * (uint64_t)is.f_bsize, r);
    check_speed(folder, r);
}

/* ---- limits ---- */

enum {
    OWN_FILES = 256,  /* of a node besides clients: log, snapshots, nodes */
    STATE_FACTOR = 4, /* memory of a node, in sizes of its state (OPERATION.md) */
    LOCKED_BYTES = 1 << 20,
};

static void check_files(const struct config *c, struct doctor_report *r)
{
    struct rlimit files;
    uint64_t needed = c->max_clients + OWN_FILES;
    if (getrlimit(RLIMIT_NOFILE, &files) != 0) {
        return;
    }
    uint64_t limit = files.rlim_max; /* a node raises its own limit to that */
    if (limit < needed) {
        doctor_add(
            r, DOCTOR_WARN, "open-files",
            "raise the hard limit (LimitNOFILE= of the unit, ulimit -Hn), or lower max-clients",
            "this shell allows %" PRIu64 " open files; max-clients of %" PRIu64
            " needs about %" PRIu64,
            limit, c->max_clients, needed);
    } else {
        doctor_add(r, DOCTOR_OK, "open-files", NULL,
                   "this shell allows %" PRIu64 " open files, enough for %" PRIu64 " clients",
                   limit, c->max_clients);
    }
}

static void check_memory(const struct config *c, struct doctor_report *r)
{
    double mib = (double)(1 << 20);
    uint64_t usable = usable_memory("/proc/self/cgroup", "/sys/fs/cgroup");
    uint64_t needed = STATE_FACTOR * c->state_bytes;
    if (c->state_bytes == 0) {
        doctor_add(r, DOCTOR_OK, "memory", NULL,
                   "%.0f MiB are usable; state-max is a quarter of that", (double)usable / mib);
    } else if (needed > usable) {
        doctor_add(
            r, DOCTOR_WARN, "memory",
            "lower state-max on all nodes, or give the process more memory (MemoryMax=)",
            "a full state of %.0f MiB (state-max) takes about %.0f MiB, and %.0f MiB are usable",
            (double)c->state_bytes / mib, (double)needed / mib, (double)usable / mib);
    } else {
        doctor_add(r, DOCTOR_OK, "memory", NULL,
                   "%.0f MiB are usable, enough for state-max of %.0f MiB", (double)usable / mib,
                   (double)c->state_bytes / mib);
    }
}

/* Keys of TLS and buffers of the log are locked in memory. */
static void check_locked(const struct config *c, struct doctor_report *r)
{
    struct rlimit locked;
    if (c->tls_cert[0] == '\0' || getrlimit(RLIMIT_MEMLOCK, &locked) != 0) {
        return;
    }
    if (locked.rlim_cur < LOCKED_BYTES) {
        doctor_add(r, DOCTOR_WARN, "locked-memory",
                   "raise the limit (LimitMEMLOCK= of the unit, ulimit -l)",
                   "only %" PRIu64 " KiB may be locked, so private keys may be written to swap",
                   (uint64_t)locked.rlim_cur / 1024);
    } else {
        doctor_add(r, DOCTOR_OK, "locked-memory", NULL, "private keys can be locked in memory");
    }
}

void doctor_check_limits(const struct config *c, struct doctor_report *r)
{
    check_files(c, r);
    check_locked(c, r);
    check_memory(c, r);
}

/* ---- clock ---- */

static void check_source(const char *sys, struct doctor_report *r)
{
    static const char *const slow[] = {"hpet", "acpi_pm", "jiffies", "refined-jiffies", "pit"};
    char path[256];
    char name[64] = "";
    (void)snprintf(path, sizeof(path),
                   "%s/devices/system/clocksource/clocksource0/current_clocksource", sys);
    FILE *file = fopen(path, "re");
    bool is_known = file != NULL && fscanf(file, "%63s", name) == 1;
    if (file != NULL) {
        (void)fclose(file);
    }
    if (!is_known) {
        doctor_add(r, DOCTOR_OK, "clock-source", NULL, "%s is not readable, so it is not known",
                   path);
        return;
    }
    for (size_t i = 0; i < sizeof(slow) / sizeof(slow[0]); i++) {
        if (strcmp(name, slow[i]) == 0) {
            doctor_add(r, DOCTOR_WARN, "clock-source",
                       "see why the kernel does not use tsc (`dmesg | grep -i clocksource`)",
                       "the kernel uses %s: each reading of the clock is a slow system call", name);
            return;
        }
    }
    doctor_add(r, DOCTOR_OK, "clock-source", NULL, "the kernel uses %s", name);
}

static void check_sync(struct doctor_report *r)
{
    struct timex t = {.modes = 0};
    int state = adjtimex(&t);
    if (state < 0) {
        doctor_add(r, DOCTOR_OK, "clock-sync", NULL, "not known: %s", strerror(errno));
    } else if (state == TIME_ERROR || (t.status & STA_UNSYNC) != 0) {
        doctor_add(r, DOCTOR_WARN, "clock-sync",
                   "start chrony or systemd-timesyncd; leases do not depend on it, but the times "
                   "that are shown "
                   "and certificates do",
                   "the clock is not synchronised by NTP");
    } else {
        doctor_add(r, DOCTOR_OK, "clock-sync", NULL, "synchronised, at most %.1f ms wrong",
                   (double)t.maxerror / 1000);
    }
}

void doctor_check_clock(const char *sys, struct doctor_report *r)
{
    check_source(sys, r);
    check_sync(r);
}
