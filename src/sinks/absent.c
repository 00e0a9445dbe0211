/* In place of a driver whose library was missing when the program was built. */
#include <stdio.h>

#include "sinks/driver.h"

#ifndef HOLDFAST_HAS_KAFKA
struct sink_driver *kafka_driver_new(const struct kafka_settings *settings,
                                     char problem[DRIVER_PROBLEM])
{
    (void)settings;
    snprintf(problem, DRIVER_PROBLEM,
             "sink-kafka-brokers: this program was built without Kafka: build it with "
             "librdkafka-dev and -Dkafka=enabled");
    return NULL;
}
#endif

#ifndef HOLDFAST_HAS_WEBHOOK
struct sink_driver *webhook_driver_new(const struct webhook_settings *settings,
                                       char problem[DRIVER_PROBLEM])
{
    (void)settings;
    snprintf(problem, DRIVER_PROBLEM,
             "sink-webhook-url: this program was built without libcurl: build it with "
             "libcurl4-openssl-dev and -Dwebhook=enabled");
    return NULL;
}
#endif
