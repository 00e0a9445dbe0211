/* See kafka_library.h. */
#include "sinks/kafka_library.h"

#include "sinks/library.h"

struct kafka_library kafka;

bool kafka_load(char *problem, size_t problem_size)
{
#define X(function) {"rd_kafka_" #function, &kafka.function},
    const struct library_function functions[] = {KAFKA_FUNCTIONS(X)};
#undef X
    return library_load("librdkafka.so.1", "librdkafka1", functions,
                        sizeof(functions) / sizeof(functions[0]), problem, problem_size);
}
