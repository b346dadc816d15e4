"""Records of internal topics, decoded for people."""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmq.cli.state_records import STATE_TOPICS, StateRecord, decode_state_record, snapshot_records
from bmq.coordinator.offsets.offset_columns import TopicOffsets
from bmq.coordinator.share_state.snapshots import add_part
from bmq.coordinator.snapshot import ShardState, encode_snapshot
from bmq.metadata.state import MetadataState
from bmq.protocol import (
    consumer_group_records,
    group_records,
    share_group_records,
    share_state_records,
    streams_group_records,
    transaction_records,
)
from bmq.protocol.errors import BmqError
from bmq.protocol.metadata_records import TopicRecord, encode_record
from bmq.protocol.share_state_records import (
    LockedRecords,
    SnapshotKey,
    SnapshotValue,
    StateBatch,
    UpdateKey,
    UpdateValue,
)
from bmq.protocol.transaction_records import TransactionKey, TransactionStatus, TransactionValue

pytestmark = pytest.mark.unit

TOPIC_ID = UUID(int=7)
OFFSETS, TRANSACTIONS, METADATA = "__consumer_offsets", "__transaction_state", "__cluster_metadata"
SHARE_STATE = "__share_group_state"


def test_committed_offsets_and_classic_groups() -> None:
    key = group_records.OffsetCommitKey("g", "t", 3)
    value = group_records.OffsetCommitValue(9, 1, "", 5, -1, TOPIC_ID)
    decoded = decode_state_record(OFFSETS, group_records.encode_key(key), group_records.encode_value(value))
    assert decoded.kind == "OffsetCommit"
    assert decoded.key == {"group": "g", "topic": "t", "partition": 3}
    assert (decoded.value["offset"], decoded.value["topic_id"]) == (9, str(TOPIC_ID))
    member = group_records.MemberMetadata(member_id="m", subscription=b"\0\1")
    group = group_records.GroupMetadataValue(protocol_type="consumer", members=(member,))
    key_bytes = group_records.encode_key(group_records.GroupMetadataKey(group="g"))
    decoded = decode_state_record(OFFSETS, key_bytes, group_records.encode_value(group))
    assert (decoded.kind, decoded.value["members"][0]["subscription"]) == ("GroupMetadata", {"base64": "AAE="})
    assert decode_state_record(OFFSETS, key_bytes, None) == StateRecord("GroupMetadata", {"group": "g"}, None)


def test_groups_of_the_newer_protocols() -> None:
    for records, kind in (
        (consumer_group_records, "ConsumerGroupEpoch"),
        (streams_group_records, "StreamsGroupEpoch"),
        (share_group_records, "ShareGroupEpoch"),
    ):
        types: Any = records.RECORD_TYPES
        key = types.encode_key(records.EpochKey(group="g"))
        value = types.encode_value(records.EpochValue(epoch=4))
        decoded = decode_state_record(OFFSETS, key, value)
        assert (decoded.kind, decoded.key, decoded.value["epoch"]) == (kind, {"group": "g"}, 4)


def test_which_share_partitions_have_state() -> None:
    topic = share_group_records.StateTopic(topic_id=TOPIC_ID, topic_name="t", partitions=(0, 1))
    key = share_group_records.encode_key(share_group_records.StatePartitionsKey(group="g"))
    value = share_group_records.encode_value(share_group_records.StatePartitionsValue(initialized=(topic,)))
    decoded = decode_state_record(OFFSETS, key, value)
    assert (decoded.kind, decoded.key) == ("ShareGroupStatePartitions", {"group": "g"})
    assert decoded.value["initialized"] == [{"topic_id": str(TOPIC_ID), "topic_name": "t", "partitions": [0, 1]}]


def test_state_of_share_partitions() -> None:
    place: Any = {"group": "g", "topic_id": TOPIC_ID, "partition": 2}
    key = share_state_records.encode_key(UpdateKey(**place))
    batch = StateBatch(first_offset=5, last_offset=9, delivery_state=2, delivery_count=1)
    lock = LockedRecords(first_offset=10, last_offset=10, deadline_ms=77, member_id="m", node_id=1)
    value = share_state_records.encode_value(UpdateValue(start_offset=5, state_batches=(batch,), locks=(lock,)))
    decoded = decode_state_record(SHARE_STATE, key, value)
    assert decoded.kind == "ShareUpdate"
    assert decoded.key == {"group": "g", "topic_id": str(TOPIC_ID), "partition": 2}
    assert decoded.value["state_batches"] == [
        {
            "first_offset": 5,
            "last_offset": 9,
            "delivery_state": "ACKNOWLEDGED",
            "delivery_count": 1,
            "due_ms": 0,
            "reason": 0,
        }
    ]
    assert (decoded.value["locks"][0]["member_id"], decoded.value["locks"][0]["deadline_ms"]) == ("m", 77)
    key = share_state_records.encode_key(SnapshotKey(**place))
    assert decode_state_record(SHARE_STATE, key, None) == StateRecord("ShareSnapshot", decoded.key, None)
    assert decode_state_record(SHARE_STATE, b"\0\7x", b"y").kind == "Unknown (key type 7)"


def test_a_snapshot_of_share_partitions() -> None:
    data = bytearray()
    for partition in range(2):
        key = share_state_records.encode_key(SnapshotKey(group="g", topic_id=TOPIC_ID, partition=partition))
        add_part(data, key, share_state_records.encode_value(SnapshotValue(start_offset=partition * 10)))
    found = list(snapshot_records(SHARE_STATE, bytes(data)))
    assert [(one.kind, one.key["partition"], one.value["start_offset"]) for one in found] == [
        ("ShareSnapshot", 0, 0),
        ("ShareSnapshot", 1, 10),
    ]
    with pytest.raises(BmqError):
        list(snapshot_records(SHARE_STATE, bytes(data[:-1])))


def test_transactions_and_metadata() -> None:
    value = TransactionValue(producer_id=5, producer_epoch=1, timeout_ms=9, status=TransactionStatus.ONGOING)
    key = transaction_records.encode_key(TransactionKey(transactional_id="tx"))
    decoded = decode_state_record(TRANSACTIONS, key, transaction_records.encode_value(value))
    assert (decoded.kind, decoded.key, decoded.value["status"]) == (
        "Transaction",
        {"transactional_id": "tx"},
        "ONGOING",
    )
    decoded = decode_state_record(METADATA, b"", encode_record(TopicRecord(name="t", topic_id=TOPIC_ID)))
    assert decoded == StateRecord("Topic", None, {"name": "t", "topic_id": str(TOPIC_ID)})


@given(st.sampled_from(sorted(STATE_TOPICS)), st.none() | st.binary(max_size=30), st.none() | st.binary(max_size=60))
def test_whatever_the_bytes_are_they_are_shown(topic: str, key: bytes | None, value: bytes | None) -> None:
    decoded = decode_state_record(topic, key, value)
    assert decoded.kind
    json.dumps(decoded._asdict())


def test_records_of_a_newer_release_are_unknown_and_shown() -> None:
    assert decode_state_record(OFFSETS, b"\x01\x00x", b"y") == StateRecord(
        "Unknown (key type 256)", {"base64": "AQB4"}, {"base64": "eQ=="}
    )
    assert decode_state_record(METADATA, b"", b"\1\x99\x99\1\0").kind.startswith("Unknown (metadata record")


async def test_snapshots_are_records_again() -> None:
    offset = group_records.OffsetCommitValue(9, 1, "", 5, -1, TOPIC_ID)
    state = ShardState(
        groups=[("g", group_records.GroupMetadataValue(protocol_type="consumer"))],
        offsets=[TopicOffsets("g", "t", {0: offset, 2: offset})],
    )
    found = list(snapshot_records(OFFSETS, await encode_snapshot(state)))
    assert [record.kind for record in found] == ["GroupMetadata", "OffsetCommit", "OffsetCommit"]
    assert [record.key["partition"] for record in found[1:]] == [0, 2]
    metadata = MetadataState("", -1, {})
    metadata.replay(TopicRecord(name="t", topic_id=TOPIC_ID))
    assert [record.kind for record in snapshot_records(METADATA, metadata.snapshot())][:1] == ["Topic"]
