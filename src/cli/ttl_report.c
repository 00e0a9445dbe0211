/* The decision of `holdfast ttl-advice`, and its output. */
#include <inttypes.h>
#include <stdio.h>

#include "cli/human.h"
#include "cli/ttl_advice.h"
#include "wire/json_write.h"

static uint64_t most(const struct ttl_values *v)
{
    return ttl_values_quantile(v, 1000);
}

void ttl_decide(struct ttl_report *r)
{
    uint64_t trip_ms = (ttl_values_quantile(&r->trips_us, 990) + 999) / 1000;
    uint64_t assumed_ms =
        r->late.count > 0 ? TTL_LATE_FACTOR * most(&r->late) : TTL_ASSUMED_PAUSE_MS;
    r->late_ms = r->pause_ms > assumed_ms || r->late.count == 0 ? r->pause_ms : assumed_ms;
    r->late_ms = r->late_ms == 0 ? assumed_ms : r->late_ms;
    r->ttl_ms = ttl_rounded_ms(ttl_rule_ms(r->late_ms, r->outage_ms, trip_ms));
    r->holds_ttl_ms = r->holds.count > 0 ? ttl_rounded_ms(2 * most(&r->holds)) : 0;
    r->basis = r->late.count > 0 ? TTL_BY_RENEWALS : TTL_BY_DEFAULTS;
    if (r->kinds.not_renewed > 0 && r->kinds.renewed == 0 && r->holds_ttl_ms > 0) {
        r->basis = TTL_BY_HOLDS;
        r->ttl_ms = r->holds_ttl_ms > r->ttl_ms ? r->holds_ttl_ms : r->ttl_ms;
    }
}

/* ---- for people ---- */

/* "3.4s" below ten seconds, where whole seconds say too little. */
static const char *span(uint64_t ms, char out[HUMAN_TEXT])
{
    if (ms < 1000 || ms >= 10000) {
        return human_span(ms, out);
    }
    (void)snprintf(out, HUMAN_TEXT, "%" PRIu64 ".%" PRIu64 "s", ms / 1000, ms / 100 % 10);
    return out;
}

static void print_quantiles(const struct ttl_values *v, uint64_t unit)
{
    char p50[HUMAN_TEXT];
    char p99[HUMAN_TEXT];
    char longest[HUMAN_TEXT];
    printf("p50 %s, p99 %s, longest %s", span(ttl_values_quantile(v, 500) / unit, p50),
           span(ttl_values_quantile(v, 990) / unit, p99), span(most(v) / unit, longest));
}

static void print_trips(const struct ttl_report *r)
{
    if (r->trips_us.count == 0) {
        printf("  round trip   not measured: %s\n", r->trip_problem);
        return;
    }
    printf("  round trip   %.1f ms p50, %.1f ms p99, of %zu keep-alives of this command, each with "
           "its own connection\n",
           (double)ttl_values_quantile(&r->trips_us, 500) / 1000,
           (double)ttl_values_quantile(&r->trips_us, 990) / 1000, r->trips_us.count);
}

static void print_measured(const struct ttl_report *r)
{
    char from[HUMAN_TEXT];
    char to[HUMAN_TEXT];
    printf("measured for %s, %s%s%s:\n", span(r->measured_ms, from),
           r->name != NULL ? "" : "names that begin with \"", r->name != NULL ? r->name : r->prefix,
           r->name != NULL ? "" : "\"");
    printf(
        "  leases       %zu seen, %zu renewed, %zu not renewed when half of their life was over\n",
        r->leases.count, r->kinds.renewed, r->kinds.not_renewed);
    if (r->leases.omitted > 0) {
        printf("               more than %d: a longer prefix measures all of them\n", TTL_LEASES);
    }
    if (r->leases.count > 0) {
        printf("  TTL today    about %s to %s, as far as it was seen\n",
               span(r->kinds.ttl_min_ms, from), span(r->kinds.ttl_max_ms, to));
    }
    if (r->gaps.count > 0) {
        printf("  renewals     %zu; time between two of a lease: ", r->gaps.count);
        print_quantiles(&r->gaps, 1);
        printf("\n");
    }
    if (r->late.count > 0) {
        printf("  lateness     ");
        print_quantiles(&r->late, 1);
        printf(" (beyond the median time of the lease)\n");
    }
    print_trips(r);
    if (r->names > 0) {
        printf("  history      %zu released holds of %zu names", r->holds.count, r->names);
        if (r->holds.count > 0) {
            printf(": ");
            print_quantiles(&r->holds, 1);
        }
        printf("; %zu ended because nobody renewed them\n", r->expired);
    }
}

static void print_reasons(const struct ttl_report *r)
{
    char a[HUMAN_TEXT];
    char b[HUMAN_TEXT];
    char c[HUMAN_TEXT];
    printf("because:\n");
    if (r->basis == TTL_BY_HOLDS) {
        printf("  - these leases are not renewed, so the TTL must be longer than the longest hold: "
               "twice %s\n",
               span(most(&r->holds), a));
    } else {
        printf("  - between two renewals the TTL allows for a client that is %s late, %s without a "
               "leader,\n"
               "    %s until the next attempt, and its round trip; renewals are due after a third "
               "of it\n",
               span(r->late_ms, a), span(r->outage_ms, b), span(TTL_RETRY_MS, c));
    }
    if (r->basis == TTL_BY_RENEWALS) {
        printf("  - the lateness is %s\n",
               r->late_ms == r->pause_ms
                   ? "that of --pause, which is more than twice the longest one that was seen"
                   : "twice the longest one that was seen: worse ones come later");
    } else if (r->basis == TTL_BY_DEFAULTS && r->pause_ms == 0) {
        printf("  - no lateness was measured, so it is assumed: run this while the clients work, "
               "and for at\n"
               "    least four renewals (--for), or give their longest pause (--pause)\n");
    }
    if (r->basis != TTL_BY_HOLDS && r->kinds.not_renewed > 0) {
        printf("  - %zu leases are not renewed: renew them, or give them a TTL longer than any "
               "hold%s%s\n",
               r->kinds.not_renewed, r->holds_ttl_ms > 0 ? ", here " : "",
               r->holds_ttl_ms > 0 ? span(r->holds_ttl_ms, a) : "");
    }
    printf("  - when a holder dies, others wait up to %s\n", span(r->ttl_ms, a));
}

void ttl_print(const struct ttl_report *r)
{
    static const char *const bases[] = {"", " (by the history of holds)",
                                        " (a starting value: no pauses of clients were measured)"};
    char ttl[HUMAN_TEXT];
    printf("recommended TTL: %s%s\n", human_span(r->ttl_ms, ttl), bases[r->basis]);
    print_measured(r);
    print_reasons(r);
}

/* ---- for programs ---- */

static void put_quantiles(struct json_writer *w, const char *key, const struct ttl_values *v)
{
    json_put_open(w, key, '{');
    json_put_u64(w, "count", v->count);
    if (v->count > 0) {
        json_put_u64(w, "p50", ttl_values_quantile(v, 500));
        json_put_u64(w, "p99", ttl_values_quantile(v, 990));
        json_put_u64(w, "max", most(v));
    }
    json_write_close(w);
}

static void put_leases(struct json_writer *w, const struct ttl_report *r)
{
    json_put_open(w, "leases", '{');
    json_put_u64(w, "seen", r->leases.count);
    json_put_u64(w, "renewed", r->kinds.renewed);
    json_put_u64(w, "not_renewed", r->kinds.not_renewed);
    json_put_bool(w, "complete", r->leases.omitted == 0);
    if (r->leases.count > 0) {
        json_put_u64(w, "ttl_seen_min_ms", r->kinds.ttl_min_ms);
        json_put_u64(w, "ttl_seen_max_ms", r->kinds.ttl_max_ms);
    }
    json_write_close(w);
}

static void put_report(struct json_writer *w, const struct ttl_report *r)
{
    static const char *const bases[] = {"renewals", "holds", "defaults"};
    json_write_open(w, '{');
    json_put_u64(w, "ttl_ms", r->ttl_ms);
    json_put_text(w, "basis", bases[r->basis]);
    if (r->name != NULL) {
        json_put_text(w, "name", r->name);
    } else {
        json_put_text(w, "prefix", r->prefix);
    }
    json_put_u64(w, "measured_ms", r->measured_ms);
    json_put_u64(w, "late_allowed_ms", r->late_ms);
    json_put_u64(w, "outage_ms", r->outage_ms);
    json_put_u64(w, "retry_ms", TTL_RETRY_MS);
    put_leases(w, r);
    put_quantiles(w, "renewal_gap_ms", &r->gaps);
    put_quantiles(w, "renewal_late_ms", &r->late);
    put_quantiles(w, "round_trip_us", &r->trips_us);
    put_quantiles(w, "hold_ms", &r->holds);
    json_put_u64(w, "holds_expired", r->expired);
    if (r->holds_ttl_ms > 0) {
        json_put_u64(w, "ttl_without_renewal_ms", r->holds_ttl_ms);
    }
    json_write_close(w);
}

void ttl_print_json(const struct ttl_report *r)
{
    struct buffer out;
    struct json_writer w;
    buffer_init(&out, memory_system(), 64 << 10);
    json_writer_init(&w, &out);
    put_report(&w, r);
    buffer_append_byte(&out, '\n');
    struct slice text = buffer_bytes(&out);
    (void)fwrite(text.data, 1, text.len, stdout);
    buffer_close(&out);
}
