/* Tests of what a node tells its service manager: the addresses of sd_notify(3), the watchdog's variables,
 * and the text of STATUS. */
#include "base_testing.h"

#include <stddef.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "server/service_manager.h"
#include "temporary.h"

/* A bound socket, as systemd has one. `name` may begin with '@'. */
static int bind_at(const char *name)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t len = strlen(name);
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    assert_true(fd >= 0 && len < sizeof(address.sun_path));
    memcpy(address.sun_path, name, len);
    address.sun_path[0] = name[0] == '@' ? '\0' : name[0];
    assert_int_equal(bind(fd, (struct sockaddr *)&address,
                          (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len)),
                     0);
    return fd;
}

static void assert_receives(int fd, const char *text)
{
    char got[512] = "";
    ssize_t len = recv(fd, got, sizeof(got) - 1, 0);
    assert_true(len > 0);
    assert_string_equal(got, text);
}

static void sends_to(const char *name)
{
    struct service_manager m;
    int fd = bind_at(name);
    assert_null(service_manager_open(&m, name, NULL, NULL));
    assert_true(service_manager_send(&m, "WATCHDOG=1\n"));
    assert_receives(fd, "WATCHDOG=1\n");
    service_manager_stopping(&m);
    assert_receives(fd, "STOPPING=1\n");
    service_manager_close(&m);
    close(fd);
}

static void a_message_reaches_a_socket_with_a_path(void **state)
{
    (void)state;
    char path[512];
    const char *folder = temporary_folder(NULL);
    snprintf(path, sizeof(path), "%s/notify", folder);
    sends_to(path);
    temporary_remove(folder);
}

static void a_message_reaches_an_abstract_socket(void **state)
{
    (void)state;
    char name[64];
    snprintf(name, sizeof(name), "@holdfast-test-%ld", (long)getpid());
    sends_to(name);
}

static void a_manager_that_begins_again_gets_the_next_message(void **state)
{
    (void)state;
    struct service_manager m;
    char path[512];
    const char *folder = temporary_folder(NULL);
    snprintf(path, sizeof(path), "%s/notify", folder);
    int fd = bind_at(path);
    assert_null(service_manager_open(&m, path, NULL, NULL));
    close(fd);
    assert_int_equal(unlink(path), 0);
    assert_false(service_manager_send(&m, "STATUS=nobody\n"));
    fd = bind_at(path);
    assert_true(service_manager_send(&m, "STATUS=again\n"));
    assert_receives(fd, "STATUS=again\n");
    close(fd);
    service_manager_close(&m);
    temporary_remove(folder);
}

static void a_full_socket_does_not_block(void **state)
{
    (void)state;
    struct service_manager m;
    char name[64];
    snprintf(name, sizeof(name), "@holdfast-full-%ld", (long)getpid());
    int fd = bind_at(name);
    assert_null(service_manager_open(&m, name, NULL, NULL));
    unsigned sent = 0;
    while (sent < 100000 && service_manager_send(&m, "STATUS=x\n")) {
        sent++;
    }
    assert_in_range(sent, 1, 99999);
    service_manager_close(&m);
    close(fd);
}

static void without_a_manager_nothing_is_sent(void **state)
{
    (void)state;
    struct service_manager m;
    assert_null(service_manager_open(&m, NULL, "1000000", NULL));
    assert_int_equal(m.fd, -1);
    assert_false(service_manager_send(&m, "READY=1\n"));
    service_manager_reloading(&m);
    service_manager_reloaded(&m);
    service_manager_stopping(&m);
    service_manager_close(&m);
    assert_null(service_manager_open(&m, "", NULL, NULL));
    assert_int_equal(m.fd, -1);
}

static void wrong_variables_are_named(void **state)
{
    (void)state;
    struct service_manager m;
    char other[32];
    char self[32];
    char longest[200];
    snprintf(self, sizeof(self), "%ld", (long)getpid());
    snprintf(other, sizeof(other), "%ld", (long)getppid());
    memset(longest, 'a', sizeof(longest));
    longest[0] = '/';
    longest[sizeof(longest) - 1] = '\0';
    const char *const bad_sockets[] = {"relative", "vsock:2:1234", "/", "@", longest};
    for (size_t i = 0; i < sizeof(bad_sockets) / sizeof(bad_sockets[0]); i++) {
        assert_non_null(
            strstr(service_manager_open(&m, bad_sockets[i], NULL, NULL), "NOTIFY_SOCKET"));
        assert_int_equal(m.fd, -1);
    }
    const char *const bad_times[] = {"", "0", "-5", "5s", "99999999999999999999999"};
    for (size_t i = 0; i < sizeof(bad_times) / sizeof(bad_times[0]); i++) {
        assert_non_null(
            strstr(service_manager_open(&m, "/tmp/x", bad_times[i], self), "WATCHDOG_USEC"));
        assert_int_equal(m.watchdog_us, 0);
        assert_true(m.fd >= 0); /* the other messages are sent */
        service_manager_close(&m);
    }
    assert_non_null(strstr(service_manager_open(&m, "/tmp/x", "5", "me"), "WATCHDOG_PID"));
    service_manager_close(&m);
    assert_null(service_manager_open(&m, "/tmp/x", "3000000", other));
    assert_int_equal(m.watchdog_us, 0); /* the watchdog of another process */
    service_manager_close(&m);
    assert_null(service_manager_open(&m, "/tmp/x", "3000000", self));
    assert_int_equal(m.watchdog_us, 3000000);
    service_manager_close(&m);
}

static void the_status_says_how_the_node_is(void **state)
{
    (void)state;
    static const struct {
        struct node_pulse pulse;
        const char *text;
    } cases[] = {
        {{.is_joining = true}, "Waits to be added to a cluster"},
        {{.voters = 5, .voters_reached = 2}, "No leader: 2 of 5 voters reached, 3 are needed"},
        {{.voters = 3, .voters_reached = 2, .leader = 2, .term = 7, .serving = true},
         "Follows node 2 in term 7"},
        {{.leader = 2, .term = 7}, "Does not reach the leader, node 2"},
        {{.voters = 3, .voters_reached = 2, .leader = 1, .leads = true, .term = 7, .serving = true},
         "Leader in term 7, 2 of 3 voters reached"},
        {{.leader = 1, .leads = true, .term = 7}, "Leader in term 7, does not serve yet"},
        {{.leader = 2, .serving = true, .term = 7, .disk_full = true}, "; the disk is full"},
        {{.leader = 2, .serving = true, .is_stopping = true}, "Stopping"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char text[SERVICE_MANAGER_TEXT];
        service_manager_describe(&cases[i].pulse, text);
        if (strstr(text, cases[i].text) == NULL) {
            fail_msg("%s: not in: %s", cases[i].text, text);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_message_reaches_a_socket_with_a_path),
        cmocka_unit_test(a_message_reaches_an_abstract_socket),
        cmocka_unit_test(a_manager_that_begins_again_gets_the_next_message),
        cmocka_unit_test(a_full_socket_does_not_block),
        cmocka_unit_test(without_a_manager_nothing_is_sent),
        cmocka_unit_test(wrong_variables_are_named),
        cmocka_unit_test(the_status_says_how_the_node_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
