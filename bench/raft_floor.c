/* What consensus alone costs: libraft driven as in a node (replica/engine.h), between processes of
 * this machine, with real sockets and a real disk, and nothing else: no core, no service, no
 * clients.
 *
 *     build/bench/raft_floor [--nodes 5] [--seconds 2] [--folder DIR] [--bytes 160,190] [--thread]
 *
 * Prints one JSON object: for 1, 64 and 256 commands of 64 bytes outstanding, what a commit takes
 * and how many commands are committed each second (all that are outstanding travel in one entry,
 * one entry is in flight, as in a node); what a sync of the disk takes; and the time of one round
 * trip of a client, as many bytes there and back over TCP as an acquire takes, between two
 * processes that wait with epoll. bench/raft_floor.py compares it with a lone acquire.
 *
 * Each process has one thread: messages leave before the disk is waited for, as in a node, and no
 * thread has to be woken when it is done, which is why this is a floor. With --thread the disk has
 * a thread of its own, as in a node, whose loop may not stand still. */
#include "raft_floor.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

const unsigned floor_outstanding[FLOOR_RESULTS] = {1, 64, 256};

void floor_die(const char *what)
{
    fprintf(stderr, "raft_floor: %s: %s\n", what, strerror(errno));
    _exit(1);
}

uint64_t floor_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static bool read_settings(struct floor_settings *s, int count, char **words)
{
    *s = (struct floor_settings){5, 2, ".", 160, 190, false};
    if (count > 1 && strcmp(words[count - 1], "--thread") == 0) {
        s->has_thread = true;
        count--;
    }
    for (int i = 1; i + 1 < count; i += 2) {
        char *end = NULL;
        if (strcmp(words[i], "--nodes") == 0) {
            s->nodes = (unsigned)strtoul(words[i + 1], &end, 10);
        } else if (strcmp(words[i], "--seconds") == 0) {
            s->seconds = strtod(words[i + 1], &end);
        } else if (strcmp(words[i], "--folder") == 0) {
            s->folder = words[i + 1];
        } else if (strcmp(words[i], "--bytes") != 0 ||
                   sscanf(words[i + 1], "%u,%u", &s->there, &s->back) != 2) {
            return false;
        }
        if (end != NULL && *end != '\0') {
            return false;
        }
    }
    return count % 2 == 1 && s->nodes >= 1 && s->nodes <= FLOOR_NODES_MAX && s->seconds > 0 &&
           s->seconds < 3600 && s->there > 0 && s->there <= 4096 && s->back > 0 && s->back <= 4096;
}

/* Closes the sockets of other processes: the end of a process then closes its connections. */
static void close_other_ends(unsigned id, int fds[FLOOR_NODES_MAX + 1][FLOOR_NODES_MAX + 1])
{
    for (unsigned i = 0; i <= FLOOR_NODES_MAX; i++) {
        for (unsigned j = 0; j <= FLOOR_NODES_MAX; j++) {
            if (i != id && fds[i][j] >= 0) {
                close(fds[i][j]);
            }
        }
    }
}

static bool run_nodes(const struct floor_settings *s, struct floor_figures figures[FLOOR_RESULTS])
{
    static int fds[FLOOR_NODES_MAX + 1][FLOOR_NODES_MAX + 1];
    int results[2];
    pid_t pids[FLOOR_NODES_MAX + 1];
    memset(fds, -1, sizeof(fds));
    for (unsigned i = 1; i <= s->nodes; i++) {
        for (unsigned j = i + 1; j <= s->nodes; j++) {
            int ends[2];
            floor_connect(ends);
            fds[i][j] = ends[0];
            fds[j][i] = ends[1];
        }
    }
    if (pipe(results) != 0) {
        floor_die("a pipe");
    }
    for (unsigned i = 1; i <= s->nodes; i++) {
        pids[i] = fork();
        if (pids[i] == 0) {
            close(results[0]);
            close_other_ends(i, fds);
            if (i != 1) {
                close(results[1]);
            }
            floor_run_node(i, s, fds[i], results[1]);
        }
    }
    close(results[1]);
    close_other_ends(0, fds);
    size_t size = sizeof(*figures) * FLOOR_RESULTS;
    bool fine = read(results[0], figures, size) == (ssize_t)size;
    for (unsigned i = 1; i <= s->nodes; i++) {
        kill(pids[i], SIGKILL);
        waitpid(pids[i], NULL, 0);
    }
    return fine;
}

int main(int count, char **words)
{
    struct floor_settings s;
    struct floor_figures figures[FLOOR_RESULTS];
    if (!read_settings(&s, count, words)) {
        fprintf(stderr,
                "usage: raft_floor [--nodes 1-%d] [--seconds S] [--folder DIR] [--bytes "
                "THERE,BACK] [--thread]\n",
                FLOOR_NODES_MAX);
        return 64;
    }
    if (!run_nodes(&s, figures)) {
        fprintf(stderr, "raft_floor: the nodes did not finish\n");
        return 1;
    }
    printf("{\"nodes\": %u, \"round_trip_us\": %.1f, \"commits\": [", s.nodes,
           floor_round_trip_us(&s));
    for (unsigned i = 0; i < FLOOR_RESULTS; i++) {
        printf("%s{\"outstanding\": %u, \"commands_per_second\": %.0f, \"p50_us\": %.1f, "
               "\"p99_us\": %.1f, \"sync_p50_us\": %.1f}",
               i == 0 ? "" : ", ", floor_outstanding[i], figures[i].commands_per_second,
               figures[i].p50_us, figures[i].p99_us, figures[i].sync_p50_us);
    }
    printf("]}\n");
    return 0;
}
