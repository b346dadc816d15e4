"""InitProducerIdRequest: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from typing import Final

from bmq.protocol.formats import Format, FormatField
from bmq.protocol.message import Message


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class InitProducerIdRequest(Message):
    """The message."""

    transactional_id: str | None
    transaction_timeout_ms: int
    producer_id: int
    producer_epoch: int

    def __init__(
        self,
        *,
        transactional_id: str | None = None,
        transaction_timeout_ms: int = 0,
        producer_id: int = -1,
        producer_epoch: int = -1,
    ) -> None:
        self.transactional_id = transactional_id
        self.transaction_timeout_ms = transaction_timeout_ms
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch


FORMAT: Final = Format(
    InitProducerIdRequest,
    version_min=0,
    version_max=5,
    flexible_from=2,
    fields=(
        FormatField("transactional_id", "string", nullable_since=0),
        FormatField("transaction_timeout_ms", "int32"),
        FormatField("producer_id", "int64", since=3),
        FormatField("producer_epoch", "int16", since=3),
    ),
)
