"""Records and calls about lanes: read back as they were written."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmq.protocol.apis import ApiKey
from bmq.protocol.codec import decode, encode
from bmq.protocol.errors import MalformedMessage
from bmq.protocol.group_records import UnknownKey
from bmq.protocol.group_records import decode_key as decode_group_key
from bmq.protocol.lane_messages import (
    CommittedPartition,
    DecidedInterval,
    DecidedPartition,
    LaneDecideRequest,
    LaneDecideResponse,
    LaneGroupResponse,
    LaneListResponse,
    LanePartition,
    ListedInterval,
    UntakenLane,
)
from bmq.protocol.lane_records import (
    INTERVAL_KEY_TYPE,
    LaneIntervalKey,
    LaneIntervalValue,
    decode_key,
    decode_value,
    encode_key,
    encode_value,
    is_lane_key,
)

pytestmark = pytest.mark.unit

TOPIC = UUID(int=0x0123456789ABCDEF0123456789ABCDEF)
KEY = LaneIntervalKey(group="orders", topic_id=TOPIC, partition=3, lane="blue", start=2**40)
INT64 = st.integers(-(2**63), 2**63 - 1)


@given(INT64, INT64, INT64, INT64, INT64, INT64)
def test_record_is_read_back(end: int, kept: int, opened_ms: int, copied: int, records: int, producer_id: int) -> None:
    value = LaneIntervalValue(
        end=end, kept=kept, opened_ms=opened_ms, copied=copied, copied_records=records, producer_id=producer_id
    )
    assert decode_value(KEY, encode_value(value)) == value and decode_value(KEY, None) is None


def test_key_is_of_a_type_that_readers_of_other_records_skip() -> None:
    data = encode_key(KEY)
    assert decode_key(data) == KEY and is_lane_key(INTERVAL_KEY_TYPE)
    assert decode_group_key(data) == UnknownKey(INTERVAL_KEY_TYPE, data)


@given(st.binary(max_size=80))
def test_any_bytes_are_a_record_or_malformed(data: bytes) -> None:
    for read in (lambda: decode_key(data), lambda: decode_value(KEY, data)):
        try:
            read()
        except MalformedMessage:
            pass


def test_calls_are_read_back() -> None:
    asked = LaneDecideRequest(
        group_id="orders", lane="blue", partitions=(LanePartition(topic_id=TOPIC, partition=3, first=7, last=2**50),)
    )
    interval = DecidedInterval(lane="blue", start=5, end=2**63 - 1, kept=2**63 - 1)
    decided = LaneDecideResponse(
        partitions=(DecidedPartition(topic_id=TOPIC, partition=3, error_message="no", intervals=(interval,)),)
    )
    group = LaneGroupResponse(
        is_mark_demanded=True,
        client_ids=("lanes:orders@blue",),
        partitions=(CommittedPartition(topic_id=TOPIC, partition=3, offset=-1),),
    )
    listed = LaneListResponse(
        intervals=(ListedInterval(topic_id=TOPIC, partition=3, lane="blue", start=5, end=9, kept=7, waits="full"),),
        untaken=(UntakenLane(topic_id=TOPIC, partition=3, lane="red", reason="no members"),),
    )
    for direction, api_key, message in (
        ("request", ApiKey.LANE_DECIDE, asked),
        ("response", ApiKey.LANE_DECIDE, decided),
        ("response", ApiKey.LANE_GROUP, group),
        ("response", ApiKey.LANE_LIST, listed),
    ):
        data = encode(direction, api_key, 0, message)
        assert decode(direction, api_key, 0, data) == message
