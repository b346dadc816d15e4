/* Reads a topic from its beginning to its end, under an isolation level, and keeps nothing of it.
 *
 *   read --bootstrap A --topic T --partitions N --isolation read_committed|read_uncommitted [--passes N]
 *
 * Every partition is assigned by hand; a pass lasts from the assignment until the end of each was reached. "begin" and
 * "end" are printed around all passes; then one line of JSON: the seconds of each pass and the records that the library
 * handed over in it. An error, or nothing for SILENCE_S, ends it with a sentence and code 1.
 */
#define _GNU_SOURCE
#define PROGRAM "read"
#include "../loads/common.h"
#include <getopt.h>
#include <stdbool.h>

enum {
    BATCH_MAX = 4096,
    WAIT_MS = 10, /* for a whole batch: so late the end of the topic is noticed */
    SILENCE_S = 60,
    /* Else the library stops fetching while its queue is full, and begins again when half a second has passed. */
    QUEUED_MESSAGES_MIN = 200000,
    QUEUED_KIB_MAX = 256 * 1024,
    /* The end of a partition is known when a fetch there is answered, empty. */
    FETCH_WAIT_MS = 10,
};

static struct {
    const char *bootstrap, *topic, *isolation;
    int partitions, passes;
} options = {NULL, NULL, NULL, 0, 1};

typedef struct {
    double seconds;
    uint64_t records;
} Pass;

static rd_kafka_t *new_consumer(void) {
    rd_kafka_conf_t *properties = configuration(options.bootstrap);
    set(properties, "group.id", "bench");
    set(properties, "enable.auto.commit", "false");
    set(properties, "enable.partition.eof", "true");
    set(properties, "auto.offset.reset", "error");
    set(properties, "isolation.level", options.isolation);
    set_number(properties, "queued.min.messages", QUEUED_MESSAGES_MIN);
    set_number(properties, "queued.max.messages.kbytes", QUEUED_KIB_MAX);
    set_number(properties, "fetch.wait.max.ms", FETCH_WAIT_MS);
    rd_kafka_t *consumer = new_client(RD_KAFKA_CONSUMER, properties);
    rd_kafka_poll_set_consumer(consumer);
    return consumer;
}

static void assign(rd_kafka_t *consumer) {
    rd_kafka_topic_partition_list_t *all = rd_kafka_topic_partition_list_new(options.partitions);
    for (int partition = 0; partition < options.partitions; partition++)
        rd_kafka_topic_partition_list_add(all, options.topic, partition)->offset = 0;
    rd_kafka_resp_err_t error = rd_kafka_assign(consumer, all);
    if (error) fail("partitions could not be assigned: %s", rd_kafka_err2str(error));
    rd_kafka_topic_partition_list_destroy(all);
}

static Pass read_all(rd_kafka_t *consumer, rd_kafka_queue_t *queue) {
    static rd_kafka_message_t *messages[BATCH_MAX];
    bool *is_at_end = room_for((uint64_t)options.partitions, sizeof *is_at_end);
    int left = options.partitions;
    uint64_t began_ns = now_ns(), heard_ns = began_ns, records = 0;
    assign(consumer);
    while (left) {
        ssize_t count = rd_kafka_consume_batch_queue(queue, WAIT_MS, messages, BATCH_MAX);
        uint64_t now = now_ns();
        if (count > 0) heard_ns = now;
        if (now - heard_ns > ns_of(SILENCE_S)) fail("nothing came for %d s from %d partitions", SILENCE_S, left);
        for (ssize_t at = 0; at < count; at++) {
            rd_kafka_message_t *message = messages[at];
            if (message->err == RD_KAFKA_RESP_ERR__PARTITION_EOF) {
                left -= !is_at_end[message->partition];
                is_at_end[message->partition] = true;
            } else if (message->err) {
                fail("the consumer got an error: %s", rd_kafka_message_errstr(message));
            } else {
                records++;
            }
            rd_kafka_message_destroy(message);
        }
    }
    double seconds = (double)(now_ns() - began_ns) / 1e9;
    rd_kafka_assign(consumer, NULL);
    free(is_at_end);
    return (Pass){seconds, records};
}

static void read_options(int count, char **arguments) {
    static const struct option known[] = {
        {"bootstrap", required_argument, NULL, 'b'},    {"topic", required_argument, NULL, 't'},
        {"partitions", required_argument, NULL, 'p'},   {"isolation", required_argument, NULL, 'i'},
        {"passes", required_argument, NULL, 'n'},       {NULL, 0, NULL, 0},
    };
    for (int option, index = 0; (option = getopt_long(count, arguments, "", known, &index)) != -1;) {
        switch (option) {
            case 'b': options.bootstrap = optarg; break;
            case 't': options.topic = optarg; break;
            case 'p': options.partitions = (int)number_of("partitions", optarg, 1); break;
            case 'i': options.isolation = optarg; break;
            case 'n': options.passes = (int)number_of("passes", optarg, 1); break;
            default: fail("it is called as its first lines say");
        }
    }
    if (optind < count) fail("%s is not an option", arguments[optind]);
    if (!options.bootstrap || !options.topic || !options.partitions || !options.isolation)
        fail("--bootstrap, --topic, --partitions, --isolation are needed");
}

int main(int count, char **arguments) {
    read_options(count, arguments);
    rd_kafka_t *consumer = new_consumer();
    rd_kafka_queue_t *queue = rd_kafka_queue_get_consumer(consumer);
    Pass *passes = room_for((uint64_t)options.passes, sizeof *passes);
    say("begin");
    for (int pass = 0; pass < options.passes; pass++) passes[pass] = read_all(consumer, queue);
    say("end");
    printf("{\"client_cpu_s\": %.6f, \"seconds\": [", cpu_seconds());
    for (int pass = 0; pass < options.passes; pass++) printf("%s%.6f", pass ? ", " : "", passes[pass].seconds);
    printf("], \"records\": [");
    for (int pass = 0; pass < options.passes; pass++) printf("%s%" PRIu64, pass ? ", " : "", passes[pass].records);
    puts("]}");
    fflush(stdout);
    _Exit(0); /* nothing that is under way matters any more */
}
