"""AddPartitionsToTxnResponse: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence
from typing import Final

from bmq.protocol.formats import Format, FormatField
from bmq.protocol.message import Message


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class AddPartitionsToTxnPartitionResult(Message):
    """A part of AddPartitionsToTxnResponse."""

    partition_index: int
    partition_error_code: int

    def __init__(
        self,
        *,
        partition_index: int = 0,
        partition_error_code: int = 0,
    ) -> None:
        self.partition_index = partition_index
        self.partition_error_code = partition_error_code


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class AddPartitionsToTxnTopicResult(Message):
    """A part of AddPartitionsToTxnResponse."""

    name: str
    results_by_partition: Sequence[AddPartitionsToTxnPartitionResult]

    def __init__(
        self,
        *,
        name: str = "",
        results_by_partition: Sequence[AddPartitionsToTxnPartitionResult] = (),
    ) -> None:
        self.name = name
        self.results_by_partition = results_by_partition


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class AddPartitionsToTxnResult(Message):
    """A part of AddPartitionsToTxnResponse."""

    transactional_id: str
    topic_results: Sequence[AddPartitionsToTxnTopicResult]

    def __init__(
        self,
        *,
        transactional_id: str = "",
        topic_results: Sequence[AddPartitionsToTxnTopicResult] = (),
    ) -> None:
        self.transactional_id = transactional_id
        self.topic_results = topic_results


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class AddPartitionsToTxnResponse(Message):
    """The message."""

    throttle_time_ms: int
    error_code: int
    results_by_transaction: Sequence[AddPartitionsToTxnResult]
    results_by_topic_v3_and_below: Sequence[AddPartitionsToTxnTopicResult]

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        results_by_transaction: Sequence[AddPartitionsToTxnResult] = (),
        results_by_topic_v3_and_below: Sequence[AddPartitionsToTxnTopicResult] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.results_by_transaction = results_by_transaction
        self.results_by_topic_v3_and_below = results_by_topic_v3_and_below


_ADD_PARTITIONS_TO_TXN_PARTITION_RESULT: Final = Format(
    AddPartitionsToTxnPartitionResult,
    version_min=0,
    version_max=5,
    flexible_from=3,
    fields=(
        FormatField("partition_index", "int32"),
        FormatField("partition_error_code", "int16"),
    ),
)
_ADD_PARTITIONS_TO_TXN_TOPIC_RESULT: Final = Format(
    AddPartitionsToTxnTopicResult,
    version_min=0,
    version_max=5,
    flexible_from=3,
    fields=(
        FormatField("name", "string"),
        FormatField("results_by_partition", entity=_ADD_PARTITIONS_TO_TXN_PARTITION_RESULT, is_array=True),
    ),
)
_ADD_PARTITIONS_TO_TXN_RESULT: Final = Format(
    AddPartitionsToTxnResult,
    version_min=0,
    version_max=5,
    flexible_from=3,
    fields=(
        FormatField("transactional_id", "string", since=4),
        FormatField("topic_results", since=4, entity=_ADD_PARTITIONS_TO_TXN_TOPIC_RESULT, is_array=True),
    ),
)
FORMAT: Final = Format(
    AddPartitionsToTxnResponse,
    version_min=0,
    version_max=5,
    flexible_from=3,
    fields=(
        FormatField("throttle_time_ms", "int32"),
        FormatField("error_code", "int16", since=4),
        FormatField("results_by_transaction", since=4, entity=_ADD_PARTITIONS_TO_TXN_RESULT, is_array=True),
        FormatField(
            "results_by_topic_v3_and_below", until=3, entity=_ADD_PARTITIONS_TO_TXN_TOPIC_RESULT, is_array=True
        ),
    ),
)
