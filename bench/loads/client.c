/* A librdkafka client that costs little beside the library: no object for a record, as C has none.
 *
 *   client --bootstrap A --topic T --partitions N [--record-bytes N] [--rate PER_S] [--warm-s S] [--seconds S]
 *          [--consume]
 *
 * Produces records to partitions at random with acks=all and librdkafka's defaults otherwise, and
 * counts those whose acknowledgement came in the measured time. Without --rate as fast as the library takes them; with
 * --rate they fall due at fixed times, whatever the server does, and latencies count from when they were due.
 *
 * --consume: a consumer in the same process reads the topic from its end on; the time from when a record was due until
 * the consumer has it is counted as well.
 *
 * "begin" and "end" are printed around the measured time, so that somebody else can look at the servers' processor time
 * at these moments; then one line of JSON. A record that is not acknowledged within DRAIN_S behind the end, or whose
 * delivery fails, ends it with a sentence and code 1.
 */
#define _GNU_SOURCE
#include <getopt.h>
#include <inttypes.h>
#include <librdkafka/rdkafka.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

enum {
    REASON_BYTES_MAX = 512,
    SAMPLES_MAX = 32 * 1024 * 1024,
    STAMP_BYTES = 8, /* in front of each record: when it was due */
    DRAIN_S = 120, /* a cluster that takes 2,000 records a second has the full queue's 100,000 to come */
    READY_S = 30,
    POLL_EVERY = 256, /* records between two looks at acknowledgements */
};

typedef struct {
    uint32_t *us;
    uint64_t count;
} Samples;

static struct {
    const char *bootstrap, *topic;
    int partitions;
    size_t record_bytes;
    double rate, warm_s, seconds;
    bool is_consuming;
} options = {NULL, NULL, 0, 1024, 0, 2, 10, false};

static uint64_t begin_ns, end_ns;
static Samples acknowledged, consumed;
static uint64_t acknowledged_count, produced_count, done_count;
static volatile bool is_over;
static rd_kafka_t *producer, *consumer;
static volatile bool is_consumer_there;

static void __attribute__((noreturn, format(printf, 1, 2))) fail(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fputs("client: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    _Exit(1); /* librdkafka's threads go on; nothing is left to be tidied */
}

static uint64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static double cpu_seconds(void) {
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    return (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
           (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6;
}

static void say(const char *word) {
    puts(word);
    fflush(stdout);
}

static void keep(Samples *samples, uint64_t due_ns, uint64_t now) {
    if (samples->count == SAMPLES_MAX) return;
    uint64_t us = (now - due_ns) / 1000;
    samples->us[samples->count++] = us > UINT32_MAX ? UINT32_MAX : (uint32_t)us;
}

static bool is_measured(uint64_t at_ns) { return at_ns >= begin_ns && at_ns < end_ns; }

/* Under a rate every record that was due in the measured time has a latency, however late it came. */
static void on_delivery(rd_kafka_t *client, const rd_kafka_message_t *message, void *opaque) {
    (void)client;
    (void)opaque;
    if (message->err) fail("a record was not delivered: %s", rd_kafka_err2str(message->err));
    uint64_t due_ns = (uint64_t)(uintptr_t)message->_private;
    uint64_t now = now_ns();
    done_count++;
    if (is_measured(now)) acknowledged_count++;
    if (is_measured(due_ns)) keep(&acknowledged, due_ns, now);
}

static void take(const rd_kafka_message_t *message) {
    if (message->err) fail("the consumer got an error: %s", rd_kafka_message_errstr(message));
    uint64_t due_ns;
    if (message->len < STAMP_BYTES) fail("a record of %zu bytes", message->len);
    memcpy(&due_ns, message->payload, STAMP_BYTES);
    if (is_measured(due_ns)) keep(&consumed, due_ns, now_ns());
}

static void *consume(void *unused) {
    (void)unused;
    while (!is_over) {
        rd_kafka_message_t *message = rd_kafka_consumer_poll(consumer, 100);
        if (!message) continue;
        is_consumer_there = true;
        take(message);
        rd_kafka_message_destroy(message);
    }
    return NULL;
}

static rd_kafka_conf_t *configuration(void) {
    char reason[REASON_BYTES_MAX];
    rd_kafka_conf_t *made = rd_kafka_conf_new();
    if (rd_kafka_conf_set(made, "bootstrap.servers", options.bootstrap, reason, sizeof reason)) fail("%s", reason);
    return made;
}

static rd_kafka_t *new_client(rd_kafka_type_t type, rd_kafka_conf_t *properties) {
    char reason[REASON_BYTES_MAX];
    rd_kafka_t *made = rd_kafka_new(type, properties, reason, sizeof reason);
    if (!made) fail("%s", reason);
    return made;
}

static void start_producer(void) {
    rd_kafka_conf_t *properties = configuration();
    rd_kafka_conf_set(properties, "acks", "all", NULL, 0);
    rd_kafka_conf_set_dr_msg_cb(properties, on_delivery);
    producer = new_client(RD_KAFKA_PRODUCER, properties);
}

static void start_consumer(pthread_t *thread) {
    rd_kafka_conf_t *properties = configuration();
    rd_kafka_conf_set(properties, "group.id", "bench", NULL, 0);
    rd_kafka_conf_set(properties, "enable.auto.commit", "false", NULL, 0);
    consumer = new_client(RD_KAFKA_CONSUMER, properties);
    rd_kafka_poll_set_consumer(consumer);
    rd_kafka_topic_partition_list_t *all = rd_kafka_topic_partition_list_new(options.partitions);
    for (int partition = 0; partition < options.partitions; partition++)
        rd_kafka_topic_partition_list_add(all, options.topic, partition)->offset = RD_KAFKA_OFFSET_END;
    rd_kafka_resp_err_t error = rd_kafka_assign(consumer, all);
    if (error) fail("partitions could not be assigned: %s", rd_kafka_err2str(error));
    rd_kafka_topic_partition_list_destroy(all);
    if (pthread_create(thread, NULL, consume, NULL)) fail("no thread for the consumer");
}

static uint64_t random_state = 88172645463325252u;

static uint32_t random_below(uint32_t limit) { /* xorshift64 */
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (uint32_t)(random_state >> 32) % limit;
}

static void produce(rd_kafka_topic_t *topic, char *value, uint64_t due_ns) {
    memcpy(value, &due_ns, STAMP_BYTES);
    int32_t partition = (int32_t)random_below((uint32_t)options.partitions);
    while (rd_kafka_produce(topic, partition, RD_KAFKA_MSG_F_COPY, value, options.record_bytes, NULL, 0,
                            (void *)(uintptr_t)due_ns)) {
        rd_kafka_resp_err_t error = rd_kafka_last_error();
        if (error != RD_KAFKA_RESP_ERR__QUEUE_FULL) fail("a record was not taken: %s", rd_kafka_err2str(error));
        rd_kafka_poll(producer, 10); /* full: until acknowledgements come */
        if (now_ns() > end_ns + (uint64_t)DRAIN_S * 1000000000u) fail("no acknowledgement for %d s", DRAIN_S);
    }
    produced_count++;
}

/* Serve acknowledgements until then. */
static void wait_until(uint64_t then_ns) {
    for (uint64_t now; (now = now_ns()) < then_ns;) {
        uint64_t left_ns = then_ns - now;
        if (left_ns >= 1000000u) {
            rd_kafka_poll(producer, (int)(left_ns / 1000000u));
        } else {
            rd_kafka_poll(producer, 0);
            struct timespec rest = {0, (long)left_ns};
            nanosleep(&rest, NULL);
        }
    }
}

/* A consumer at the end of the log has joined in once something comes. */
static void wait_for_consumer(rd_kafka_topic_t *topic, char *value) {
    uint64_t give_up_ns = now_ns() + (uint64_t)READY_S * 1000000000u;
    begin_ns = UINT64_MAX; /* nothing is measured yet */
    end_ns = give_up_ns;
    while (!is_consumer_there) {
        produce(topic, value, 0);
        rd_kafka_poll(producer, 100);
        if (now_ns() > give_up_ns) fail("the consumer got nothing within %d s", READY_S);
    }
}

static void run(rd_kafka_topic_t *topic, char *value) {
    uint64_t start_ns = now_ns(), number = 0;
    double cpu_s = 0;
    bool has_begun = false;
    end_ns = start_ns + (uint64_t)((options.warm_s + options.seconds) * 1e9);
    begin_ns = start_ns + (uint64_t)(options.warm_s * 1e9);
    for (uint64_t now; (now = now_ns()) < end_ns; number++) {
        if (!has_begun && now >= begin_ns) {
            has_begun = true;
            cpu_s = cpu_seconds();
            say("begin");
        }
        if (options.rate > 0) {
            uint64_t due_ns = start_ns + (uint64_t)((double)number / options.rate * 1e9);
            wait_until(due_ns < end_ns ? due_ns : end_ns);
            if (due_ns >= end_ns) break;
            produce(topic, value, due_ns);
        } else {
            produce(topic, value, now);
            if (number % POLL_EVERY == 0) rd_kafka_poll(producer, 0);
        }
    }
    cpu_s = cpu_seconds() - cpu_s;
    say("end");
    if (rd_kafka_flush(producer, DRAIN_S * 1000) || done_count != produced_count)
        fail("%" PRIu64 " records were not acknowledged within %d s", produced_count - done_count, DRAIN_S);
    /* What the consumer has not yet. */
    for (int left = DRAIN_S * 100; options.is_consuming && consumed.count < acknowledged.count && left > 0; left--)
        nanosleep(&(struct timespec){0, 10000000}, NULL);
    if (options.is_consuming && consumed.count < acknowledged.count)
        fail("the consumer got %" PRIu64 " of %" PRIu64 " records", consumed.count, acknowledged.count);
    is_over = true;
    printf("{\"records\": %" PRIu64 ", \"seconds\": %.6f, \"produced\": %" PRIu64 ", \"client_cpu_s\": %.6f",
           acknowledged_count, options.seconds, produced_count, cpu_s);
}

static int compare(const void *left, const void *right) {
    uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
    return (a > b) - (a < b);
}

static uint32_t percentile(const Samples *samples, double share) {
    uint64_t place = (uint64_t)(share * (double)samples->count);
    return samples->us[place < samples->count ? place : samples->count - 1];
}

static void say_latencies(const char *name, Samples *samples) {
    if (!samples->count) fail("no record was measured");
    qsort(samples->us, samples->count, sizeof *samples->us, compare);
    printf(", \"%s\": {\"count\": %" PRIu64 ", \"p50_us\": %u, \"p99_us\": %u, \"p999_us\": %u, \"max_us\": %u}", name,
           samples->count, percentile(samples, 0.5), percentile(samples, 0.99), percentile(samples, 0.999),
           percentile(samples, 1));
}

static double number_of(const char *name, const char *text, double least) {
    char *end;
    double value = strtod(text, &end);
    if (end == text || *end || !(value >= least)) fail("--%s %s is not a number from %g on", name, text, least);
    return value;
}

static void read_options(int count, char **arguments) {
    static const struct option known[] = {
        {"bootstrap", required_argument, NULL, 'b'},    {"topic", required_argument, NULL, 't'},
        {"partitions", required_argument, NULL, 'p'},   {"record-bytes", required_argument, NULL, 'n'},
        {"rate", required_argument, NULL, 'r'},         {"warm-s", required_argument, NULL, 'w'},
        {"seconds", required_argument, NULL, 's'},      {"consume", no_argument, NULL, 'c'},
        {NULL, 0, NULL, 0},
    };
    for (int option, index = 0; (option = getopt_long(count, arguments, "", known, &index)) != -1;) {
        switch (option) {
            case 'b': options.bootstrap = optarg; break;
            case 't': options.topic = optarg; break;
            case 'p': options.partitions = (int)number_of("partitions", optarg, 1); break;
            case 'n': options.record_bytes = (size_t)number_of("record-bytes", optarg, STAMP_BYTES); break;
            case 'r': options.rate = number_of("rate", optarg, 0); break;
            case 'w': options.warm_s = number_of("warm-s", optarg, 0); break;
            case 's': options.seconds = number_of("seconds", optarg, 0.1); break;
            case 'c': options.is_consuming = true; break;
            default: fail("it is called as its first lines say");
        }
    }
    if (optind < count) fail("%s is not an option", arguments[optind]);
    if (!options.bootstrap || !options.topic || !options.partitions) fail("--bootstrap, --topic, --partitions are needed");
}

int main(int count, char **arguments) {
    read_options(count, arguments);
    acknowledged.us = malloc(SAMPLES_MAX * sizeof *acknowledged.us);
    consumed.us = malloc(SAMPLES_MAX * sizeof *consumed.us);
    char *value = malloc(options.record_bytes);
    if (!acknowledged.us || !consumed.us || !value) fail("no memory");
    for (size_t at = 0; at < options.record_bytes; at++) value[at] = (char)random_below(256); /* does not compress */
    pthread_t thread;
    start_producer();
    rd_kafka_topic_t *topic = rd_kafka_topic_new(producer, options.topic, NULL);
    if (!topic) fail("%s", rd_kafka_err2str(rd_kafka_last_error()));
    if (options.is_consuming) {
        start_consumer(&thread);
        wait_for_consumer(topic, value);
    }
    run(topic, value);
    say_latencies("acknowledged", &acknowledged);
    if (options.is_consuming) {
        pthread_join(thread, NULL);
        say_latencies("consumed", &consumed);
    }
    puts("}");
    fflush(stdout);
    _Exit(0); /* nothing that is under way matters any more */
}
