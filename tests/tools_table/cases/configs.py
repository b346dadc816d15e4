"""kafka-configs, kafka-client-metrics, kafka-features, kafka-cluster, kafka-broker-api-versions, kafka-metadata-quorum, kafka-acls,
kafka-delegation-tokens."""

from __future__ import annotations

from typing import Final

from tests.tools_table.case import Cases
from tests.tools_table.world import World

CASES: Final = Cases()

CONFIGS, METRICS, FEATURES, CLUSTER = "kafka-configs", "kafka-client-metrics", "kafka-features", "kafka-cluster"
VERSIONS, QUORUM, ACLS, TOKENS = (
    "kafka-broker-api-versions",
    "kafka-metadata-quorum",
    "kafka-acls",
    "kafka-delegation-tokens",
)


def client(world: World) -> str:
    """A file for --command-config."""
    return world.file("client", "client.id=table\n")


# -- kafka-configs -----------------------------------------------------------------------------------------------------


@CASES.of(CONFIGS, "topics")
def topics(world: World) -> None:
    topic = world.wire.topic()
    of = ("--entity-type", "topics", "--entity-name", topic)
    world.run("--describe", *of)
    world.run("--alter", *of, "--add-config", "retention.ms=1000,cleanup.policy=[compact,delete]")
    world.run("--describe", *of, until=lambda ended: "retention.ms" in ended.out, is_unordered=True)
    world.run("--describe", "--topic", topic, is_unordered=True)
    world.run("--describe", *of, "--all", is_unordered=True)
    world.run("--alter", *of, "--add-config-file", world.file("more", "segment.bytes=2000000\nretention.ms=2000\n"))
    world.run("--describe", *of, until=lambda ended: "segment.bytes" in ended.out, is_unordered=True)
    world.run("--alter", *of, "--delete-config", "retention.ms,cleanup.policy")
    world.run("--describe", *of, until=lambda ended: "retention.ms" not in ended.out, is_unordered=True)
    world.run("--alter", *of, "--delete-config", "retention.ms")
    world.run("--alter", *of, "--delete-config", "segment.bytes", "--add-config", "min.insync.replicas=1")
    world.run("--describe", *of, until=lambda ended: "min.insync" in ended.out, is_unordered=True)
    world.run("--describe", "--entity-type", "topics", only=f"{topic} |stderr", is_unordered=True)
    for arguments in (
        ("--add-config", "retention.ms=soon"),
        ("--add-config", "retention.ms=-5"),
        ("--add-config", "no.such=1"),
        ("--add-config", "cleanup.policy=maybe"),
        ("--add-config", "cleanup.policy=[compact,maybe]"),
        ("--add-config", "broken"),
        ("--add-config", "retention.ms="),
        ("--add-config", "a=1", "--add-config-file", world.file("b", "a=1\n")),
        ("--delete-config", "no.such"),
        ("--add-config-file", world.path("none")),
        (),
    ):
        world.run("--alter", *of, *arguments)
    for whole in (
        ("--describe", "--entity-type", "topics", "--entity-name", "none"),
        ("--describe", "--entity-type", "topics", "--entity-default"),
        ("--alter", "--entity-type", "topics", "--entity-name", "none", "--add-config", "retention.ms=1"),
        ("--alter", "--entity-type", "topics", "--add-config", "retention.ms=1"),
        ("--describe", *of, "--command-config", client(world)),
        ("--describe", *of, "--alter"),
        ("--describe", "--topic", topic, *of),
        ("--describe", "--entity-type", "others", "--entity-name", "x"),
        ("--describe", "--entity-name", topic),
        ("--describe",),
        (),
    ):
        world.run(*whole, is_unordered=True)
    world.run("--describe", *of, bootstrap=False)
    world.run("--bootstrap-controller", world.bootstrap, "--describe", *of, bootstrap=False)


@CASES.of(CONFIGS, "brokers")
def brokers(world: World) -> None:
    of, default = ("--entity-type", "brokers", "--entity-name", "1"), ("--entity-type", "brokers", "--entity-default")
    world.run("--describe", *of)
    world.run("--describe", "--broker", "1")
    world.run("--describe", *default)
    world.run("--describe", "--broker-defaults")
    world.run("--describe", "--entity-type", "brokers")
    world.run("--alter", *of, "--add-config", "log.retention.ms=3600000")
    world.run("--describe", *of, until=lambda ended: "log.retention.ms" in ended.out, is_unordered=True)
    world.run("--alter", *default, "--add-config", "log.retention.ms=7200000,log.cleaner.threads=2")
    world.run("--describe", *default, until=lambda ended: "log.retention.ms" in ended.out, is_unordered=True)
    world.run("--describe", *of, is_unordered=True)
    world.run("--alter", *of, "--delete-config", "log.retention.ms")
    world.run("--describe", *of, until=lambda ended: "3600000" not in ended.out, is_unordered=True)
    world.run("--alter", "--broker-defaults", "--delete-config", "log.retention.ms,log.cleaner.threads")
    world.run("--describe", *default, until=lambda ended: "log.retention.ms" not in ended.out, is_unordered=True)
    for config in ("log.retention.ms=soon", "no.such=1", "broker.id=7", "log.dirs=/tmp/x", "listeners=PLAINTEXT://:1"):
        world.run("--alter", *of, "--add-config", config)
        world.run("--alter", *default, "--add-config", config)
    world.run("--alter", *default, "--delete-config", "no.such,no.such")
    world.run("--describe", "--entity-type", "brokers", "--entity-name", "x")
    world.run("--describe", "--entity-type", "brokers", "--entity-name", "")
    world.run("--alter", "--broker", "x", "--add-config", "log.retention.ms=1")


@CASES.of(CONFIGS, "all of a broker")
def all_of_a_broker(world: World) -> None:
    world.run("--describe", "--broker", "1", "--all", is_unordered=True)


@CASES.of(CONFIGS, "broker loggers")
def broker_loggers(world: World) -> None:
    of = ("--entity-type", "broker-loggers", "--entity-name", "1")
    # The loggers are the servers' own, and root is as each was started.
    level = ((r"root=\w+", "root=LEVEL"),)
    world.run("--describe", *of, only="stderr| root=", patterns=level)
    world.run("--describe", "--broker-logger", "1", only="stderr| root=", patterns=level)
    world.run("--alter", *of, "--add-config", "root=ERROR")
    world.run("--describe", *of, only="stderr| root=")
    world.run("--alter", *of, "--delete-config", "root")
    world.run("--alter", *of, "--add-config", "root=WARN")
    world.run("--alter", *of, "--add-config", "root=LOUD")
    world.run("--alter", *of, "--add-config", "no.such.logger=INFO")
    world.run("--describe", "--entity-type", "broker-loggers", only="exit code|stderr")
    world.run("--alter", "--entity-type", "broker-loggers", "--entity-default", "--add-config", "root=INFO")


@CASES.of(CONFIGS, "groups")
def groups(world: World) -> None:
    group = world.name("g")
    of = ("--entity-type", "groups", "--entity-name", group)
    world.run("--describe", *of)
    world.run("--alter", *of, "--add-config", "consumer.session.timeout.ms=50000,streams.session.timeout.ms=46000")
    world.run("--describe", *of, until=lambda ended: "50000" in ended.out, is_unordered=True)
    world.run("--describe", "--group", group, "--all", is_unordered=True)
    world.run("--describe", "--entity-type", "groups", only=f"{group}|stderr|=", is_unordered=True)
    world.run("--alter", "--group", group, "--delete-config", "consumer.session.timeout.ms")
    world.run("--describe", *of, until=lambda ended: "50000" not in ended.out, is_unordered=True)
    for config in (
        "consumer.session.timeout.ms=1",
        "consumer.heartbeat.interval.ms=1000000",
        "share.session.timeout.ms=50000",
        "no.such=1",
        "consumer.session.timeout.ms=soon",
        "consumer.session.timeout.ms=45000,consumer.heartbeat.interval.ms=45000",
    ):
        world.run("--alter", *of, "--add-config", config)
    world.run("--alter", "--entity-type", "groups", "--add-config", "consumer.session.timeout.ms=50000")
    world.run("--describe", "--entity-type", "groups", "--entity-default")


@CASES.of(CONFIGS, "client metrics")
def client_metrics(world: World) -> None:
    name = world.name("m")
    of = ("--entity-type", "client-metrics", "--entity-name", name)
    world.run("--describe", *of)
    world.run(
        "--alter",
        *of,
        "--add-config",
        "interval.ms=10000,metrics=[org.apache.kafka.producer.,org.apache.kafka.consumer.]",
    )
    world.run("--describe", *of, until=lambda ended: "10000" in ended.out, is_unordered=True)
    world.run("--describe", "--client-metrics", name, "--all", is_unordered=True)
    world.run("--alter", *of, "--delete-config", "metrics")
    world.run("--describe", "--entity-type", "client-metrics", only=f"{name}|stderr|=", is_unordered=True)
    for config in ("interval.ms=5", "match=[a=b]", "match=client_id", "no.such=1", "interval.ms=soon"):
        world.run("--alter", *of, "--add-config", config)
    world.run("--alter", "--entity-type", "client-metrics", "--add-config", "interval.ms=10000")
    world.run("--describe", "--entity-type", "client-metrics", "--entity-default")


@CASES.of(CONFIGS, "quotas of users, clients and addresses")
def quotas(world: World) -> None:
    rate = ("--add-config", "producer_byte_rate=1000")
    entities = (
        ("--user", "anna"),
        ("--user-defaults",),
        ("--client", "app"),
        ("--client-defaults",),
        ("--user", "anna", "--client", "app"),
        ("--entity-type", "users", "--entity-name", "anna"),
        ("--entity-type", "users", "--entity-default"),
        ("--entity-type", "clients", "--entity-name", "app"),
    )
    addresses = (("--ip", "127.0.0.1"), ("--ip-defaults",), ("--entity-type", "ips", "--entity-name", "127.0.0.1"))
    for entity in entities:
        world.run("--describe", *entity)
        world.run("--alter", *entity, *rate)
    for address in addresses:
        world.run("--describe", *address)
        world.run("--alter", *address, "--add-config", "connection_creation_rate=10")
    world.run("--describe", "--entity-type", "users")
    world.run("--describe", "--entity-type", "clients")
    world.run("--alter", "--user", "anna", "--add-config", "SCRAM-SHA-256=[password=secret]")
    world.run("--alter", "--user", "anna", "--delete-config", "SCRAM-SHA-512")
    world.run("--alter", "--user", "anna", "--add-config", "no.such=1")
    world.run("--describe", "--ip", "not an address")
    # A quota that stays slows the clients of later cases down, and has both servers close connections beyond the rate.
    for entity in entities:
        world.run("--alter", *entity, "--delete-config", "producer_byte_rate")
    for address in addresses:
        world.run("--alter", *address, "--delete-config", "connection_creation_rate")
    for kind in ("users", "clients", "ips"):
        world.run("--describe", "--entity-type", kind, is_unordered=True)


# -- kafka-client-metrics ----------------------------------------------------------------------------------------------


@CASES.of(METRICS, "subscriptions")
def subscriptions(world: World) -> None:
    name, second = world.name("m"), world.name("second")
    world.run("--alter", "--name", name, "--metrics", "org.apache.kafka.producer.", "--interval", "30000")
    world.run("--alter", "--name", second, "--match", "client_id=app,client_software_name=java.*", "--metrics", "a.,b.")
    world.run("--describe", "--name", name, until=lambda ended: "30000" in ended.out, is_unordered=True)
    world.run("--describe", "--name", second, until=lambda ended: "client_id" in ended.out, is_unordered=True)
    world.run("--list", only=f"{world.name('')}|stderr", is_unordered=True)
    world.run("--list", "--command-config", client(world), only=f"{world.name('')}|stderr", is_unordered=True)
    world.run("--alter", "--name", name, "--interval", "", "--metrics", "")
    world.run("--describe", "--name", name, is_unordered=True)
    world.run("--alter", "--generate-name", "--interval", "20000", patterns=((r"[\w-]{22}\.$", "ID."),))
    world.run("--alter", "--name", name, "--interval", "5")
    world.run("--alter", "--name", name, "--interval", "soon")
    world.run("--alter", "--name", name, "--match", "color=red")
    world.run("--alter", "--name", name)
    world.run("--alter", "--interval", "20000")
    world.run("--describe", "--name", "none")
    world.run("--delete", "--name", second)
    world.run("--delete", "--name", second)
    world.run("--delete", "--name", "none")
    world.run("--delete")
    world.run("--list", "--name", name)
    world.run("--list", only=f"{world.name('')}|stderr", until=lambda ended: second not in ended.out)
    world.run()


# -- kafka-features ----------------------------------------------------------------------------------------------------


@CASES.of(FEATURES, "features")
def features(world: World) -> None:
    world.run("describe", patterns=((r"Epoch: \d+", "Epoch: N"),))
    world.run("describe", "--node-id", "1", patterns=((r"Epoch: \d+", "Epoch: N"),))
    for verb in ("upgrade", "downgrade"):
        world.run(verb, "--feature", "group.version=1", "--dry-run")
        world.run(verb, "--feature", "transaction.version=1", "--dry-run")
        world.run(verb, "--feature", "no.such=1", "--dry-run")
        world.run(verb, "--feature", "group.version=9", "--dry-run")
        world.run(verb, "--feature", "group.version")
        world.run(verb)
    world.run("upgrade", "--feature", "group.version=1")
    world.run("upgrade", "--feature", "transaction.version=2")
    world.run("upgrade", "--release-version", "4.3", "--dry-run")
    world.run("upgrade", "--release-version", "9.9", "--dry-run")
    world.run("downgrade", "--release-version", "4.0", "--dry-run")
    world.run("downgrade", "--unsafe", "--feature", "group.version=0", "--dry-run")
    world.run("downgrade", "--unsafe", "--metadata", "3.3-IV3", "--dry-run")
    world.run("upgrade", "--metadata", "4.3", "--dry-run")
    world.run("disable", "--feature", "group.version", "--dry-run")
    world.run("disable", "--feature", "no.such", "--dry-run")
    world.run("disable", "--unsafe", "--feature", "group.version", "--dry-run")
    world.run("version-mapping")
    world.run("version-mapping", "--release-version", "4.0")
    world.run("version-mapping", "--release-version", "9.9")
    world.run("feature-dependencies", "--feature", "transaction.version=2")
    world.run("feature-dependencies", "--feature", "group.version=1", "--feature", "no.such=1")
    settings = client(world)
    world.run("--command-config", settings, "describe", patterns=((r"Epoch: \d+", "Epoch: N"),))
    world.run("--bootstrap-controller", world.bootstrap, "describe", bootstrap=False)
    world.run("describe", bootstrap=False)


# -- kafka-cluster -----------------------------------------------------------------------------------------------------


@CASES.of(CLUSTER, "cluster")
def cluster(world: World) -> None:
    settings = client(world)
    world.run("cluster-id")
    world.run("cluster-id", "--command-config", settings)
    world.run("cluster-id", "--config", settings)
    world.run("cluster-id", "--bootstrap-controller", world.bootstrap, bootstrap=False)
    world.run("list-endpoints")
    world.run("list-endpoints", "--include-fenced-brokers")
    world.run("list-endpoints", "--command-config", settings)
    world.run("list-endpoints", "--config", settings)
    world.run("list-endpoints", "--bootstrap-controller", world.bootstrap, bootstrap=False)
    world.run("unregister", "--id", "77")
    world.run("unregister", "--id", "77", "--command-config", settings)
    world.run("unregister", "--id", "77", "--config", settings)
    world.run("unregister", "--id", "77", "--bootstrap-controller", world.bootstrap, bootstrap=False)
    world.run("unregister")
    world.run(bootstrap=False)


# -- kafka-broker-api-versions -----------------------------------------------------------------------------------------


@CASES.of(VERSIONS, "versions")
def versions(world: World) -> None:
    world.run()
    world.run("--command-config", client(world))
    world.run(bootstrap=False)


# -- kafka-metadata-quorum ---------------------------------------------------------------------------------------------


@CASES.of(QUORUM, "quorum")
def quorum(world: World) -> None:
    settings = client(world)
    grown = ((r"HighWatermark:\s+\d+", "HighWatermark: N"), (r"\d+ ms ago", "N ms ago"))
    log = ("DirectoryId", "LogEndOffset")
    world.run("describe", "--status", patterns=grown)
    world.run("describe", "--replication", hidden=log)
    world.run("describe", "--status", "--human-readable", patterns=grown)
    world.run("describe", "--replication", "--human-readable", hidden=log, patterns=(*grown, (" ms ago", "-ms-ago")))
    world.run("--command-config", settings, "describe", "--status", patterns=grown)
    world.run("--bootstrap-controller", world.bootstrap, "describe", "--status", bootstrap=False)
    world.run("describe")
    world.run("remove-controller", "--controller-id", "9", "--controller-directory-id", "7x8dLJpbYEwOnT4BI0VniQ")
    world.run(
        "remove-controller", "--controller-id", "9", "--controller-directory-id", "7x8dLJpbYEwOnT4BI0VniQ", "--dry-run"
    )
    world.run("add-controller", "--dry-run")


# -- kafka-acls, kafka-delegation-tokens -------------------------------------------------------------------------------


@CASES.of(ACLS, "access control")
def acls(world: World) -> None:
    settings, who = client(world), ("--allow-principal", "User:anna")
    world.run("--list")
    world.run("--list", "--topic", "t", "--command-config", settings)
    world.run("--list", "--principal", "User:anna")
    for arguments in (
        ("--topic", "t", *who, "--operation", "Read"),
        ("--topic", "t", "--deny-principal", "User:anna", "--deny-host", "10.0.0.1"),
        ("--topic", "t", *who, "--allow-host", "10.0.0.1"),
        ("--group", "g", *who),
        ("--cluster", *who),
        ("--transactional-id", "x", *who),
        ("--delegation-token", "x", *who),
        ("--user-principal", "User:anna", *who),
        ("--producer", "--idempotent", "--topic", "t", *who),
        ("--consumer", "--topic", "t", "--group", "g", *who),
        ("--topic", "t", "--resource-pattern-type", "prefixed", *who),
    ):
        world.run("--add", *arguments)
    world.run("--remove", "--topic", "t", "--force", *who)
    world.run("--bootstrap-controller", world.bootstrap, "--list", bootstrap=False)
    world.run("--add")
    world.run()


@CASES.of(TOKENS, "delegation tokens")
def tokens(world: World) -> None:
    settings = ("--command-config", client(world))
    world.run("--create", "--max-life-time-period", "-1", "--renewer-principal", "User:anna", *settings)
    world.run("--create", "--max-life-time-period", "-1", "--owner-principal", "User:anna", *settings)
    world.run("--describe", *settings)
    world.run("--describe", "--owner-principal", "User:anna", *settings)
    world.run("--renew", "--renew-time-period", "-1", "--hmac", "AAAA", *settings)
    world.run("--expire", "--expiry-time-period", "-1", "--hmac", "AAAA", *settings)
    world.run("--describe")
