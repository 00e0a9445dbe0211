/* The resource's side (S11): hf_fence_guard with its three stores. */
#include "base_testing.h"

#include <errno.h>
#include <holdfast.h>
#include <sys/stat.h>
#include <unistd.h>

#include "temporary.h"

struct folder {
    const char *path;
    char file[320];
};

static int make_folder(void **state)
{
    struct folder *f = calloc(1, sizeof(*f));
    f->path = temporary_folder(NULL);
    snprintf(f->file, sizeof(f->file), "%s/marks", f->path);
    *state = f;
    return 0;
}

static int clear_folder(void **state)
{
    struct folder *f = *state;
    temporary_remove(f->path);
    free(f);
    return 0;
}

static void a_stale_token_is_refused(void **state)
{
    hf_fence *fence;
    uint64_t highest = 0;
    assert_int_equal(hf_fence_open_memory(&fence), 0);
    assert_int_equal(hf_fence_guard(fence, "db", 2048, &highest), 0);
    assert_int_equal(highest, 2048);
    assert_int_equal(hf_fence_guard(fence, "db", 2048, NULL), 0); /* the same holder, again */
    assert_int_equal(hf_fence_guard(fence, "db", 1024, &highest), HF_ERR_STALE);
    assert_int_equal(highest, 2048);
    assert_non_null(strstr(hf_last_error(), "2048"));
    assert_int_equal(hf_fence_guard(fence, "other", 1024, NULL), 0);
    hf_fence_close(fence);
}

static void what_is_no_token_or_no_resource_is_refused(void **state)
{
    hf_fence *fence;
    assert_int_equal(hf_fence_open_memory(&fence), 0);
    assert_int_equal(hf_fence_guard(fence, "db", 0, NULL), HF_ERR_INVALID);
    assert_int_equal(hf_fence_guard(fence, "db", UINT64_C(1) << 53, NULL), HF_ERR_INVALID);
    assert_int_equal(hf_fence_guard(fence, "", 1, NULL), HF_ERR_INVALID);
    assert_int_equal(hf_fence_guard(fence, "a\nb", 1, NULL), HF_ERR_INVALID);
    hf_fence_close(fence);
}

static void a_file_keeps_the_marks(void **state)
{
    struct folder *f = *state;
    hf_fence *fence;
    uint64_t highest = 0;
    assert_int_equal(hf_fence_open_file(&fence, f->file), 0);
    assert_int_equal(hf_fence_guard(fence, "b with spaces", 4096, NULL), 0);
    assert_int_equal(hf_fence_guard(fence, "a", 1024, NULL), 0);
    assert_int_equal(hf_fence_guard(fence, "c", 3072, NULL), 0);
    hf_fence_close(fence);
    assert_int_equal(hf_fence_open_file(&fence, f->file), 0);
    assert_int_equal(hf_fence_guard(fence, "b with spaces", 4095, &highest), HF_ERR_STALE);
    assert_int_equal(highest, 4096);
    assert_int_equal(hf_fence_guard(fence, "a", 1023, NULL), HF_ERR_STALE);
    assert_int_equal(hf_fence_guard(fence, "c", 3072, NULL), 0);
    hf_fence_close(fence);
}

static void one_fence_at_a_time_uses_a_file(void **state)
{
    struct folder *f = *state;
    hf_fence *first;
    hf_fence *second = NULL;
    assert_int_equal(hf_fence_open_file(&first, f->file), 0);
    assert_int_equal(hf_fence_open_file(&second, f->file), HF_ERR_SYSTEM);
    assert_null(second);
    hf_fence_close(first);
    assert_int_equal(hf_fence_open_file(&second, f->file), 0);
    hf_fence_close(second);
}

static void every_cut_of_the_file_is_noticed(void **state)
{
    struct folder *f = *state;
    hf_fence *fence;
    char bytes[256];
    assert_int_equal(hf_fence_open_file(&fence, f->file), 0);
    assert_int_equal(hf_fence_guard(fence, "a", 1024, NULL), 0);
    assert_int_equal(hf_fence_guard(fence, "b", 2048, NULL), 0);
    hf_fence_close(fence);
    FILE *file = fopen(f->file, "r");
    size_t len = fread(bytes, 1, sizeof(bytes), file);
    fclose(file);
    for (size_t cut = 0; cut + 1 < len; cut++) { /* the last byte is a line feed */
        file = fopen(f->file, "w");
        assert_int_equal(fwrite(bytes, 1, cut, file), cut);
        fclose(file);
        assert_int_equal(hf_fence_open_file(&fence, f->file), HF_ERR_INVALID);
    }
}

static void a_mark_that_cannot_be_saved_does_not_let_anybody_through(void **state)
{
    struct folder *f = *state;
    hf_fence *fence;
    char in_the_way[340];
    assert_int_equal(hf_fence_open_file(&fence, f->file), 0);
    assert_int_equal(hf_fence_guard(fence, "a", 1024, NULL), 0);
    snprintf(in_the_way, sizeof(in_the_way), "%s.new", f->file);
    assert_int_equal(symlink("/nonexistent/folder/file", in_the_way), 0);
    assert_int_equal(hf_fence_guard(fence, "a", 2048, NULL), HF_ERR_SYSTEM);
    assert_int_equal(hf_fence_guard(fence, "a", 1024, NULL), 0); /* the mark has not risen */
    assert_int_equal(unlink(in_the_way), 0);
    assert_int_equal(hf_fence_guard(fence, "a", 2048, NULL), 0);
    assert_int_equal(hf_fence_guard(fence, "a", 1024, NULL), HF_ERR_STALE);
    hf_fence_close(fence);
}

struct own_store {
    uint64_t mark;
    bool fails;
};

static int own_load(void *arg, const char *resource, uint64_t *mark)
{
    struct own_store *s = arg;
    *mark = s->mark;
    errno = EIO;
    return s->fails ? -1 : 0;
}

static int own_save(void *arg, const char *resource, uint64_t mark)
{
    struct own_store *s = arg;
    s->mark = mark;
    return 0;
}

static void a_store_of_the_caller_is_called_each_time(void **state)
{
    struct own_store own = {5000, false};
    struct hf_fence_store store = {own_load, own_save, &own};
    hf_fence *fence;
    assert_int_equal(hf_fence_open(&fence, &store), 0);
    assert_int_equal(hf_fence_guard(fence, "db", 4999, NULL), HF_ERR_STALE);
    assert_int_equal(hf_fence_guard(fence, "db", 6000, NULL), 0);
    assert_int_equal(own.mark, 6000);
    own.mark = 9000; /* another process was there */
    assert_int_equal(hf_fence_guard(fence, "db", 8000, NULL), HF_ERR_STALE);
    own.fails = true;
    assert_int_equal(hf_fence_guard(fence, "db", 10000, NULL), HF_ERR_SYSTEM);
    hf_fence_close(fence);
}

static void read_back(const char *path, const char *expected)
{
    char bytes[256];
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    size_t len = fread(bytes, 1, sizeof(bytes) - 1, file);
    fclose(file);
    bytes[len] = '\0';
    assert_string_equal(bytes, expected);
}

static void a_file_is_replaced_by_its_newest_holder_only(void **state)
{
    struct folder *f = *state;
    struct stat now;
    uint64_t highest = 0;
    char marks[340];
    snprintf(marks, sizeof(marks), "%s.fence", f->file);
    assert_int_equal(hf_fence_write_file(f->file, "first", 5, 2048, 0, &highest), 0);
    assert_int_equal(highest, 2048);
    assert_int_equal(chmod(f->file, 0640), 0);
    assert_int_equal(hf_fence_write_file(f->file, "again", 5, 2048, 0, NULL), 0); /* repeated */
    assert_int_equal(hf_fence_write_file(f->file, "stale", 5, 1024, 0, &highest), HF_ERR_STALE);
    assert_int_equal(highest, 2048);
    assert_non_null(strstr(hf_last_error(), "1024"));
    read_back(f->file, "again");
    assert_int_equal(hf_fence_write_file(f->file, "", 0, 3072, 0, NULL), 0);
    read_back(f->file, "");
    read_back(marks, "holdfast-fence 1\n3072 file\nend 1\n");
    assert_int_equal(stat(f->file, &now), 0);
    assert_int_equal(now.st_mode & 07777, 0640);
}

static void a_path_or_a_token_that_is_invalid_changes_nothing(void **state)
{
    struct folder *f = *state;
    char link[340];
    snprintf(link, sizeof(link), "%s.link", f->file);
    assert_int_equal(symlink(f->file, link), 0);
    assert_int_equal(hf_fence_write_file(link, "x", 1, 5, 0, NULL), HF_ERR_INVALID);
    assert_int_equal(hf_fence_write_file(f->path, "x", 1, 5, 0, NULL), HF_ERR_INVALID);
    assert_int_equal(hf_fence_write_file("", "x", 1, 5, 0, NULL), HF_ERR_INVALID);
    assert_int_equal(hf_fence_write_file(f->file, "x", 1, 0, 0, NULL), HF_ERR_INVALID);
    assert_int_equal(hf_fence_write_file(f->file, "x", 1, UINT64_C(1) << 53, 0, NULL),
                     HF_ERR_INVALID);
    assert_int_equal(access(f->file, F_OK), -1);
}

static void a_write_waits_for_another_one_and_gives_up(void **state)
{
    struct folder *f = *state;
    hf_fence *other;
    char marks[340];
    snprintf(marks, sizeof(marks), "%s.fence", f->file);
    assert_int_equal(hf_fence_open_file(&other, marks), 0);
    assert_int_equal(hf_fence_write_file(f->file, "x", 1, 5, 20, NULL), HF_ERR_TIMEOUT);
    hf_fence_close(other);
    assert_int_equal(hf_fence_write_file(f->file, "x", 1, 5, 20, NULL), 0);
}

static void a_failed_write_keeps_the_old_file_and_the_newer_mark(void **state)
{
    struct folder *f = *state;
    char in_the_way[340];
    assert_int_equal(hf_fence_write_file(f->file, "old", 3, 1024, 0, NULL), 0);
    snprintf(in_the_way, sizeof(in_the_way), "%s.new", f->file);
    assert_int_equal(symlink("/nonexistent/folder/file", in_the_way), 0);
    assert_int_equal(hf_fence_write_file(f->file, "new", 3, 2048, 0, NULL), HF_ERR_SYSTEM);
    assert_int_equal(unlink(in_the_way), 0);
    read_back(f->file, "old");
    assert_int_equal(hf_fence_write_file(f->file, "old", 3, 1024, 0, NULL), HF_ERR_STALE);
    assert_int_equal(hf_fence_write_file(f->file, "new", 3, 2048, 0, NULL), 0);
    read_back(f->file, "new");
}

#define folder_test(f) cmocka_unit_test_setup_teardown(f, make_folder, clear_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stale_token_is_refused),
        cmocka_unit_test(what_is_no_token_or_no_resource_is_refused),
        folder_test(a_file_keeps_the_marks),
        folder_test(one_fence_at_a_time_uses_a_file),
        folder_test(every_cut_of_the_file_is_noticed),
        folder_test(a_mark_that_cannot_be_saved_does_not_let_anybody_through),
        cmocka_unit_test(a_store_of_the_caller_is_called_each_time),
        folder_test(a_file_is_replaced_by_its_newest_holder_only),
        folder_test(a_path_or_a_token_that_is_invalid_changes_nothing),
        folder_test(a_write_waits_for_another_one_and_gives_up),
        folder_test(a_failed_write_keeps_the_old_file_and_the_newer_mark),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
