/* What the librdkafka clients in C have in common: sentences, clocks, samples, options. PROGRAM is a source's own name. */
#ifndef BENCH_COMMON_H
#define BENCH_COMMON_H
#include <inttypes.h>
#include <librdkafka/rdkafka.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

enum { REASON_BYTES_MAX = 512 };

typedef struct {
    uint32_t *us;
    uint64_t count, max;
} Samples;

static inline void __attribute__((noreturn, format(printf, 1, 2))) fail(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fputs(PROGRAM ": ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    _Exit(1); /* librdkafka's threads go on; nothing is left to be tidied */
}

static inline uint64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static inline uint64_t ns_of(double seconds) { return (uint64_t)(seconds * 1e9); }

static inline double cpu_seconds(void) {
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    return (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
           (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6;
}

static inline void say(const char *word) {
    puts(word);
    fflush(stdout);
}

/* -- Samples ------------------------------------------------------------------------------------------------------- */

static inline void *room_for(uint64_t count, size_t size) {
    void *room = calloc(count, size);
    if (!room) fail("no memory");
    return room;
}

static inline void make_room(Samples *samples, uint64_t max) {
    *samples = (Samples){room_for(max, sizeof *samples->us), 0, max};
}

static inline void keep(Samples *samples, uint64_t due_ns, uint64_t now) {
    if (samples->count == samples->max) return;
    uint64_t us = (now - due_ns) / 1000;
    samples->us[samples->count++] = us > UINT32_MAX ? UINT32_MAX : (uint32_t)us;
}

static inline int compare(const void *left, const void *right) {
    uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
    return (a > b) - (a < b);
}

static inline uint32_t percentile(const Samples *samples, double share) {
    uint64_t place = (uint64_t)(share * (double)samples->count);
    return samples->us[place < samples->count ? place : samples->count - 1];
}

static inline void say_latencies(const char *name, Samples *samples) {
    if (!samples->count) {
        printf(", \"%s\": {\"count\": 0}", name);
        return;
    }
    qsort(samples->us, samples->count, sizeof *samples->us, compare);
    printf(", \"%s\": {\"count\": %" PRIu64 ", \"p50_us\": %u, \"p99_us\": %u, \"p999_us\": %u, \"max_us\": %u}", name,
           samples->count, percentile(samples, 0.5), percentile(samples, 0.99), percentile(samples, 0.999),
           percentile(samples, 1));
}

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

/* -- Options ------------------------------------------------------------------------------------------------------- */

static inline double number_of(const char *name, const char *text, double least) {
    char *end;
    double value = strtod(text, &end);
    if (end == text || *end || !(value >= least)) fail("--%s %s is not a number from %g on", name, text, least);
    return value;
}
#endif
