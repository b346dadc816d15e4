"""ListConfigResourcesRequest: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence
from typing import Final

from bmq.protocol.formats import Format, FormatField


@dataclasses.dataclass(slots=True, kw_only=True)
class ListConfigResourcesRequest:
    resource_types: Sequence[int] = ()


FORMAT: Final = Format(
    ListConfigResourcesRequest,
    version_min=0,
    version_max=1,
    flexible_from=0,
    fields=(FormatField("resource_types", "int8", since=1, is_array=True),),
)
