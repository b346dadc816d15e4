"""DescribeProducersRequest: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence
from typing import Final

from bmq.protocol.formats import Format, FormatField


@dataclasses.dataclass(slots=True, kw_only=True)
class TopicRequest:
    name: str = ""
    partition_indexes: Sequence[int] = ()


@dataclasses.dataclass(slots=True, kw_only=True)
class DescribeProducersRequest:
    topics: Sequence[TopicRequest] = ()


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
