/* Folders for tests that want a real disk: made empty, removed with all that is in them. What a
 * test leaves behind because an assertion failed is removed when its program ends. */
#ifndef HOLDFAST_TESTS_TEMPORARY_H
#define HOLDFAST_TESTS_TEMPORARY_H

/* Makes one in `under` (NULL: in TMPDIR, or else in /tmp). The path is good until it is removed. */
const char *temporary_folder(const char *under);
void temporary_remove(const char *path);

#endif
