import java.util.Arrays;
import java.util.Properties;
import java.util.concurrent.atomic.AtomicReference;
import java.util.concurrent.locks.LockSupport;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Latencies of a steady load in microseconds. Kafka's ProducerPerformance sends the same load with the same client and counts
 * the same time, from send() to the callback, but in whole milliseconds.
 *
 * <p>Arguments: BOOTSTRAP TOPIC RECORD_BYTES RECORDS_PER_S WARM_UP MEASURED [NAME=VALUE ...] (of the producer). Prints one line of
 * JSON; an error ends it with exit code 1.
 */
public final class Latency {
  private static final long WAIT_SHORTEST_NS = 100_000;
  /** Each bucket of the histogram begins this much above the one before it. */
  private static final double BUCKET_FACTOR = 1.1;

  private Latency() {}

  public static void main(String[] arguments) throws InterruptedException {
    String topic = arguments[1];
    byte[] value = new byte[Integer.parseInt(arguments[2])];
    double recordsPerSecond = Double.parseDouble(arguments[3]);
    int warmUp = Integer.parseInt(arguments[4]);
    int measured = Integer.parseInt(arguments[5]);
    Properties properties = new Properties();
    properties.put(ProducerConfig.BOOTSTRAP_SERVERS_CONFIG, arguments[0]);
    for (String setting : Arrays.copyOfRange(arguments, 6, arguments.length)) {
      String[] parts = setting.split("=", 2);
      properties.put(parts[0], parts[1]);
    }
    long[] latenciesNs = new long[warmUp + measured];
    AtomicReference<Exception> failure = new AtomicReference<>();
    long began;
    long ended;
    try (KafkaProducer<byte[], byte[]> producer =
        new KafkaProducer<>(properties, new ByteArraySerializer(), new ByteArraySerializer())) {
      began = System.nanoTime();
      for (int number = 0; number < latenciesNs.length && failure.get() == null; number++) {
        long due = began + (long) (number * 1e9 / recordsPerSecond);
        for (long left = due - System.nanoTime(); left > 0; left = due - System.nanoTime()) {
          LockSupport.parkNanos(Math.max(left, WAIT_SHORTEST_NS));
        }
        int place = number;
        long sent = System.nanoTime();
        producer.send(
            new ProducerRecord<>(topic, value),
            (metadata, error) -> {
              latenciesNs[place] = System.nanoTime() - sent;
              if (error != null) {
                failure.compareAndSet(null, error);
              }
            });
      }
      producer.flush();
      ended = System.nanoTime();
    }
    if (failure.get() != null) {
      System.err.println(failure.get());
      System.exit(1);
    }
    report(Arrays.copyOfRange(latenciesNs, warmUp, latenciesNs.length), latenciesNs.length * 1e9 / (ended - began));
  }

  private static void report(long[] latenciesNs, double recordsPerSecond) {
    Arrays.sort(latenciesNs);
    System.out.printf(
        "{\"records\": %d, \"records_per_s\": %.1f, \"latency_avg_us\": %.1f, \"latency_p50_us\": %.1f, "
            + "\"latency_p95_us\": %.1f, \"latency_p99_us\": %.1f, \"latency_p999_us\": %.1f, \"latency_max_us\": %.1f, "
            + "\"histogram_us\": \"%s\"}%n",
        latenciesNs.length,
        recordsPerSecond,
        Arrays.stream(latenciesNs).average().orElseThrow() / 1e3,
        percentileUs(latenciesNs, 0.5),
        percentileUs(latenciesNs, 0.95),
        percentileUs(latenciesNs, 0.99),
        percentileUs(latenciesNs, 0.999),
        latenciesNs[latenciesNs.length - 1] / 1e3,
        histogram(latenciesNs));
  }

  /** Nearest rank. */
  private static double percentileUs(long[] sortedNs, double share) {
    int rank = (int) Math.ceil(share * sortedNs.length - 1e-9);
    return sortedNs[Math.max(rank, 1) - 1] / 1e3;
  }

  /** All samples, as `upper end of the bucket:count` of every bucket that has some. */
  private static String histogram(long[] sortedNs) {
    StringBuilder text = new StringBuilder();
    int place = 0;
    for (double upperUs = 10; place < sortedNs.length; upperUs *= BUCKET_FACTOR) {
      int first = place;
      while (place < sortedNs.length && sortedNs[place] / 1e3 <= upperUs) {
        place++;
      }
      if (place > first) {
        text.append(text.length() == 0 ? "" : " ").append(Math.round(upperUs)).append(':').append(place - first);
      }
    }
    return text.toString();
  }
}
