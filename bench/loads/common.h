/* What the librdkafka clients in C have in common. PROGRAM is a source's own name. */
#ifndef BENCH_COMMON_H
#define BENCH_COMMON_H
#include "../client.h"
#include <librdkafka/rdkafka.h>

enum { REASON_BYTES_MAX = 512 };

/* -- Records ------------------------------------------------------------------------------------------------------- */

/* xorshift64; a state for each thread, and none is 0. */
static inline uint32_t random_below(uint64_t *state, uint32_t limit) {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return (uint32_t)(*state >> 32) % limit;
}

/* It does not compress. */
static inline char *random_value(uint64_t *state, size_t size) {
    char *value = room_for(size, 1);
    for (size_t at = 0; at < size; at++) value[at] = (char)random_below(state, 256);
    return value;
}

/* -- librdkafka ---------------------------------------------------------------------------------------------------- */

static inline void set(rd_kafka_conf_t *properties, const char *name, const char *value) {
    char reason[REASON_BYTES_MAX];
    if (rd_kafka_conf_set(properties, name, value, reason, sizeof reason)) fail("%s", reason);
}

static inline void set_number(rd_kafka_conf_t *properties, const char *name, long value) {
    char text[32];
    snprintf(text, sizeof text, "%ld", value);
    set(properties, name, text);
}

static inline rd_kafka_conf_t *configuration(const char *bootstrap) {
    rd_kafka_conf_t *made = rd_kafka_conf_new();
    set(made, "bootstrap.servers", bootstrap);
    return made;
}

static inline rd_kafka_t *new_client(rd_kafka_type_t type, rd_kafka_conf_t *properties) {
    char reason[REASON_BYTES_MAX];
    rd_kafka_t *made = rd_kafka_new(type, properties, reason, sizeof reason);
    if (!made) fail("%s", reason);
    return made;
}

static inline rd_kafka_topic_t *topic_of(rd_kafka_t *client, const char *name) {
    rd_kafka_topic_t *topic = rd_kafka_topic_new(client, name, NULL);
    if (!topic) fail("%s", rd_kafka_err2str(rd_kafka_last_error()));
    return topic;
}

/* Commits or aborts; again while the library says that it is worth it. */
static inline void end_with(rd_kafka_error_t *(*end)(rd_kafka_t *, int), rd_kafka_t *producer, const char *what,
                            int timeout_ms) {
    for (rd_kafka_error_t *error; (error = end(producer, timeout_ms));) {
        if (!rd_kafka_error_is_retriable(error)) fail("%s: %s", what, rd_kafka_error_string(error));
        rd_kafka_error_destroy(error);
    }
}

static inline void begin_transaction(rd_kafka_t *producer) {
    rd_kafka_error_t *error = rd_kafka_begin_transaction(producer);
    if (error) fail("no transaction can be begun: %s", rd_kafka_error_string(error));
}
#endif
