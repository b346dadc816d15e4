import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Random;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.AuthorizationException;
import org.apache.kafka.common.errors.FencedInstanceIdException;
import org.apache.kafka.common.errors.InvalidProducerEpochException;
import org.apache.kafka.common.errors.OutOfOrderSequenceException;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.errors.UnreleasedInstanceIdException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Copies a topic as a member of a group, exactly once: BOOTSTRAP SOURCE TARGET GROUP TRANSACTIONAL_ID INSTANCE PROTOCOL
 * TIMEOUT_MS. INSTANCE `-`: no static member. What tests/soak/etl/copier.py does by librdkafka, with the same output.
 */
public final class Copier {
    private static final int ABORTED_EACH = 12;
    private static volatile boolean isOver;

    public static void main(String[] arguments) throws Exception {
        String source = arguments[1];
        String target = arguments[2];
        Properties settings = new Properties();
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("reconnect.backoff.max.ms", "500");
        Properties reading = new Properties();
        reading.putAll(settings);
        reading.put("group.id", arguments[3]);
        reading.put("enable.auto.commit", "false");
        reading.put("auto.offset.reset", "earliest");
        reading.put("isolation.level", "read_committed");
        reading.put("max.poll.records", "100");
        reading.put("group.protocol", arguments[6]);
        if (!arguments[5].equals("-")) {
            reading.put("group.instance.id", arguments[5]);
        }
        if (arguments[6].equals("classic")) {
            reading.put("session.timeout.ms", "6000");
            reading.put("heartbeat.interval.ms", "1000");
            reading.put("partition.assignment.strategy", "org.apache.kafka.clients.consumer.RangeAssignor");
        }
        Properties writing = new Properties();
        writing.putAll(settings);
        writing.put("transactional.id", arguments[4]);
        writing.put("transaction.timeout.ms", arguments[7]);
        writing.put("linger.ms", "0");
        Random random = new Random();
        CountDownLatch ended = new CountDownLatch(1);
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            isOver = true;
            try {
                ended.await();
            } catch (InterruptedException error) {
                Thread.currentThread().interrupt();
            }
        }));
        StringDeserializer from = new StringDeserializer();
        StringSerializer to = new StringSerializer();
        int code = 0;
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(writing, to, to);
                KafkaConsumer<String, String> consumer = new KafkaConsumer<>(reading, from, from)) {
            patiently(producer::initTransactions);
            say("ready", "");
            consumer.subscribe(List.of(source), new ConsumerRebalanceListener() {
                @Override public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
                    say("revoked", partitions.toString().replace(' ', '_'));
                }
                @Override public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
                    say("assigned", partitions.toString().replace(' ', '_'));
                }
            });
            while (!isOver) {
                ConsumerRecords<String, String> records = consumer.poll(Duration.ofMillis(200));
                if (!records.isEmpty()) {
                    copy(records, producer, consumer, target, random.nextInt(ABORTED_EACH) == 0);
                }
            }
        } catch (FencedInstanceIdException error) {
            say("evicted", described(error));
            code = 1;
        } catch (UnreleasedInstanceIdException error) {
            say("unreleased", described(error));
            code = 1;
        } catch (Exception error) {
            say("fatal", described(error));
            code = 1;
        } finally {
            ended.countDown();
        }
        if (code != 0) {
            Runtime.getRuntime().halt(code);
        }
    }

    private static void copy(ConsumerRecords<String, String> records, KafkaProducer<String, String> producer,
            KafkaConsumer<String, String> consumer, String target, boolean isToAbort) throws Exception {
        long began = System.nanoTime();
        Map<TopicPartition, OffsetAndMetadata> positions = new HashMap<>();
        try {
            producer.beginTransaction();
            for (ConsumerRecord<String, String> record : records) {
                producer.send(new ProducerRecord<>(target, record.partition(), null, record.value()));
                positions.put(new TopicPartition(record.topic(), record.partition()),
                    new OffsetAndMetadata(record.offset() + 1));
            }
            patiently(() -> producer.sendOffsetsToTransaction(positions, consumer.groupMetadata()));
            if (!isToAbort) {
                patiently(producer::commitTransaction);
                say("committed", records.count() + " " + since(began));
                return;
            }
            producer.flush();
            patiently(producer::abortTransaction);
            say("aborted", records.count() + " " + since(began) + " on purpose");
        } catch (ProducerFencedException | InvalidProducerEpochException | OutOfOrderSequenceException
                | AuthorizationException | FencedInstanceIdException error) {
            throw error;
        } catch (KafkaException error) {
            say("refused", records.count() + " " + since(began) + " " + described(error));
            patiently(producer::abortTransaction);
        }
        rewind(consumer);
    }

    /** To what the group has committed: the records of the transaction come again, to whoever has their partitions then. */
    private static void rewind(KafkaConsumer<String, String> consumer) throws Exception {
        patiently(() -> {
            Map<TopicPartition, OffsetAndMetadata> committed = consumer.committed(consumer.assignment());
            for (TopicPartition partition : consumer.assignment()) {
                OffsetAndMetadata offset = committed.get(partition);
                if (offset == null) {
                    consumer.seekToBeginning(List.of(partition));
                } else {
                    consumer.seek(partition, offset.offset());
                }
            }
        });
    }

    private interface Call {
        void run() throws Exception;
    }

    /** What is only slow is waited for. */
    private static void patiently(Call call) throws Exception {
        while (true) {
            try {
                call.run();
                return;
            } catch (TimeoutException error) {
                say("slow", described(error));
            }
        }
    }

    private static long since(long began) {
        return (System.nanoTime() - began) / 1_000_000;
    }

    private static synchronized void say(String what, String more) {
        System.out.println(System.currentTimeMillis() + " " + what + " " + more);
        System.out.flush();
    }

    private static String described(Throwable error) {
        StringBuilder text = new StringBuilder();
        for (Throwable cause = error; cause != null; cause = cause.getCause()) {
            text.append(cause.toString().replace('\n', ' ')).append("; ");
        }
        return text.toString();
    }
}
