import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicReference;
import java.util.stream.IntStream;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * Plain consumers side by side over a backlog, with the settings of Kafka's ConsumerPerformance, which has one alone. Each has a
 * fixed part of the partitions, so that no rebalance is measured, and commits its positions by itself.
 *
 * <p>Arguments: BOOTSTRAP TOPIC GROUP PARTITIONS RECORDS CONSUMERS. Prints one line of JSON: the records, and the seconds from the
 * first that any of them was given to the last. An error, or half a minute without a record, ends it with exit code 1.
 */
public final class PlainConsumers {
  private static final long SILENCE_MAX_NS = 30_000_000_000L;

  private PlainConsumers() {}

  public static void main(String[] arguments) throws InterruptedException {
    String topic = arguments[1];
    int partitions = Integer.parseInt(arguments[3]);
    long wanted = Long.parseLong(arguments[4]);
    int consumers = Integer.parseInt(arguments[5]);
    Properties properties = new Properties();
    properties.put(ConsumerConfig.BOOTSTRAP_SERVERS_CONFIG, arguments[0]);
    properties.put(ConsumerConfig.GROUP_ID_CONFIG, arguments[2]);
    properties.put(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG, "earliest");
    properties.put(ConsumerConfig.RECEIVE_BUFFER_CONFIG, String.valueOf(2 * 1024 * 1024));
    properties.put(ConsumerConfig.CHECK_CRCS_CONFIG, "false");
    AtomicLong read = new AtomicLong();
    AtomicLong firstNs = new AtomicLong(Long.MAX_VALUE);
    AtomicLong lastNs = new AtomicLong(System.nanoTime());
    AtomicReference<Exception> failure = new AtomicReference<>();
    List<Thread> threads = new ArrayList<>();
    for (int place = 0; place < consumers; place++) {
      int first = place;
      List<TopicPartition> own =
          IntStream.range(0, partitions)
              .filter(number -> number % consumers == first)
              .mapToObj(number -> new TopicPartition(topic, number))
              .toList();
      Thread thread =
          new Thread(
              () -> {
                try (KafkaConsumer<byte[], byte[]> consumer =
                    new KafkaConsumer<>(properties, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
                  consumer.assign(own);
                  while (read.get() < wanted && failure.get() == null) {
                    int count = consumer.poll(Duration.ofMillis(100)).count();
                    long now = System.nanoTime();
                    if (count > 0) {
                      firstNs.accumulateAndGet(now, Math::min);
                      lastNs.accumulateAndGet(now, Math::max);
                      read.addAndGet(count);
                    } else if (now - lastNs.get() > SILENCE_MAX_NS) {
                      throw new IllegalStateException("nothing came for half a minute");
                    }
                  }
                } catch (Exception error) {
                  failure.compareAndSet(null, error);
                }
              });
      threads.add(thread);
      thread.start();
    }
    for (Thread thread : threads) {
      thread.join();
    }
    if (failure.get() != null) {
      System.err.println(failure.get());
      System.exit(1);
    }
    System.out.printf(
        "{\"records\": %d, \"seconds\": %.6f}%n", read.get(), (lastNs.get() - firstNs.get()) / 1e9);
  }
}
