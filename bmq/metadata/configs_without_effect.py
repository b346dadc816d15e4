"""Kafka's broker configs that change nothing here, and why. They are shown, with Kafka's types and defaults, because
tools look for them; a value of one's own is shown as well, and has no effect. Pure.

Those of other mechanisms of SASL are refused instead: who sets them believes that something is
protected.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from bmq.metadata.config_keys import NO_EFFECT, ConfigKey, ConfigType, at_least

THREADS: Final = "One event loop serves a process and batches what one turn has: more processes are `--workers`."
SOCKETS: Final = "The kernel sizes socket buffers; the backlog is 1,024; nodes' links have limits of their own (`cluster.*`, `router.*`)."
COORDINATORS: Final = (
    "A commit waits as long as its request; shards are read in chunks of 1 MiB, and written uncompressed."
)
PROTOCOLS: Final = (
    "Which protocols are served follows the features group.version, streams.version and transaction.version."
)
BUDGETS: Final = (
    "Requests are counted by their bytes: `proxy.in_flight_*`; between nodes they have limits of their own."
)
PURGATORY: Final = "Requests that wait are counted and end by themselves: nothing has to be purged."
METRICS: Final = "Metrics are Prometheus's, at /metrics."
PLUGINS: Final = "There are no Java plug-ins; nodes use the address `internal` among themselves."
QUOTAS: Final = "Client quotas are measured with these windows; the other quotas have no meaning here."
LEADERS: Final = "An owner stays while it lives, the balancer moves partitions, and a node that stops hands them over."
REPLICATION: Final = "HDFS replicates: nodes copy no records from each other."
DISKS: Final = "The store is one directory, shared by all nodes."
QUORUM: Final = "There is no quorum: ZooKeeper elects the controller, the metadata log is a log like others, and nodes' timeouts are `cluster.*`."
CLEANER: Final = (
    "One process cleans one log at a time, in chunks of 4 MiB, and its map of keys is filled to four fifths."
)
TIERED: Final = "There is no tiered storage: every byte is in the shared store already."
SHARE_STATE: Final = (
    "The shards of share partitions write what one turn has at once, uncompressed; snapshots are files beside the log."
)
SECURITY: Final = "Other mechanisms of SASL are not served: a value of one's own stops the start."

_TABLE: Final[Mapping[str, str]] = {
    THREADS: """
        background.threads INT 10 dynamic 1
        group.coordinator.append.linger.ms INT -1
        group.coordinator.background.threads INT 2
        group.coordinator.cached.buffer.max.bytes INT 1048588 dynamic
        group.coordinator.threads INT 4
        num.io.threads INT 8 dynamic 1
        num.network.threads INT 3 dynamic 1
    """,
    SOCKETS: """
        socket.connection.setup.timeout.max.ms LONG 30000
        socket.connection.setup.timeout.ms LONG 10000
        socket.listen.backlog.size INT 50
        socket.receive.buffer.bytes INT 102400
        socket.send.buffer.bytes INT 102400
    """,
    COORDINATORS: """
        offsets.commit.timeout.ms INT 5000
        offsets.load.buffer.size INT 5242880
        offsets.topic.compression.codec INT 0
        transaction.state.log.load.buffer.size INT 5242880
    """,
    PROTOCOLS: """
        group.coordinator.rebalance.protocols LIST classic,consumer,streams
        transaction.two.phase.commit.enable BOOLEAN false
    """,
    BUDGETS: """
        queued.max.request.bytes LONG -1
        queued.max.requests INT 500
        request.timeout.ms INT 30000
    """,
    PURGATORY: """
        delete.records.purgatory.purge.interval.requests INT 1
        fetch.purgatory.purge.interval.requests INT 1000
        producer.purgatory.purge.interval.requests INT 1000
    """,
    METRICS: """
        kafka.metrics.polling.interval.secs INT 10
        kafka.metrics.reporters LIST ""
        metric.reporters LIST org.apache.kafka.common.metrics.JmxReporter dynamic
        metrics.num.samples INT 2
        metrics.recording.level STRING INFO
        metrics.sample.window.ms LONG 30000
    """,
    PLUGINS: """
        alter.config.policy.class.name CLASS -
        config.providers LIST "" dynamic
        create.topic.policy.class.name CLASS -
        early.start.listeners LIST -
        inter.broker.listener.name STRING -
    """,
    QUOTAS: """
        alter.log.dirs.replication.quota.window.num INT 11
        alter.log.dirs.replication.quota.window.size.seconds INT 1
        client.quota.callback.class CLASS -
        controller.quota.window.num INT 11
        controller.quota.window.size.seconds INT 1
        quota.window.num INT 11
        quota.window.size.seconds INT 1
        replication.quota.window.num INT 11
        replication.quota.window.size.seconds INT 1
    """,
    LEADERS: """
        auto.leader.rebalance.enable BOOLEAN true
        controlled.shutdown.enable BOOLEAN true
        leader.imbalance.check.interval.seconds LONG 300
    """,
    REPLICATION: """
        num.replica.fetchers INT 1 dynamic
        replica.fetch.backoff.ms INT 1000
        replica.fetch.max.bytes INT 1048576
        replica.fetch.min.bytes INT 1
        replica.fetch.response.max.bytes INT 10485760
        replica.fetch.wait.max.ms INT 500
        replica.high.watermark.checkpoint.interval.ms LONG 5000
        replica.lag.time.max.ms LONG 30000
        replica.selector.class STRING -
        replica.socket.receive.buffer.bytes INT 65536
        replica.socket.timeout.ms INT 30000
    """,
    DISKS: """
        cordoned.log.dirs LIST "" dynamic
        log.dir LIST /tmp/kafka-logs
        log.dir.failure.timeout.ms LONG 30000
        log.flush.offset.checkpoint.interval.ms INT 60000
        log.flush.start.offset.checkpoint.interval.ms INT 60000
        num.recovery.threads.per.data.dir INT 2 dynamic 1
        num.replica.alter.log.dirs.threads INT -
    """,
    QUORUM: """
        broker.heartbeat.interval.ms INT 2000
        broker.session.timeout.ms INT 9000
        controller.listener.names LIST -
        controller.quorum.append.linger.ms INT 25
        controller.quorum.auto.join.enable BOOLEAN false
        controller.quorum.bootstrap.servers LIST ""
        controller.quorum.election.backoff.max.ms INT 1000
        controller.quorum.election.timeout.ms INT 1000
        controller.quorum.fetch.max.bytes INT 1048576
        controller.quorum.fetch.snapshot.max.bytes INT 1048576
        controller.quorum.fetch.timeout.ms INT 2000
        controller.quorum.request.timeout.ms INT 2000
        controller.quorum.retry.backoff.ms INT 20
        controller.quorum.voters LIST ""
        controller.socket.timeout.ms INT 30000
        initial.broker.registration.timeout.ms INT 60000
        metadata.log.dir STRING -
        metadata.log.max.record.bytes.between.snapshots LONG 20971520
        metadata.log.max.snapshot.interval.ms LONG 3600000
        metadata.log.segment.bytes INT 1073741824
        metadata.log.segment.ms LONG 604800000
        metadata.max.idle.interval.ms INT 500
        metadata.max.retention.bytes LONG 104857600
        metadata.max.retention.ms LONG 604800000
    """,
    CLEANER: """
        log.cleaner.io.buffer.load.factor DOUBLE 0.9 dynamic
        log.cleaner.io.buffer.size INT 524288 dynamic
        log.cleaner.threads INT 1 dynamic 0
    """,
    TIERED: """
        follower.fetch.last.tiered.offset.enable BOOLEAN false dynamic
        remote.fetch.max.wait.ms INT 500 dynamic 1
        remote.list.offsets.request.timeout.ms LONG 30000 dynamic 1
        remote.log.index.file.cache.total.size.bytes LONG 1073741824 dynamic 1
        remote.log.manager.copier.thread.pool.size INT 10 dynamic 1
        remote.log.manager.copy.max.bytes.per.second LONG 9223372036854775807 dynamic 1
        remote.log.manager.copy.quota.window.num INT 11
        remote.log.manager.copy.quota.window.size.seconds INT 1
        remote.log.manager.expiration.thread.pool.size INT 10 dynamic 1
        remote.log.manager.fetch.max.bytes.per.second LONG 9223372036854775807 dynamic 1
        remote.log.manager.fetch.quota.window.num INT 11
        remote.log.manager.fetch.quota.window.size.seconds INT 1
        remote.log.manager.follower.thread.pool.size INT 2 dynamic 1
        remote.log.manager.task.interval.ms LONG 30000
        remote.log.manager.thread.pool.size INT 2
        remote.log.metadata.custom.metadata.max.bytes INT 128
        remote.log.metadata.manager.class.name STRING org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager
        remote.log.metadata.manager.class.path STRING -
        remote.log.metadata.manager.impl.prefix STRING rlmm.config.
        remote.log.metadata.manager.listener.name STRING -
        remote.log.reader.max.pending.tasks INT 100
        remote.log.reader.threads INT 10 dynamic 1
        remote.log.storage.manager.class.name STRING -
        remote.log.storage.manager.class.path STRING -
        remote.log.storage.manager.impl.prefix STRING rsm.config.
        remote.log.storage.system.enable BOOLEAN false
    """,
    SHARE_STATE: """
        share.coordinator.append.linger.ms INT -1
        share.coordinator.cached.buffer.max.bytes INT 1048588 dynamic
        share.coordinator.load.buffer.size INT 5242880
        share.coordinator.snapshot.update.records.per.snapshot INT 500
        share.coordinator.state.topic.compression.codec INT 0
        share.coordinator.threads INT 1
        share.coordinator.write.timeout.ms INT 5000
        share.fetch.purgatory.purge.interval.requests INT 1000
    """,
    SECURITY: """
        principal.builder.class CLASS org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder dynamic
        sasl.client.callback.handler.class CLASS -
        sasl.jaas.config PASSWORD - dynamic
        sasl.kerberos.kinit.cmd STRING /usr/bin/kinit dynamic
        sasl.kerberos.min.time.before.relogin LONG 60000 dynamic
        sasl.kerberos.ticket.renew.jitter DOUBLE 0.05 dynamic
        sasl.kerberos.ticket.renew.window.factor DOUBLE 0.8 dynamic
        sasl.login.callback.handler.class CLASS -
        sasl.login.class CLASS -
        sasl.login.connect.timeout.ms INT -
        sasl.login.read.timeout.ms INT -
        sasl.login.refresh.buffer.seconds SHORT 300 dynamic
        sasl.login.refresh.min.period.seconds SHORT 60 dynamic
        sasl.login.refresh.window.factor DOUBLE 0.8 dynamic
        sasl.login.refresh.window.jitter DOUBLE 0.05 dynamic
        sasl.login.retry.backoff.max.ms LONG 10000
        sasl.login.retry.backoff.ms LONG 100
        sasl.mechanism.controller.protocol STRING GSSAPI
        sasl.mechanism.inter.broker.protocol STRING GSSAPI dynamic
        sasl.oauthbearer.assertion.algorithm STRING RS256
        sasl.oauthbearer.assertion.claim.aud STRING -
        sasl.oauthbearer.assertion.claim.exp.seconds INT 300
        sasl.oauthbearer.assertion.claim.iss STRING -
        sasl.oauthbearer.assertion.claim.jti.include BOOLEAN false
        sasl.oauthbearer.assertion.claim.nbf.seconds INT 60
        sasl.oauthbearer.assertion.claim.sub STRING -
        sasl.oauthbearer.assertion.file STRING -
        sasl.oauthbearer.assertion.private.key.file STRING -
        sasl.oauthbearer.assertion.private.key.passphrase PASSWORD -
        sasl.oauthbearer.assertion.template.file STRING -
        sasl.oauthbearer.client.credentials.client.id STRING -
        sasl.oauthbearer.client.credentials.client.secret PASSWORD -
        sasl.oauthbearer.jwt.retriever.class CLASS org.apache.kafka.common.security.oauthbearer.DefaultJwtRetriever
        sasl.oauthbearer.jwt.validator.class CLASS org.apache.kafka.common.security.oauthbearer.DefaultJwtValidator
        sasl.oauthbearer.scope STRING -
        sasl.oauthbearer.token.endpoint.url STRING -
        sasl.server.callback.handler.class CLASS -
        sasl.server.max.receive.size INT 524288
        security.inter.broker.protocol STRING PLAINTEXT
        security.providers STRING -
        ssl.endpoint.identification.algorithm STRING https dynamic
        ssl.engine.factory.class CLASS - dynamic
        ssl.keymanager.algorithm STRING SunX509 dynamic
        ssl.protocol STRING TLSv1.3 dynamic
        ssl.provider STRING - dynamic
        ssl.secure.random.implementation STRING - dynamic
        ssl.trustmanager.algorithm STRING PKIX dynamic
    """,
}
"""By reason, in lines: name, type, default ("-": none, "": empty), whether Kafka lets it be altered live, and then the least value it takes."""
_NO_DEFAULT: Final = "-"
_EMPTY: Final = '""'


def _keys() -> Iterator[ConfigKey]:
    for reason, lines in _TABLE.items():
        for line in lines.strip().splitlines():
            name, kind, rest = line.strip().split(" ", 2)
            default, dynamic, low = rest.partition(" dynamic")
            yield ConfigKey(
                name,
                ConfigType[kind],
                None if default == _NO_DEFAULT else "" if default == _EMPTY else default,
                f"{NO_EFFECT}{reason}",
                at_least(int(low)) if low else None,
                is_dynamic=bool(dynamic) and reason is not SECURITY,
            )


CONFIGS_WITHOUT_EFFECT: Final = tuple(_keys())
SECURITY_CONFIGS: Final = frozenset(key.name for key in CONFIGS_WITHOUT_EFFECT if key.documentation.endswith(SECURITY))
