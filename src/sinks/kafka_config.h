/* The properties of the producer: ours, and those of the operator's file. */
#ifndef HOLDFAST_SINKS_KAFKA_CONFIG_H
#define HOLDFAST_SINKS_KAFKA_CONFIG_H

#include "sinks/driver.h"
#include "sinks/kafka_library.h"

/* NULL: `problem` is set. The caller owns the result. */
rd_kafka_conf_t *kafka_config_new(const struct kafka_settings *settings,
                                  char problem[DRIVER_PROBLEM]);

#endif
