/* The kernel's asynchronous writes, for a library that is loaded in front of a node and runs with
 * its disk: such a write becomes open, pwrite and fdatasync by a thread, which find the library's
 * own functions of these names; so what it does to a disk it does to direct writes too. */
#ifndef HOLDFAST_TESTS_FAKE_AIO_H
#define HOLDFAST_TESTS_FAKE_AIO_H

#include <stdbool.h>

/* The library's: whether a write to that file is to be emulated. Else the kernel makes it. */
bool fake_aio_wants(int fd);

#endif
