"""Records of `__transaction_state`: Kafka's bytes, both versions, and whatever else may come."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmq.protocol import transaction_records
from bmq.protocol.errors import MalformedMessage
from bmq.protocol.formats import Format
from bmq.protocol.transaction_records import (
    TopicPartitions,
    TransactionKey,
    TransactionStatus,
    TransactionValue,
    UnknownKey,
    decode_key,
    decode_value,
    encode_key,
    encode_value,
)
from tests.unit.protocol.strategies import messages

pytestmark = pytest.mark.unit

VALUE_FORMAT: Format = vars(transaction_records)["_VALUE"]
EMPTY = TransactionValue(
    producer_id=5, producer_epoch=1, timeout_ms=60_000, status=TransactionStatus.EMPTY, last_update_ms=9
)
COMMITTING = TransactionValue(
    producer_id=5,
    producer_epoch=2,
    timeout_ms=60_000,
    status=TransactionStatus.PREPARE_COMMIT,
    partitions=(TopicPartitions(topic="t", partition_ids=(0, 3)),),
    last_update_ms=9,
    start_ms=7,
    client_transaction_version=2,
    last_producer_epoch=1,
)


def int64(value: int) -> bytes:
    return value.to_bytes(8, "big", signed=True)


def test_keys_are_kafkas_bytes() -> None:
    assert encode_key(TransactionKey(transactional_id="id")) == b"\0\0\0\x02id"
    assert decode_key(b"\0\0\0\x02id") == TransactionKey(transactional_id="id")


def test_values_are_kafkas_bytes() -> None:
    head = int64(5) + b"\0\x01" + b"\0\0\xea\x60" + b"\0"
    assert encode_value(EMPTY, 0) == b"\0\0" + head + b"\xff\xff\xff\xff" + int64(9) + int64(-1)
    assert encode_value(EMPTY) == b"\0\x01" + head + b"\0" + int64(9) + int64(-1) + b"\0"
    head = int64(5) + b"\0\x02" + b"\0\0\xea\x60" + b"\x02"
    assert encode_value(COMMITTING) == (
        b"\0\x01"
        + head
        + (b"\x02" + b"\x02t" + b"\x03\0\0\0\0\0\0\0\x03" + b"\0")
        + (int64(9) + int64(7))
        + (b"\x02" + b"\x02\x02\0\x02" + b"\x04\x02\0\x01")
    )
    rotating = dataclasses.replace(COMMITTING, previous_producer_id=4, next_producer_id=6)
    assert encode_value(rotating).endswith(
        b"\x04" + b"\0\x08" + int64(4) + b"\x01\x08" + int64(6) + b"\x02\x02\0\x02" + b"\x04\x02\0\x01"
    )
    for value in (EMPTY, COMMITTING, rotating):
        assert decode_value(encode_value(value)) == value
    assert decode_value(encode_value(COMMITTING, 0)) == dataclasses.replace(
        COMMITTING, client_transaction_version=0, last_producer_epoch=-1
    )


def test_an_aborted_transaction_of_no_partitions_is_not_null() -> None:
    aborting = dataclasses.replace(EMPTY, status=TransactionStatus.PREPARE_ABORT, partitions=())
    assert decode_value(encode_value(aborting)) == aborting
    assert decode_value(encode_value(aborting)) != dataclasses.replace(aborting, partitions=None)


@given(data=st.data(), version=st.integers(0, 1), status=st.integers(0, 5))
def test_values_in_every_version(data: st.DataObject, version: int, status: int) -> None:
    value: Any = dataclasses.replace(data.draw(messages(VALUE_FORMAT.entity(version))), status=status)
    encoded = encode_value(value, version)
    assert encoded[:2] == version.to_bytes(2, "big")
    assert decode_value(encoded) == decode_value(memoryview(encoded)) == value
    with pytest.raises(MalformedMessage):
        decode_value(encoded[:-1])


@given(transactional_id=st.text(max_size=40))
def test_keys_round_trip(transactional_id: str) -> None:
    key = TransactionKey(transactional_id=transactional_id)
    assert decode_key(encode_key(key)) == key


@given(data=st.binary(max_size=60))
def test_bytes_that_nobody_wrote_are_refused_or_read(data: bytes) -> None:
    for decode in (decode_key, decode_value):
        try:
            decode(data)
        except MalformedMessage:
            pass


def test_tombstones_and_what_is_not_known() -> None:
    assert decode_value(None) is None
    assert decode_key(b"\0\x01whatever") == UnknownKey(1, b"\0\x01whatever")
    with pytest.raises(MalformedMessage, match="version 2"):
        decode_value(b"\0\x02whatever")
    for status in (TransactionStatus.DEAD, TransactionStatus.PREPARE_EPOCH_FENCE, 8, -1):
        with pytest.raises(MalformedMessage, match="state"):
            decode_value(encode_value(dataclasses.replace(EMPTY, status=status)))
    for data in (b"", b"\0"):
        with pytest.raises(MalformedMessage):
            decode_key(data)


def test_a_field_of_a_newer_server_is_skipped() -> None:
    encoded = encode_value(EMPTY)
    assert encoded.endswith(b"\0")
    assert decode_value(encoded[:-1] + b"\x02\x03\x02\0\x01\x09\x01x") == EMPTY
