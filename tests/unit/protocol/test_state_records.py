"""Records of `__consumer_offsets` and `__cluster_metadata`: Kafka's bytes, every version, and whatever else may come."""

from __future__ import annotations

import dataclasses
import uuid
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmq.protocol import group_records, metadata_records
from bmq.protocol.errors import MalformedMessage, UnsupportedVersion
from bmq.protocol.formats import Format, codec_of
from bmq.protocol.group_records import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
    UnknownKey,
    decode_key,
    decode_value,
    encode_key,
    encode_value,
)
from bmq.protocol.metadata_records import (
    NoOpRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    TopicRecord,
    decode_record,
    encode_record,
)
from bmq.protocol.wire import unsigned_varint
from tests.unit.protocol.strategies import messages

pytestmark = pytest.mark.unit

TOPIC_ID = uuid.UUID(int=0x0102030405060708090A0B0C0D0E0F10)
OFFSET_KEY = OffsetCommitKey(group="g", topic="t", partition=3)
GROUP_KEY = GroupMetadataKey(group="g")
# The tables that the modules keep to themselves.
METADATA_FORMATS: dict[int, Format] = vars(metadata_records)["_FORMATS"]
OFFSET_VALUE_FORMAT: Format = vars(group_records)["_OFFSET_COMMIT_VALUE"]
OFFSET_KEY_FORMAT: Format = vars(group_records)["_OFFSET_COMMIT_KEY"]
GROUP_VALUE_FORMAT: Format = vars(group_records)["_GROUP_METADATA_VALUE"]


def test_committed_offsets_are_kafkas_bytes() -> None:
    assert encode_key(OFFSET_KEY) == b"\0\x01\0\x01g\0\x01t\0\0\0\x03"
    value = OffsetCommitValue(offset=5, leader_epoch=2, metadata="m", commit_timestamp_ms=9)
    assert encode_value(value) == b"\0\x03" + bytes(7) + b"\x05\0\0\0\x02\0\x01m" + bytes(7) + b"\x09"
    expiring = value._replace(expire_timestamp_ms=10, leader_epoch=-1)
    assert encode_value(expiring) == b"\0\x01" + bytes(7) + b"\x05\0\x01m" + bytes(7) + b"\x09" + bytes(7) + b"\x0a"
    with_id = value._replace(topic_id=TOPIC_ID)
    assert encode_value(with_id) == (
        b"\0\x04" + bytes(7) + b"\x05\0\0\0\x02\x02m" + bytes(7) + b"\x09\x01\0\x10" + TOPIC_ID.bytes
    )
    for written in (value, expiring, with_id):
        assert decode_value(OFFSET_KEY, encode_value(written)) == written


def test_groups_are_kafkas_bytes() -> None:
    assert encode_key(GROUP_KEY) == b"\0\x02\0\x01g"
    member = MemberMetadata(
        member_id="m", client_id="c", client_host="/h", rebalance_timeout_ms=1, session_timeout_ms=2, subscription=b"s"
    )
    group = GroupMetadataValue(
        protocol_type="consumer",
        generation=4,
        protocol="range",
        leader="m",
        current_state_timestamp_ms=6,
        members=(member,),
    )
    assert encode_value(group) == (
        b"\0\x03\0\x08consumer\0\0\0\x04\0\x05range\0\x01m"
        + bytes(7)
        + b"\x06\0\0\0\x01\0\x01m\xff\xff\0\x01c\0\x02/h\0\0\0\x01\0\0\0\x02\0\0\0\x01s\0\0\0\0"
    )
    empty = GroupMetadataValue(protocol_type="consumer")
    assert decode_value(GROUP_KEY, encode_value(empty)) == empty


@given(data=st.data(), version=st.integers(0, 4))
def test_group_values_in_every_version(data: st.DataObject, version: int) -> None:
    for key, value_format in ((OFFSET_KEY, OFFSET_VALUE_FORMAT), (GROUP_KEY, GROUP_VALUE_FORMAT)):
        value: Any = data.draw(messages(value_format.entity(version)))
        encoded = encode_value(value, version)
        assert encoded[:2] == version.to_bytes(2, "big")
        assert decode_value(key, encoded) == value
        with pytest.raises(MalformedMessage):
            decode_value(key, encoded[:-1])


@given(group=st.text(max_size=20), topic=st.text(max_size=20), partition=st.integers(0, 2**31 - 1))
def test_keys_round_trip(group: str, topic: str, partition: int) -> None:
    for key in (OffsetCommitKey(group=group, topic=topic, partition=partition), GroupMetadataKey(group=group)):
        assert decode_key(encode_key(key)) == key
    old = b"\0\0" + encode_key(OFFSET_KEY)[2:]
    assert decode_key(old) == OFFSET_KEY


@given(
    offset=st.integers(-(2**63), 2**63 - 1),
    leader_epoch=st.integers(-(2**31), 2**31 - 1),
    metadata=st.sampled_from(["", "", "m", "m" * 40]),
    topic_id=st.one_of(st.none(), st.uuids()),
    change=st.one_of(st.none(), st.tuples(st.integers(0, 60), st.integers(0, 255))),
    data=st.data(),
)
def test_the_short_way_reads_what_the_format_says(
    offset: int,
    leader_epoch: int,
    metadata: str,
    topic_id: uuid.UUID | None,
    change: tuple[int, int] | None,
    data: st.DataObject,
) -> None:
    """Most committed offsets are read by hand: the same comes out, also of bytes that nobody wrote."""
    value = OffsetCommitValue(offset, leader_epoch, metadata, 7, topic_id=topic_id)
    key = OffsetCommitKey(data.draw(st.text(max_size=3)), data.draw(st.text(max_size=3)), 5)
    for written, format_, decode in (
        (bytearray(encode_value(value)), OFFSET_VALUE_FORMAT, lambda told: decode_value(OFFSET_KEY, told)),
        (bytearray(encode_key(key)), OFFSET_KEY_FORMAT, decode_key),
    ):
        if change is not None:
            place, byte = change
            written[2 + place % (len(written) - 2)] = byte
        version = int.from_bytes(written[:2], "big")
        try:
            expected = codec_of(format_, version).read(bytes(written), 2)
        except MalformedMessage:
            with pytest.raises(MalformedMessage):
                decode(bytes(written))
        else:
            assert decode(bytes(written)) == expected
            assert decode(memoryview(written)) == expected


def test_tombstones_and_unknown_keys() -> None:
    assert decode_value(OFFSET_KEY, None) is None
    unknown = decode_key(b"\0\x03whatever")
    assert unknown == UnknownKey(3, b"\0\x03whatever")
    assert encode_key(unknown) == b"\0\x03whatever"
    assert decode_value(unknown, b"anything") is None
    with pytest.raises(MalformedMessage):
        decode_value(OFFSET_KEY, b"\0\x09")
    with pytest.raises(MalformedMessage):
        decode_key(b"\0")


@given(data=st.binary(max_size=60), prefix=st.sampled_from([b"", b"\0\0", b"\0\x01", b"\0\x02", b"\0\x03", b"\0\x04"]))
def test_bytes_of_no_meaning(data: bytes, prefix: bytes) -> None:
    for decode in (
        lambda: decode_key(prefix + data),
        lambda: decode_value(OFFSET_KEY, prefix + data),
        lambda: decode_value(GROUP_KEY, prefix + data),
        lambda: decode_record(prefix + data),
    ):
        try:
            decode()
        except (MalformedMessage, UnsupportedVersion):
            pass


def test_metadata_records_are_krafts_bytes() -> None:
    assert encode_record(TopicRecord(name="t", topic_id=TOPIC_ID)) == b"\x01\x02\0\x02t" + TOPIC_ID.bytes + b"\0"
    partition = PartitionRecord(
        partition_id=1, topic_id=TOPIC_ID, replicas=(1, 2), isr=(1,), leader=1, leader_epoch=3, partition_epoch=4
    )
    assert encode_record(partition) == (
        b"\x01\x03\x02\0\0\0\x01" + TOPIC_ID.bytes + b"\x03\0\0\0\x01\0\0\0\x02\x02\0\0\0\x01\x01\x01"
        b"\0\0\0\x01\0\0\0\x03\0\0\0\x04\x01\0"
    )
    change = PartitionChangeRecord(partition_id=1, topic_id=TOPIC_ID, leader=-1)
    assert encode_record(change) == (b"\x01\x05\x02\0\0\0\x01" + TOPIC_ID.bytes + b"\x01\x01\x04\xff\xff\xff\xff")
    assert encode_record(NoOpRecord()) == b"\x01\x14\0\0"


@pytest.mark.parametrize("api_key", METADATA_FORMATS)
@given(data=st.data())
def test_metadata_records_in_every_version(api_key: int, data: st.DataObject) -> None:
    record_format = METADATA_FORMATS[api_key]
    version = data.draw(st.integers(0, record_format.version_max))
    record = data.draw(messages(record_format.entity(version)))
    encoded = encode_record(record, version)
    assert encoded.startswith(b"\x01" + unsigned_varint(api_key) + unsigned_varint(version))
    assert decode_record(encoded) == record
    with pytest.raises(MalformedMessage):
        decode_record(encoded[:-1])


def test_metadata_records_of_a_newer_server_are_refused() -> None:
    for data in (b"\x02\x02\0", b"\x01\x7f\0", b"\x01\x02\x01"):
        with pytest.raises(UnsupportedVersion):
            decode_record(data)
    with pytest.raises(MalformedMessage):
        decode_record(b"\x01")
    # A tagged field that a later server added is skipped.
    assert decode_record(b"\x01\x14\0\x01\x05\x02ab") == NoOpRecord()


def test_our_own_fields_cost_old_readers_and_old_logs_nothing() -> None:
    """Records as they were written before there were own fields, and those fields as KRaft's readers skip them."""
    old = b"\x01\0\x03\0\0\0\x07\0" + bytes(15) + b"\x09" + bytes(7) + b"\x03"
    old += b"\x02\x0aPLAINTEXT\x02h\x23\x84\0\0\0\x01\x02r\0\0\0"
    node = decode_record(old)
    assert isinstance(node, RegisterBrokerRecord)
    assert (node.broker_id, node.broker_epoch, node.rack, node.fenced, node.roles) == (7, 3, "r", False, ())
    assert encode_record(node) == old
    assert encode_record(dataclasses.replace(node, roles=("broker",))) == (old[:-1] + b"\x01\x90\x4e\x08\x02\x07broker")
    partition = decode_record(
        b"\x01\x03\x02\0\0\0\0"
        + TOPIC_ID.bytes
        + b"\x02\0\0\0\x07\x02\0\0\0\x07\x01\x01\0\0\0\x07\0\0\0\x04\0\0\0\x06\x01\0"
    )
    assert isinstance(partition, PartitionRecord) and partition.high_watermark_floor == 0
    old = b"\x01\x05\x02\0\0\0\0" + TOPIC_ID.bytes + b"\x01\x01\x04\0\0\0\x07"
    change = decode_record(old)
    assert isinstance(change, PartitionChangeRecord)
    assert (change.leader, change.high_watermark_floor, change.reason, change.timestamp_ms) == (7, -1, "", -1)
    told = dataclasses.replace(change, high_watermark_floor=5, reason="why", timestamp_ms=6)
    assert encode_record(told) == old.replace(b"\x01\x01\x04", b"\x04\x01\x04") + (
        b"\x90\x4e\x08" + bytes(7) + b"\x05" + b"\x91\x4e\x04\x04why" + b"\x92\x4e\x08" + bytes(7) + b"\x06"
    )
    used = dataclasses.replace(change, is_in_use=True)
    assert encode_record(used) == old.replace(b"\x01\x01\x04", b"\x02\x01\x04") + b"\x93\x4e\x01\x01"
    assert decode_record(encode_record(used)) == used and not change.is_in_use
    assert decode_record(encode_record(told)) == told
