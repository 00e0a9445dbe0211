/* Tests of real time, on a machine that has others to serve as well.
 *
 * What must not come too early is asserted at once. What must not come too late is tried again with
 * all times twice as long: a program that is late by its own fault is late each time, one that got
 * no processor for a while is not. To be included behind cmocka.h. */
#ifndef HOLDFAST_TESTS_IN_TIME_H
#define HOLDFAST_TESTS_IN_TIME_H

#include <stdbool.h>

enum { IN_TIME_LONGEST = 32 };

/* `test` multiplies its times by `scale`; false: something came too late, and all is cleared away.
 */
static inline void in_time(bool (*test)(int scale))
{
    for (int scale = 1; scale <= IN_TIME_LONGEST; scale *= 2) {
        if (test(scale)) {
            return;
        }
        print_message("late with times of %d\n", scale);
    }
    fail_msg("late with all times %d times as long", IN_TIME_LONGEST);
}

#endif
