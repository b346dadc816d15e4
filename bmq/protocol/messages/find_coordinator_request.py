"""FindCoordinatorRequest: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence
from typing import Final

from bmq.protocol.formats import Format, FormatField
from bmq.protocol.message import Message


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class FindCoordinatorRequest(Message):
    """The message."""

    key_type: int
    coordinator_keys: Sequence[str]
    key: str

    def __init__(
        self,
        *,
        key_type: int = 0,
        coordinator_keys: Sequence[str] = (),
        key: str = "",
    ) -> None:
        self.key_type = key_type
        self.coordinator_keys = coordinator_keys
        self.key = key


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
