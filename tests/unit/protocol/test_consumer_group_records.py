"""Records of consumer groups: Kafka's bytes, whatever a value holds, and whatever else may come."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmq.protocol import consumer_group_records
from bmq.protocol.consumer_group_records import (
    ClassicMember,
    ClassicProtocol,
    ConsumerKey,
    ConsumerValue,
    CurrentKey,
    CurrentValue,
    EpochKey,
    EpochValue,
    MemberKey,
    MemberValue,
    RegexKey,
    RegexValue,
    TargetEpochKey,
    TargetEpochValue,
    TargetKey,
    TargetValue,
    TopicPartitions,
    TopicsKey,
    decode_key,
    decode_value,
    encode_key,
    encode_value,
)
from bmq.protocol.errors import MalformedMessage
from bmq.protocol.formats import Format
from tests.unit.protocol.strategies import messages

pytestmark = pytest.mark.unit

TOPIC_ID = UUID(int=0x0102030405060708090A0B0C0D0E0F10)
FORMATS: dict[int, tuple[Format, Format | None]] = vars(consumer_group_records)["RECORD_TYPES"].formats

GOLDEN: list[tuple[ConsumerKey, bytes, ConsumerValue | None, bytes | None]] = [
    (EpochKey(group="g"), b"\0\x03\0\x01g", EpochValue(epoch=2), b"\0\0\0\0\0\x02\0"),
    (
        EpochKey(group="g"),
        b"\0\x03\0\x01g",
        EpochValue(epoch=2, metadata_hash=-2),
        b"\0\0\0\0\0\x02\x01\0\x08" + b"\xff" * 7 + b"\xfe",
    ),
    (TopicsKey(group="g"), b"\0\x04\0\x01g", None, None),
    (
        MemberKey(group="g", member_id="m"),
        b"\0\x05\0\x01g\0\x01m",
        MemberValue(client_id="c", client_host="/h", topic_names=("t",), rebalance_timeout_ms=5),
        b"\0\0\0\0\x02c\x03/h\x02\x02t\0\0\0\0\x05\0\0",
    ),
    (
        MemberKey(group="g", member_id="m"),
        b"\0\x05\0\x01g\0\x01m",
        MemberValue(
            instance_id="i",
            rack_id="r",
            client_id="c",
            client_host="/h",
            topic_regex="t.*",
            rebalance_timeout_ms=5,
            server_assignor="range",
            classic=ClassicMember(session_timeout_ms=7, protocols=(ClassicProtocol(name="p", metadata=b"x"),)),
        ),
        # The tagged field: its number, 12 bytes, present, timeout, one protocol of name, metadata and no tags, no tags.
        b"\0\0\x02i\x02r\x02c\x03/h\x01\x04t.*\0\0\0\x05\x06range\x01\0\x0c\x01\0\0\0\x07\x02\x02p\x02x\0\0",
    ),
    (TargetEpochKey(group="g"), b"\0\x06\0\x01g", TargetEpochValue(epoch=3), b"\0\0\0\0\0\x03\0"),
    (
        TargetEpochKey(group="g"),
        b"\0\x06\0\x01g",
        TargetEpochValue(epoch=3, timestamp_ms=9),
        b"\0\0\0\0\0\x03\x01\0\x08" + bytes(7) + b"\x09",
    ),
    (
        TargetKey(group="g", member_id="m"),
        b"\0\x07\0\x01g\0\x01m",
        TargetValue(topic_partitions=(TopicPartitions(topic_id=TOPIC_ID, partitions=(0, 1)),)),
        b"\0\0\x02" + TOPIC_ID.bytes + b"\x03\0\0\0\0\0\0\0\x01\0\0",
    ),
    (
        CurrentKey(group="g", member_id="m"),
        b"\0\x08\0\x01g\0\x01m",
        CurrentValue(
            epoch=3,
            previous_epoch=2,
            state=1,
            assigned=(TopicPartitions(topic_id=TOPIC_ID, partitions=(4,), assignment_epochs=(2,)),),
            pending_revocation=(TopicPartitions(topic_id=TOPIC_ID, partitions=(5,)),),
        ),
        b"\0\0\0\0\0\x03\0\0\0\x02\x01"
        + b"\x02"
        + TOPIC_ID.bytes
        + b"\x02\0\0\0\x04\x01\0\x05\x02\0\0\0\x02"
        + b"\x02"
        + TOPIC_ID.bytes
        + b"\x02\0\0\0\x05\0"
        + b"\0",
    ),
    (
        RegexKey(group="g", regex="t.*"),
        b"\0\x10\0\x01g\0\x03t.*",
        RegexValue(topics=("t1", "t2"), version=6, timestamp_ms=7),
        b"\0\0\x03\x03t1\x03t2" + bytes(7) + b"\x06" + bytes(7) + b"\x07\0",
    ),
]


@pytest.mark.parametrize(("key", "key_bytes", "value", "value_bytes"), GOLDEN)
def test_records_are_kafkas_bytes(
    key: ConsumerKey, key_bytes: bytes, value: ConsumerValue | None, value_bytes: bytes | None
) -> None:
    assert encode_key(key) == key_bytes
    assert decode_key(key_bytes) == key
    if value is not None:
        assert encode_value(value) == value_bytes
    assert decode_value(key, value_bytes) == value


@pytest.mark.parametrize("key_type", FORMATS)
@given(data=st.data())
def test_whatever_a_record_holds_comes_back(key_type: int, data: st.DataObject) -> None:
    key_format, value_format = FORMATS[key_type]
    key: Any = data.draw(messages(key_format.entity(0)))
    assert decode_key(encode_key(key)) == key
    assert decode_value(key, None) is None
    if value_format is None:
        return
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
    for data in (b"", b"\0", b"\0\x02\0\x01g", b"\0\x09\0\x01g"):
        with pytest.raises(MalformedMessage):
            decode_key(data)
    with pytest.raises(MalformedMessage):
        decode_value(EpochKey(group="g"), b"\0\x01\0\0\0\x02\0")
    assert decode_value(TopicsKey(group="g"), b"whatever Kafka 4.0 wrote") is None
