"""AddPartitionsToTxnResponse: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence
from typing import Final

from bmq.protocol.formats import Format, FormatField


@dataclasses.dataclass(slots=True, kw_only=True)
class AddPartitionsToTxnPartitionResult:
    partition_index: int = 0
    partition_error_code: int = 0


@dataclasses.dataclass(slots=True, kw_only=True)
class AddPartitionsToTxnTopicResult:
    name: str = ""
    results_by_partition: Sequence[AddPartitionsToTxnPartitionResult] = ()


@dataclasses.dataclass(slots=True, kw_only=True)
class AddPartitionsToTxnResult:
    transactional_id: str = ""
    topic_results: Sequence[AddPartitionsToTxnTopicResult] = ()


@dataclasses.dataclass(slots=True, kw_only=True)
class AddPartitionsToTxnResponse:
    throttle_time_ms: int = 0
    error_code: int = 0
    results_by_transaction: Sequence[AddPartitionsToTxnResult] = ()
    results_by_topic_v3_and_below: Sequence[AddPartitionsToTxnTopicResult] = ()


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
