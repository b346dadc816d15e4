"""DescribeLogDirsRequest: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence
from typing import Final

from bmq.protocol.formats import Format, FormatField
from bmq.protocol.message import Message


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class DescribableLogDirTopic(Message):
    """A part of DescribeLogDirsRequest."""

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
class DescribeLogDirsRequest(Message):
    """The message."""

    topics: Sequence[DescribableLogDirTopic] | None

    def __init__(
        self,
        *,
        topics: Sequence[DescribableLogDirTopic] | None = (),
    ) -> None:
        self.topics = topics


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
