/* See top_screen.h. Escape sequences: those of VT100, and xterm's alternate screen. */
#include "cli/top_screen.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "base/buffer.h"
#include "transport/clock.h"

#define ENTER "\x1b[?1049h\x1b[?25l" /* alternate screen, no cursor */
#define LEAVE "\x1b[?25h\x1b[?1049l"

enum { ESCAPE_MS = 50 }; /* the rest of a key's sequence follows its ESC at once */

static struct termios modes_before;
static struct termios modes_ours;
static volatile sig_atomic_t is_on;
static volatile sig_atomic_t must_redraw;
static int pending; /* a byte that followed an ESC and is a key of its own; 0: none */

static void put(const char *text, size_t len)
{
    while (len > 0) {
        ssize_t done = write(STDOUT_FILENO, text, len);
        if (done < 0 && errno != EINTR) {
            return; /* a terminal that is gone: the next key says so */
        }
        text += done > 0 ? done : 0;
        len -= done > 0 ? (size_t)done : 0;
    }
}

/* These two are called by signal handlers. */
static void enter(void)
{
    (void)tcsetattr(STDIN_FILENO, TCSADRAIN, &modes_ours);
    put(ENTER, sizeof(ENTER) - 1);
}

static void leave(void)
{
    put(LEAVE, sizeof(LEAVE) - 1);
    (void)tcsetattr(STDIN_FILENO, TCSADRAIN, &modes_before);
}

static void on_end(int number)
{
    if (is_on) {
        leave();
    }
    (void)signal(number, SIG_DFL);
    (void)raise(number);
}

static void on_stop(int number)
{
    (void)number;
    int kept = errno;
    leave();
    (void)raise(SIGSTOP);
    enter();
    must_redraw = 1;
    errno = kept;
}

static void on_resize(int number)
{
    (void)number;
    must_redraw = 1;
}

static void handle(int number, void (*fn)(int))
{
    struct sigaction action = {.sa_handler = fn};
    (void)sigemptyset(&action.sa_mask);
    (void)sigaction(number, &action, NULL);
}

bool top_screen_open(void)
{
    const char *term = getenv("TERM");
    if (isatty(STDIN_FILENO) != 1 || isatty(STDOUT_FILENO) != 1 || term == NULL ||
        strcmp(term, "dumb") == 0 || tcgetattr(STDIN_FILENO, &modes_before) != 0) {
        return false;
    }
    modes_ours = modes_before;
    modes_ours.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
    modes_ours.c_iflag &= ~(tcflag_t)(ICRNL | IXON);
    modes_ours.c_cc[VMIN] = 1;
    modes_ours.c_cc[VTIME] = 0;
    handle(SIGINT, on_end);
    handle(SIGTERM, on_end);
    handle(SIGHUP, on_end);
    handle(SIGQUIT, on_end);
    handle(SIGTSTP, on_stop);
    handle(SIGWINCH, on_resize);
    is_on = 1;
    enter();
    return true;
}

void top_screen_close(void)
{
    if (is_on) {
        is_on = 0;
        leave();
        handle(SIGTSTP, SIG_DFL);
    }
}

void top_screen_size(unsigned *rows, unsigned *columns)
{
    struct winsize size = {.ws_row = 0};
    (void)ioctl(STDOUT_FILENO, TIOCGWINSZ, &size);
    *rows = size.ws_row >= 4 ? size.ws_row : 24;
    *columns = size.ws_col >= 20 ? size.ws_col : 80;
}

/* One line, at most `columns` characters; escape sequences (ESC [ ... letter) have no width. */
static void put_line(struct buffer *out, const char *line, size_t len, unsigned columns)
{
    unsigned width = 0;
    for (size_t i = 0; i < len;) {
        size_t end = i + 1;
        if (line[i] == '\x1b') {
            while (end < len && line[end - 1] != 'm') {
                end++;
            }
        } else {
            while (end < len && ((uint8_t)line[end] & 0xc0) == 0x80) {
                end++;
            }
            if (++width > columns) {
                break;
            }
        }
        buffer_append(out, line + i, end - i);
        i = end;
    }
    buffer_append_text(out, "\x1b[0m\x1b[K");
}

void top_screen_paint(const char *text, size_t len, int marked)
{
    unsigned rows;
    unsigned columns;
    struct buffer out;
    top_screen_size(&rows, &columns);
    buffer_init(&out, memory_system(), 4 << 20);
    buffer_append_text(&out, "\x1b[H");
    for (unsigned row = 0; row < rows && len > 0; row++) {
        const char *end = memchr(text, '\n', len);
        size_t part = end == NULL ? len : (size_t)(end - text);
        buffer_append_text(&out, row > 0 ? "\r\n" : "");
        buffer_append_text(&out, (int)row == marked ? "\x1b[7m" : "");
        put_line(&out, text, part, columns);
        text += part + (end != NULL);
        len -= part + (end != NULL);
    }
    buffer_append_text(&out, "\x1b[J");
    put((const char *)buffer_bytes(&out).data, buffer_len(&out));
    buffer_close(&out);
}

/* The rest of a sequence after ESC; a lone ESC is a key of its own. */
static int read_sequence(void)
{
    char text[8];
    size_t len = 0;
    struct pollfd in = {.fd = STDIN_FILENO, .events = POLLIN};
    while (len < sizeof(text) && poll(&in, 1, ESCAPE_MS) == 1 &&
           read(STDIN_FILENO, text + len, 1) == 1) {
        len++;
        if (len == 1 && text[0] != '[' && text[0] != 'O') {
            pending = (uint8_t)text[0];
            return KEY_ESCAPE;
        }
        if (len > 1 && ((text[len - 1] >= 'A' && text[len - 1] <= 'Z') || text[len - 1] == '~')) {
            break;
        }
    }
    static const struct {
        const char *text;
        int key;
    } keys[] = {
        {"[A", KEY_UP},   {"OA", KEY_UP},       {"[B", KEY_DOWN},       {"OB", KEY_DOWN},
        {"[H", KEY_HOME}, {"[1~", KEY_HOME},    {"[F", KEY_BOTTOM},     {"[4~", KEY_BOTTOM},
        {"OH", KEY_HOME}, {"[5~", KEY_PAGE_UP}, {"[6~", KEY_PAGE_DOWN}, {"OF", KEY_BOTTOM},
    };
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        if (strlen(keys[i].text) == len && memcmp(keys[i].text, text, len) == 0) {
            return keys[i].key;
        }
    }
    return len == 0 ? KEY_ESCAPE : KEY_NONE;
}

int top_screen_key(int64_t deadline_ms, int fd)
{
    struct pollfd in[2] = {{.fd = STDIN_FILENO, .events = POLLIN}, {.fd = fd, .events = POLLIN}};
    uint8_t byte;
    if (pending != 0) {
        byte = (uint8_t)pending;
        pending = 0;
        return byte;
    }
    if (must_redraw == 0 && poll(in, 2, clock_left_ms(deadline_ms)) < 0 && errno != EINTR) {
        return KEY_GONE;
    }
    if (must_redraw != 0) {
        must_redraw = 0;
        return KEY_REDRAW;
    }
    if ((in[0].revents & (POLLIN | POLLHUP | POLLERR)) == 0) {
        return KEY_NONE;
    }
    if (read(STDIN_FILENO, &byte, 1) != 1) {
        return KEY_GONE;
    }
    return byte == '\n'         ? KEY_ENTER
           : byte == '\b'       ? KEY_ERASE
           : byte == KEY_ESCAPE ? read_sequence()
                                : byte;
}
