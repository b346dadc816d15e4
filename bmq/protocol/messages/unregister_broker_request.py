"""UnregisterBrokerRequest: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from typing import Final

from bmq.protocol.formats import Format, FormatField
from bmq.protocol.message import Message


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class UnregisterBrokerRequest(Message):
    """The message."""

    broker_id: int

    def __init__(
        self,
        *,
        broker_id: int = 0,
    ) -> None:
        self.broker_id = broker_id


FORMAT: Final = Format(
    UnregisterBrokerRequest,
    version_min=0,
    version_max=0,
    flexible_from=0,
    fields=(FormatField("broker_id", "int32"),),
)
