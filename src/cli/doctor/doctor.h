/* `holdfast doctor`: checks of a machine and of the settings of a node. Each check adds one line or
 * more to a report: ok, warn or fail, what was found, and what to do.
 *
 *     doctor.c          the command, the report
 *     doctor_files.c    data folder, certificate, key and secret files
 *     doctor_host.c     disk, memory, open files, clock
 *     doctor_net.c      ports, members, their clocks and versions
 *
 * Nothing is changed, except that the test of the disk writes a file of 256 KiB in the data folder that has
 * no name. */
#ifndef HOLDFAST_CLI_DOCTOR_H
#define HOLDFAST_CLI_DOCTOR_H

#include "cli/api.h"
#include "server/config.h"

enum doctor_level { DOCTOR_OK, DOCTOR_WARN, DOCTOR_FAIL };

enum { DOCTOR_LINES = 256, DOCTOR_TEXT = 512 };

struct doctor_line {
    enum doctor_level level;
    const char *check; /* a contract with scripts: "disk-speed" */
    char text[DOCTOR_TEXT];
    char action[DOCTOR_TEXT]; /* "": nothing to do */
};

struct doctor_report {
    struct doctor_line lines[DOCTOR_LINES];
    size_t count;
};

/* `action`: what to do unless it is DOCTOR_OK; NULL: nothing. */
void doctor_add(struct doctor_report *r, enum doctor_level level, const char *check,
                const char *action, const char *format, ...) __attribute__((format(printf, 5, 6)));

/* doctor_files.c */
void doctor_check_data(const struct config *c, struct doctor_report *r);
void doctor_check_tls(const struct config *c, int64_t now_s, struct doctor_report *r);
/* The data folder if it exists, else the nearest folder above it that does. */
void doctor_existing_folder(const char *path, char *out, size_t size);

/* doctor_host.c */
void doctor_check_disk(const struct config *c, struct doctor_report *r);
void doctor_check_limits(const struct config *c, struct doctor_report *r);
/* `sys`: /sys, or what a test has made. */
void doctor_check_clock(const char *sys, struct doctor_report *r);
/* Milliseconds of a write with its sync; pure. */
void doctor_rate_disk(double median_ms, double worst_ms, struct doctor_report *r);
/* By f_type of statfs(2); pure. */
void doctor_rate_file_system(uint64_t type, const char *folder, struct doctor_report *r);
void doctor_rate_space(uint64_t free_bytes, uint64_t total_bytes, struct doctor_report *r);

/* doctor_net.c */
/* `api` NULL: no node is requested. */
void doctor_check_net(const struct config *c, const struct api *api, uint64_t timeout_ms,
                      struct doctor_report *r);

#endif
