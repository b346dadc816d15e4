"""Records of streams groups: Kafka's bytes, whatever a value holds, and whatever else may come."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmq.protocol import streams_group_records
from bmq.protocol.errors import MalformedMessage
from bmq.protocol.formats import Format
from bmq.protocol.streams_group_records import (
    CopartitionGroup,
    CurrentKey,
    CurrentValue,
    Endpoint,
    EpochKey,
    EpochValue,
    KeyValue,
    MemberKey,
    MemberValue,
    StreamsKey,
    StreamsValue,
    Subtopology,
    TargetEpochKey,
    TargetEpochValue,
    TargetKey,
    TargetValue,
    TaskIds,
    TopicInfo,
    TopologyKey,
    TopologyValue,
    decode_key,
    decode_value,
    encode_key,
    encode_value,
    is_streams_key,
)
from tests.unit.protocol.strategies import messages

pytestmark = pytest.mark.unit

FORMATS: dict[int, tuple[Format, Format]] = vars(streams_group_records)["RECORD_TYPES"].formats

GOLDEN: list[tuple[StreamsKey, bytes, StreamsValue, bytes]] = [
    (
        EpochKey(group="g"),
        b"\0\x11\0\x01g",
        EpochValue(epoch=2, metadata_hash=-1),
        b"\0\0\0\0\0\x02" + b"\xff" * 8 + b"\0",
    ),
    (
        EpochKey(group="g"),
        b"\0\x11\0\x01g",
        EpochValue(epoch=2, validated_topology_epoch=7, assignment_configs=(KeyValue(key="k", value="v"),)),
        b"\0\0\0\0\0\x02" + bytes(8) + b"\x02\0\x04\0\0\0\x07\x01\x06\x02\x02k\x02v\0",
    ),
    (
        MemberKey(group="g", member_id="m"),
        b"\0\x13\0\x01g\0\x01m",
        MemberValue(client_id="c", client_host="/h", rebalance_timeout_ms=5, topology_epoch=1, process_id="p"),
        b"\0\0\0\0\x02c\x03/h\0\0\0\x05\0\0\0\x01\x02p\xff\x01\0",
    ),
    (
        MemberKey(group="g", member_id="m"),
        b"\0\x13\0\x01g\0\x01m",
        MemberValue(
            instance_id="i",
            rack_id="r",
            client_id="c",
            client_host="/h",
            rebalance_timeout_ms=5,
            process_id="p",
            user_endpoint=Endpoint(host="h", port=65_535),
            client_tags=(KeyValue(key="k", value="v"),),
        ),
        b"\0\0\x02i\x02r\x02c\x03/h\0\0\0\x05\0\0\0\0\x02p\x01\x02h\xff\xff\0\x02\x02k\x02v\0\0",
    ),
    (
        TargetEpochKey(group="g"),
        b"\0\x14\0\x01g",
        TargetEpochValue(epoch=3, timestamp_ms=9),
        b"\0\0\0\0\0\x03\x01\0\x08" + bytes(7) + b"\x09",
    ),
    (
        TargetKey(group="g", member_id="m"),
        b"\0\x15\0\x01g\0\x01m",
        TargetValue(active=(TaskIds(subtopology_id="0", partitions=(1,)),)),
        b"\0\0\x02\x020\x02\0\0\0\x01\0\x01\x01\0",
    ),
    (
        CurrentKey(group="g", member_id="m"),
        b"\0\x16\0\x01g\0\x01m",
        CurrentValue(
            epoch=3,
            previous_epoch=2,
            state=2,
            active=(TaskIds(subtopology_id="0", partitions=(1,), assignment_epochs=(3,)),),
            standby_pending_revocation=(TaskIds(subtopology_id="1", partitions=(4,)),),
        ),
        b"\0\0\0\0\0\x03\0\0\0\x02\x02"
        + b"\x02\x020\x02\0\0\0\x01\x01\0\x05\x02\0\0\0\x03"
        + b"\x01\x01\x01"
        + b"\x02\x021\x02\0\0\0\x04\0"
        + b"\x01\0",
    ),
    (
        TopologyKey(group="g"),
        b"\0\x17\0\x01g",
        TopologyValue(
            epoch=1,
            subtopologies=(
                Subtopology(
                    subtopology_id="0",
                    source_topics=("t",),
                    state_changelog_topics=(
                        TopicInfo(name="c", replication_factor=3, topic_configs=(KeyValue(key="k", value="v"),)),
                    ),
                    repartition_sink_topics=("r",),
                    copartition_groups=(CopartitionGroup(source_topics=(0,)),),
                ),
            ),
        ),
        b"\0\0\0\0\0\x01\x02\x020\x02\x02t\x01\x02\x02c\0\0\0\0\0\x03\x02\x02k\x02v\0\0\x02\x02r\x01"
        b"\x02\x02\0\0\x01\x01\0\0\0",
    ),
]


@pytest.mark.parametrize(("key", "key_bytes", "value", "value_bytes"), GOLDEN)
def test_records_are_kafkas_bytes(key: StreamsKey, key_bytes: bytes, value: StreamsValue, value_bytes: bytes) -> None:
    assert encode_key(key) == key_bytes
    assert decode_key(key_bytes) == key
    assert encode_value(value) == value_bytes
    assert decode_value(key, value_bytes) == value


@pytest.mark.parametrize("key_type", FORMATS)
@given(data=st.data())
def test_whatever_a_record_holds_comes_back(key_type: int, data: st.DataObject) -> None:
    assert is_streams_key(key_type)
    key_format, value_format = FORMATS[key_type]
    key: Any = data.draw(messages(key_format.entity(0)))
    assert decode_key(encode_key(key)) == key
    assert decode_value(key, None) is None
    value: Any = data.draw(messages(value_format.entity(0)))
    encoded = encode_value(value)
    assert decode_value(key, encoded) == value
    with pytest.raises(MalformedMessage):
        decode_value(key, encoded[:-1])


@pytest.mark.parametrize("key_type", FORMATS)
@given(data=st.binary(max_size=60))
def test_bytes_of_no_meaning(key_type: int, data: bytes) -> None:
    key = FORMATS[key_type][0].message_class(**dict.fromkeys((f.name for f in FORMATS[key_type][0].fields), "x"))
    for decode in (
        lambda: decode_key(key_type.to_bytes(2, "big") + data),
        lambda: decode_key(data),
        lambda: decode_value(key, b"\0\0" + data),
        lambda: decode_value(key, data),
    ):
        try:
            decode()
        except MalformedMessage:
            pass


def test_other_keys_and_versions_are_refused() -> None:
    for data in (b"", b"\0", b"\0\x02\0\x01g", b"\0\x12\0\x01g"):
        with pytest.raises(MalformedMessage):
            decode_key(data)
    with pytest.raises(MalformedMessage):
        decode_value(EpochKey(group="g"), b"\0\x01\0\0\0\x02\0")
