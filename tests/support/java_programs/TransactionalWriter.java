import java.util.Properties;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Writes transactions, one after the other: BOOTSTRAP TOPIC PARTITIONS TRANSACTIONAL_ID RECORDS. Transaction n has the records
 * n-0, n-1, … spread over the partitions; each fourth is aborted. Prints what became of each, and how many milliseconds it
 * took: `committed n 12`, `aborted n 12`, `failed n 12 why`; `fatal why` is the last line of a producer that cannot go on.
 * Ends in order when its input does.
 */
public final class TransactionalWriter {
    public static void main(String[] arguments) throws Exception {
        String topic = arguments[1];
        int partitions = Integer.parseInt(arguments[2]);
        int records = Integer.parseInt(arguments[4]);
        Properties settings = new Properties();
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("transactional.id", arguments[3]);
        settings.put("linger.ms", "0");
        settings.put("reconnect.backoff.max.ms", "500");
        // So long that a wait for one of them is told from a busy machine.
        settings.put("request.timeout.ms", "120000");
        settings.put("transaction.timeout.ms", "120000");
        StringSerializer text = new StringSerializer();
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(settings, text, text)) {
            producer.initTransactions();
            for (long number = 0; System.in.available() == 0; number++) {
                long began = System.nanoTime();
                String how = number % 4 == 3 ? "aborted" : "committed";
                String why = "";
                try {
                    producer.beginTransaction();
                    for (int record = 0; record < records; record++) {
                        producer.send(new ProducerRecord<>(topic, record % partitions, null, number + "-" + record));
                    }
                    if (how.equals("committed")) {
                        commit(producer);
                    } else {
                        producer.flush();
                        producer.abortTransaction();
                    }
                } catch (KafkaException error) {
                    how = "failed";
                    why = " " + described(error);
                    try {
                        producer.abortTransaction();
                    } catch (KafkaException fatal) {
                        System.out.println("failed " + number + " 0" + why);
                        System.out.println("fatal " + described(fatal));
                        System.exit(1);
                    }
                }
                System.out.println(how + " " + number + " " + (System.nanoTime() - began) / 1_000_000 + why);
                Thread.sleep(20);
            }
        }
    }

    /** A commit that is only slow is waited for. */
    private static void commit(KafkaProducer<String, String> producer) {
        while (true) {
            try {
                producer.commitTransaction();
                return;
            } catch (TimeoutException error) {
                System.out.println("slow " + described(error));
            }
        }
    }

    private static String described(Throwable error) {
        StringBuilder text = new StringBuilder();
        for (Throwable cause = error; cause != null; cause = cause.getCause()) {
            text.append(cause.toString().replace('\n', ' ')).append("; ");
        }
        return text.toString();
    }
}
