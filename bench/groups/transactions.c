/* Many transactional producers in one process, each a librdkafka client and a thread of its own, with small transactions.
 *
 *   transactions --bootstrap A --topic T --partitions N [--producers N] [--records N] [--record-bytes N] [--rate PER_S]
 *                [--warm-s S] [--seconds S] [--half]
 *
 * Each transaction is --records records to partitions at random, flushed, then committed. Without --rate each producer
 * begins its next one at once; with --rate so many a second fall due at fixed times, all producers together, each in its
 * turn. Kept of every transaction that was committed in the measured time: how long the call of commit_transaction took,
 * with nothing left to flush, and the whole of it, under a rate from when it was due.
 *
 * --half: by idempotent producers without a transactional id, in place of a transaction a record with the header bmq-half,
 * and once its offset is known one that commits it in the same partition; --records has to be 1. What stands for the call of
 * commit_transaction is the second record until its acknowledgement.
 *
 * "begin" and "end" are printed around the measured time; then one line of JSON. A delivery or a commit that fails ends it
 * with a sentence and code 1.
 */
#define _GNU_SOURCE
#define PROGRAM "transactions"
#include "../loads/common.h"
#include <getopt.h>
#include <pthread.h>
#include <stdbool.h>
#include <unistd.h>

enum {
    SAMPLES_MAX = 4 * 1024 * 1024, /* of each producer */
    WAIT_S = 60,
};

typedef struct {
    int number;
    pthread_t thread;
    rd_kafka_t *client;
    rd_kafka_topic_t *topic;
    uint64_t random_state, committed, all; /* committed: in the measured time; all: since the start */
    int64_t offset; /* of the record that was acknowledged last */
    Samples commits, whole;
    char *value;
} Producer;

static struct {
    const char *bootstrap, *topic;
    int partitions, producers, records;
    size_t record_bytes;
    double rate, warm_s, seconds;
    bool half;
} options = {NULL, NULL, 0, 16, 1, 1024, 0, 2, 10, false};

static uint64_t start_ns, begin_ns, end_ns;

static void on_delivery(rd_kafka_t *client, const rd_kafka_message_t *message, void *opaque) {
    (void)client;
    Producer *producer = opaque;
    if (message->err) fail("a record was not delivered: %s", rd_kafka_err2str(message->err));
    producer->offset = message->offset;
}

static void sleep_until(uint64_t then_ns) {
    struct timespec then = {(time_t)(then_ns / 1000000000u), (long)(then_ns % 1000000000u)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &then, NULL)) {
    }
}

static void flush(Producer *producer) {
    if (rd_kafka_flush(producer->client, WAIT_S * 1000)) fail("records were not acknowledged within %d s", WAIT_S);
}

/* A record of so many bytes with one header; returns its offset. */
static int64_t send_with(Producer *producer, int32_t partition, size_t size, const char *header, const char *value) {
    rd_kafka_resp_err_t error =
        rd_kafka_producev(producer->client, RD_KAFKA_V_RKT(producer->topic), RD_KAFKA_V_PARTITION(partition),
                          RD_KAFKA_V_MSGFLAGS(RD_KAFKA_MSG_F_COPY), RD_KAFKA_V_VALUE(producer->value, size),
                          RD_KAFKA_V_HEADER(header, value, -1), RD_KAFKA_V_END);
    if (error) fail("a record was not taken: %s", rd_kafka_err2str(error));
    flush(producer);
    return producer->offset;
}

/* Returns when nothing but the commit was left to do. */
static uint64_t send_half_and_commit(Producer *producer) {
    int32_t partition = (int32_t)random_below(&producer->random_state, (uint32_t)options.partitions);
    char id[48], offset[24];
    snprintf(id, sizeof id, "%d-%" PRIu64, producer->number, producer->all);
    int64_t held_at = send_with(producer, partition, options.record_bytes, "bmq-half", id);
    uint64_t held_ns = now_ns();
    snprintf(offset, sizeof offset, "%" PRId64, held_at);
    send_with(producer, partition, 0, "bmq-half-commit", offset);
    return held_ns;
}

/* Returns when nothing but the commit was left to do. */
static uint64_t send_and_commit(Producer *producer) {
    begin_transaction(producer->client);
    for (int record = 0; record < options.records; record++) {
        int32_t partition = (int32_t)random_below(&producer->random_state, (uint32_t)options.partitions);
        if (rd_kafka_produce(producer->topic, partition, RD_KAFKA_MSG_F_COPY, producer->value, options.record_bytes,
                             NULL, 0, NULL))
            fail("a record was not taken: %s", rd_kafka_err2str(rd_kafka_last_error()));
    }
    flush(producer);
    uint64_t flushed_ns = now_ns();
    end_with(rd_kafka_commit_transaction, producer->client, "no commit", WAIT_S * 1000);
    return flushed_ns;
}

static void transact(Producer *producer, uint64_t due_ns) {
    uint64_t flushed_ns = options.half ? send_half_and_commit(producer) : send_and_commit(producer);
    uint64_t now = now_ns();
    producer->all++;
    if (now < begin_ns || now >= end_ns) return;
    producer->committed++;
    keep(&producer->commits, flushed_ns, now);
    keep(&producer->whole, due_ns, now);
}

static void *run(void *given) {
    Producer *producer = given;
    for (uint64_t number = (uint64_t)producer->number;; number += (uint64_t)options.producers) {
        uint64_t due_ns = options.rate > 0 ? start_ns + ns_of((double)number / options.rate) : now_ns();
        if (due_ns >= end_ns || now_ns() >= end_ns) return NULL;
        sleep_until(due_ns);
        transact(producer, due_ns);
    }
}

static void start(Producer *producer, int number) {
    producer->number = number;
    producer->random_state = 88172645463325252u + (uint64_t)number;
    producer->value = random_value(&producer->random_state, options.record_bytes);
    make_room(&producer->commits, SAMPLES_MAX);
    make_room(&producer->whole, SAMPLES_MAX);
    rd_kafka_conf_t *properties = configuration(options.bootstrap);
    char id[48];
    snprintf(id, sizeof id, "bench-%d-%d", (int)getpid(), number);
    if (options.half) set(properties, "enable.idempotence", "true");
    else set(properties, "transactional.id", id);
    rd_kafka_conf_set_opaque(properties, producer);
    rd_kafka_conf_set_dr_msg_cb(properties, on_delivery);
    producer->client = new_client(RD_KAFKA_PRODUCER, properties);
    producer->topic = topic_of(producer->client, options.topic);
}

static void join_samples(Samples *all, const Samples *some) {
    memcpy(all->us + all->count, some->us, some->count * sizeof *some->us);
    all->count += some->count;
}

static void read_options(int count, char **arguments) {
    static const struct option known[] = {
        {"bootstrap", required_argument, NULL, 'b'},    {"topic", required_argument, NULL, 't'},
        {"partitions", required_argument, NULL, 'p'},   {"producers", required_argument, NULL, 'c'},
        {"records", required_argument, NULL, 'k'},      {"record-bytes", required_argument, NULL, 'n'},
        {"rate", required_argument, NULL, 'r'},         {"warm-s", required_argument, NULL, 'w'},
        {"seconds", required_argument, NULL, 's'},      {"half", no_argument, NULL, 'h'},
        {NULL, 0, NULL, 0},
    };
    for (int option, index = 0; (option = getopt_long(count, arguments, "", known, &index)) != -1;) {
        switch (option) {
            case 'b': options.bootstrap = optarg; break;
            case 't': options.topic = optarg; break;
            case 'p': options.partitions = (int)number_of("partitions", optarg, 1); break;
            case 'c': options.producers = (int)number_of("producers", optarg, 1); break;
            case 'k': options.records = (int)number_of("records", optarg, 1); break;
            case 'n': options.record_bytes = (size_t)number_of("record-bytes", optarg, 1); break;
            case 'r': options.rate = number_of("rate", optarg, 0); break;
            case 'w': options.warm_s = number_of("warm-s", optarg, 0); break;
            case 's': options.seconds = number_of("seconds", optarg, 0.1); break;
            case 'h': options.half = true; break;
            default: fail("it is called as its first lines say");
        }
    }
    if (options.half && options.records != 1) fail("a half message is one record");
    if (optind < count) fail("%s is not an option", arguments[optind]);
    if (!options.bootstrap || !options.topic || !options.partitions) fail("--bootstrap, --topic, --partitions are needed");
}

int main(int count, char **arguments) {
    read_options(count, arguments);
    Producer *producers = room_for((uint64_t)options.producers, sizeof *producers);
    for (int number = 0; number < options.producers; number++) start(&producers[number], number);
    for (int number = 0; number < options.producers && !options.half; number++)
        end_with(rd_kafka_init_transactions, producers[number].client, "no producer id", WAIT_S * 1000);
    start_ns = now_ns();
    begin_ns = start_ns + ns_of(options.warm_s);
    end_ns = begin_ns + ns_of(options.seconds);
    for (int number = 0; number < options.producers; number++)
        if (pthread_create(&producers[number].thread, NULL, run, &producers[number])) fail("no thread for a producer");
    sleep_until(begin_ns);
    double cpu_s = cpu_seconds();
    say("begin");
    sleep_until(end_ns);
    cpu_s = cpu_seconds() - cpu_s;
    say("end");
    Samples commits, whole;
    uint64_t committed = 0, all = 0;
    for (int number = 0; number < options.producers; number++) {
        pthread_join(producers[number].thread, NULL);
        committed += producers[number].committed;
        all += producers[number].all;
    }
    make_room(&commits, committed + 1);
    make_room(&whole, committed + 1);
    for (int number = 0; number < options.producers; number++) {
        join_samples(&commits, &producers[number].commits);
        join_samples(&whole, &producers[number].whole);
    }
    printf("{\"transactions\": %" PRIu64 ", \"all\": %" PRIu64 ", \"seconds\": %.6f, \"producers\": %d, \"client_cpu_s\": %.6f",
           committed, all, options.seconds, options.producers, cpu_s);
    say_latencies("commits", &commits);
    say_latencies("whole", &whole);
    puts("}");
    fflush(stdout);
    _Exit(0); /* nothing that is under way matters any more */
}
