import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.ConsumerGroupDescription;
import org.apache.kafka.clients.admin.ConsumerGroupListing;
import org.apache.kafka.clients.admin.ListOffsetsResult;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.OffsetAndTimestamp;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.common.utils.AppInfoParser;

/**
 * What tests/conformance/clients/programs/plan.py describes, by the Java client of any version from 2.8: BOOTSTRAP NAME BASE_MS.
 * Only what all these versions have in common is called, so one source says it for each.
 */
public final class ClientScenario {
    private static final List<String> CODECS = List.of("none", "gzip", "snappy", "lz4", "zstd");
    private static final int RECORDS_PER_CODEC = 3;
    private static final Duration WAIT = Duration.ofSeconds(60);

    private final String bootstrap;
    private final String topic;
    private final long baseMs;
    private final Admin admin;

    private ClientScenario(String[] arguments) {
        bootstrap = arguments[0];
        topic = arguments[1];
        baseMs = Long.parseLong(arguments[2]);
        admin = Admin.create(settings());
    }

    public static void main(String[] arguments) throws Exception {
        ClientScenario scenario = new ClientScenario(arguments);
        Map<String, Object> told = new LinkedHashMap<>();
        told.put("create topic", scenario.create());
        told.put("produce", scenario.produce());
        told.put("consume", scenario.consume());
        int major = Integer.parseInt(AppInfoParser.getVersion().split("\\.")[0]);
        if (major >= 4) {
            told.put("newer group", scenario.read(2 + CODECS.size() * RECORDS_PER_CODEC, "consumer"));
        }
        told.put("transaction", scenario.transaction());
        told.put("offsets", scenario.offsets());
        told.put("configs", scenario.configs());
        told.put("delete records", scenario.deleteRecords());
        told.put("groups", scenario.groups());
        told.put("delete topic", scenario.deleteTopic());
        scenario.admin.close();
        System.out.println(json(told));
    }

    private Object create() throws Exception {
        NewTopic made = new NewTopic(topic, 2, (short) 1).configs(Map.of("retention.ms", "72000000"));
        admin.createTopics(List.of(made)).all().get();
        try (KafkaProducer<String, String> producer = producer(Map.of())) {
            int partitions = producer.partitionsFor(topic).size();
            return told("partitions", partitions, "again", errorOf(admin.createTopics(List.of(made)).all()));
        }
    }

    private Object produce() throws Exception {
        Map<String, Object> told = new LinkedHashMap<>();
        int number = 0;
        for (String codec : CODECS) {
            List<Long> offsets = new ArrayList<>();
            try (KafkaProducer<String, String> producer = producer(Map.of("compression.type", codec))) {
                List<Future<RecordMetadata>> sent = new ArrayList<>();
                for (int each = 0; each < RECORDS_PER_CODEC; each++, number++) {
                    byte[] header = Integer.toString(number).getBytes(StandardCharsets.UTF_8);
                    List<Header> headers = List.of(new RecordHeader("number", header));
                    String value = codec + " " + number;
                    sent.add(producer.send(new ProducerRecord<>(topic, 0, baseMs + number, "key", value, headers)));
                }
                for (Future<RecordMetadata> each : sent) {
                    offsets.add(each.get().offset());
                }
            }
            told.put(codec, offsets);
        }
        told.put("other partition", sendOne("other"));
        return told;
    }

    private List<Long> sendOne(String value) throws Exception {
        try (KafkaProducer<String, String> producer = producer(Map.of())) {
            return List.of(producer.send(new ProducerRecord<>(topic, 1, null, value)).get().offset());
        }
    }

    private Object consume() throws Exception {
        Map<String, Object> told = read(1 + CODECS.size() * RECORDS_PER_CODEC, "classic");
        sendOne("late");
        told.put("next", read(1, "classic"));
        return told;
    }

    /** What a new member reads and where the group is afterwards. */
    private Map<String, Object> read(int count, String protocol) {
        boolean isClassic = protocol.equals("classic");
        String group = topic + (isClassic ? "-group" : "-group-newer");
        // Older clients know nothing of the setting and warn of it.
        Map<String, String> extra = isClassic ? Map.of() : Map.of("group.protocol", protocol);
        try (KafkaConsumer<String, String> consumer = consumer(group, extra)) {
            consumer.subscribe(List.of(topic));
            Map<String, Object> read = new TreeMap<>();
            for (ConsumerRecord<String, String> record : polled(consumer, count)) {
                StringBuilder headers = new StringBuilder();
                record.headers().forEach(each -> headers.append(new String(each.value(), StandardCharsets.UTF_8)));
                @SuppressWarnings("unchecked")
                List<Object> records =
                        (List<Object>) read.computeIfAbsent("" + record.partition(), key -> new ArrayList<>());
                records.add(List.of(record.offset(), record.value(), headers.toString()));
            }
            consumer.commitSync();
            Map<String, Object> committed = new TreeMap<>();
            for (int partition = 0; partition < 2; partition++) {
                TopicPartition place = new TopicPartition(topic, partition);
                OffsetAndMetadata found = consumer.committed(Collections.singleton(place)).get(place);
                committed.put("" + partition, found == null ? null : found.offset());
            }
            TreeSet<Integer> assigned = new TreeSet<>();
            consumer.assignment().forEach(place -> assigned.add(place.partition()));
            return told("read", read, "committed", committed, "assigned", new ArrayList<>(assigned));
        }
    }

    private Object transaction() throws Exception {
        String target = topic + "-transactions";
        admin.createTopics(List.of(new NewTopic(target, 1, (short) 1))).all().get();
        TopicPartition place = new TopicPartition(topic, 0);
        List<List<String>> transactions = List.of(List.of("first", "second"), List.of("third", "fourth"), List.of("fifth"));
        Map<String, String> settings = Map.of("transactional.id", topic + "-id");
        try (KafkaProducer<String, String> producer = producer(settings);
                KafkaConsumer<String, String> group = consumer(topic + "-group-copied", Map.of())) {
            producer.initTransactions();
            for (int number = 0; number < transactions.size(); number++) {
                producer.beginTransaction();
                for (String value : transactions.get(number)) {
                    producer.send(new ProducerRecord<>(target, 0, null, value));
                }
                if (number == 0) {
                    producer.sendOffsetsToTransaction(Map.of(place, new OffsetAndMetadata(5)), group.groupMetadata());
                }
                if (number == 1) {
                    producer.flush();
                    producer.abortTransaction();
                } else {
                    producer.commitTransaction();
                }
            }
            long offset = group.committed(Collections.singleton(place)).get(place).offset();
            return told(
                    "read committed", readTopic(target, "read_committed", 3),
                    "read uncommitted", readTopic(target, "read_uncommitted", 5),
                    "offset", offset);
        }
    }

    private List<String> readTopic(String name, String isolationLevel, int count) {
        Map<String, String> settings = Map.of("isolation.level", isolationLevel);
        try (KafkaConsumer<String, String> consumer = consumer(topic + "-group-none", settings)) {
            TopicPartition place = new TopicPartition(name, 0);
            consumer.assign(List.of(place));
            consumer.seekToBeginning(List.of(place));
            List<String> values = new ArrayList<>();
            polled(consumer, count).forEach(record -> values.add(record.value()));
            return values;
        }
    }

    private Object offsets() throws Exception {
        TopicPartition place = new TopicPartition(topic, 0);
        Map<String, Object> told = new LinkedHashMap<>();
        Map<String, OffsetSpec> asked = new LinkedHashMap<>();
        asked.put("earliest", OffsetSpec.earliest());
        asked.put("latest", OffsetSpec.latest());
        asked.put("at", OffsetSpec.forTimestamp(baseMs + 4));
        asked.put("behind", OffsetSpec.forTimestamp(baseMs + 1_000));
        for (Map.Entry<String, OffsetSpec> each : asked.entrySet()) {
            ListOffsetsResult.ListOffsetsResultInfo found =
                    admin.listOffsets(Map.of(place, each.getValue())).partitionResult(place).get();
            told.put(each.getKey(), List.of(found.offset(), sinceBase(found.timestamp())));
        }
        try (KafkaConsumer<String, String> consumer = consumer(topic + "-group-none", Map.of())) {
            OffsetAndTimestamp found = consumer.offsetsForTimes(Map.of(place, baseMs + 4)).get(place);
            told.put("at, by a consumer", List.of(found.offset(), sinceBase(found.timestamp())));
        }
        return told;
    }

    private long sinceBase(long timestampMs) {
        return timestampMs < 0 ? timestampMs : timestampMs - baseMs;
    }

    private Object configs() throws Exception {
        ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
        Object before = retention(resource);
        ConfigEntry entry = new ConfigEntry("retention.ms", "36000000");
        admin.incrementalAlterConfigs(Map.of(resource, List.of(new AlterConfigOp(entry, AlterConfigOp.OpType.SET)))).all().get();
        Object after = retention(resource);
        // Apache Kafka shows the new one a moment later.
        for (long deadline = System.nanoTime() + WAIT.toNanos(); after.equals(before) && System.nanoTime() < deadline; ) {
            Thread.sleep(50);
            after = retention(resource);
        }
        return told("before", before, "after", after);
    }

    private Object retention(ConfigResource resource) throws Exception {
        ConfigEntry entry = admin.describeConfigs(List.of(resource)).all().get().get(resource).get("retention.ms");
        return List.of(entry.value(), entry.source().name());
    }

    private Object deleteRecords() throws Exception {
        TopicPartition place = new TopicPartition(topic, 0);
        long low = admin.deleteRecords(Map.of(place, RecordsToDelete.beforeOffset(2))).lowWatermarks().get(place).get().lowWatermark();
        long earliest = admin.listOffsets(Map.of(place, OffsetSpec.earliest())).partitionResult(place).get().offset();
        return told("low watermark", low, "earliest", earliest);
    }

    private Object groups() throws Exception {
        String group = topic + "-group";
        TreeSet<String> listed = new TreeSet<>();
        for (ConsumerGroupListing each : admin.listConsumerGroups().all().get()) {
            if (each.groupId().startsWith(topic)) {
                listed.add(each.groupId());
            }
        }
        ConsumerGroupDescription described = admin.describeConsumerGroups(List.of(group)).all().get().get(group);
        Map<String, Object> offsets = new TreeMap<>();
        admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get()
                .forEach((place, offset) -> offsets.put("" + place.partition(), offset.offset()));
        admin.deleteConsumerGroups(List.of(group)).all().get();
        return told(
                "listed", new ArrayList<>(listed),
                "state", described.state().name(),
                "members", described.members().size(),
                "offsets", offsets,
                "deleted again", errorOf(admin.deleteConsumerGroups(List.of(group)).all()));
    }

    private Object deleteTopic() throws Exception {
        admin.deleteTopics(List.of(topic)).all().get();
        return told("deleted again", errorOf(admin.deleteTopics(List.of(topic)).all()));
    }

    private Properties settings() {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        return settings;
    }

    private KafkaProducer<String, String> producer(Map<String, String> extra) {
        Properties settings = settings();
        settings.put("enable.idempotence", "true");
        settings.putAll(extra);
        return new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer());
    }

    private KafkaConsumer<String, String> consumer(String group, Map<String, String> extra) {
        Properties settings = settings();
        settings.put("group.id", group);
        settings.put("auto.offset.reset", "earliest");
        settings.put("enable.auto.commit", "false");
        settings.putAll(extra);
        return new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer());
    }

    private static List<ConsumerRecord<String, String>> polled(KafkaConsumer<String, String> consumer, int count) {
        List<ConsumerRecord<String, String>> records = new ArrayList<>();
        long deadline = System.nanoTime() + WAIT.toNanos();
        while (records.size() < count) {
            consumer.poll(Duration.ofMillis(500)).forEach(records::add);
            if (System.nanoTime() > deadline) {
                throw new IllegalStateException(count - records.size() + " records are missing");
            }
        }
        return records;
    }

    private static String errorOf(Future<?> asked) throws InterruptedException {
        try {
            asked.get();
            return "none";
        } catch (ExecutionException error) {
            return error.getCause().getClass().getSimpleName();
        }
    }

    private static Map<String, Object> told(Object... namesAndValues) {
        Map<String, Object> told = new LinkedHashMap<>();
        for (int index = 0; index < namesAndValues.length; index += 2) {
            told.put((String) namesAndValues[index], namesAndValues[index + 1]);
        }
        return told;
    }

    private static String json(Object value) {
        List<String> parts = new ArrayList<>();
        if (value instanceof Map<?, ?> map) {
            map.forEach((name, each) -> parts.add(json(name) + ": " + json(each)));
            return "{" + String.join(", ", parts) + "}";
        }
        if (value instanceof List<?> list) {
            list.forEach(each -> parts.add(json(each)));
            return "[" + String.join(", ", parts) + "]";
        }
        // What is told has neither quotes nor control characters in it.
        return value instanceof String ? "\"" + value + "\"" : String.valueOf(value);
    }
}
