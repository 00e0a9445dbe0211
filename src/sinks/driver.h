/* Where a sink delivers to: Kafka, a file, a webhook. All functions run on the thread of the sink. None
 * blocks for longer than DRIVER_POLL_MS, apart from opening files and fsync, so that a sink stops soon.
 *
 *     open ──▶ begin ──▶ poll ... poll ──▶ DRIVER_DELIVERED ──▶ begin ...
 *                          │
 *                          └──▶ DRIVER_FAILED ──▶ (back-off) ──▶ begin with the same batch
 *
 * `close` ends a delivery that has begun; parts of it may still arrive. */
#ifndef HOLDFAST_SINKS_DRIVER_H
#define HOLDFAST_SINKS_DRIVER_H

#include "sinks/sink_batch.h"

enum { DRIVER_POLL_MS = 100, DRIVER_TEXT = 256 };

enum driver_step { DRIVER_WAITS, DRIVER_DELIVERED, DRIVER_FAILED };

/* Why something failed, or does not proceed. */
struct driver_trouble {
    char text[DRIVER_TEXT];  /* with DRIVER_WAITS: "" if all is well */
    uint32_t retry_after_ms; /* not earlier, by the receiver; 0: unknown */
    bool too_large;          /* of DRIVER_FAILED: send fewer events together */
    bool reopen;             /* of DRIVER_FAILED: close and open before the next attempt */
};

struct sink_driver {
    uint32_t linger_ms; /* to collect events before a delivery */
    uint32_t events;    /* most in one batch, up to SINK_BATCH_EVENTS */
    bool (*open)(struct sink_driver *driver, struct driver_trouble *trouble);
    /* The batch stays unchanged until the delivery has ended. */
    void (*begin)(struct sink_driver *driver, const struct sink_batch *batch);
    enum driver_step (*poll)(struct sink_driver *driver, uint32_t wait_ms,
                             struct driver_trouble *trouble);
    void (*close)(struct sink_driver *driver);
    /* Closed before. */
    void (*free)(struct sink_driver *driver);
};

#define DRIVER_PROBLEM 512

/* ---- file.c: JSON lines; FILE.1 is the newest of the rotated files ---- */

struct file_settings {
    const char *path;
    uint64_t max_bytes; /* of a file; rotated above it */
    uint32_t keep;      /* rotated files */
};
/* These three return NULL and set `problem` if the sink cannot work with these settings. Texts must
 * stay valid. */
struct sink_driver *file_driver_new(const struct file_settings *settings,
                                    char problem[DRIVER_PROBLEM]);

/* ---- webhook.c: HTTPS POST of a JSON array, signed ---- */

struct webhook_settings {
    const char *url;
    const char *secret_file;
    const char *ca;  /* "": those of the system */
    bool allow_http; /* also to other machines */
    uint32_t timeout_ms;
};
struct sink_driver *webhook_driver_new(const struct webhook_settings *settings,
                                       char problem[DRIVER_PROBLEM]);

/* ---- kafka.c ---- */

struct kafka_settings {
    const char *brokers; /* HOST:PORT,... */
    const char *topic;
    const char *config; /* a file with properties of librdkafka; "": none */
    uint64_t node;
};
struct sink_driver *kafka_driver_new(const struct kafka_settings *settings,
                                     char problem[DRIVER_PROBLEM]);

#endif
