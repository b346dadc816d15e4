"""PushTelemetryRequest: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from typing import Final
from uuid import UUID

from bmq.protocol.formats import Format, FormatField
from bmq.protocol.message import Message


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class PushTelemetryRequest(Message):
    """The message."""

    client_instance_id: UUID | None
    subscription_id: int
    terminating: bool
    compression_type: int
    metrics: bytes

    def __init__(
        self,
        *,
        client_instance_id: UUID | None = None,
        subscription_id: int = 0,
        terminating: bool = False,
        compression_type: int = 0,
        metrics: bytes = b"",
    ) -> None:
        self.client_instance_id = client_instance_id
        self.subscription_id = subscription_id
        self.terminating = terminating
        self.compression_type = compression_type
        self.metrics = metrics


FORMAT: Final = Format(
    PushTelemetryRequest,
    version_min=0,
    version_max=0,
    flexible_from=0,
    fields=(
        FormatField("client_instance_id", "uuid"),
        FormatField("subscription_id", "int32"),
        FormatField("terminating", "bool"),
        FormatField("compression_type", "int8"),
        FormatField("metrics", "bytes"),
    ),
)
