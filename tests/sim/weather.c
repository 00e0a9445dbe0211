/* How bad the faults of a seed are. Each kind is off, rare or frequent by itself: a world in which
 * everything fails all the time shows less than many in which a few things do. */
#include "world.h"

/* Off, rare or frequent. */
static uint64_t draw(uint64_t rare, uint64_t frequent)
{
    switch (chance_below(3)) {
    case 0:
        return 0;
    case 1:
        return rare;
    default:
        return frequent;
    }
}

void weather_draw(struct weather *w)
{
    *w = (struct weather){
        .loss = draw(300, 40),
        .slow_net = draw(200, 25),
        .slow_link = draw(8000000, 1500000),
        .slow_write = draw(200, 30),
        .slow_disk = draw(6000000, 1000000),
        .full = draw(30000000, 6000000),
        .crash = draw(6000000, 900000),
        .power = draw(6, 2),
        .blackout = draw(40000000, 9000000),
        .stop = draw(12000000, 2000000),
        .cut = draw(3000000, 400000),
        .cut_for = one_in(2) ? 300000 : 2500000,
        .isolate = draw(8000000, 1200000),
        .corner = draw(12000000, 3000000),
        .broken = draw(3000000, 300000),
        .pause = draw(10000000, 1500000),
        .pause_for = one_in(2) ? 150000 : 1500000,
        .jump = draw(10000000, 2000000),
        .change = draw(3000000, 300000),
        .loss_of_disk = draw(30000000, 8000000),
        .snapshot_bytes = one_in(4)   ? 15000
                          : one_in(2) ? 100000
                                      : 500000,
        .calm = draw(20000000, 6000000),
        .transfer = draw(6000000, 700000),
        .beheads = one_in(3),
        .target = draw(15000000, 4000000),
        .small = draw(9000000, 2500000),
        .stall = draw(6000000, 1000000),
        .late = draw(9000000, 2500000),
        .kill_installer = draw(12, 3),
        .own_snapshots = one_in(2),
        .low_addresses = one_in(2),
        .think_us = one_in(2) ? 4000 : 80000,
    };
}
