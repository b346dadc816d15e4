"""DescribeTransactionsResponse: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence
from typing import Final

from bmq.protocol.formats import Format, FormatField
from bmq.protocol.message import Message


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class TopicData(Message):
    """A part of DescribeTransactionsResponse."""

    topic: str
    partitions: Sequence[int]

    def __init__(
        self,
        *,
        topic: str = "",
        partitions: Sequence[int] = (),
    ) -> None:
        self.topic = topic
        self.partitions = partitions


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class TransactionState(Message):
    """A part of DescribeTransactionsResponse."""

    error_code: int
    transactional_id: str
    transaction_state: str
    transaction_timeout_ms: int
    transaction_start_time_ms: int
    producer_id: int
    producer_epoch: int
    topics: Sequence[TopicData]

    def __init__(
        self,
        *,
        error_code: int = 0,
        transactional_id: str = "",
        transaction_state: str = "",
        transaction_timeout_ms: int = 0,
        transaction_start_time_ms: int = -1,
        producer_id: int = 0,
        producer_epoch: int = 0,
        topics: Sequence[TopicData] = (),
    ) -> None:
        self.error_code = error_code
        self.transactional_id = transactional_id
        self.transaction_state = transaction_state
        self.transaction_timeout_ms = transaction_timeout_ms
        self.transaction_start_time_ms = transaction_start_time_ms
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.topics = topics


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class DescribeTransactionsResponse(Message):
    """The message."""

    throttle_time_ms: int
    transaction_states: Sequence[TransactionState]

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        transaction_states: Sequence[TransactionState] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.transaction_states = transaction_states


_TOPIC_DATA: Final = Format(
    TopicData,
    version_min=0,
    version_max=0,
    flexible_from=0,
    fields=(
        FormatField("topic", "string"),
        FormatField("partitions", "int32", is_array=True),
    ),
)
_TRANSACTION_STATE: Final = Format(
    TransactionState,
    version_min=0,
    version_max=0,
    flexible_from=0,
    fields=(
        FormatField("error_code", "int16"),
        FormatField("transactional_id", "string"),
        FormatField("transaction_state", "string"),
        FormatField("transaction_timeout_ms", "int32"),
        FormatField("transaction_start_time_ms", "int64"),
        FormatField("producer_id", "int64"),
        FormatField("producer_epoch", "int16"),
        FormatField("topics", entity=_TOPIC_DATA, is_array=True),
    ),
)
FORMAT: Final = Format(
    DescribeTransactionsResponse,
    version_min=0,
    version_max=0,
    flexible_from=0,
    fields=(
        FormatField("throttle_time_ms", "int32"),
        FormatField("transaction_states", entity=_TRANSACTION_STATE, is_array=True),
    ),
)
