"""A client of any Kafka cluster for commands on a terminal: librdkafka's admin calls, each failure one sentence.

Blocks; used from one thread. Imported late: servers and most commands do without confluent-kafka.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final, Literal

from confluent_kafka import (
    ConsumerGroupTopicPartitions,
    ConsumerGroupType,
    IsolationLevel,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka import KafkaError as ClientError
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)

from bmq.cli.kafka.acls import AclEntry, AclResource
from bmq.cli.kafka.model import (
    Config,
    ConfigChange,
    ConfigKind,
    Group,
    GroupDetails,
    KafkaFailed,
    KafkaUnreachable,
    Member,
    Partition,
    Topic,
    TopicPartitionState,
)
from bmq.protocol.error_codes import ErrorCode

ANSWER_WAIT_S: Final = 20.0
CONNECT_WAIT_S: Final = 3.0
_DEFAULT_PORT: Final = 9092
_UNKNOWN_OFFSET: Final = -1
_GROUP_KINDS: Final = {ConsumerGroupType.CLASSIC: "classic", ConsumerGroupType.CONSUMER: "consumer"}
_RESOURCES: Final = {
    ConfigKind.TOPIC: ResourceType.TOPIC,
    ConfigKind.BROKER: ResourceType.BROKER,
    ConfigKind.GROUP: ResourceType.GROUP,
}
_ACL_RESOURCES: Final = {
    ResourceType.TOPIC: AclResource.TOPIC.value,
    ResourceType.GROUP: AclResource.GROUP.value,
    ResourceType.BROKER: AclResource.CLUSTER.value,  # the library's name for number 4
    ResourceType.TRANSACTIONAL_ID: AclResource.TRANSACTIONAL_ID.value,
}
_OPERATIONS: Final = {
    "set": AlterConfigOpType.SET,
    "delete": AlterConfigOpType.DELETE,
    "append": AlterConfigOpType.APPEND,
    "subtract": AlterConfigOpType.SUBTRACT,
}
_SOURCES: Final = {
    ConfigSource.DYNAMIC_TOPIC_CONFIG.value: "topic",
    ConfigSource.DYNAMIC_BROKER_CONFIG.value: "broker",
    ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG.value: "all brokers",
    ConfigSource.STATIC_BROKER_CONFIG.value: "settings",
    ConfigSource.DEFAULT_CONFIG.value: "default",
    8: "group",  # GROUP_CONFIG, which older releases of the library have no name for
}


def failure(what: str, error: ClientError) -> KafkaFailed:
    """Convert the library's error; its text is the server's where the server sent one."""
    code = error.code()
    known = ErrorCode(code) if code >= 0 and code in ErrorCode._value2member_map_ else ErrorCode.UNKNOWN_SERVER_ERROR
    return KafkaFailed(f"{what}: {error.str() or error.name()}", known)


@contextmanager
def kafka_errors(what: str) -> Iterator[None]:
    """Prefix the library's errors with what failed. Raises KafkaFailed."""
    try:
        yield
    except KafkaException as failed:
        raise failure(what, failed.args[0]) from failed
    except TimeoutError as failed:
        raise KafkaFailed(f"{what}: no answer within {ANSWER_WAIT_S:g} s", ErrorCode.REQUEST_TIMED_OUT) from failed
    except (ValueError, TypeError) as failed:  # what the library refuses by itself
        raise KafkaFailed(f"{what}: {failed}", ErrorCode.INVALID_REQUEST) from failed


class KafkaClient:
    """`config`: librdkafka's settings, with `bootstrap.servers`.

    Raises KafkaUnreachable when none of the servers takes a connection, and KafkaFailed for a setting librdkafka refuses.
    """

    def __init__(self, config: Mapping[str, str], *, answer_wait_s: float = ANSWER_WAIT_S) -> None:
        self.config = {"log_level": "2", **config}  # failures are reported in our own sentences
        self.address = config["bootstrap.servers"]
        self._wait_s = answer_wait_s
        with kafka_errors(f"the client of {self.address} cannot be set up"):
            self._admin = AdminClient(self.config)
        require_reachable(self.address, min(CONNECT_WAIT_S, answer_wait_s))

    # --- users

    def users(self) -> list[tuple[str, str, int]]:
        """(name, mechanism, iterations) of all users with SCRAM keys. Raises KafkaFailed."""
        with kafka_errors("users are not told"):
            found = self._admin.describe_user_scram_credentials().result(timeout=self._wait_s)
        return sorted(
            (name, info.mechanism.name.replace("_", "-"), info.iterations)
            for name, user in found.items()
            for info in user.scram_credential_infos
        )

    def add_user(self, name: str, mechanism: str, iterations: int, password: str) -> None:
        """Add a user, or change one. Raises KafkaFailed."""
        info = ScramCredentialInfo(ScramMechanism[mechanism.replace("-", "_")], iterations)
        self._alter_user(name, UserScramCredentialUpsertion(name, info, password.encode()))

    def delete_user(self, name: str, mechanism: str) -> None:
        """Delete a user's keys for one mechanism. Raises KafkaFailed."""
        self._alter_user(name, UserScramCredentialDeletion(name, ScramMechanism[mechanism.replace("-", "_")]))

    def _alter_user(self, name: str, change: UserScramCredentialUpsertion | UserScramCredentialDeletion) -> None:
        with kafka_errors(f"user {name} is not changed"):
            self._admin.alter_user_scram_credentials([change])[name].result(timeout=self._wait_s)

    # --- topics

    def topic_names(self) -> list[str]:
        """The names of all topics, in order."""
        with kafka_errors(f"the topics of {self.address} cannot be listed"):
            return sorted(self._admin.list_topics(timeout=self._wait_s).topics)

    def topics(self, names: Iterable[str]) -> dict[str, Topic]:
        """Those of `names` that exist."""
        wanted = sorted(set(names))
        if not wanted:
            return {}
        with kafka_errors(f"the topics of {self.address} cannot be described"):
            answers = self._admin.describe_topics(TopicCollection(wanted), request_timeout=self._wait_s)
        found = {}
        for name, future in answers.items():
            try:
                described = self._result(future, f"topic {name!r} cannot be described")
            except KafkaFailed as error:
                if error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    raise
                continue
            found[name] = Topic(
                name,
                str(described.topic_id),
                described.is_internal,
                tuple(
                    TopicPartitionState(
                        each.id,
                        None if each.leader is None or each.leader.id < 0 else each.leader.id,
                        tuple(node.id for node in each.replicas),
                        tuple(node.id for node in each.isr),
                    )
                    for each in sorted(described.partitions, key=lambda one: one.id)
                ),
            )
        return found

    def create_topic(
        self,
        name: str,
        *,
        partitions: int = -1,
        replication: int = -1,
        configs: Mapping[str, str],
        is_dry_run: bool = False,
    ) -> None:
        """-1: the cluster's own number."""
        what = f"topic {name!r} cannot be made"
        with kafka_errors(what):
            topic = NewTopic(name, num_partitions=partitions, replication_factor=replication, config=dict(configs))
            future = self._admin.create_topics([topic], validate_only=is_dry_run, request_timeout=self._wait_s)[name]
        self._result(future, what)

    def add_partitions(self, name: str, partition_count: int, *, is_dry_run: bool = False) -> None:
        """Up to `partition_count` in all."""
        what = f"partitions cannot be added to topic {name!r}"
        with kafka_errors(what):
            wanted = NewPartitions(name, partition_count)
            future = self._admin.create_partitions([wanted], validate_only=is_dry_run, request_timeout=self._wait_s)
        self._result(future[name], what)

    def delete_topic(self, name: str) -> None:
        what = f"topic {name!r} cannot be deleted"
        with kafka_errors(what):
            future = self._admin.delete_topics([name], request_timeout=self._wait_s)[name]
        self._result(future, what)

    def delete_records(self, before: Mapping[Partition, int]) -> dict[Partition, int]:
        """Delete the records before these offsets (-1: all of them). Returns where each log begins now."""
        what = "records cannot be deleted"
        with kafka_errors(what):
            places = [TopicPartition(*partition, offset) for partition, offset in sorted(before.items())]
            futures = self._admin.delete_records(places, request_timeout=self._wait_s)
        return {
            (at.topic, at.partition): self._result(future, f"{what} of {at.topic}-{at.partition}").low_watermark
            for at, future in futures.items()
        }

    # --- offsets

    def offsets(
        self,
        partitions: Iterable[Partition],
        at: Literal["earliest", "latest"] | int,
        *,
        is_committed: bool = False,
    ) -> dict[Partition, int]:
        """The first or the next offset, or that of the first record at or past a time in ms (-1: there is none).

        `is_committed`: the next offset of readers of committed records, the last stable one.
        """
        spec = OffsetSpec.for_timestamp(at) if isinstance(at, int) else getattr(OffsetSpec, at)()
        asked = {TopicPartition(*partition): spec for partition in partitions}
        if not asked:
            return {}
        isolation = IsolationLevel.READ_COMMITTED if is_committed else IsolationLevel.READ_UNCOMMITTED
        what = "offsets cannot be listed"
        with kafka_errors(what):
            futures = self._admin.list_offsets(asked, isolation_level=isolation, request_timeout=self._wait_s)
        return {
            (place.topic, place.partition): self._result(
                future, f"the offset of {place.topic}-{place.partition} cannot be read"
            ).offset
            for place, future in futures.items()
        }

    # --- configs

    def brokers(self) -> list[int]:
        """Ids of the cluster's live servers."""
        what = f"the servers of {self.address} cannot be listed"
        with kafka_errors(what):
            future = self._admin.describe_cluster(request_timeout=self._wait_s)
        return sorted(node.id for node in self._result(future, what).nodes)

    def configs(self, kind: ConfigKind, name: str) -> list[Config]:
        """All configs of a topic, a group, or a broker, which must exist: librdkafka would wait for it."""
        what = f"the configs of {kind} {name!r} cannot be read"
        with kafka_errors(what):
            resource = ConfigResource(_RESOURCES[kind], name)
            future = self._admin.describe_configs([resource], request_timeout=self._wait_s)[resource]
        entries = self._result(future, what)
        return [
            Config(entry.name, entry.value, _source(entry), entry.is_read_only, entry.is_sensitive)
            for _, entry in sorted(entries.items())
        ]

    def alter_configs(
        self, kind: ConfigKind, name: str, changes: Sequence[ConfigChange], *, is_dry_run: bool = False
    ) -> None:
        """All changes at once, or none."""
        what = f"the configs of {kind} {name!r} cannot be changed"
        with kafka_errors(what):
            resource = ConfigResource(
                _RESOURCES[kind],
                name,
                incremental_configs=[
                    ConfigEntry(each.name, each.value, incremental_operation=_OPERATIONS[each.operation])
                    for each in changes
                ],
            )
            future = self._admin.incremental_alter_configs(
                [resource], validate_only=is_dry_run, request_timeout=self._wait_s
            )[resource]
        self._result(future, what)

    # --- groups

    def groups(self) -> list[Group]:
        """All groups, in order. `kind` is "other" for a kind that librdkafka does not know, such as streams."""
        what = f"the groups of {self.address} cannot be listed"
        with kafka_errors(what):
            future = self._admin.list_consumer_groups(request_timeout=self._wait_s)
        listed = self._result(future, what)
        if listed.errors:
            raise failure(what, listed.errors[0].args[0])
        return sorted(
            Group(each.group_id, _kind(each), _state(each), each.is_simple_consumer_group) for each in listed.valid
        )

    def group(self, name: str) -> GroupDetails:
        """Raises KafkaFailed; GROUP_ID_NOT_FOUND when there is none, or one of a kind that librdkafka cannot describe."""
        what = f"group {name!r} cannot be described"
        with kafka_errors(what):
            future = self._admin.describe_consumer_groups([name], request_timeout=self._wait_s)[name]
        found = self._result(future, what)
        members = tuple(
            Member(
                each.member_id,
                each.group_instance_id or None,
                each.client_id,
                each.host,
                tuple(sorted((at.topic, at.partition) for at in each.assignment.topic_partitions)),
            )
            for each in found.members
        )
        coordinator = None if found.coordinator is None else found.coordinator.id
        return GroupDetails(name, _kind(found), _state(found), found.partition_assignor or "", coordinator, members)

    def committed(self, group: str) -> dict[Partition, int]:
        """The group's committed offsets; empty for a group that has none, or does not exist."""
        what = f"the offsets of group {group!r} cannot be read"
        with kafka_errors(what):
            asked = [ConsumerGroupTopicPartitions(group)]
            future = self._admin.list_consumer_group_offsets(asked, request_timeout=self._wait_s)[group]
        found = {}
        for at in self._result(future, what).topic_partitions:
            if at.error is not None:
                raise failure(f"the offset of group {group!r} in {at.topic}-{at.partition} cannot be read", at.error)
            if at.offset >= 0:
                found[at.topic, at.partition] = at.offset
        return found

    def commit(self, group: str, offsets: Mapping[Partition, int]) -> None:
        """Set a group's offsets. The server refuses it while the group has members."""
        what = f"the offsets of group {group!r} cannot be set"
        with kafka_errors(what):
            places = [TopicPartition(*partition, offset) for partition, offset in sorted(offsets.items())]
            asked = [ConsumerGroupTopicPartitions(group, places)]
            future = self._admin.alter_consumer_group_offsets(asked, request_timeout=self._wait_s)[group]
        for at in self._result(future, what).topic_partitions:
            if at.error is not None:
                raise failure(f"{what} in {at.topic}-{at.partition}", at.error)

    def delete_group(self, name: str) -> None:
        what = f"group {name!r} cannot be deleted"
        with kafka_errors(what):
            future = self._admin.delete_consumer_groups([name], request_timeout=self._wait_s)[name]
        self._result(future, what)

    # --- ACLs

    def acls(self) -> list[AclEntry]:
        """All of the cluster."""
        what = "the ACLs cannot be read"
        everything = AclBindingFilter(
            ResourceType.ANY, None, ResourcePatternType.ANY, None, None, AclOperation.ANY, AclPermissionType.ANY
        )
        with kafka_errors(what):
            future = self._admin.describe_acls(everything, request_timeout=self._wait_s)
        found = [_acl_entry(binding) for binding in self._result(future, what)]
        if not found:
            self._require_describe(what)
        return found

    def _require_describe(self, what: str) -> None:
        """Raises KafkaFailed. The library drops the error of a denied DescribeAcls and returns no ACLs."""
        with kafka_errors(what):
            future = self._admin.describe_cluster(include_authorized_operations=True, request_timeout=self._wait_s)
        allowed = self._result(future, what).authorized_operations
        if AclOperation.DESCRIBE not in (allowed or ()):  # the library says None for no operation
            code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
            raise KafkaFailed(f"{what}: Cluster authorization failed.", code)

    def add_acls(self, entries: Sequence[AclEntry]) -> None:
        what = "the ACLs cannot be added"
        with kafka_errors(what):
            futures = self._admin.create_acls(
                [AclBinding(*_acl_parts(e)) for e in entries], request_timeout=self._wait_s
            )
        for future in futures.values():
            self._result(future, what)

    def remove_acls(self, entries: Sequence[AclEntry]) -> None:
        what = "the ACLs cannot be removed"
        with kafka_errors(what):
            filters = [AclBindingFilter(*_acl_parts(entry)) for entry in entries]
            futures = self._admin.delete_acls(filters, request_timeout=self._wait_s)
        for future in futures.values():
            self._result(future, what)

    def _result(self, future: Any, what: str) -> Any:
        with kafka_errors(what):
            return future.result(self._wait_s + 1)  # the library gives up first, and says more


def require_reachable(bootstrap: str, connect_wait_s: float = CONNECT_WAIT_S) -> None:
    """Raise KafkaUnreachable unless some server takes a connection.

    librdkafka tries for ever instead, and what it is told of (refused, unknown host) reaches no caller.
    """
    reasons = []
    for server in filter(None, map(str.strip, bootstrap.split(","))):
        try:
            with socket.create_connection(_address(server), timeout=connect_wait_s):
                return
        except (OSError, OverflowError, UnicodeError, ValueError) as error:
            reasons.append(f"{server} ({getattr(error, 'strerror', None) or error})")
    named = ", ".join(reasons) or "an empty --bootstrap"
    raise KafkaUnreachable(f"no server answers at {named}; name a running server with --bootstrap or BMQ_BOOTSTRAP")


def _address(server: str) -> tuple[str, int]:
    """HOST, HOST:PORT or [IPV6]:PORT, as librdkafka takes them. Raises ValueError."""
    place = server.rpartition("://")[2]
    if place.startswith("["):
        host, _, rest = place[1:].partition("]")
        port = rest.removeprefix(":")
    else:
        host, _, port = place.partition(":")
    with suppress(ValueError):
        return host, int(port or _DEFAULT_PORT)
    raise ValueError(f"{port!r} is no port")


def _acl_entry(binding: Any) -> AclEntry:
    kind = _ACL_RESOURCES.get(binding.restype, binding.restype.name.lower())
    return AclEntry(
        kind,
        binding.name,
        binding.resource_pattern_type.name.lower(),
        binding.principal,
        binding.host,
        binding.operation.name.lower().replace("_", "-"),
        binding.permission_type.name.lower(),
    )


def _acl_parts(entry: AclEntry) -> tuple[Any, ...]:
    kinds = {name: kind for kind, name in _ACL_RESOURCES.items()}
    return (
        kinds.get(entry.resource) or ResourceType[entry.resource.upper()],
        entry.name,
        ResourcePatternType[entry.pattern.upper()],
        entry.principal,
        entry.host,
        AclOperation[entry.operation.upper().replace("-", "_")],
        AclPermissionType[entry.permission.upper()],
    )


def _source(entry: Any) -> str:
    return _SOURCES.get(getattr(entry.source, "value", entry.source), "unknown")


def _kind(group: Any) -> str:
    return _GROUP_KINDS.get(getattr(group, "type", None), "other")


def _state(group: Any) -> str:
    state = getattr(group, "state", None)
    return "unknown" if state is None else state.name.lower().replace("_", " ")
