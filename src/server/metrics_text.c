/* See metrics_text.h. */
#include "server/metrics_text.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/panic.h"

void metrics_put_title(struct buffer *out, const char *name, enum metric_kind kind,
                       const char *help)
{
    static const char *const kinds[] = {"gauge", "counter", "histogram"};
    int len = (int)strcspn(name, "{");
    hf_assert(help[0] != '\0');
    buffer_printf(out, "# HELP holdfast_%.*s %s\n# TYPE holdfast_%.*s %s\n", len, name, help, len,
                  name, kinds[kind]);
}

const char *metrics_seconds(uint64_t us, char text[METRICS_SECONDS_TEXT])
{
    int len = snprintf(text, METRICS_SECONDS_TEXT, "%" PRIu64 ".%06" PRIu64,
                       us / 1000000 % 1000000000000, us % 1000000);
    while (text[len - 1] == '0') {
        len--;
    }
    len -= text[len - 1] == '.';
    text[len] = '\0';
    return text;
}

static const char *value_text(uint64_t value, bool is_us, char text[METRICS_SECONDS_TEXT])
{
    if (is_us) {
        return metrics_seconds(value, text);
    }
    (void)snprintf(text, METRICS_SECONDS_TEXT, "%" PRIu64, value);
    return text;
}

static void put_bucket(struct buffer *out, const char *name, const char *labels, const char *end,
                       uint64_t count)
{
    buffer_printf(out, "holdfast_%s_bucket{%s%sle=\"%s\"} %" PRIu64 "\n", name, labels,
                  labels[0] == '\0' ? "" : ",", end, count);
}

void metrics_put_histogram(struct buffer *out, const char *name, const char *labels,
                           const struct metrics_buckets *buckets, const struct distribution *d)
{
    static const uint64_t steps[] = {1, 2, 5};
    char text[METRICS_SECONDS_TEXT];
    for (uint64_t power = buckets->first; power <= buckets->last; power *= 10) {
        bool is_one = buckets->is_coarse || power == buckets->last;
        for (unsigned i = 0; i < (is_one ? 1 : 3); i++) {
            uint64_t end = power * steps[i];
            put_bucket(out, name, labels, value_text(end, buckets->is_us, text),
                       distribution_up_to(d, end));
        }
    }
    put_bucket(out, name, labels, "+Inf", d->count);
    const char *open = labels[0] == '\0' ? "" : "{";
    const char *close = labels[0] == '\0' ? "" : "}";
    buffer_printf(out, "holdfast_%s_sum%s%s%s %s\nholdfast_%s_count%s%s%s %" PRIu64 "\n", name,
                  open, labels, close, value_text(d->sum, buckets->is_us, text), name, open, labels,
                  close, d->count);
}
