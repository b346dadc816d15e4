"""FindCoordinatorRequest: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence
from typing import Final

from bmq.protocol.formats import Format, FormatField


@dataclasses.dataclass(slots=True, kw_only=True)
class FindCoordinatorRequest:
    key_type: int = 0
    coordinator_keys: Sequence[str] = ()
    key: str = ""


FORMAT: Final = Format(
    FindCoordinatorRequest,
    version_min=0,
    version_max=6,
    flexible_from=3,
    fields=(
        FormatField("key", "string", until=3),
        FormatField("key_type", "int8", since=1),
        FormatField("coordinator_keys", "string", since=4, is_array=True),
    ),
)
