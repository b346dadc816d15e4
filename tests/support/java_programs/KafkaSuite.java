import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Field;
import java.lang.reflect.InvocationHandler;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.nio.charset.StandardCharsets;
import java.util.AbstractMap;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.stream.Stream;
import kafka.network.SocketServer;
import kafka.server.ControllerServer;
import kafka.server.KafkaBroker;
import kafka.server.KafkaConfig;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.FeatureUpdate;
import org.apache.kafka.clients.admin.ListTopicsOptions;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.admin.TopicListing;
import org.apache.kafka.clients.admin.UpdateFeaturesOptions;
import org.apache.kafka.common.TopicPartitionInfo;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;
import org.apache.kafka.common.network.ListenerName;
import org.apache.kafka.common.test.ClusterInstance;
import org.apache.kafka.common.test.api.ClusterConfig;
import org.apache.kafka.common.test.api.Type;
import org.apache.kafka.common.test.junit.ClusterTestExtensions;
import org.apache.kafka.common.test.junit.RaftClusterInvocationContext;
import org.apache.kafka.controller.Controller;
import org.apache.kafka.coordinator.group.GroupCoordinator;
import org.apache.kafka.metadata.LeaderAndIsr;
import org.apache.kafka.metadata.MetadataCache;
import org.apache.kafka.server.fault.FaultHandlerException;
import org.junit.jupiter.api.extension.AfterEachCallback;
import org.junit.jupiter.api.extension.BeforeEachCallback;
import org.junit.jupiter.api.extension.Extension;
import org.junit.jupiter.api.extension.ExtensionContext;
import org.junit.jupiter.api.extension.ParameterContext;
import org.junit.jupiter.api.extension.ParameterResolver;
import org.junit.jupiter.api.extension.TestTemplateInvocationContext;
import org.junit.jupiter.api.extension.TestTemplateInvocationContextProvider;
import org.junit.platform.engine.TestExecutionResult;
import org.junit.platform.engine.discovery.DiscoverySelectors;
import org.junit.platform.launcher.LauncherDiscoveryRequest;
import org.junit.platform.launcher.TestExecutionListener;
import org.junit.platform.launcher.TestIdentifier;
import org.junit.platform.launcher.core.LauncherDiscoveryRequestBuilder;
import org.junit.platform.launcher.core.LauncherFactory;
import org.opentest4j.TestAbortedException;

/**
 * Runs tests of Apache Kafka that take a ClusterInstance against servers that whoever started this program runs. Its
 * arguments are classes, or methods as CLASS#METHOD; the first one is a comma separated list of the server properties
 * that are passed on. A line of its output asks for a server, {"event": "start", "properties", "brokers"}, and its next
 * line of input is {"bootstrap"}; {"event": "stop"} gives it back. {"event": "result", "test", "outcome", "reason"}
 * says how a test ended: "pass", "fail", or "not applicable" when it looks into a broker's objects or needs what no
 * server here has. Of the variants of a test, those that differ only in properties that are not passed on run once.
 * Kafka's own provider of clusters must be off: junit.jupiter.extensions.autodetection.exclude.
 */
public final class KafkaSuite {
    static final ObjectMapper JSON = new ObjectMapper();
    static final PrintStream EVENTS = System.out;
    static final BufferedReader ANSWERS = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    static Set<String> passedOn;

    private KafkaSuite() {
    }

    public static void main(String[] arguments) {
        System.setOut(System.err);
        passedOn = Set.of(arguments[0].split(","));
        LauncherDiscoveryRequestBuilder request = LauncherDiscoveryRequestBuilder.request()
            .configurationParameter("junit.jupiter.extensions.autodetection.enabled", "true")
            .configurationParameter("junit.jupiter.extensions.autodetection.exclude", "org.apache.kafka.*");
        for (String what : Arrays.copyOfRange(arguments, 1, arguments.length)) {
            request.selectors(what.contains("#") ? DiscoverySelectors.selectMethod(what) : DiscoverySelectors.selectClass(what));
        }
        LauncherDiscoveryRequest built = request.build();
        LauncherFactory.create().execute(built, new Results());
        System.exit(0);
    }

    static synchronized void tell(ObjectNode event) {
        EVENTS.println(event);
        EVENTS.flush();
    }

    static synchronized JsonNode ask(ObjectNode event) {
        tell(event);
        try {
            String line = ANSWERS.readLine();
            if (line == null) {
                throw new IllegalStateException("nobody runs servers any more");
            }
            return JSON.readTree(line);
        } catch (IOException error) {
            throw new IllegalStateException(error);
        }
    }

    static TestAbortedException notApplicable(String reason) {
        return new TestAbortedException(reason);
    }

    /** Proxies of Kafka's interfaces answer what is named here, and end the test as not applicable elsewhere. */
    static <T> T only(Class<T> type, Map<String, InvocationHandler> methods) {
        InvocationHandler handler = (proxy, method, arguments) -> {
            InvocationHandler found = methods.get(method.getName());
            if (found != null) {
                return found.invoke(proxy, method, arguments);
            }
            if (method.getDeclaringClass() == Object.class) {
                return ofObject(proxy, method, arguments);
            }
            throw notApplicable("looks into " + type.getSimpleName() + "." + method.getName());
        };
        return type.cast(Proxy.newProxyInstance(type.getClassLoader(), new Class<?>[] {type}, handler));
    }

    private static Object ofObject(Object proxy, Method method, Object[] arguments) {
        return switch (method.getName()) {
            case "hashCode" -> System.identityHashCode(proxy);
            case "equals" -> proxy == arguments[0];
            default -> proxy.getClass().getSimpleName();
        };
    }

    static final class Results implements TestExecutionListener {
        @Override
        public void executionFinished(TestIdentifier test, TestExecutionResult result) {
            Optional<Throwable> why = result.getThrowable();
            if (!test.isTest() && why.isEmpty()) {
                return;
            }
            String outcome = switch (result.getStatus()) {
                case SUCCESSFUL -> "pass";
                case ABORTED -> "not applicable";
                case FAILED -> "fail";
            };
            why.ifPresent(each -> each.printStackTrace(System.err));
            tell(JSON.createObjectNode().put("event", "result").put("test", nameOf(test)).put("outcome", outcome)
                .put("reason", why.map(Throwable::toString).orElse("")));
        }

        @Override
        public void executionSkipped(TestIdentifier test, String reason) {
            tell(JSON.createObjectNode().put("event", "result").put("test", nameOf(test)).put("outcome", "not applicable")
                .put("reason", "Kafka skips it: " + reason));
        }

        private static String nameOf(TestIdentifier test) {
            StringBuilder name = new StringBuilder();
            for (var segment : test.getUniqueIdObject().getSegments()) {
                switch (segment.getType()) {
                    case "class", "nested-class" -> name.append(segment.getValue().replaceAll(".*[.]", "")).append('.');
                    case "method", "test-template" -> name.append(segment.getValue().replaceAll("[(].*", ""));
                    case "test-template-invocation" -> name.append(' ').append(segment.getValue());
                    default -> { }
                }
            }
            return name.toString();
        }
    }

    /** An object of a class of Kafka's without its constructor, which would start something. */
    static <T> T unmade(Class<T> type) {
        try {
            Field field = sun.misc.Unsafe.class.getDeclaredField("theUnsafe");
            field.setAccessible(true);
            return type.cast(((sun.misc.Unsafe) field.get(null)).allocateInstance(type));
        } catch (ReflectiveOperationException error) {
            throw new IllegalStateException(error);
        }
    }

    /** A broker's sockets, of which tests ask the port. */
    static final class BoundPort extends SocketServer {
        private int port;

        private BoundPort() {
            super(null, null, null, null, null, null, null);
        }

        static BoundPort of(int port) {
            BoundPort made = unmade(BoundPort.class);
            made.port = port;
            return made;
        }

        @Override
        public int boundPort(ListenerName listener) {
            return port;
        }
    }

    /** Registered by META-INF/services. */
    public static final class Clusters implements TestTemplateInvocationContextProvider {
        private final ClusterTestExtensions kafka = new ClusterTestExtensions();

        @Override
        public boolean supportsTestTemplate(ExtensionContext context) {
            return kafka.supportsTestTemplate(context);
        }

        @Override
        public Stream<TestTemplateInvocationContext> provideTestTemplateInvocationContexts(ExtensionContext context) {
            Map<String, TestTemplateInvocationContext> distinct = new LinkedHashMap<>();
            kafka.provideTestTemplateInvocationContexts(context).forEach(each -> {
                ClusterConfig config = configOf(each);
                String variant = properties(config) + " " + config.numBrokers() + " " + config.features();
                distinct.putIfAbsent(variant, new OneCluster(config));
            });
            return distinct.values().stream();
        }

        private static ClusterConfig configOf(TestTemplateInvocationContext context) {
            try {
                Field field = RaftClusterInvocationContext.class.getDeclaredField("clusterConfig");
                field.setAccessible(true);
                return (ClusterConfig) field.get(context);
            } catch (ReflectiveOperationException error) {
                throw new IllegalStateException(error);
            }
        }
    }

    static Map<String, String> properties(ClusterConfig config) {
        Map<String, String> found = new TreeMap<>(config.serverProperties());
        found.keySet().retainAll(passedOn);
        return found;
    }

    record OneCluster(ClusterConfig config) implements TestTemplateInvocationContext {
        @Override
        public String getDisplayName(int invocation) {
            return properties(config).toString();
        }

        @Override
        public List<Extension> getAdditionalExtensions() {
            Cluster cluster = new Cluster(config);
            BeforeEachCallback before = context -> {
                if (config.numBrokers() > 1) {
                    throw notApplicable("needs " + config.numBrokers() + " brokers, each leading some partitions");
                }
                if (config.isAutoStart()) {
                    cluster.start();
                }
            };
            AfterEachCallback after = context -> cluster.stop();
            return List.of(before, after, new Parameter(cluster));
        }
    }

    record Parameter(Cluster cluster) implements ParameterResolver {
        @Override
        public boolean supportsParameter(ParameterContext parameter, ExtensionContext context) {
            return parameter.getParameter().getType() == ClusterInstance.class;
        }

        @Override
        public Object resolveParameter(ParameterContext parameter, ExtensionContext context) {
            return cluster;
        }
    }

    /** A server that answers to the tests as Kafka's cluster of one node does. */
    static final class Cluster implements ClusterInstance {
        private static final int CONTROLLER_ID = 3000;
        private final ClusterConfig config;
        private String bootstrap;
        private int brokerId;
        /** Answers what tests ask brokers' objects. */
        private Admin asking;

        Cluster(ClusterConfig config) {
            this.config = config;
        }

        @Override
        public void start() {
            if (started()) {
                return;
            }
            ObjectNode event = JSON.createObjectNode().put("event", "start").put("brokers", config.numBrokers());
            ObjectNode wanted = event.putObject("properties");
            properties(config).forEach(wanted::put);
            bootstrap = ask(event).get("bootstrap").asText();
            asking = admin();
            try {
                brokerId = asking.describeCluster().nodes().get().iterator().next().id();
                Map<String, FeatureUpdate> updates = new HashMap<>();
                config.features().forEach((feature, level) -> updates.put(feature.featureName(), new FeatureUpdate(
                    level, level == 0 ? FeatureUpdate.UpgradeType.SAFE_DOWNGRADE : FeatureUpdate.UpgradeType.UPGRADE)));
                if (!updates.isEmpty()) {
                    asking.updateFeatures(updates, new UpdateFeaturesOptions()).all().get();
                }
            } catch (InterruptedException | ExecutionException error) {
                throw new IllegalStateException(error);
            }
        }

        @Override
        public boolean started() {
            return bootstrap != null;
        }

        @Override
        public void stop() {
            if (started()) {
                asking.close();
                bootstrap = null;
                tell(JSON.createObjectNode().put("event", "stop"));
            }
        }

        @Override
        public boolean stopped() {
            return !started();
        }

        @Override
        public Type type() {
            return Type.KRAFT;
        }

        @Override
        public ClusterConfig config() {
            return config;
        }

        @Override
        public String bootstrapServers() {
            return bootstrap;
        }

        @Override
        public String bootstrapControllers() {
            throw notApplicable("talks to a controller's listener");
        }

        @Override
        public List<Integer> brokerBoundPorts() {
            return List.of(port());
        }

        private int port() {
            return Integer.parseInt(bootstrap.replaceAll(".*:", ""));
        }

        @Override
        public ListenerName clientListener() {
            return ListenerName.normalised("EXTERNAL");
        }

        @Override
        public ListenerName controllerListenerName() {
            return ListenerName.normalised("CONTROLLER");
        }

        @Override
        public String clusterId() {
            try {
                return asking.describeCluster().clusterId().get();
            } catch (InterruptedException | ExecutionException error) {
                throw new IllegalStateException(error);
            }
        }

        @Override
        public Map<Integer, KafkaBroker> brokers() {
            Map<Integer, KafkaBroker> found = new HashMap<>();
            found.put(brokerId, only(KafkaBroker.class, Map.of(
                "config", (proxy, method, arguments) -> brokerConfig(),
                "isShutdown", (proxy, method, arguments) -> false,
                "boundPort", (proxy, method, arguments) -> port(),
                "socketServer", (proxy, method, arguments) -> BoundPort.of(port()),
                "groupCoordinator", (proxy, method, arguments) -> only(GroupCoordinator.class, Map.of(
                    "groupMetadataTopicConfigs", (its, named, given) -> new Properties())),
                "metadataCache", (proxy, method, arguments) -> metadataCache())));
            return found;
        }

        private KafkaConfig brokerConfig() {
            Properties found = new Properties();
            found.putAll(config.serverProperties());
            found.put("node.id", Integer.toString(brokerId));
            found.put("process.roles", "broker");
            found.put("listeners", "PLAINTEXT://127.0.0.1:0");
            found.put("controller.listener.names", "CONTROLLER");
            found.put("controller.quorum.bootstrap.servers", "127.0.0.1:1");
            return KafkaConfig.fromProps(found);
        }

        private MetadataCache metadataCache() {
            return only(MetadataCache.class, Map.of(
                "numPartitions", (proxy, method, arguments) ->
                    described((String) arguments[0]).map(topic -> topic.partitions().size()),
                "getLeaderAndIsr", (proxy, method, arguments) ->
                    described((String) arguments[0]).flatMap(topic -> topic.partitions().stream()
                        .filter(each -> each.partition() == (Integer) arguments[1] && each.leader() != null)
                        .findFirst().map(Cluster::leaderOf)),
                "contains", (proxy, method, arguments) -> described((String) arguments[0]).isPresent()));
        }

        private static LeaderAndIsr leaderOf(TopicPartitionInfo partition) {
            return new LeaderAndIsr(partition.leader().id(), partition.isr().stream().map(node -> node.id()).toList());
        }

        private Optional<TopicDescription> described(String topic) throws InterruptedException, ExecutionException {
            try {
                return Optional.of(asking.describeTopics(List.of(topic)).allTopicNames().get().get(topic));
            } catch (ExecutionException error) {
                if (error.getCause() instanceof UnknownTopicOrPartitionException) {
                    return Optional.empty();
                }
                throw error;
            }
        }

        /** Waits of Kafka's helpers go over its values and find none; a test that asks for ids of topics finds one by its id. */
        @Override
        public Map<Integer, ControllerServer> controllers() {
            return new AbstractMap<>() {
                @Override
                public Set<Entry<Integer, ControllerServer>> entrySet() {
                    return new HashSet<>();
                }

                @Override
                public ControllerServer get(Object id) {
                    return controllerServer();
                }
            };
        }

        private ControllerServer controllerServer() {
            ControllerServer server = unmade(ControllerServer.class);
            server.controller_$eq(only(Controller.class, Map.of(
                "findAllTopicIds", (proxy, method, arguments) -> CompletableFuture.completedFuture(topicIds()))));
            return server;
        }

        private Map<String, Uuid> topicIds() throws InterruptedException, ExecutionException {
            Map<String, Uuid> found = new HashMap<>();
            for (TopicListing topic : asking.listTopics(new ListTopicsOptions().listInternal(true)).listings().get()) {
                found.put(topic.name(), topic.topicId());
            }
            return found;
        }

        @Override
        public Set<Integer> controllerIds() {
            return Set.of(CONTROLLER_ID);
        }

        @Override
        public Optional<FaultHandlerException> firstFatalException() {
            return Optional.empty();
        }

        @Override
        public Optional<FaultHandlerException> firstNonFatalException() {
            return Optional.empty();
        }

        @Override
        public void shutdownBroker(int id) {
            throw notApplicable("stops one of several brokers");
        }

        @Override
        public void startBroker(int id) {
            throw notApplicable("starts one of several brokers");
        }

        @Override
        public void waitForReadyBrokers() {
            // a server is ready when it is handed over
        }
    }
}
