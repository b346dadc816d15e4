import java.util.ArrayList;
import java.util.Random;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;
import org.apache.kafka.common.MetricName;
import org.apache.kafka.common.metrics.KafkaMetric;
import org.apache.kafka.common.metrics.MetricConfig;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.metrics.Quota;
import org.apache.kafka.common.metrics.QuotaViolationException;
import org.apache.kafka.common.metrics.Sensor;
import org.apache.kafka.common.metrics.stats.Rate;
import org.apache.kafka.common.metrics.stats.TokenBucket;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.common.utils.Timer;

/**
 * Prints what Kafka's own classes measure and how long they would throttle, as vectors for tests/unit/security:
 * `run KIND QUOTA START_MS`, then `NOW_MS AMOUNT THROTTLE_MS VALUE` for each amount. Run it with kafka-clients on the class path;
 * its output is tests/unit/security/data/quota_rates.txt.
 */
public final class QuotaRates {
    public static void main(String[] arguments) {
        Random random = new Random(7);
        for (int run = 0; run < 12; run++) {
            boolean isBucket = run % 3 == 2;
            double quota = new double[] {1000, 1048576, 5, 20.5}[run % 4];
            FakeTime time = new FakeTime();
            MetricConfig config =
                    new MetricConfig().timeWindow(1, TimeUnit.SECONDS).samples(11).quota(new Quota(quota, true));
            Metrics metrics = new Metrics(new MetricConfig(), new ArrayList<>(), time);
            Sensor sensor = metrics.sensor("sensor", config, Long.MAX_VALUE);
            MetricName name = metrics.metricName("value", "group");
            sensor.add(name, isBucket ? new TokenBucket() : new Rate());
            System.out.println("run " + (isBucket ? "bucket" : "rate") + " " + quota + " " + time.nowMs);
            for (int i = 0; i < 60; i++) {
                time.nowMs += random.nextInt(10) == 0 ? random.nextInt(15000) : random.nextInt(600);
                double most = quota * random.nextDouble() * (random.nextInt(8) == 0 ? 12 : 1);
                double amount = Math.round(most * 100) / 100.0;
                long throttleMs = 0;
                try {
                    sensor.record(amount, time.nowMs, true);
                } catch (QuotaViolationException e) {
                    throttleMs = isBucket
                            ? Math.round(-e.value() / e.bound() * 1000)
                            : Math.round((e.value() - e.bound()) / e.bound()
                                    * ((Rate) ((KafkaMetric) e.metric()).measurable()).windowSize(config, time.nowMs));
                }
                double value = metrics.metrics().get(name).measurable().measure(config, time.nowMs);
                System.out.println(time.nowMs + " " + amount + " " + throttleMs + " " + value);
            }
        }
    }

    private static final class FakeTime implements Time {
        private long nowMs = 1000000;

        public long milliseconds() {
            return nowMs;
        }

        public long hiResClockMs() {
            return nowMs;
        }

        public long nanoseconds() {
            return nowMs * 1000000;
        }

        public void sleep(long ms) {
            nowMs += ms;
        }

        public void waitObject(Object object, Supplier<Boolean> isDone, long deadlineMs) {
            throw new UnsupportedOperationException();
        }

        public Timer timer(long timeoutMs) {
            throw new UnsupportedOperationException();
        }

        public <T> T waitForFuture(CompletableFuture<T> future, long deadlineNs) {
            throw new UnsupportedOperationException();
        }
    }
}
