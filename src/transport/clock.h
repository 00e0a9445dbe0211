/* CLOCK_BOOTTIME, which counts suspend: for all deadlines of clients (S5.1). */
#ifndef HOLDFAST_TRANSPORT_CLOCK_H
#define HOLDFAST_TRANSPORT_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline int64_t clock_boot_ms(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_BOOTTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Time left, for poll(2): 0 to 1 hour. */
static inline int clock_left_ms(int64_t deadline_ms)
{
    int64_t left = deadline_ms - clock_boot_ms();
    return left <= 0 ? 0 : left > 3600000 ? 3600000 : (int)left;
}

#endif
