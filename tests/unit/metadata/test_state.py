"""The image is what the records say, however they came: live, replayed from the start, or from a snapshot and a tail."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, multiple, rule

from bmq.controller.config_alter import decide_incremental_alter_configs
from bmq.controller.decision import Decision
from bmq.controller.partition_counts import decide_create_partitions
from bmq.controller.replica_placement import leader_changes
from bmq.controller.tables import (
    TableRefused,
    UnknownTable,
    decide_alter_table,
    decide_create_table,
    decide_drop_table,
)
from bmq.controller.topics import TopicLimits, decide_create_topics, decide_delete_topics
from bmq.metadata.history import StateChange
from bmq.metadata.image import MetadataImage, Node, PartitionImage
from bmq.metadata.state import ImpossibleRecord, MetadataState, registration_record
from bmq.protocol.metadata_records import (
    BeginTransactionRecord,
    BrokerRegistrationChangeRecord,
    ConfigRecord,
    FeatureLevelRecord,
    MetadataRecord,
    NoOpRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    TopicFilesDeletedRecord,
    TopicRecord,
    UnregisterBrokerRecord,
    decode_record,
    encode_record,
)
from bmq.table_definitions.definition import TableDefinition
from bmq.table_definitions.stored import stored_table
from tests.unit.controller.support import BROKER, NODE, Cluster, create, delete, grow, incremental, topic

pytestmark = pytest.mark.unit

NAMES = st.sampled_from(["a", "b", "c.d", "c_d", "__consumer_offsets"])
TABLES = st.sampled_from(["a", "rows"])
NODES = {node_id: Node(node_id, "h", node_id, "r" if node_id > 1 else None) for node_id in (1, 2, 3)}


class MetadataHistory(RuleBasedStateMachine):
    """Whatever is decided, the live image equals the one replayed from the log's bytes, and the model.

    Model: partition counts and configs by topic name, the ids of deleted topics, what was set for brokers, definitions
    of tables by name.
    """

    ids = Bundle("ids")

    def __init__(self) -> None:
        super().__init__()
        self.live = MetadataState("cluster", NODE.node_id, BROKER.static)
        self.log: list[bytes] = []
        self.snapshot: tuple[int, bytes] = (0, b"")
        self.topics: dict[str, int] = {}
        self.topic_configs: dict[str, dict[str, str]] = {}
        self.broker_configs: dict[str, str] = {}
        self.deleted: set[UUID] = set()
        self.epochs: dict[tuple[UUID, int], int] = {}
        self.used_ids = 0
        self.next_producer_id = 0
        self.tables: dict[str, TableDefinition] = {}
        for node in NODES.values():
            self.write([registration_record(node, UUID(int=500 + node.node_id), 0)])

    @property
    def image(self) -> MetadataImage:
        return self.live.image_at(len(self.log))

    def write(self, records: list[MetadataRecord]) -> None:
        for record in records:
            self.log.append(encode_record(record))
            self.live.replay(decode_record(self.log[-1]))

    def take(self, decision: Decision[Any]) -> None:
        self.write(list(decision.records))

    @rule(target=ids, name=NAMES, partitions=st.integers(0, 4), retention=st.sampled_from([None, "-1", "5000", "bad"]))
    def create(self, name: str, partitions: int, retention: str | None) -> object:
        self.used_ids += 1
        new_id = UUID(int=1_000 + self.used_ids)
        configs = {} if retention is None else {"retention.ms": retention}
        request = create(topic(name, partitions, configs=configs))
        broker = self.live.broker_configs_of(self.image.broker_configs)
        decision = decide_create_topics(self.image, request, broker, TopicLimits(), [new_id])
        collides = any(other.replace(".", "_") == name.replace(".", "_") for other in self.topics)
        is_good = partitions > 0 and retention != "bad" and not collides
        assert (decision.response.topics[0].error_code == 0) == is_good
        self.take(decision)
        if not is_good:
            return multiple()
        self.topics[name] = partitions
        self.topic_configs[name] = dict(configs)
        return new_id

    @rule(name=NAMES)
    def delete_by_name(self, name: str) -> None:
        found = self.image.topics.get(name)
        self.take(decide_delete_topics(self.image, delete(name)))
        if found is not None:
            self.forget(name, found.topic_id)

    @rule(topic_id=consumes(ids))
    def delete_by_id(self, topic_id: UUID) -> None:
        found = self.image.topics_by_id.get(topic_id)
        self.take(decide_delete_topics(self.image, delete(topic_id)))
        if found is not None:
            self.forget(found.name, topic_id)

    def forget(self, name: str, topic_id: UUID) -> None:
        del self.topics[name], self.topic_configs[name]
        self.deleted.add(topic_id)

    @rule()
    def remove_files(self) -> None:
        if self.deleted:
            topic_id = self.deleted.pop()
            self.write([TopicFilesDeletedRecord(topic_id=topic_id)])

    @rule(name=NAMES, count=st.integers(0, 8))
    def grow(self, name: str, count: int) -> None:
        decision = decide_create_partitions(self.image, grow(name, count), TopicLimits())
        self.take(decision)
        if name in self.topics:
            self.topics[name] = max(self.topics[name], count)

    @rule(
        name=NAMES,
        config=st.sampled_from(["retention.ms", "cleanup.policy"]),
        value=st.sampled_from(["compact", "77", None]),
    )
    def alter_topic(self, name: str, config: str, value: str | None) -> None:
        request = incremental(2, name, (config, int(value is None), value))
        broker = self.live.broker_configs_of(self.image.broker_configs)
        decision = decide_incremental_alter_configs(self.image, request, broker, 1)
        self.take(decision)
        if decision.response.responses[0].error_code == 0:
            self.topic_configs[name].pop(config, None)
            if value is not None:
                self.topic_configs[name][config] = value

    @rule(value=st.sampled_from(["1", "2", None]))
    def alter_broker(self, value: str | None) -> None:
        self.take(
            decide_incremental_alter_configs(
                self.image, incremental(4, "", ("message.max.bytes", int(value is None), value)), BROKER, 1
            )
        )
        self.broker_configs = {} if value is None else {"message.max.bytes": value}

    @rule(live=st.sets(st.sampled_from([2, 3])), reborn=st.sampled_from([None, 1]))
    def nodes_come_and_go(self, live: set[int], reborn: int | None) -> None:
        now = {1, *live}
        self.write([BrokerRegistrationChangeRecord(broker_id=n, fenced=-1 if n in now else 1) for n in NODES])
        self.write([*leader_changes(self.image, {n: NODES[n] for n in sorted(now)}, reborn)])

    @rule(count=st.integers(1, 5))
    def give_producer_ids(self, count: int) -> None:
        self.next_producer_id += 1_000 * count
        self.write([ProducerIdsRecord(broker_id=1, next_producer_id=self.next_producer_id), NoOpRecord()])

    @rule(name=TABLES, topic_name=NAMES)
    def create_table(self, name: str, topic_name: str) -> None:
        self.used_ids += 1
        definition = _table(name, topic_name)
        is_possible = (
            self.tables[name] == definition
            if name in self.tables
            else topic_name in self.topics and topic_name != "__consumer_offsets"
        )
        try:
            decision = decide_create_table(self.image, definition, UUID(int=5_000 + self.used_ids), self.used_ids)
        except TableRefused:
            assert not is_possible
            return
        assert is_possible
        self.take(decision)
        self.tables[name] = definition

    @rule(name=TABLES, fields=st.integers(1, 3))
    def alter_table(self, name: str, fields: int) -> None:
        known = self.tables.get(name)
        definition = _table(
            name, "a" if known is None else known.topic, 1 if known is None else len(known.fields) + fields
        )
        try:
            self.take(decide_alter_table(self.image, name, definition, 7))
        except UnknownTable:
            assert known is None
            return
        self.tables[name] = definition

    @rule(name=TABLES)
    def drop_table(self, name: str) -> None:
        try:
            self.take(decide_drop_table(self.image, name))
        except UnknownTable:
            assert name not in self.tables
        self.tables.pop(name, None)

    @rule()
    def save_snapshot(self) -> None:
        self.snapshot = (len(self.log), self.live.snapshot())

    @invariant()
    def live_is_what_replaying_gives(self) -> None:
        again = MetadataState("cluster", NODE.node_id, BROKER.static)
        for value in self.log:
            again.replay(decode_record(value))
        assert again.image_at(len(self.log)) == self.image

    @invariant()
    def live_is_what_snapshot_and_tail_give(self) -> None:
        offset, data = self.snapshot
        again = MetadataState("cluster", NODE.node_id, BROKER.static)
        again.replay_snapshot(data)
        for value in self.log[offset:]:
            again.replay(decode_record(value))
        assert again.image_at(len(self.log)) == self.image

    @invariant()
    def image_is_what_the_model_says(self) -> None:
        image = self.image
        assert {name: len(found.partitions) for name, found in image.topics.items()} == self.topics
        assert {name: dict(found.configs) for name, found in image.topics.items()} == self.topic_configs
        assert {found.topic_id: found for found in image.topics.values()} == dict(image.topics_by_id)
        assert image.deleted_topics == self.deleted
        assert image.partition_count == sum(self.topics.values())
        assert image.next_producer_id == self.next_producer_id
        assert image.broker_configs.get("", {}) == self.broker_configs
        assert {name: stored_table(text).definition for name, text in image.tables.items()} == self.tables
        size = int(self.broker_configs.get("message.max.bytes", "1048588"))
        for found in image.topics.values():
            assert found.log_config.max_message_bytes == size
            assert found.is_internal == (found.name == "__consumer_offsets")
            assert [p.partition for p in found.partitions] == list(range(len(found.partitions)))

    @invariant()
    def leader_epochs_never_go_back(self) -> None:
        for found in self.image.topics.values():
            for partition in found.partitions:
                key = (found.topic_id, partition.partition)
                assert partition.leader_epoch >= self.epochs.get(key, 0)
                self.epochs[key] = partition.leader_epoch


def _table(name: str, topic_name: str, fields: int = 1) -> TableDefinition:
    columns = [{"name": f"v{number}", "type": "binary"} for number in range(fields)]
    return TableDefinition.model_validate({"name": name, "topic": topic_name, "format": "raw", "fields": columns})


TestMetadataHistory = MetadataHistory.TestCase


@pytest.mark.parametrize(
    ("records", "why"),
    [
        ([PartitionRecord(partition_id=0, topic_id=UUID(int=7))], "does not exist"),
        ([PartitionChangeRecord(partition_id=0, topic_id=UUID(int=7), leader=1)], "does not exist"),
        (
            [TopicRecord(name="t", topic_id=UUID(int=7)), PartitionChangeRecord(partition_id=3, topic_id=UUID(int=7))],
            "t-3, which does not exist",
        ),
        ([TopicRecord(name="t", topic_id=UUID(int=7)), TopicRecord(name="t", topic_id=UUID(int=8))], "a second time"),
        ([BrokerRegistrationChangeRecord(broker_id=77, fenced=1)], "not registered"),
        ([BeginTransactionRecord()], "never written here"),
    ],
)
def test_records_that_cannot_be_stop_the_replay(records: list[MetadataRecord], why: str) -> None:
    with pytest.raises(ImpossibleRecord, match=why):
        Cluster().take(records)


def test_features_and_nodes_come_and_go() -> None:
    cluster = Cluster(NODE, Node(2, "b", 2, "rack"))
    cluster.take([FeatureLevelRecord(name="group.version", feature_level=1)])
    assert cluster.image.features == {"group.version": 1}
    assert cluster.image.nodes == {1: NODE, 2: Node(2, "b", 2, "rack")}
    cluster.take([FeatureLevelRecord(name="some.feature", feature_level=2)])
    cluster.take([FeatureLevelRecord(name="some.feature", feature_level=0), UnregisterBrokerRecord(broker_id=2)])
    assert cluster.image.features == {"group.version": 1} and cluster.image.nodes == {1: NODE}
    # One that nobody has written a level of is in force: a level of 0 stays, so that it is not.
    cluster.take([FeatureLevelRecord(name="group.version", feature_level=0)])
    assert cluster.image.features == {"group.version": 0}


def test_image_is_the_same_object_until_something_changes() -> None:
    cluster = Cluster()
    first = cluster.image
    assert cluster.image is first
    cluster.take([ProducerIdsRecord(broker_id=1, next_producer_id=5)])
    assert cluster.image is not first
    assert cluster.image.topics is first.topics and cluster.image.nodes is first.nodes
    assert cluster.image.tables is first.tables


@pytest.mark.parametrize("is_everything_changed", [False, True])
def test_a_topic_remade_under_its_name_between_two_images(is_everything_changed: bool) -> None:
    cluster = Cluster()
    cluster.take(
        decide_create_topics(cluster.image, create(topic("t", 2)), BROKER, TopicLimits(), [UUID(int=8)]).records
    )
    removal = decide_delete_topics(cluster.image, delete("t")).records
    empty = Cluster().image
    again = decide_create_topics(empty, create(topic("t", 3)), BROKER, TopicLimits(), [UUID(int=9)]).records
    cluster.take([*removal, *again])
    if is_everything_changed:
        cluster.take([ConfigRecord(resource_type=4, resource_name="", name="message.max.bytes", value="9")])
    assert cluster.image.topics["t"].topic_id == UUID(int=9)
    assert set(cluster.image.topics_by_id) == {UUID(int=9)}
    assert cluster.image.partition_count == 3


def test_a_log_of_the_first_release_replays() -> None:
    """Bytes as they were written before nodes had roles and partitions floors."""
    topic_id = "0102030405060708090a0b0c0d0e0f10"
    state = MetadataState("cluster", NODE.node_id, BROKER.static)
    for value in (
        "0100030000000700000000000000000000000000000000090000000000000003020a504c41494e5445585402682384000000010272000000",
        f"0102000274{topic_id}00",
        f"01030200000000{topic_id}0200000007020000000701010000000700000004000000060100",
        f"01050200000000{topic_id}01010400000007",
        "01110200000007ffffffffffffffff010001ff",
    ):
        state.replay(decode_record(bytes.fromhex(value)))
    image = state.image_at(5)
    assert image.nodes == {7: Node(7, "h", 9092, "r")}
    assert image.topics["t"].partitions == (PartitionImage(0, 7, 5, (7,), (7,), 7, 0),)
    assert state.history.of(UUID(topic_id), 0) == (StateChange(-1, 7, 5, ""),)
    again = MetadataState("cluster", NODE.node_id, BROKER.static)
    again.replay_snapshot(state.snapshot())
    assert again.image_at(5) == image
    assert again.history.of(UUID(topic_id), 0) == state.history.of(UUID(topic_id), 0)


def test_the_only_nodes_history_says_when_it_was_started() -> None:
    cluster = Cluster()
    cluster.take(decide_create_topics(cluster.image, create(topic("t")), BROKER, TopicLimits(), [UUID(int=8)]).records)
    cluster.take(leader_changes(cluster.image, {1: NODE}, 1, reason="node 1 was started", now_ms=77))
    assert cluster.state.history.of(UUID(int=8), 0) == (StateChange(77, 1, 1, "node 1 was started"),)
