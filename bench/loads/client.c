/* A librdkafka client that costs little beside the library: no object for a record, as C has none.
 *
 *   client --bootstrap A --topic T --partitions N [--record-bytes N] [--rate PER_S] [--warm-s S] [--seconds S]
 *          [--consume] [--records-max N] [--queue N] [--idempotent] [--transaction-ms MS [--abort-every N]]
 *          [--delay-ms MS] [--set NAME=VALUE ...]
 *
 * Produces records to partitions at random with acks=all and librdkafka's defaults otherwise, and
 * counts those whose acknowledgement came in the measured time. Without --rate as fast as the library takes them; with
 * --rate they fall due at fixed times, whatever the server does, and latencies count from when they were due.
 *
 * --consume: a consumer in the same process reads the topic from its end on; the time from when a record was due until
 * the consumer has it is counted as well.
 *
 * --transaction-ms: in transactions, each committed once it is so old, what is queued with it. Counted are the records of
 * those whose commit was answered in the measured time; how long each commit took is kept. --abort-every: every so manyth
 * transaction is aborted instead, when all of it is in the log.
 *
 * --records-max: it ends after so many records, or with the time. --queue: so many may wait for their acknowledgement,
 * in place of librdkafka's 100,000. --set: a property of librdkafka, of producer and consumer.
 *
 * --delay-ms: each record has a header that asks for a delay of at least a tenth of this and less than this, at random.
 *
 * "begin" and "end" are printed around the measured time, so that somebody else can look at the servers' processor time
 * at these moments; then one line of JSON. A record that is not acknowledged within DRAIN_S behind the end, or whose
 * delivery fails, ends it with a sentence and code 1.
 */
#define _GNU_SOURCE
#define PROGRAM "client"
#include "common.h"
#include <getopt.h>
#include <pthread.h>
#include <stdbool.h>
#include <unistd.h>

enum {
    SETTINGS_MAX = 32,
    SAMPLES_MAX = 32 * 1024 * 1024,
    STAMP_BYTES = 8, /* in front of each record: when it was due */
    DRAIN_S = 120, /* a cluster that takes 2,000 records a second has the full queue's 100,000 to come */
    READY_S = 30,
    INIT_S = 60,
    POLL_EVERY = 256, /* records between two looks at acknowledgements */
};

static struct {
    const char *bootstrap, *topic;
    int partitions;
    size_t record_bytes;
    double rate, warm_s, seconds, transaction_ms;
    uint64_t records_max, abort_every, delay_ms;
    long queue;
    bool is_consuming, is_idempotent;
} options = {NULL, NULL, 0, 1024, 0, 2, 10, 0, UINT64_MAX, 0, 0, 0, false, false};

static struct {
    const char *name, *value;
} settings[SETTINGS_MAX];
static int settings_count;

static uint64_t begin_ns, end_ns;
static Samples acknowledged, consumed, commits;
static uint64_t acknowledged_count, produced_count, done_count;
static struct {
    bool is_open;
    uint64_t begun_ns, records;   /* of the open one */
    uint64_t committed, aborted;  /* transactions */
    uint64_t committed_records;   /* from the first transaction to the last */
    uint64_t measured_records;    /* whose commit was answered in the measured time */
} transactions;
static volatile bool is_over;
static rd_kafka_t *producer, *consumer;
static volatile bool is_consumer_there;

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

static rd_kafka_conf_t *own_configuration(void) {
    rd_kafka_conf_t *properties = configuration(options.bootstrap);
    for (int number = 0; number < settings_count; number++)
        set(properties, settings[number].name, settings[number].value);
    return properties;
}

static void add_setting(char *text) {
    char *value = strchr(text, '=');
    if (!value) fail("--set %s is not NAME=VALUE", text);
    if (settings_count == SETTINGS_MAX) fail("more than %d properties are set", SETTINGS_MAX);
    *value = 0;
    settings[settings_count].name = text;
    settings[settings_count++].value = value + 1;
}

static void start_producer(void) {
    rd_kafka_conf_t *properties = own_configuration();
    set(properties, "acks", "all");
    if (options.is_idempotent) set(properties, "enable.idempotence", "true");
    if (options.queue) set_number(properties, "queue.buffering.max.messages", options.queue);
    if (options.transaction_ms > 0) {
        char id[32];
        snprintf(id, sizeof id, "bench-%d", (int)getpid());
        set(properties, "transactional.id", id);
    }
    rd_kafka_conf_set_dr_msg_cb(properties, on_delivery);
    producer = new_client(RD_KAFKA_PRODUCER, properties);
    if (options.transaction_ms > 0) end_with(rd_kafka_init_transactions, producer, "no producer id", INIT_S * 1000);
}

static void start_consumer(pthread_t *thread) {
    rd_kafka_conf_t *properties = own_configuration();
    set(properties, "group.id", "bench");
    set(properties, "enable.auto.commit", "false");
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

static rd_kafka_resp_err_t put(rd_kafka_topic_t *topic, int32_t partition, char *value, void *due) {
    if (!options.delay_ms) {
        int refused = rd_kafka_produce(topic, partition, RD_KAFKA_MSG_F_COPY, value, options.record_bytes, NULL, 0, due);
        return refused ? rd_kafka_last_error() : RD_KAFKA_RESP_ERR_NO_ERROR;
    }
    char delay[24];
    uint64_t least_ms = options.delay_ms / 10, spread_ms = options.delay_ms - least_ms;
    int length = snprintf(delay, sizeof delay, "%" PRIu64,
                          least_ms + random_below(&random_state, (uint32_t)(spread_ms < UINT32_MAX ? spread_ms : UINT32_MAX)));
    return rd_kafka_producev(producer, RD_KAFKA_V_RKT(topic), RD_KAFKA_V_PARTITION(partition),
                             RD_KAFKA_V_MSGFLAGS(RD_KAFKA_MSG_F_COPY), RD_KAFKA_V_VALUE(value, options.record_bytes),
                             RD_KAFKA_V_HEADER("bmq-deliver-after", delay, length), RD_KAFKA_V_OPAQUE(due),
                             RD_KAFKA_V_END);
}

static void produce(rd_kafka_topic_t *topic, char *value, uint64_t due_ns) {
    memcpy(value, &due_ns, STAMP_BYTES);
    int32_t partition = (int32_t)random_below(&random_state, (uint32_t)options.partitions);
    for (rd_kafka_resp_err_t error; (error = put(topic, partition, value, (void *)(uintptr_t)due_ns));) {
        if (error != RD_KAFKA_RESP_ERR__QUEUE_FULL) fail("a record was not taken: %s", rd_kafka_err2str(error));
        rd_kafka_poll(producer, 10); /* full: until acknowledgements come */
        if (now_ns() > end_ns + ns_of(DRAIN_S)) fail("no acknowledgement for %d s", DRAIN_S);
    }
    produced_count++;
    transactions.records++;
}

static void drain(void) {
    if (rd_kafka_flush(producer, DRAIN_S * 1000) || done_count != produced_count)
        fail("%" PRIu64 " records were not acknowledged within %d s", produced_count - done_count, DRAIN_S);
}

static void begin(void) {
    if (options.transaction_ms <= 0 || transactions.is_open) return;
    begin_transaction(producer);
    transactions.is_open = true;
    transactions.begun_ns = now_ns();
    transactions.records = 0;
}

static void end(void) {
    if (!transactions.is_open) return;
    transactions.is_open = false;
    uint64_t number = transactions.committed + transactions.aborted + 1;
    if (options.abort_every && number % options.abort_every == 0) {
        drain();
        end_with(rd_kafka_abort_transaction, producer, "no abort", DRAIN_S * 1000);
        transactions.aborted++;
        return;
    }
    uint64_t began_ns = now_ns();
    end_with(rd_kafka_commit_transaction, producer, "no commit", DRAIN_S * 1000);
    uint64_t now = now_ns();
    transactions.committed++;
    transactions.committed_records += transactions.records;
    if (!is_measured(now)) return;
    transactions.measured_records += transactions.records;
    keep(&commits, began_ns, now);
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
    uint64_t give_up_ns = now_ns() + ns_of(READY_S);
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
    end_ns = start_ns + ns_of(options.warm_s + options.seconds);
    begin_ns = start_ns + ns_of(options.warm_s);
    for (uint64_t now; (now = now_ns()) < end_ns && number < options.records_max; number++) {
        if (!has_begun && now >= begin_ns) {
            has_begun = true;
            cpu_s = cpu_seconds();
            say("begin");
        }
        if (transactions.is_open && now - transactions.begun_ns >= ns_of(options.transaction_ms / 1e3)) end();
        begin();
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
    end();
    drain();
    if (!acknowledged.count) fail("no record was measured");
    /* What the consumer has not yet. */
    for (int left = DRAIN_S * 100; options.is_consuming && consumed.count < acknowledged.count && left > 0; left--)
        nanosleep(&(struct timespec){0, 10000000}, NULL);
    if (options.is_consuming && consumed.count < acknowledged.count)
        fail("the consumer got %" PRIu64 " of %" PRIu64 " records", consumed.count, acknowledged.count);
    is_over = true;
    printf("{\"records\": %" PRIu64 ", \"seconds\": %.6f, \"produced\": %" PRIu64 ", \"client_cpu_s\": %.6f",
           options.transaction_ms > 0 ? transactions.measured_records : acknowledged_count, options.seconds,
           produced_count, cpu_s);
    if (options.transaction_ms > 0)
        printf(", \"transactions\": %" PRIu64 ", \"aborted\": %" PRIu64 ", \"committed_records\": %" PRIu64,
               transactions.committed, transactions.aborted, transactions.committed_records);
}

static void read_options(int count, char **arguments) {
    static const struct option known[] = {
        {"bootstrap", required_argument, NULL, 'b'},    {"topic", required_argument, NULL, 't'},
        {"partitions", required_argument, NULL, 'p'},   {"record-bytes", required_argument, NULL, 'n'},
        {"rate", required_argument, NULL, 'r'},         {"warm-s", required_argument, NULL, 'w'},
        {"seconds", required_argument, NULL, 's'},      {"consume", no_argument, NULL, 'c'},
        {"records-max", required_argument, NULL, 'm'},  {"queue", required_argument, NULL, 'q'},
        {"idempotent", no_argument, NULL, 'i'},         {"transaction-ms", required_argument, NULL, 'x'},
        {"abort-every", required_argument, NULL, 'a'},  {"set", required_argument, NULL, 'o'},
        {"delay-ms", required_argument, NULL, 'd'},
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
            case 'm': options.records_max = (uint64_t)number_of("records-max", optarg, 1); break;
            case 'q': options.queue = (long)number_of("queue", optarg, 1); break;
            case 'i': options.is_idempotent = true; break;
            case 'x': options.transaction_ms = number_of("transaction-ms", optarg, 1); break;
            case 'o': add_setting(optarg); break;
            case 'a': options.abort_every = (uint64_t)number_of("abort-every", optarg, 2); break;
            case 'd': options.delay_ms = (uint64_t)number_of("delay-ms", optarg, 1000); break;
            default: fail("it is called as its first lines say");
        }
    }
    if (optind < count) fail("%s is not an option", arguments[optind]);
    if (!options.bootstrap || !options.topic || !options.partitions) fail("--bootstrap, --topic, --partitions are needed");
}

int main(int count, char **arguments) {
    read_options(count, arguments);
    make_room(&acknowledged, SAMPLES_MAX);
    make_room(&consumed, SAMPLES_MAX);
    make_room(&commits, SAMPLES_MAX);
    char *value = random_value(&random_state, options.record_bytes);
    pthread_t thread;
    start_producer();
    rd_kafka_topic_t *topic = topic_of(producer, options.topic);
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
    if (options.transaction_ms > 0) say_latencies("commits", &commits);
    puts("}");
    fflush(stdout);
    _Exit(0); /* nothing that is under way matters any more */
}
