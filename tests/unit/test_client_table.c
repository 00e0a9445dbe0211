/* Which client connections a node has, closes and refuses, and what its descriptors are shared out
 * to. */
#include "base_testing.h"

#include <arpa/inet.h>

#include "node/clients/client_table.h"
#include "node/clients/descriptors.h"

enum { ENTRIES = 64 };

static struct counted counted;
static struct client_table *table;
static struct client_entry entries[ENTRIES];
static struct client_entry *evicted[ENTRIES];
static int evicted_count;

static void note_evicted(struct client_entry *entry)
{
    evicted[evicted_count++] = entry;
}

static struct ip_address ip_of(const char *text)
{
    struct sockaddr_storage address;
    memset(&address, 0, sizeof(address));
    struct sockaddr_in *v4 = (struct sockaddr_in *)&address;
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)&address;
    if (inet_pton(AF_INET, text, &v4->sin_addr) == 1) {
        address.ss_family = AF_INET;
    } else {
        assert_int_equal(inet_pton(AF_INET6, text, &v6->sin6_addr), 1);
        address.ss_family = AF_INET6;
    }
    return address_ip(&address);
}

static void open_table(uint32_t max, uint32_t per_address, uint32_t reserved)
{
    struct client_limits limits = {.max = max, .per_address = per_address, .reserved = reserved};
    counted_init(&counted);
    memset(entries, 0, sizeof(entries));
    evicted_count = 0;
    table = client_table_new(&counted.memory, &limits, 7);
}

static void close_table(void)
{
    for (int i = 0; i < ENTRIES; i++) {
        client_table_remove(table, &entries[i]);
    }
    client_table_free(table);
    assert_int_equal(counted.blocks, 0);
}

static enum client_verdict admit(int i, const char *address)
{
    struct ip_address ip = ip_of(address);
    return client_table_admit(table, &entries[i], &ip, note_evicted);
}

static void idle(int i)
{
    client_table_set_idle(table, &entries[i], true);
}

static void busy(int i)
{
    client_table_set_idle(table, &entries[i], false);
}

static struct client_table_stats stats(void)
{
    struct client_table_stats out;
    client_table_stats(table, &out);
    return out;
}

static void connections_up_to_the_limit_are_admitted_and_then_refused(void **state)
{
    (void)state;
    open_table(3, 0, 0);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(admit(i, "10.0.0.1"), CLIENT_ADMITTED);
    }
    assert_int_equal(admit(3, "10.0.0.2"), CLIENT_OVER_MAX);
    assert_int_equal(stats().count, 3);
    assert_int_equal(stats().refused, 1);
    client_table_remove(table, &entries[1]);
    assert_int_equal(admit(3, "10.0.0.2"), CLIENT_ADMITTED);
    assert_int_equal(evicted_count, 0);
    close_table();
}

static void the_connection_that_was_idle_for_longest_makes_way(void **state)
{
    (void)state;
    open_table(3, 0, 0);
    for (int i = 0; i < 3; i++) {
        admit(i, "10.0.0.1");
        idle(i);
    }
    busy(0); /* and idle again: now it is the youngest */
    idle(0);
    idle(1); /* was so already, which changes nothing */
    assert_int_equal(admit(3, "10.0.0.2"), CLIENT_ADMITTED);
    assert_int_equal(evicted_count, 1);
    assert_ptr_equal(evicted[0], &entries[1]);
    busy(2);
    assert_int_equal(admit(4, "10.0.0.2"), CLIENT_ADMITTED);
    assert_ptr_equal(evicted[1], &entries[0]);
    assert_int_equal(admit(5, "10.0.0.2"), CLIENT_OVER_MAX); /* nobody is idle */
    assert_int_equal(stats().count, 3);
    assert_int_equal(stats().evicted, 2);
    close_table();
}

static void a_connection_that_made_way_is_forgotten(void **state)
{
    (void)state;
    open_table(1, 0, 0);
    admit(0, "10.0.0.1");
    idle(0);
    admit(1, "10.0.0.1");
    assert_ptr_equal(evicted[0], &entries[0]);
    idle(0); /* its owner still finishes something */
    client_table_remove(table, &entries[0]);
    assert_int_equal(stats().count, 1);
    assert_int_equal(admit(2, "10.0.0.1"), CLIENT_OVER_MAX);
    close_table();
}

static void the_last_connections_are_for_loopback(void **state)
{
    (void)state;
    open_table(6, 0, 2);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(admit(i, "10.0.0.1"), CLIENT_ADMITTED);
    }
    assert_int_equal(admit(4, "10.0.0.1"), CLIENT_OVER_MAX);
    assert_int_equal(admit(4, "::ffff:127.0.0.1"), CLIENT_ADMITTED);
    assert_int_equal(admit(5, "::1"), CLIENT_ADMITTED);
    assert_int_equal(admit(6, "127.0.0.1"), CLIENT_OVER_MAX);
    /* An idle one of loopback does not make way for what may not have its place. */
    idle(4);
    assert_int_equal(admit(6, "10.0.0.1"), CLIENT_OVER_MAX);
    idle(3);
    assert_int_equal(admit(6, "10.0.0.1"), CLIENT_ADMITTED);
    assert_ptr_equal(evicted[0], &entries[3]);
    assert_int_equal(admit(7, "127.0.0.9"), CLIENT_ADMITTED);
    assert_ptr_equal(evicted[1], &entries[4]);
    close_table();
}

static void loopback_may_take_more_than_what_is_reserved_for_it(void **state)
{
    (void)state;
    open_table(4, 0, 1);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(admit(i, "127.0.0.1"), CLIENT_ADMITTED);
    }
    assert_int_equal(admit(4, "10.0.0.1"), CLIENT_OVER_MAX);
    idle(2);
    assert_int_equal(admit(4, "10.0.0.1"), CLIENT_ADMITTED);
    assert_ptr_equal(evicted[0], &entries[2]);
    close_table();
}

static void an_address_has_a_limit_of_its_own(void **state)
{
    (void)state;
    open_table(10, 2, 0);
    admit(0, "10.0.0.9");
    idle(0);
    assert_int_equal(admit(1, "10.0.0.1"), CLIENT_ADMITTED);
    assert_int_equal(admit(2, "::ffff:10.0.0.1"), CLIENT_ADMITTED);
    assert_int_equal(admit(3, "10.0.0.1"), CLIENT_OVER_PER_ADDRESS);
    assert_int_equal(admit(3, "10.0.0.2"), CLIENT_ADMITTED);
    assert_int_equal(admit(4, "2001:db8::1"), CLIENT_ADMITTED);
    assert_int_equal(admit(5, "2001:db8::2"), CLIENT_ADMITTED);
    assert_int_equal(evicted_count, 0);
    idle(2); /* makes way for its own address, although another has been idle for longer */
    assert_int_equal(admit(6, "10.0.0.1"), CLIENT_ADMITTED);
    assert_int_equal(evicted_count, 1);
    assert_ptr_equal(evicted[0], &entries[2]);
    close_table();
}

static void one_new_connection_never_costs_more_than_the_limits_require(void **state)
{
    (void)state;
    open_table(4, 2, 1);
    for (int i = 0; i < 3; i++) {
        admit(i, i < 2 ? "10.0.0.1" : "10.0.0.2");
        idle(i);
    }
    assert_int_equal(admit(3, "10.0.0.1"), CLIENT_ADMITTED); /* both limits are reached */
    assert_int_equal(evicted_count, 1);
    assert_int_equal(stats().count, 3);
    close_table();
}

static void a_lower_limit_closes_idle_connections_only(void **state)
{
    (void)state;
    open_table(8, 0, 1);
    for (int i = 0; i < 6; i++) {
        admit(i, i < 4 ? "10.0.0.1" : "127.0.0.1");
    }
    idle(5);
    idle(1);
    idle(0);
    client_table_set_max(table, 5, note_evicted);
    assert_int_equal(evicted_count, 1);
    assert_ptr_equal(evicted[0], &entries[5]);
    client_table_set_max(table, 2, note_evicted);
    assert_int_equal(evicted_count, 3);
    assert_int_equal(stats().count, 3); /* in use: they live on */
    assert_int_equal(admit(6, "127.0.0.1"), CLIENT_OVER_MAX);
    client_table_set_max(table, 9, note_evicted);
    assert_int_equal(admit(6, "127.0.0.1"), CLIENT_ADMITTED);
    close_table();
}

static void counts_are_right_after_anything(void **state)
{
    (void)state;
    static const char *const addresses[] = {"10.0.0.1", "10.0.0.2", "127.0.0.1", "::1", "fe80::1"};
    open_table(20, 7, 3);
    uint64_t random = 1;
    bool in[ENTRIES] = {false};
    for (int step = 0; step < 200000; step++) {
        random = random * UINT64_C(6364136223846793005) + 1442695040888963407u;
        int i = (int)(random >> 33) % ENTRIES;
        evicted_count = 0;
        switch ((random >> 50) % 4) {
        case 0:
            client_table_remove(table, &entries[i]);
            in[i] = false;
            break;
        case 1:
            idle(i);
            break;
        case 2:
            busy(i);
            break;
        default:
            if (!in[i]) {
                in[i] = admit(i, addresses[(random >> 40) % 5]) == CLIENT_ADMITTED;
            }
        }
        for (int k = 0; k < evicted_count; k++) {
            in[evicted[k] - entries] = false;
        }
        uint64_t count = 0;
        for (int k = 0; k < ENTRIES; k++) {
            count += in[k];
        }
        assert_int_equal(stats().count, count);
        assert_in_range(count, 0, 20);
    }
    assert_true(stats().evicted > 100 && stats().refused > 100);
    close_table();
}

/* ---- descriptors ---- */

static void clients_get_what_the_others_leave(void **state)
{
    (void)state;
    struct descriptor_use use = {.limit = 1024, .open = 5, .log_segments = 8};
    struct descriptor_shares shares;
    descriptors_share(&use, &shares);
    assert_int_equal(shares.clients, 1024 - 5 - DESCRIPTORS_FIXED - DESCRIPTORS_LOG -
                                         DESCRIPTORS_REFUSALS - 1024 / 8);
    assert_int_equal(shares.peers, 1024 / 8 * 2 / 3);
    use.log_segments = 108; /* two files each */
    struct descriptor_shares later;
    descriptors_share(&use, &later);
    assert_int_equal(later.clients, shares.clients - 200);
    use.limit = 64;
    descriptors_share(&use, &shares);
    assert_int_equal(shares.clients, 0);
    use.limit = UINT64_MAX;
    descriptors_share(&use, &shares);
    assert_int_equal(shares.clients, UINT32_MAX);
}

static void the_limit_that_is_named_is_enough_and_one_less_is_not(void **state)
{
    (void)state;
    for (uint32_t clients = 1; clients < 20000; clients += 7) {
        struct descriptor_use use = {.open = clients % 50, .log_segments = clients % 300};
        struct descriptor_shares shares;
        use.limit = descriptors_needed(&use, clients);
        descriptors_share(&use, &shares);
        assert_true(shares.clients >= clients);
        use.limit--;
        descriptors_share(&use, &shares);
        assert_true(shares.clients < clients);
    }
}

static void open_descriptors_are_counted(void **state)
{
    (void)state;
    uint64_t before = descriptors_open();
    int fd = dup(1);
    assert_int_equal(descriptors_open(), before + 1);
    close(fd);
    assert_int_equal(descriptors_open(), before);
    assert_true(descriptors_limit() > before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(connections_up_to_the_limit_are_admitted_and_then_refused),
        cmocka_unit_test(the_connection_that_was_idle_for_longest_makes_way),
        cmocka_unit_test(a_connection_that_made_way_is_forgotten),
        cmocka_unit_test(the_last_connections_are_for_loopback),
        cmocka_unit_test(loopback_may_take_more_than_what_is_reserved_for_it),
        cmocka_unit_test(an_address_has_a_limit_of_its_own),
        cmocka_unit_test(one_new_connection_never_costs_more_than_the_limits_require),
        cmocka_unit_test(a_lower_limit_closes_idle_connections_only),
        cmocka_unit_test(counts_are_right_after_anything),
        cmocka_unit_test(clients_get_what_the_others_leave),
        cmocka_unit_test(the_limit_that_is_named_is_enough_and_one_less_is_not),
        cmocka_unit_test(open_descriptors_are_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
