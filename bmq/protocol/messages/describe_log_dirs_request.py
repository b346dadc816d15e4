"""DescribeLogDirsRequest: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence
from typing import Final

from bmq.protocol.formats import Format, FormatField


@dataclasses.dataclass(slots=True, kw_only=True)
class DescribableLogDirTopic:
    topic: str = ""
    partitions: Sequence[int] = ()


@dataclasses.dataclass(slots=True, kw_only=True)
class DescribeLogDirsRequest:
    topics: Sequence[DescribableLogDirTopic] | None = ()


_DESCRIBABLE_LOG_DIR_TOPIC: Final = Format(
    DescribableLogDirTopic,
    version_min=1,
    version_max=5,
    flexible_from=2,
    fields=(
        FormatField("topic", "string"),
        FormatField("partitions", "int32", is_array=True),
    ),
)
FORMAT: Final = Format(
    DescribeLogDirsRequest,
    version_min=1,
    version_max=5,
    flexible_from=2,
    fields=(FormatField("topics", entity=_DESCRIBABLE_LOG_DIR_TOPIC, is_array=True, nullable_since=0),),
)
