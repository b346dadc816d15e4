"""ListConfigResourcesRequest: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence
from typing import Final

from bmq.protocol.formats import Format, FormatField
from bmq.protocol.message import Message


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class ListConfigResourcesRequest(Message):
    """The message."""

    resource_types: Sequence[int]

    def __init__(
        self,
        *,
        resource_types: Sequence[int] = (),
    ) -> None:
        self.resource_types = resource_types


FORMAT: Final = Format(
    ListConfigResourcesRequest,
    version_min=0,
    version_max=1,
    flexible_from=0,
    fields=(FormatField("resource_types", "int8", since=1, is_array=True),),
)
