"""The controller's state: the sum of the metadata log's records. Nothing else changes it. Pure.

`replay(record)` is the only way to change it, live and after a restart alike. `image` is an immutable copy of the state
so far; its cost is proportional to the changes since the last image, not to the state. `snapshot()` is the state as
records for `replay_snapshot`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field, replace
from itertools import islice
from typing import Final
from uuid import UUID

from bmq.dataclass import dataclass
from bmq.log.config import LogConfig
from bmq.metadata.acl_journal import AclJournal
from bmq.metadata.acls import acl_of, acl_record
from bmq.metadata.broker_configs import BrokerConfigs
from bmq.metadata.client_quotas import ClientQuotaState
from bmq.metadata.credentials import Credentials
from bmq.metadata.features import CLIENT_FEATURES, OWN_FEATURE_PREFIX
from bmq.metadata.history import StateChange, StateChangeHistory
from bmq.metadata.image import (
    ALL_ROLES,
    INTERNAL_TOPICS,
    NO_LEADER,
    MetadataImage,
    Node,
    PartitionImage,
    TopicImage,
    ViewImage,
)
from bmq.metadata.topic_configs import log_config
from bmq.metadata.view_configs import VIEW_FILTER, VIEW_OF
from bmq.protocol.batch_records import Record, decode_records, encode_batch
from bmq.protocol.errors import BmqError
from bmq.protocol.metadata_records import (
    FLOOR_UNCHANGED,
    LEADER_UNCHANGED,
    RESOURCE_TYPE_BROKER,
    RESOURCE_TYPE_CHANNEL,
    RESOURCE_TYPE_CLIENT_METRICS,
    RESOURCE_TYPE_GROUP,
    RESOURCE_TYPE_TABLE,
    RESOURCE_TYPE_TASK,
    RESOURCE_TYPE_TOPIC,
    AccessControlEntryRecord,
    BrokerEndpoint,
    BrokerRegistrationChangeRecord,
    ClientQuotaRecord,
    ConfigRecord,
    DelegationTokenRecord,
    FeatureLevelRecord,
    MetadataRecord,
    NoOpRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RemoveAccessControlEntryRecord,
    RemoveDelegationTokenRecord,
    RemoveTopicRecord,
    RemoveUserScramCredentialRecord,
    StateChangesRecord,
    TopicFilesDeletedRecord,
    TopicRecord,
    UnregisterBrokerRecord,
    UserScramCredentialRecord,
    decode_record,
    encode_record,
)
from bmq.protocol.record_batch import batches

LISTENER_NAME: Final = "PLAINTEXT"
INTERNAL_LISTENER_NAME: Final = "INTERNAL"
REST_LISTENER_NAME: Final = "REST"
OWN_LISTENER_NAMES: Final = frozenset({LISTENER_NAME, INTERNAL_LISTENER_NAME, REST_LISTENER_NAME})
"""All others are further listeners for clients."""
NO_PORT: Final = -1
"""The port of a node without a proxy; its host is empty."""
CLUSTER_WIDE: Final = ""
"""The resource name of broker configs that hold for all nodes."""
TABLE_CONFIG: Final = "table"
"""The one config of a table: the whole definition, as bmq.table_definitions.stored writes it. Here it is only text."""
CHANNEL_CONFIG: Final = "channel"
"""The one config of a channel: the whole channel, as bmq.channels.stored writes it. Here it is only text."""
TASK_CONFIG: Final = "task"
"""The one config of an operator's task: the whole task, as bmq.admin.stored_tasks writes it. Here it is only text."""
ALL_CHANNELS: Final = ""
"""The resource name of what holds for all channels together."""
CHANNELS_VERSION_CONFIG: Final = "version"
_SNAPSHOT_BATCH_RECORDS_MAX: Final = 2_000


class ImpossibleRecord(BmqError):
    """A record that cannot follow what was replayed before: the metadata log is damaged, or from a later version."""


@dataclass(slots=True)
class _Topic:
    topic_id: UUID
    name: str
    partitions: dict[int, PartitionImage] = field(default_factory=dict)


class MetadataState:
    """`node_id`: the node whose broker configs are the defaults of topic configs here. `static`: its own settings."""

    def __init__(self, cluster_id: str, node_id: int, static: Mapping[str, str]) -> None:
        self._node_id = node_id
        self._static = static
        self._image = MetadataImage(cluster_id=cluster_id)
        self._registrations: dict[int, RegisterBrokerRecord] = {}
        self._topics: dict[UUID, _Topic] = {}
        self._ids: dict[str, UUID] = {}
        self._configs: dict[tuple[int, str], dict[str, str]] = {}
        self._features: dict[str, int] = {}
        self._acls = AclJournal()
        self._views: dict[UUID, str] = {}  # the name of each view's base
        self._deleted: set[UUID] = set()
        self._next_producer_id = 0
        self._controller_id = NO_LEADER
        self._credentials = Credentials()
        self.history = StateChangeHistory()
        self._client_quotas = ClientQuotaState()
        # Differences between the next image and the last one.
        self._changed_topics: dict[UUID, None] = {}
        self._reconfigured_topics: set[UUID] = set()
        self._are_nodes_changed = False
        self._are_broker_configs_changed = False
        self._are_group_configs_changed = False
        self._are_client_metrics_changed = False
        self._are_tables_changed = False
        self._are_channels_changed = False
        self._are_tasks_changed = False
        self._is_changed = False

    def set_controller(self, node_id: int) -> None:
        """Set the active controller's id, which is not in the log."""
        self._is_changed = self._is_changed or node_id != self._controller_id
        self._controller_id = node_id

    def registration(self, node_id: int) -> RegisterBrokerRecord | None:
        """The latest incarnation of a node."""
        return self._registrations.get(node_id)

    @property
    def registrations(self) -> Mapping[int, RegisterBrokerRecord]:
        """The latest incarnations of all nodes, fenced ones too."""
        return self._registrations

    @property
    def features(self) -> Mapping[str, int]:
        """Finalized levels, including those between our own servers."""
        return self._features

    # --- records in

    def replay(self, record: MetadataRecord) -> None:
        """Apply one record. Raises ImpossibleRecord; after that the state must not be used any more."""
        self._is_changed = True
        match record:
            case PartitionChangeRecord():
                self._change_partition(record)
            case PartitionRecord():
                self._topic(record.topic_id).partitions[record.partition_id] = _partition_of(record)
                self._changed_topics[record.topic_id] = None
            case TopicRecord():
                self._add_topic(record)
            case RemoveTopicRecord():
                self._remove_topic(record.topic_id)
            case TopicFilesDeletedRecord():
                self._deleted.discard(record.topic_id)
            case StateChangesRecord():
                self._topic(record.topic_id)
                self.history.take(record)
            case ConfigRecord():
                self._set_config(record)
            case RegisterBrokerRecord():
                self._registrations[record.broker_id] = record
                self._are_nodes_changed = True
            case UnregisterBrokerRecord():
                self._registrations.pop(record.broker_id, None)
                self._are_nodes_changed = True
            case BrokerRegistrationChangeRecord():
                self._change_registration(record)
            case ProducerIdsRecord():
                self._next_producer_id = record.next_producer_id
            case FeatureLevelRecord():
                # For client features a missing level means the highest, so a 0 has to be kept for them.
                if record.feature_level == 0 and record.name not in CLIENT_FEATURES:
                    self._features.pop(record.name, None)
                else:
                    self._features[record.name] = record.feature_level
            case NoOpRecord():
                pass
            case _:
                self._replay_security(record)

    def _replay_security(self, record: MetadataRecord) -> None:
        """A record about who clients are and what they may do."""
        match record:
            case AccessControlEntryRecord() | RemoveAccessControlEntryRecord():
                self._replay_acl(record)
            case (
                UserScramCredentialRecord()
                | RemoveUserScramCredentialRecord()
                | DelegationTokenRecord()
                | RemoveDelegationTokenRecord()
            ):
                if not self._credentials.take(record):
                    raise ImpossibleRecord(f"a {type(record).__name__} removes what does not exist")
            case ClientQuotaRecord():
                self._client_quotas.replay(record)
            case _:
                raise ImpossibleRecord(f"a {type(record).__name__} in the metadata log, which is never written here")

    def _replay_acl(self, record: AccessControlEntryRecord | RemoveAccessControlEntryRecord) -> None:
        if isinstance(record, AccessControlEntryRecord):
            self._acls.put(record.id, acl_of(record))
        elif not self._acls.remove(record.id):
            raise ImpossibleRecord(f"the removal of ACL {record.id}, which does not exist")

    def _topic(self, topic_id: UUID) -> _Topic:
        topic = self._topics.get(topic_id)
        if topic is None:
            raise ImpossibleRecord(f"a partition of topic {topic_id}, which does not exist")
        return topic

    def _add_topic(self, record: TopicRecord) -> None:
        if record.name in self._ids or record.topic_id in self._topics:
            raise ImpossibleRecord(f"topic {record.name} ({record.topic_id}) is created a second time")
        self._topics[record.topic_id] = _Topic(record.topic_id, record.name)
        self._ids[record.name] = record.topic_id
        self._changed_topics[record.topic_id] = None

    def _remove_topic(self, topic_id: UUID) -> None:
        # In a snapshot this record stands for a deleted topic whose files are still being removed.
        self._deleted.add(topic_id)
        topic = self._topics.pop(topic_id, None)
        if topic is not None:
            del self._ids[topic.name]
            self._configs.pop((RESOURCE_TYPE_TOPIC, topic.name), None)
            self._views.pop(topic_id, None)
            self._changed_topics[topic_id] = None
            self.history.forget(topic_id)

    def _change_partition(self, record: PartitionChangeRecord) -> None:
        topic = self._topic(record.topic_id)
        old = topic.partitions.get(record.partition_id)
        if old is None:
            raise ImpossibleRecord(f"a change of partition {topic.name}-{record.partition_id}, which does not exist")
        has_new_leader_epoch = record.leader != LEADER_UNCHANGED
        floor = record.high_watermark_floor
        topic.partitions[record.partition_id] = PartitionImage(
            old.partition,
            record.leader if has_new_leader_epoch else old.leader,
            old.leader_epoch + has_new_leader_epoch,
            old.replicas if record.replicas is None else tuple(record.replicas),
            old.isr if record.isr is None else tuple(record.isr),
            old.partition_epoch + 1,
            old.high_watermark_floor if floor == FLOOR_UNCHANGED else floor,
            record.is_in_use if has_new_leader_epoch else old.was_in_use,
        )
        self._changed_topics[record.topic_id] = None
        if has_new_leader_epoch:
            change = StateChange(record.timestamp_ms, record.leader, old.leader_epoch + 1, record.reason)
            self.history.add(record.topic_id, record.partition_id, change)

    def _set_config(self, record: ConfigRecord) -> None:
        key = (record.resource_type, record.resource_name)
        configs = self._configs.setdefault(key, {})
        if record.value is None:
            configs.pop(record.name, None)
            if not configs:
                del self._configs[key]
        else:
            configs[record.name] = record.value
        if record.resource_type == RESOURCE_TYPE_BROKER:
            self._are_broker_configs_changed = True
        elif record.resource_type == RESOURCE_TYPE_GROUP:
            self._are_group_configs_changed = True
        elif record.resource_type == RESOURCE_TYPE_CLIENT_METRICS:
            self._are_client_metrics_changed = True
        elif record.resource_type == RESOURCE_TYPE_TABLE:
            self._are_tables_changed = True
        elif record.resource_type == RESOURCE_TYPE_CHANNEL:
            self._are_channels_changed = True
        elif record.resource_type == RESOURCE_TYPE_TASK:
            self._are_tasks_changed = True
        elif record.resource_name in self._ids:
            topic_id = self._ids[record.resource_name]
            if record.name == VIEW_OF and record.value:
                self._views[topic_id] = record.value.strip()
            self._changed_topics[topic_id] = None
            self._reconfigured_topics.add(topic_id)

    def _change_registration(self, record: BrokerRegistrationChangeRecord) -> None:
        old = self._registrations.get(record.broker_id)
        if old is None:
            raise ImpossibleRecord(f"a change of node {record.broker_id}, which is not registered")
        shutdown = record.in_controlled_shutdown
        self._registrations[record.broker_id] = replace(
            old,
            fenced=record.fenced > 0 if record.fenced else old.fenced,
            in_controlled_shutdown=shutdown > 0 if shutdown else old.in_controlled_shutdown,
        )
        self._are_nodes_changed = True

    # --- the image

    def image_at(self, offset: int) -> MetadataImage:
        """The image of everything replayed so far, up to `offset` of the log."""
        if not self._is_changed and self._image.offset == offset:
            return self._image
        old = self._image
        broker_configs = old.broker_configs
        if self._are_broker_configs_changed:
            broker_configs = self._configs_of(RESOURCE_TYPE_BROKER)
            # Broker configs are the defaults of every topic's configs.
            self._changed_topics = dict.fromkeys((*self._topics, *self._changed_topics))
            self._reconfigured_topics = set(self._topics)
        group_configs = old.group_configs
        if self._are_group_configs_changed:
            group_configs = self._configs_of(RESOURCE_TYPE_GROUP)
        client_metrics = old.client_metrics
        if self._are_client_metrics_changed:
            client_metrics = self._configs_of(RESOURCE_TYPE_CLIENT_METRICS)
        tables = old.tables
        if self._are_tables_changed:
            tables = self._texts_of(RESOURCE_TYPE_TABLE, TABLE_CONFIG)
        channels, channels_version = old.channels, old.channels_version
        if self._are_channels_changed:
            channels = self._texts_of(RESOURCE_TYPE_CHANNEL, CHANNEL_CONFIG)
            version = self._configs.get((RESOURCE_TYPE_CHANNEL, ALL_CHANNELS), {}).get(CHANNELS_VERSION_CONFIG, "0")
            channels_version = int(version) if version.isdecimal() else 0
        told = {name: level for name, level in self._features.items() if not name.startswith(OWN_FEATURE_PREFIX)}
        topics, topics_by_id, partition_count = self._changed_topic_maps(old, broker_configs)
        self._image = MetadataImage(
            offset=offset,
            cluster_id=old.cluster_id,
            controller_id=self._controller_id,
            nodes=self._nodes(fenced=False) if self._are_nodes_changed else old.nodes,
            fenced_nodes=self._nodes(fenced=True) if self._are_nodes_changed else old.fenced_nodes,
            topics=topics,
            topics_by_id=topics_by_id,
            views=self._views_in(topics_by_id) if topics_by_id is not old.topics_by_id else old.views,
            broker_configs=broker_configs,
            group_configs=group_configs,
            client_metrics=client_metrics,
            tables=tables,
            channels=channels,
            channels_version=channels_version,
            tasks=self._texts_of(RESOURCE_TYPE_TASK, TASK_CONFIG) if self._are_tasks_changed else old.tasks,
            acls=self._acls.snapshot(),
            features=told if told != old.features else old.features,
            deleted_topics=frozenset(self._deleted) if self._deleted != old.deleted_topics else old.deleted_topics,
            next_producer_id=self._next_producer_id,
            partition_count=partition_count,
            users=self._credentials.users(),
            delegation_tokens=self._credentials.tokens(),
            client_quotas=self._client_quotas.image,
        )
        self._changed_topics.clear()
        self._reconfigured_topics.clear()
        self._are_nodes_changed = self._are_broker_configs_changed = self._are_group_configs_changed = False
        self._are_client_metrics_changed = self._are_tables_changed = self._are_channels_changed = False
        self._are_tasks_changed = False
        self._is_changed = False
        return self._image

    def _configs_of(self, kind: int) -> dict[str, Mapping[str, str]]:
        return {
            name: dict(configs) for (resource_type, name), configs in self._configs.items() if resource_type == kind
        }

    def _texts_of(self, kind: int, config: str) -> dict[str, str]:
        """The value of this config of each resource of the kind that has it, by name."""
        return {
            name: configs[config]
            for (resource_type, name), configs in self._configs.items()
            if resource_type == kind and config in configs
        }

    def broker_configs_of(self, broker_configs: Mapping[str, Mapping[str, str]]) -> BrokerConfigs:
        """This node's broker configs, given the dynamic ones."""
        return BrokerConfigs(
            broker_configs.get(str(self._node_id), {}), broker_configs.get(CLUSTER_WIDE, {}), self._static
        )

    def _changed_topic_maps(
        self, old: MetadataImage, broker_configs: Mapping[str, Mapping[str, str]]
    ) -> tuple[Mapping[str, TopicImage], Mapping[UUID, TopicImage], int]:
        if not self._changed_topics:
            return old.topics, old.topics_by_id, old.partition_count
        for view_id, base_name in self._views.items():
            if self._ids.get(base_name) in self._changed_topics:
                self._changed_topics[view_id] = None
        defaults = self.broker_configs_of(broker_configs).topic_defaults
        known: dict[tuple[tuple[str, str], ...], LogConfig] = {}
        topics, topics_by_id, count = dict(old.topics), dict(old.topics_by_id), old.partition_count
        for topic_id in self._changed_topics:
            before = topics_by_id.pop(topic_id, None)
            if before is not None:
                count -= 0 if before.view is not None else len(before.partitions)
                # A new topic with this name may exist under another id, and may already be in `topics`.
                if topics[before.name].topic_id == topic_id:
                    del topics[before.name]
            topic = self._topics.get(topic_id)
            if topic is not None:
                image = self._topic_image(topic, before, defaults, known)
                topics[topic.name] = topics_by_id[topic_id] = image
                count += 0 if image.view is not None else len(image.partitions)
        return topics, topics_by_id, count

    def _topic_image(
        self,
        topic: _Topic,
        before: TopicImage | None,
        defaults: Mapping[str, str],
        known: dict[tuple[tuple[str, str], ...], LogConfig],
    ) -> TopicImage:
        """`known`: log configs computed for this image so far, by topic configs; most topics share the same ones."""
        base_name = self._views.get(topic.topic_id) if self._views else None
        base = topic if base_name is None else self._base(base_name)
        partitions = () if base is None else tuple(base.partitions[number] for number in sorted(base.partitions))
        if before is not None and topic.topic_id not in self._reconfigured_topics:
            return replace(before, partitions=partitions)
        configs = dict(self._configs.get((RESOURCE_TYPE_TOPIC, topic.name), {}))
        key = tuple(configs.items())
        if key not in known:
            known[key] = log_config(configs, defaults)
        is_internal = topic.name in INTERNAL_TOPICS
        return TopicImage(
            name=topic.name,
            topic_id=topic.topic_id,
            partitions=partitions,
            configs=configs,
            log_config=replace(known[key], is_state_log=True) if is_internal else known[key],
            is_internal=is_internal,
            view=None
            if base_name is None
            else ViewImage(base_name, None if base is None else base.topic_id, configs.get(VIEW_FILTER, "")),
        )

    def _views_in(self, topics_by_id: Mapping[UUID, TopicImage]) -> Mapping[UUID, TopicImage]:
        return {topic_id: topics_by_id[topic_id] for topic_id in self._views if topic_id in topics_by_id}

    def _base(self, name: str) -> _Topic | None:
        """The topic that a view shows: one with a log."""
        base = self._topics.get(self._ids[name]) if name in self._ids else None
        return None if base is None or base.topic_id in self._views else base

    def _nodes(self, *, fenced: bool) -> dict[int, Node]:
        return {
            node_id: node_of(record)
            for node_id, record in sorted(self._registrations.items())
            if record.fenced == fenced and record.end_points
        }

    # --- snapshots

    def snapshot_records(self) -> Iterator[MetadataRecord]:
        """Records that lead to this state from nothing."""
        for name, level in self._features.items():
            yield FeatureLevelRecord(name=name, feature_level=level)
        yield from self._registrations.values()
        for topic in self._topics.values():
            yield TopicRecord(name=topic.name, topic_id=topic.topic_id)
            for partition in topic.partitions.values():
                yield partition_record(topic.topic_id, partition)
        yield from self.history.records()
        for (resource_type, resource_name), configs in self._configs.items():
            for name, value in configs.items():
                yield ConfigRecord(resource_type=resource_type, resource_name=resource_name, name=name, value=value)
        for acl_id, acl in self._acls.acls.items():
            yield acl_record(acl_id, acl)
        yield ProducerIdsRecord(broker_id=self._node_id, next_producer_id=self._next_producer_id)
        for topic_id in self._deleted:
            yield RemoveTopicRecord(topic_id=topic_id)
        yield from self._credentials.records()
        yield from self._client_quotas.records()

    def snapshot(self) -> bytes:
        """The state as record batches, back to back."""
        return encode_snapshot(self.snapshot_records())

    def replay_snapshot(self, data: bytes) -> None:
        """Load a `snapshot`. Raises CorruptRecords, MalformedMessage, UnsupportedVersion, ImpossibleRecord."""
        for position, _ in batches(data):
            for record in decode_records(data, position):
                self.replay(decode_record(record.value or b""))


def encode_snapshot(records: Iterable[MetadataRecord]) -> bytes:
    """Records as batches, back to back, for `MetadataState.replay_snapshot`."""
    left = iter(records)
    data = bytearray()
    offset = 0
    while chunk := [Record(b"", encode_record(record)) for record in islice(left, _SNAPSHOT_BATCH_RECORDS_MAX)]:
        data += encode_batch(chunk, base_offset=offset)
        offset += len(chunk)
    return bytes(data)


def partition_record(topic_id: UUID, partition: PartitionImage) -> PartitionRecord:
    """One record with the whole state of a partition."""
    return PartitionRecord(
        partition_id=partition.partition,
        topic_id=topic_id,
        replicas=partition.replicas,
        isr=partition.isr,
        leader=partition.leader,
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
        high_watermark_floor=partition.high_watermark_floor,
    )


def registration_record(node: Node, incarnation_id: UUID, broker_epoch: int) -> RegisterBrokerRecord:
    """The registration of a cluster's only node, unfenced."""
    endpoints = [(LISTENER_NAME, node.host, node.port), *node.listeners]
    return RegisterBrokerRecord(
        broker_id=node.node_id,
        incarnation_id=incarnation_id,
        broker_epoch=broker_epoch,
        end_points=tuple(BrokerEndpoint(name=name, host=host, port=port) for name, host, port in endpoints),
        rack=node.rack,
        fenced=False,
    )


def node_of(record: RegisterBrokerRecord) -> Node:
    """A node from its registration. A node without an internal address is its cluster's only one and has no epoch."""
    endpoints = {endpoint.name: (endpoint.host, endpoint.port) for endpoint in record.end_points}
    host, port = endpoints.get(LISTENER_NAME, ("", NO_PORT))
    internal = endpoints.get(INTERNAL_LISTENER_NAME)
    return Node(
        record.broker_id,
        host,
        port,
        record.rack,
        internal,
        endpoints.get(REST_LISTENER_NAME),
        frozenset(record.roles) or ALL_ROLES,
        -1 if internal is None else record.broker_epoch,
        record.in_controlled_shutdown,
        listeners=tuple(
            (each.name, each.host, each.port) for each in record.end_points if each.name not in OWN_LISTENER_NAMES
        ),
    )


def _partition_of(record: PartitionRecord) -> PartitionImage:
    return PartitionImage(
        record.partition_id,
        record.leader,
        record.leader_epoch,
        tuple(record.replicas),
        tuple(record.isr),
        record.partition_epoch,
        record.high_watermark_floor,
    )
