import java.net.InetAddress;
import java.util.ArrayList;
import java.util.Map;
import java.util.Optional;
import org.apache.kafka.common.metrics.MetricConfig;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.metrics.Quota;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.network.Session;
import org.apache.kafka.server.config.ClientQuotaManagerConfig;
import org.apache.kafka.server.quota.ClientQuotaEntity.ConfigEntity;
import org.apache.kafka.server.quota.ClientQuotaManager;
import org.apache.kafka.server.quota.QuotaType;

/**
 * Prints, for each of the 256 sets of quotas that user `u` and client id `c` may come under, the quota that Kafka's
 * ClientQuotaManager applies and who shares it: `LEVELS LIMIT USER CLIENT_ID`. Bit n of LEVELS: level n is set, to the
 * limit n + 1; `-`: no limit, or nobody. Its output is tests/unit/security/data/quota_precedence.txt.
 */
public final class QuotaPrecedence {
    public static void main(String[] arguments) throws Exception {
        Optional<ConfigEntity> user = Optional.of(new ClientQuotaManager.UserEntity("u"));
        Optional<ConfigEntity> client = Optional.of(new ClientQuotaManager.ClientIdEntity("c"));
        Optional<ConfigEntity> anyUser = Optional.of(ClientQuotaManager.DEFAULT_USER_ENTITY);
        Optional<ConfigEntity> anyClient = Optional.of(ClientQuotaManager.DEFAULT_USER_CLIENT_ID);
        Optional<ConfigEntity> none = Optional.empty();
        Optional<?>[][] levels = {
            {user, client}, {user, anyClient}, {user, none}, {anyUser, client},
            {anyUser, anyClient}, {anyUser, none}, {none, client}, {none, anyClient},
        };
        Session session = new Session(new KafkaPrincipal("User", "u"), InetAddress.getLoopbackAddress());
        for (int set = 0; set < 256; set++) {
            Metrics metrics = new Metrics(new MetricConfig(), new ArrayList<>(), Time.SYSTEM);
            ClientQuotaManager manager = new ClientQuotaManager(
                    new ClientQuotaManagerConfig(), metrics, QuotaType.PRODUCE, Time.SYSTEM, "");
            for (int level = 0; level < 8; level++) {
                if ((set >> level & 1) == 1) {
                    @SuppressWarnings("unchecked")
                    Optional<ConfigEntity>[] entity = (Optional<ConfigEntity>[]) levels[level];
                    manager.updateQuota(entity[0], entity[1], Optional.of(new Quota(level + 1, true)));
                }
            }
            double limit = manager.quota("u", "c").bound();
            Map<String, String> tags = manager.getOrCreateQuotaSensors(session, "c").metricTags();
            boolean isLimited = limit <= 8;
            System.out.println(set + " " + (isLimited ? (int) limit : "-")
                    + " " + (isLimited ? shown(tags.get("user")) : "-")
                    + " " + (isLimited ? shown(tags.get("client-id")) : "-"));
            manager.shutdown();
            metrics.close();
        }
        System.exit(0);
    }

    private static String shown(String tag) {
        return tag.isEmpty() ? "-" : tag;
    }
}
