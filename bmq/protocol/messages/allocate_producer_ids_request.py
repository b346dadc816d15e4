"""AllocateProducerIdsRequest: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from typing import Final

from bmq.protocol.formats import Format, FormatField
from bmq.protocol.message import Message


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class AllocateProducerIdsRequest(Message):
    """The message."""

    broker_id: int
    broker_epoch: int

    def __init__(
        self,
        *,
        broker_id: int = 0,
        broker_epoch: int = -1,
    ) -> None:
        self.broker_id = broker_id
        self.broker_epoch = broker_epoch


FORMAT: Final = Format(
    AllocateProducerIdsRequest,
    version_min=0,
    version_max=0,
    flexible_from=0,
    fields=(
        FormatField("broker_id", "int32"),
        FormatField("broker_epoch", "int64"),
    ),
)
