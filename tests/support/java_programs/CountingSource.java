import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.connect.connector.Task;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.source.ExactlyOnceSupport;
import org.apache.kafka.connect.source.SourceConnector;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.source.SourceTask;

/** Writes the numbers from 0 to `count` into `topic`, ten at a time, and remembers in its source offset how far it is. */
public final class CountingSource extends SourceConnector {
    private Map<String, String> settings;

    @Override public String version() { return "1"; }
    @Override public void start(Map<String, String> settings) { this.settings = settings; }
    @Override public void stop() { }
    @Override public Class<? extends Task> taskClass() { return Counting.class; }
    @Override public List<Map<String, String>> taskConfigs(int tasksMax) { return List.of(settings); }
    @Override public ExactlyOnceSupport exactlyOnceSupport(Map<String, String> settings) {
        return ExactlyOnceSupport.SUPPORTED;
    }
    @Override public ConfigDef config() {
        return new ConfigDef()
            .define("topic", ConfigDef.Type.STRING, ConfigDef.Importance.HIGH, "where the numbers go")
            .define("count", ConfigDef.Type.INT, ConfigDef.Importance.HIGH, "how many there are");
    }

    public static final class Counting extends SourceTask {
        private static final Map<String, String> PARTITION = Map.of("source", "numbers");
        private String topic;
        private int count;
        private long next;

        @Override public String version() { return "1"; }
        @Override public void stop() { }

        @Override public void start(Map<String, String> settings) {
            topic = settings.get("topic");
            count = Integer.parseInt(settings.get("count"));
            Map<String, Object> offset = context.offsetStorageReader().offset(PARTITION);
            next = offset == null ? 0 : (Long) offset.get("next");
        }

        @Override public List<SourceRecord> poll() throws InterruptedException {
            Thread.sleep(next < count ? 50 : 200);
            List<SourceRecord> records = new ArrayList<>();
            for (int number = 0; number < 10 && next < count; number++) {
                String value = Long.toString(next);
                next++;
                records.add(new SourceRecord(PARTITION, Map.of("next", next), topic, 0, Schema.STRING_SCHEMA, value));
            }
            return records;
        }
    }
}
