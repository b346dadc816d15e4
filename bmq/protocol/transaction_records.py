"""Records of `__transaction_state` as Kafka writes them: the state of one transactional id, key and value.

A key begins with an int16 version (0), a value with another: 1 is written, which has tagged fields (KIP-915), 0 is what
brokers below `transaction.version` 1 wrote. A key without a value (a tombstone) deletes the id. Keys of other versions come
back as UnknownKey, so that a log written by a newer server can still be replayed; a value of an unknown version is an error.
Source: transaction-coordinator/src/main/resources/common/message of Apache Kafka (TransactionLogKey, TransactionLogValue).
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Final

from bmq.dataclass import dataclass
from bmq.protocol.errors import MalformedMessage
from bmq.protocol.formats import Format, FormatField
from bmq.protocol.record_types import decode_prefixed, encode_prefixed, prefix_of
from bmq.protocol.wire import Buffer

NO_PRODUCER_ID: Final = -1
NO_PRODUCER_EPOCH: Final = -1
VALUE_VERSION: Final = 1
"""The version we write."""
ID_BYTES_MAX: Final = 2**15 - 1
"""Limit of a transactional id in a key, whose length is an int16."""
_KEY_VERSION: Final = 0


class TransactionStatus(IntEnum):
    """State of a transactional id; PREPARE_EPOCH_FENCE is never written."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionKey:
    transactional_id: str


@dataclass(frozen=True, slots=True)
class UnknownKey:
    """A key of a version that is not read here; `data` is all of it, version included."""

    version: int
    data: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicPartitions:
    """Partitions of one topic."""

    topic: str
    partition_ids: Sequence[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionValue:
    """`partitions` is null if `status` is EMPTY. Times are wall time; `start_ms` is -1 without a transaction.

    `previous_producer_id`: the one before, whose epochs were used up; `next_producer_id`: in use once the end of the
    transaction is complete. `client_transaction_version`: of the client that made this change, 2 or 0;
    3: a check has committed the transaction of a client of 0.
    `last_producer_epoch`: the one before `producer_epoch`; its holder may still repeat a request with it.
    """

    producer_id: int
    producer_epoch: int
    timeout_ms: int
    status: int
    partitions: Sequence[TopicPartitions] | None = None
    last_update_ms: int = -1
    start_ms: int = -1
    previous_producer_id: int = NO_PRODUCER_ID
    next_producer_id: int = NO_PRODUCER_ID
    client_transaction_version: int = 0
    last_producer_epoch: int = NO_PRODUCER_EPOCH


_KEY: Final = Format(
    TransactionKey, version_max=0, flexible_from=1, fields=(FormatField("transactional_id", "string"),)
)
_TOPIC_PARTITIONS: Final = Format(
    TopicPartitions,
    version_max=1,
    flexible_from=1,
    fields=(FormatField("topic", "string"), FormatField("partition_ids", "int32", is_array=True)),
)
_VALUE: Final = Format(
    TransactionValue,
    version_max=1,
    flexible_from=1,
    fields=(
        FormatField("producer_id", "int64"),
        FormatField("previous_producer_id", "int64", since=1, tag=0, default=NO_PRODUCER_ID),
        FormatField("next_producer_id", "int64", since=1, tag=1, default=NO_PRODUCER_ID),
        FormatField("producer_epoch", "int16"),
        FormatField("timeout_ms", "int32"),
        FormatField("status", "int8"),
        FormatField("partitions", None, entity=_TOPIC_PARTITIONS, is_array=True, nullable_since=0),
        FormatField("last_update_ms", "int64"),
        FormatField("start_ms", "int64"),
        FormatField("client_transaction_version", "int16", since=1, tag=2, default=0),
        FormatField("last_producer_epoch", "int16", since=1, tag=4, default=NO_PRODUCER_EPOCH),
    ),
)


def encode_key(key: TransactionKey) -> bytes:
    """The record key. Raises struct.error for an id above ID_BYTES_MAX."""
    return encode_prefixed(_KEY, _KEY_VERSION, key)


def decode_key(data: Buffer) -> TransactionKey | UnknownKey:
    """Decode a record key. Raises MalformedMessage for version 0 that does not parse, or for under two bytes."""
    version = prefix_of(data)
    if version != _KEY_VERSION:
        return UnknownKey(version, bytes(data))
    key: TransactionKey = decode_prefixed(data, _KEY, version)
    return key


def encode_value(value: TransactionValue, version: int = VALUE_VERSION) -> bytes:
    """The record value."""
    return encode_prefixed(_VALUE, version, value)


def decode_value(data: Buffer | None) -> TransactionValue | None:
    """None for a tombstone. Raises MalformedMessage, also for a version or a status that is not known."""
    if data is None:
        return None
    version = prefix_of(data)
    if not _VALUE.version_min <= version <= _VALUE.version_max:
        raise MalformedMessage(f"the state of a transactional id in unknown version {version}")
    value: TransactionValue = decode_prefixed(data, _VALUE, version)
    if not TransactionStatus.EMPTY <= value.status <= TransactionStatus.COMPLETE_ABORT:
        raise MalformedMessage(f"a transactional id in the unknown state {value.status}")
    return value
