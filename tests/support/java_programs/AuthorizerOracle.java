import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.net.InetAddress;
import java.util.*;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.metrics.internals.PluginMetricsImpl;
import org.apache.kafka.common.acl.*;
import org.apache.kafka.common.resource.*;
import org.apache.kafka.common.security.auth.*;
import org.apache.kafka.metadata.authorizer.*;
import org.apache.kafka.server.authorizer.*;

/**
 * What Kafka's StandardAuthorizer decides. Reads lines of fields separated by tabs, and answers each question with a line:
 *
 *   begin SUPER_USERS ALLOW_EVERYONE
 *   acl TYPE NAME PATTERN PRINCIPAL HOST OPERATION PERMISSION
 *   ask PRINCIPAL HOST OPERATION TYPE NAME           -> ALLOWED or DENIED
 *   any PRINCIPAL HOST OPERATION TYPE                -> the same, for some resource of the type
 *
 * Types, patterns, operations and permissions are numbers.
 */
public class AuthorizerOracle {
    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        StandardAuthorizer authorizer = null;
        StringBuilder out = new StringBuilder();
        for (String line; (line = in.readLine()) != null; ) {
            String[] part = line.split("\t", -1);
            switch (part[0]) {
                case "begin":
                    authorizer = new StandardAuthorizer();
                    authorizer.withPluginMetrics(new PluginMetricsImpl(new Metrics(), Map.of()));
                    authorizer.configure(Map.of("super.users", part[1], "allow.everyone.if.no.acl.found", part[2]));
                    authorizer.loadSnapshot(Map.of());
                    authorizer.completeInitialLoad();
                    break;
                case "acl":
                    authorizer.addAcl(Uuid.randomUuid(), new StandardAcl(
                        ResourceType.fromCode((byte) Integer.parseInt(part[1])), part[2],
                        PatternType.fromCode((byte) Integer.parseInt(part[3])), part[4], part[5],
                        AclOperation.fromCode((byte) Integer.parseInt(part[6])),
                        AclPermissionType.fromCode((byte) Integer.parseInt(part[7]))));
                    break;
                case "ask": {
                    Action action = new Action(AclOperation.fromCode((byte) Integer.parseInt(part[3])),
                        new ResourcePattern(ResourceType.fromCode((byte) Integer.parseInt(part[4])), part[5],
                            PatternType.LITERAL), 1, false, false);
                    out.append(authorizer.authorize(new Context(part[1], part[2]), List.of(action)).get(0)).append('\n');
                    break;
                }
                case "any":
                    out.append(authorizer.authorizeByResourceType(new Context(part[1], part[2]),
                        AclOperation.fromCode((byte) Integer.parseInt(part[3])),
                        ResourceType.fromCode((byte) Integer.parseInt(part[4])))).append('\n');
                    break;
                default:
                    throw new IllegalArgumentException(line);
            }
        }
        System.out.print(out);
    }

    record Context(String name, String host) implements AuthorizableRequestContext {
        public String listenerName() { return "PLAINTEXT"; }
        public SecurityProtocol securityProtocol() { return SecurityProtocol.PLAINTEXT; }
        public KafkaPrincipal principal() {
            int colon = name.indexOf(':');
            return new KafkaPrincipal(name.substring(0, colon), name.substring(colon + 1));
        }
        public InetAddress clientAddress() {
            try { return InetAddress.getByName(host); } catch (java.net.UnknownHostException e) { throw new RuntimeException(e); }
        }
        public int requestType() { return 0; }
        public int requestVersion() { return 0; }
        public String clientId() { return ""; }
        public int correlationId() { return 0; }
    }
}
