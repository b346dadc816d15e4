"""DescribeLogDirsResponse: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence
from typing import Final

from bmq.protocol.formats import Format, FormatField
from bmq.protocol.message import Message


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class DescribeLogDirsPartition(Message):
    """A part of DescribeLogDirsResponse."""

    partition_index: int
    partition_size: int
    offset_lag: int
    is_future_key: bool

    def __init__(
        self,
        *,
        partition_index: int = 0,
        partition_size: int = 0,
        offset_lag: int = 0,
        is_future_key: bool = False,
    ) -> None:
        self.partition_index = partition_index
        self.partition_size = partition_size
        self.offset_lag = offset_lag
        self.is_future_key = is_future_key


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class DescribeLogDirsTopic(Message):
    """A part of DescribeLogDirsResponse."""

    name: str
    partitions: Sequence[DescribeLogDirsPartition]

    def __init__(
        self,
        *,
        name: str = "",
        partitions: Sequence[DescribeLogDirsPartition] = (),
    ) -> None:
        self.name = name
        self.partitions = partitions


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class DescribeLogDirsResult(Message):
    """A part of DescribeLogDirsResponse."""

    error_code: int
    log_dir: str
    topics: Sequence[DescribeLogDirsTopic]
    total_bytes: int
    usable_bytes: int
    is_cordoned: bool

    def __init__(
        self,
        *,
        error_code: int = 0,
        log_dir: str = "",
        topics: Sequence[DescribeLogDirsTopic] = (),
        total_bytes: int = -1,
        usable_bytes: int = -1,
        is_cordoned: bool = False,
    ) -> None:
        self.error_code = error_code
        self.log_dir = log_dir
        self.topics = topics
        self.total_bytes = total_bytes
        self.usable_bytes = usable_bytes
        self.is_cordoned = is_cordoned


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class DescribeLogDirsResponse(Message):
    """The message."""

    throttle_time_ms: int
    error_code: int
    results: Sequence[DescribeLogDirsResult]

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        results: Sequence[DescribeLogDirsResult] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.results = results


_DESCRIBE_LOG_DIRS_PARTITION: Final = Format(
    DescribeLogDirsPartition,
    version_min=1,
    version_max=5,
    flexible_from=2,
    fields=(
        FormatField("partition_index", "int32"),
        FormatField("partition_size", "int64"),
        FormatField("offset_lag", "int64"),
        FormatField("is_future_key", "bool"),
    ),
)
_DESCRIBE_LOG_DIRS_TOPIC: Final = Format(
    DescribeLogDirsTopic,
    version_min=1,
    version_max=5,
    flexible_from=2,
    fields=(
        FormatField("name", "string"),
        FormatField("partitions", entity=_DESCRIBE_LOG_DIRS_PARTITION, is_array=True),
    ),
)
_DESCRIBE_LOG_DIRS_RESULT: Final = Format(
    DescribeLogDirsResult,
    version_min=1,
    version_max=5,
    flexible_from=2,
    fields=(
        FormatField("error_code", "int16"),
        FormatField("log_dir", "string"),
        FormatField("topics", entity=_DESCRIBE_LOG_DIRS_TOPIC, is_array=True),
        FormatField("total_bytes", "int64", since=4),
        FormatField("usable_bytes", "int64", since=4),
        FormatField("is_cordoned", "bool", since=5),
    ),
)
FORMAT: Final = Format(
    DescribeLogDirsResponse,
    version_min=1,
    version_max=5,
    flexible_from=2,
    fields=(
        FormatField("throttle_time_ms", "int32"),
        FormatField("error_code", "int16", since=3),
        FormatField("results", entity=_DESCRIBE_LOG_DIRS_RESULT, is_array=True),
    ),
)
