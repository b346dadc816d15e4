"""A backup has what another cluster can take over, and nothing else; its file is refused when it is not whole."""

from __future__ import annotations

import json
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmq.metadata.backup_file import BackupUnusable, MetadataBackup, backup_of, decode_backup, encode_backup
from bmq.metadata.image import NO_LEADER, OFFSETS_TOPIC_NAME
from bmq.metadata.state import MetadataState
from bmq.protocol.metadata_records import (
    RESOURCE_TYPE_BROKER,
    RESOURCE_TYPE_TABLE,
    RESOURCE_TYPE_TASK,
    RESOURCE_TYPE_TOPIC,
    AccessControlEntryRecord,
    ConfigRecord,
    DelegationTokenRecord,
    FeatureLevelRecord,
    MetadataRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    TopicRecord,
    UserScramCredentialRecord,
)

pytestmark = pytest.mark.unit

ORDERS, GONE, OFFSETS = UUID(int=1), UUID(int=2), UUID(int=3)
NOW_MS = 1_700_000_000_000


def config(kind: int, resource: str, name: str, value: str) -> ConfigRecord:
    return ConfigRecord(resource_type=kind, resource_name=resource, name=name, value=value)


def state_of_a_cluster() -> MetadataState:
    """Two topics and an internal one with owners and floors, a deleted one, and one of everything else."""
    state = MetadataState("cluster", 1, {})
    records: tuple[MetadataRecord, ...] = (
        FeatureLevelRecord(name="bmq.metadata.version", feature_level=2),
        RegisterBrokerRecord(broker_id=1, incarnation_id=UUID(int=9), broker_epoch=1),
        TopicRecord(name="orders", topic_id=ORDERS),
        PartitionRecord(partition_id=0, topic_id=ORDERS, replicas=(1, 2), isr=(1, 2), leader=1, leader_epoch=4),
        PartitionRecord(partition_id=1, topic_id=ORDERS, replicas=(2,), isr=(2,), leader=2, leader_epoch=0),
        PartitionChangeRecord(partition_id=0, topic_id=ORDERS, leader=2, high_watermark_floor=700, reason="drained"),
        TopicRecord(name=OFFSETS_TOPIC_NAME, topic_id=OFFSETS),
        PartitionRecord(partition_id=0, topic_id=OFFSETS, replicas=(1,), isr=(1,), leader=1, leader_epoch=1),
        config(RESOURCE_TYPE_TOPIC, OFFSETS_TOPIC_NAME, "cleanup.policy", "compact"),
        config(RESOURCE_TYPE_TOPIC, "orders", "retention.ms", "1000"),
        config(RESOURCE_TYPE_BROKER, "", "log.retention.ms", "2000"),
        config(RESOURCE_TYPE_BROKER, "1", "listener.name.x.ssl.keystore.location", "/here"),
        config(RESOURCE_TYPE_TABLE, "rows", "table", "{}"),
        config(RESOURCE_TYPE_TASK, "t1", "task", "{}"),
        UserScramCredentialRecord(
            name="alice", mechanism=1, salt=b"s", stored_key=b"k", server_key=b"v", iterations=4096
        ),
        AccessControlEntryRecord(
            id=UUID(int=5),
            resource_type=2,
            resource_name="orders",
            pattern_type=3,
            principal="User:alice",
            host="*",
            operation=3,
            permission_type=3,
        ),
        DelegationTokenRecord(
            owner="User:alice",
            requester="User:alice",
            renewers=(),
            issue_timestamp=1,
            max_timestamp=9,
            expiration_timestamp=5,
            token_id="t",
        ),
        ProducerIdsRecord(broker_id=1, next_producer_id=3000),
        TopicRecord(name="gone", topic_id=GONE),
        RemoveTopicRecord(topic_id=GONE),
    )
    for record in records:
        state.replay(record)
    return state


def backup() -> MetadataBackup:
    return backup_of(state_of_a_cluster(), "cluster", 42, NOW_MS)


def test_a_file_gives_the_backup_again() -> None:
    assert decode_backup(encode_backup(backup())) == backup()


def test_another_cluster_can_take_it_over() -> None:
    before, after = state_of_a_cluster().image_at(42), backup().image()
    assert after.topics.keys() == {"orders"}
    assert after.topics["orders"].topic_id == ORDERS and after.topics["orders"].configs == {"retention.ms": "1000"}
    for partition in after.topics["orders"].partitions:
        assert (partition.leader, partition.replicas, partition.isr) == (NO_LEADER, (), ())
        assert partition.high_watermark_floor == 0, "its log is empty"
    assert after.topics["orders"].partitions[0].leader_epoch == 5, "clients that know the old epoch are not ahead"
    assert after.broker_configs == {"": {"log.retention.ms": "2000"}}
    assert (after.users, after.acls, after.tables) == (before.users, before.acls, before.tables)
    assert after.users and after.acls and after.tables
    assert after.next_producer_id == 3000
    assert not (after.nodes or after.fenced_nodes or after.tasks or after.deleted_topics or after.delegation_tokens)


@given(place=st.integers(0, 10_000), bit=st.integers(0, 7))
def test_a_flipped_bit_is_found(place: int, bit: int) -> None:
    data = bytearray(encode_backup(backup()))
    data[place % len(data)] ^= 1 << bit
    try:
        found = decode_backup(bytes(data))
    except BackupUnusable:
        return
    assert found.records == backup().records, "only what the head says of the cluster may differ"


@pytest.mark.parametrize("data", [b"", b"{}\n", b"[1]\nx", b'"x"\n', b"\x00" * 100, b"[" * 10_000])
def test_another_file_is_refused(data: bytes) -> None:
    with pytest.raises(BackupUnusable, match="no backup of metadata"):
        decode_backup(data)


def test_a_file_that_ends_early_is_refused() -> None:
    with pytest.raises(BackupUnusable, match="it is damaged"):
        decode_backup(encode_backup(backup())[:-1])


def test_a_file_of_a_later_release_is_refused() -> None:
    line, _, content = encode_backup(backup()).partition(b"\n")
    later = json.dumps({**json.loads(line), "format_version": 2}).encode() + b"\n" + content
    with pytest.raises(BackupUnusable, match="of a later release; this one reads up to 1"):
        decode_backup(later)


def test_records_that_do_not_follow_each_other_are_refused() -> None:
    orphan = PartitionRecord(partition_id=0, topic_id=ORDERS, leader_epoch=0)
    broken = MetadataBackup("cluster", 1, NOW_MS, (orphan,))
    with pytest.raises(BackupUnusable, match="its records cannot be read"):
        decode_backup(encode_backup(broken))
