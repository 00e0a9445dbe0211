/* The file sink: lines, rotation, crashes, a full disk. */
#include "base_testing.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "../support/sink_world.h"

static const struct event_json json = {.cluster = {(const uint8_t *)"c", 1},
                                       .tenant_name = fake_tenant_name};

struct file_test {
    char folder[64];
    char path[96];
    struct sink_driver *driver;
    struct sink_batch batch;
};

static void open_driver(struct file_test *t, uint64_t max_bytes, uint32_t keep)
{
    char problem[DRIVER_PROBLEM] = "";
    struct driver_trouble trouble = {0};
    struct file_settings settings = {t->path, max_bytes, keep};
    t->driver = file_driver_new(&settings, problem);
    assert_string_equal(problem, "");
    assert_non_null(t->driver);
    assert_true(t->driver->open(t->driver, &trouble));
}

static struct file_test *new_test(uint64_t max_bytes, uint32_t keep)
{
    struct file_test *t = calloc(1, sizeof(*t));
    snprintf(t->folder, sizeof(t->folder), "/tmp/holdfast-file-XXXXXX");
    assert_non_null(mkdtemp(t->folder));
    snprintf(t->path, sizeof(t->path), "%s/events.jsonl", t->folder);
    sink_batch_init(&t->batch, memory_system());
    open_driver(t, max_bytes, keep);
    return t;
}

static void close_driver(struct file_test *t)
{
    t->driver->close(t->driver);
    t->driver->free(t->driver);
}

static void close_test(struct file_test *t)
{
    char command[128];
    close_driver(t);
    sink_batch_close(&t->batch);
    for (int i = 0; i < 10; i++) {
        snprintf(command, sizeof(command), i == 0 ? "%s" : "%s.%d", t->path, i);
        unlink(command);
    }
    assert_int_equal(rmdir(t->folder), 0);
    free(t);
}

static enum driver_step send_event(struct file_test *t, uint64_t index,
                                   struct driver_trouble *trouble)
{
    char name[32];
    snprintf(name, sizeof(name), "name-%llu", (unsigned long long)index);
    struct logged_event r = {.kind = LOGGED_EVENT,
                             .id = {index, 0},
                             .event = {.type = EVENT_RELEASED, .name = slice_of(name)}};
    sink_batch_clear(&t->batch);
    sink_batch_add(&t->batch, &json, slice_make(NULL, 0), &r);
    memset(trouble, 0, sizeof(*trouble));
    t->driver->begin(t->driver, &t->batch);
    return t->driver->poll(t->driver, 0, trouble);
}

static void write_event(struct file_test *t, uint64_t index)
{
    struct driver_trouble trouble;
    assert_int_equal(send_event(t, index, &trouble), DRIVER_DELIVERED);
}

/* The content of FILE or FILE.number; NULL: no such file. */
static const char *content(const struct file_test *t, int number)
{
    static char text[1 << 16];
    char path[128];
    snprintf(path, sizeof(path), number == 0 ? "%s" : "%s.%d", t->path, number);
    int fd = open(path, O_RDONLY);
    if (fd < 0) {
        return NULL;
    }
    ssize_t len = read(fd, text, sizeof(text) - 1);
    close(fd);
    text[len] = '\0';
    return text;
}

static int count_lines(const char *text)
{
    int lines = 0;
    for (; *text != '\0'; text++) {
        lines += *text == '\n';
    }
    return lines;
}

static void each_event_is_one_line(void **state)
{
    (void)state;
    struct file_test *t = new_test(1 << 20, 3);
    for (uint64_t i = 1; i <= 5; i++) {
        write_event(t, i);
    }
    assert_int_equal(count_lines(content(t, 0)), 5);
    assert_true(strncmp(content(t, 0), "{\"id\":\"1-0\"", 11) == 0);
    close_driver(t);
    open_driver(t, 1 << 20, 3); /* goes on behind them */
    write_event(t, 6);
    assert_int_equal(count_lines(content(t, 0)), 6);
    close_test(t);
}

static void a_full_file_is_rotated_and_the_oldest_removed(void **state)
{
    (void)state;
    struct file_test *t = new_test(1, 2);
    for (uint64_t i = 1; i <= 5; i++) {
        write_event(t, i);
    }
    assert_non_null(strstr(content(t, 0), "\"5-0\""));
    assert_non_null(strstr(content(t, 1), "\"4-0\""));
    assert_non_null(strstr(content(t, 2), "\"3-0\""));
    assert_null(content(t, 3));
    close_test(t);
}

static void without_kept_files_a_full_one_is_replaced(void **state)
{
    (void)state;
    struct file_test *t = new_test(1, 0);
    write_event(t, 1);
    write_event(t, 2);
    assert_int_equal(count_lines(content(t, 0)), 1);
    assert_non_null(strstr(content(t, 0), "\"2-0\""));
    assert_null(content(t, 1));
    close_test(t);
}

static void an_unfinished_line_of_a_crash_is_cut_off(void **state)
{
    (void)state;
    struct file_test *t = new_test(1 << 20, 2);
    char torn[9000];
    write_event(t, 1);
    close_driver(t);
    memset(torn, 'x', sizeof(torn));
    int fd = open(t->path, O_WRONLY | O_APPEND);
    assert_int_equal(write(fd, torn, sizeof(torn)), sizeof(torn));
    close(fd);
    open_driver(t, 1 << 20, 2);
    write_event(t, 2);
    assert_int_equal(count_lines(content(t, 0)), 2);
    assert_null(strstr(content(t, 0), "xx"));
    close_test(t);
}

/* RLIMIT_FSIZE refuses as a full disk does: after a part of the bytes. */
static void a_full_disk_loses_nothing_and_is_tried_again(void **state)
{
    (void)state;
    struct file_test *t = new_test(1 << 20, 2);
    struct driver_trouble trouble;
    struct rlimit before;
    signal(SIGXFSZ, SIG_IGN);
    write_event(t, 1);
    size_t len = strlen(content(t, 0));
    getrlimit(RLIMIT_FSIZE, &before);
    struct rlimit small = {len + 20, before.rlim_max};
    setrlimit(RLIMIT_FSIZE, &small);
    assert_int_equal(send_event(t, 2, &trouble), DRIVER_FAILED);
    setrlimit(RLIMIT_FSIZE, &before);
    assert_non_null(strstr(trouble.text, "cannot write"));
    assert_int_equal(strlen(content(t, 0)), len); /* no part of it */
    write_event(t, 2);
    assert_int_equal(count_lines(content(t, 0)), 2);
    close_test(t);
}

static void another_process_with_the_same_file_is_noticed(void **state)
{
    (void)state;
    struct file_test *t = new_test(1 << 20, 2);
    char problem[DRIVER_PROBLEM] = "";
    struct file_settings settings = {t->path, 1 << 20, 2};
    assert_null(file_driver_new(&settings, problem));
    assert_non_null(strstr(problem, "another process writes"));
    settings.path = "/nonexistent/events.jsonl";
    assert_null(file_driver_new(&settings, problem));
    assert_non_null(strstr(problem, "No such file"));
    close_test(t);
}

static void a_renamed_file_is_left_and_a_new_one_begun(void **state)
{
    (void)state;
    struct file_test *t = new_test(1 << 20, 2);
    struct driver_trouble trouble = {0};
    char moved[128];
    write_event(t, 1);
    snprintf(moved, sizeof(moved), "%s.1", t->path);
    assert_int_equal(rename(t->path, moved), 0);
    t->driver->close(t->driver); /* as on SIGHUP */
    assert_true(t->driver->open(t->driver, &trouble));
    write_event(t, 2);
    assert_int_equal(count_lines(content(t, 0)), 1);
    assert_int_equal(count_lines(content(t, 1)), 1);
    close_test(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_event_is_one_line),
        cmocka_unit_test(a_full_file_is_rotated_and_the_oldest_removed),
        cmocka_unit_test(without_kept_files_a_full_one_is_replaced),
        cmocka_unit_test(an_unfinished_line_of_a_crash_is_cut_off),
        cmocka_unit_test(a_full_disk_loses_nothing_and_is_tried_again),
        cmocka_unit_test(another_process_with_the_same_file_is_noticed),
        cmocka_unit_test(a_renamed_file_is_left_and_a_new_one_begun),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
