"""EndTxnRequest: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from typing import Final

from bmq.protocol.formats import Format, FormatField
from bmq.protocol.message import Message


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class EndTxnRequest(Message):
    """The message."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    committed: bool

    def __init__(
        self,
        *,
        transactional_id: str = "",
        producer_id: int = 0,
        producer_epoch: int = 0,
        committed: bool = False,
    ) -> None:
        self.transactional_id = transactional_id
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.committed = committed


FORMAT: Final = Format(
    EndTxnRequest,
    version_min=0,
    version_max=5,
    flexible_from=3,
    fields=(
        FormatField("transactional_id", "string"),
        FormatField("producer_id", "int64"),
        FormatField("producer_epoch", "int16"),
        FormatField("committed", "bool"),
    ),
)
