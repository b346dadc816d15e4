"""Calls about the state of share partitions: read back as written, and keyed as in Kafka."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any
from uuid import UUID

import pytest

from bmq.protocol.apis import ApiKey
from bmq.protocol.codec import decode, encode
from bmq.protocol.share_state_messages import (
    AcknowledgedBatch,
    AcknowledgePartition,
    AckType,
    AcquiredPartition,
    AcquiredRange,
    AcquirePartition,
    OffsetRange,
    ShareAcknowledgeRequest,
    ShareAcquireRequest,
    ShareAcquireResponse,
    state_key,
)

pytestmark = pytest.mark.unit

TOPIC = UUID(int=0x0123456789ABCDEF0123456789ABCDEF)


def plain(message: Any) -> Any:
    """As lists and dictionaries, whatever kind of sequence it has."""
    if is_dataclass(message):
        return {field.name: plain(getattr(message, field.name)) for field in fields(message)}
    return [plain(one) for one in message] if isinstance(message, list | tuple) else message


def test_calls_are_read_back_as_they_were_written() -> None:
    asked = ShareAcquireRequest(
        group_id="g",
        member_id="m",
        node_id=3,
        node_epoch=2**40,
        session=7,
        mode=1,
        partitions=[
            AcquirePartition(
                topic_id=TOPIC,
                partition=5,
                records_max=500,
                batch_size=100,
                log_start_offset=2**40,
                reset_offset=-1,
                batches=[OffsetRange(first=1, last=9), OffsetRange(first=10, last=10)],
                archive=[OffsetRange(first=11, last=11)],
            )
        ],
    )
    acks = ShareAcknowledgeRequest(
        group_id="g",
        member_id="m",
        partitions=[
            AcknowledgePartition(
                topic_id=TOPIC, partition=5, batches=[AcknowledgedBatch(first=1, last=2, types=list(AckType)[:2])]
            )
        ],
    )
    answer = ShareAcquireResponse(
        partitions=[
            AcquiredPartition(
                topic_id=TOPIC,
                partition=5,
                error_message="why",
                start_offset=1,
                next_offset=12,
                version=2**40,
                lock_timeout_ms=30_000,
                ranges=[AcquiredRange(first=1, last=9, delivery_count=2)],
            )
        ]
    )
    for kind, api_key, message in (
        ("request", ApiKey.SHARE_ACQUIRE, asked),
        ("request", ApiKey.SHARE_ACKNOWLEDGE_STATE, acks),
        ("response", ApiKey.SHARE_ACQUIRE, answer),
    ):
        read = decode(kind, api_key, 0, encode(kind, api_key, 0, message))
        assert plain(read) == plain(message)


def test_a_key_is_that_of_kafka() -> None:
    assert state_key("my:group", TOPIC, 12) == "my:group:ASNFZ4mrze8BI0VniavN7w:12"
