/* What all clients in C have in common: sentences, clocks, samples, options. PROGRAM is a source's own name. */
#ifndef BENCH_CLIENT_H
#define BENCH_CLIENT_H
#include <inttypes.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

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
    _Exit(1); /* a library's threads go on; nothing is left to be tidied */
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

/* When there is room. */
static inline void keep(Samples *samples, uint64_t due_ns, uint64_t now) {
    if (samples->count == samples->max) return;
    uint64_t us = (now - due_ns) / 1000;
    samples->us[samples->count++] = us > UINT32_MAX ? UINT32_MAX : (uint32_t)us;
}

static inline int compare(const void *left, const void *right) {
    uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
    return (a > b) - (a < b);
}

static inline void sort(Samples *samples) { qsort(samples->us, samples->count, sizeof *samples->us, compare); }

/* Of sorted samples; 0 of none. */
static inline uint32_t percentile(const Samples *samples, double share) {
    if (!samples->count) return 0;
    uint64_t place = (uint64_t)(share * (double)samples->count);
    return samples->us[place < samples->count ? place : samples->count - 1];
}

static inline void say_latencies(const char *name, Samples *samples) {
    if (!samples->count) {
        printf(", \"%s\": {\"count\": 0}", name);
        return;
    }
    sort(samples);
    printf(", \"%s\": {\"count\": %" PRIu64 ", \"p50_us\": %u, \"p99_us\": %u, \"p999_us\": %u, \"max_us\": %u}", name,
           samples->count, percentile(samples, 0.5), percentile(samples, 0.99), percentile(samples, 0.999),
           percentile(samples, 1));
}

/* -- Options ------------------------------------------------------------------------------------------------------- */

static inline double number_of(const char *name, const char *text, double least) {
    char *end;
    double value = strtod(text, &end);
    if (end == text || *end || !(value >= least)) fail("--%s %s is not a number from %g on", name, text, least);
    return value;
}
#endif
