/* A process that cannot be held: it writes the time to FILE, becomes a session of its own by a fork
 * whose parent ends, and does it again, for 20 s: a test that fails leaves nothing behind. What
 * test_cli_guard.py runs.
 *
 *   redaemonize FILE */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

enum { LIFE_S = 20, PAUSE_NS = 300000 };

int main(int argc, char **argv)
{
    int out = argc == 2 ? open(argv[1], O_WRONLY | O_CREAT | O_APPEND, 0666) : -1;
    if (out < 0 || signal(SIGTERM, SIG_IGN) == SIG_ERR) {
        return 64;
    }
    /* The command itself stays, or the lock would be given back. */
    if (fork() != 0) {
        for (;;) {
            pause();
        }
    }
    struct timespec begun;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &begun);
    do {
        char line[32];
        struct timespec rest = {0, PAUSE_NS};
        clock_gettime(CLOCK_REALTIME, &now);
        int len =
            snprintf(line, sizeof(line), "%lld.%06ld\n", (long long)now.tv_sec, now.tv_nsec / 1000);
        if (write(out, line, (size_t)len) != len) {
            return 1;
        }
        if (fork() != 0) {
            _exit(0);
        }
        setsid();
        nanosleep(&rest, NULL);
    } while (now.tv_sec < begun.tv_sec + LIFE_S);
    return 0;
}
