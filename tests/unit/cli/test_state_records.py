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
from bmq.coordinator.snapshot import ShardState, encode_snapshot
from bmq.metadata.state import MetadataState
from bmq.protocol import consumer_group_records, group_records, streams_group_records, transaction_records
from bmq.protocol.metadata_records import TopicRecord, encode_record
from bmq.protocol.transaction_records import TransactionKey, TransactionStatus, TransactionValue

pytestmark = pytest.mark.unit

TOPIC_ID = UUID(int=7)
OFFSETS, TRANSACTIONS, METADATA = "__consumer_offsets", "__transaction_state", "__cluster_metadata"


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
    for records, kind in ((consumer_group_records, "ConsumerGroupEpoch"), (streams_group_records, "StreamsGroupEpoch")):
        types: Any = records.RECORD_TYPES
        key = types.encode_key(records.EpochKey(group="g"))
        value = types.encode_value(records.EpochValue(epoch=4))
        decoded = decode_state_record(OFFSETS, key, value)
        assert (decoded.kind, decoded.key, decoded.value["epoch"]) == (kind, {"group": "g"}, 4)


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
