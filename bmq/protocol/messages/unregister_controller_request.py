"""UnregisterControllerRequest: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from typing import Final

from bmq.protocol.formats import Format, FormatField
from bmq.protocol.message import Message


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class UnregisterControllerRequest(Message):
    """The message."""

    controller_id: int

    def __init__(
        self,
        *,
        controller_id: int = 0,
    ) -> None:
        self.controller_id = controller_id


FORMAT: Final = Format(
    UnregisterControllerRequest,
    version_min=0,
    version_max=0,
    flexible_from=0,
    fields=(FormatField("controller_id", "int32"),),
)
