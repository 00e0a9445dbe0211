/* The functions of librdkafka, loaded when a sink needs them. */
#ifndef HOLDFAST_SINKS_KAFKA_LIBRARY_H
#define HOLDFAST_SINKS_KAFKA_LIBRARY_H

#include <librdkafka/rdkafka.h>
#include <stdbool.h>
#include <stddef.h>

#define KAFKA_FUNCTIONS(X) \
    X(conf_new)            \
    X(conf_dup)            \
    X(conf_destroy)        \
    X(conf_set)            \
    X(conf_get)            \
    X(conf_set_opaque)     \
    X(conf_set_dr_msg_cb)  \
    X(conf_set_error_cb)   \
    X(conf_set_log_cb)     \
    X(new)                 \
    X(destroy_flags)       \
    X(poll)                \
    X(purge)               \
    X(producev)            \
    X(err2str)             \
    X(fatal_error)         \
    X(version)             \
    X(opaque)

struct kafka_library {
#define X(name) __typeof__(&rd_kafka_##name) name;
    KAFKA_FUNCTIONS(X)
#undef X
};

extern struct kafka_library kafka;
bool kafka_load(char *problem, size_t problem_size);

#endif
