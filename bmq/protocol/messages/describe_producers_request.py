"""DescribeProducersRequest: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence
from typing import Final

from bmq.protocol.formats import Format, FormatField
from bmq.protocol.message import Message


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class TopicRequest(Message):
    """A part of DescribeProducersRequest."""

    name: str
    partition_indexes: Sequence[int]

    def __init__(
        self,
        *,
        name: str = "",
        partition_indexes: Sequence[int] = (),
    ) -> None:
        self.name = name
        self.partition_indexes = partition_indexes


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class DescribeProducersRequest(Message):
    """The message."""

    topics: Sequence[TopicRequest]

    def __init__(
        self,
        *,
        topics: Sequence[TopicRequest] = (),
    ) -> None:
        self.topics = topics


_TOPIC_REQUEST: Final = Format(
    TopicRequest,
    version_min=0,
    version_max=0,
    flexible_from=0,
    fields=(
        FormatField("name", "string"),
        FormatField("partition_indexes", "int32", is_array=True),
    ),
)
FORMAT: Final = Format(
    DescribeProducersRequest,
    version_min=0,
    version_max=0,
    flexible_from=0,
    fields=(FormatField("topics", entity=_TOPIC_REQUEST, is_array=True),),
)
