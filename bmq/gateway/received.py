"""Messages of librdkafka as records of ours, and its errors as failures. Pure."""

from __future__ import annotations

from typing import Any, Final

from bmq.gateway.failure import GatewayFailed
from bmq.gateway.held_records import HeldRecord
from bmq.gateway.status import library_failure

PARTITION_EOF: Final = -191
"""RD_KAFKA_RESP_ERR__PARTITION_EOF: the end of a partition, which is no failure."""
_PASSING: Final = frozenset(
    {"_TRANSPORT", "_ALL_BROKERS_DOWN", "_RESOLVE", "_TIMED_OUT", "_MAX_POLL_EXCEEDED", "_WAIT_COORD"}
)
"""What librdkafka tries again by itself."""


def record_of(message: Any, delivery_count: int = 0) -> HeldRecord:
    """`message`: of confluent_kafka, without an error."""
    kind, timestamp_ms = message.timestamp()
    return HeldRecord(
        message.topic(),
        message.partition(),
        message.offset(),
        timestamp_ms if kind else -1,
        message.key(),
        message.value(),
        tuple((name, value) for name, value in message.headers() or ()),
        delivery_count,
    )


def failure_of(error: Any, what: str) -> GatewayFailed:
    """`error`: a KafkaError of confluent_kafka."""
    return library_failure(what, error.code(), error.name(), error.str())


def is_passing(error: Any) -> bool:
    """Whether librdkafka goes on by itself, so that a stream need not end."""
    return error.name() in _PASSING or error.retriable()
